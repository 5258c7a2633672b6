"""TreeQA for questions that ask what fulfils several conditions, beyond its paper (`robust`).

"Who starred in A and also studied at B?" has no single hypothesis to follow: the paper's form guesses one name, and
gives up after two searches. Here every condition gives its candidates, every candidate is held against the conditions
that did not give it, all at once, and code intersects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.result import UNSUPPORTED
from hoptree.engine.schedule import together
from hoptree.methods.steps.agreement import agree, tells
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.choose import surest
from hoptree.methods.steps.compare import chooses, compare_pairs
from hoptree.methods.steps.conditions import Listing, find_candidates, split_conditions
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.mentions import Kinds
from hoptree.methods.steps.multi_read import GLANCES, glances
from hoptree.methods.treeqa.nodes import MODEL_SAYS, SEARCHED, Branch, Outcome, told, unmarked
from hoptree.methods.treeqa.robust import Careful, resting
from hoptree.methods.treeqa.walk import Walk, written
from hoptree.text.answer_types import explain_type_mismatch
from hoptree.text.grounding import guess_unless_supported, parts_of
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

_MOST = 12
"""Candidates that are checked."""
_CHECKS = 1
"""Validations of one candidate for one condition."""


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition, the names it is about, the evidence that was looked at for it, and the names this gave."""

    branch: Branch
    text: str
    about: str
    box: EvidenceBox
    names: tuple[str, ...]

    def gave(self, name: str) -> bool:
        return question_key(name) in map(question_key, self.names)

    def vouching(self, name: str) -> tuple[str, ...]:
        """The passages that hold a name together with one of the condition."""
        grounds = self.grounds(name, self.box)
        return tuple(passage.id for passage in self.box.passages if passage.id in grounds)

    def vouching_facts(self) -> list[list[str]]:
        """The facts that hold a name it gave together with one of the condition."""
        grounds = {ground for name in self.names for ground in self.grounds(name, self.box)}
        return [list(fact.triple) for fact in self.box.facts if fact.text in grounds]

    def grounds(self, name: str, box: EvidenceBox) -> tuple[str, ...]:
        return box.supporting(name, f"It {self.about}")


@dataclass(frozen=True, slots=True)
class Listed:
    """The names that fulfil all conditions, if there are any, and how many validations that took."""

    answer: Answer | None = None
    validations: int = 0


@dataclass(frozen=True, slots=True)
class _Checked:
    """The names that fulfil a condition, each with the passages that say so, and how many validations that took."""

    fulfilling: Mapping[str, tuple[str, ...]]
    validations: int


async def intersect(ctx: Context, question: str, careful: Careful, *, most: int) -> Listed:
    """The names that fulfil all conditions of a question, after `most` validations at most; no answer where it has no
    such conditions, or nothing fulfils them all.
    """
    listing = await split_conditions(ctx, question)
    if listing is None:
        return Listed()
    root = Node(0, question, depth=0)
    tops = [
        Branch(Node(number, f"Of which {listing.asked} is this true: {condition}?", 0), "")
        for number, condition in enumerate(listing.conditions, 1)
    ]
    ctx.trace.add("plan", nodes=[written(one) for one in (Branch(root, ""), *tops)], issues=[])
    conditions = await together(_gather(ctx, listing, number, branch, careful) for number, branch in enumerate(tops))
    found = _ranked(conditions)
    names = _checkable(found, conditions, most)
    ctx.decide("candidates", names, asked=listing.asked)
    if not names:
        return Listed()
    if len(names) < len(found):
        told = f"{len(found):,} candidates were found, and {len(names):,} of them checked"
        ctx.warn("candidates_left", f"{told}; the answer may lack some of the others.")
    if given := [name for name in names if all(condition.gave(name) for condition in conditions)]:
        ctx.propose(Answer(", ".join(given), source="synthesis"), order=0)
    checked = await together(_check(ctx, condition, names, careful) for condition in conditions)
    left = [name for name in names if all(name in one.fulfilling for one in checked)]
    validations = sum(one.validations for one in checked)
    ctx.decide("intersected", left, found=len(found), candidates=len(names), validations=validations)
    if not left:
        return Listed(validations=validations)
    support = tuple(dict.fromkeys(found for one in checked for name in left for found in one.fulfilling[name]))
    answer = Answer(", ".join(left), "; ".join(left), "answered", "synthesis", support)
    ctx.end_node(root, answer, candidates=names)
    return Listed(answer, validations)


async def _gather(ctx: Context, listing: Listing, number: int, branch: Branch, careful: Careful) -> _Condition:
    """What evidence names for one condition."""
    ctx.begin_node(branch.node, branch.node.question)
    text = listing.conditions[number]
    box = await careful.look(f"{listing.asked} {text}", branch.node)
    names = await find_candidates(ctx, listing, number, box, node=branch.node)
    return _Condition(branch, text, listing.about[number], box, names)


def _ranked(conditions: Sequence[_Condition]) -> list[str]:
    """All candidates, those that several conditions give before the others."""
    found: dict[str, str] = {}
    for condition in conditions:
        for name in condition.names:
            found.setdefault(question_key(name), name)
    return sorted(found.values(), key=lambda name: _open_for(name, conditions))


def _checkable(names: Sequence[str], conditions: Sequence[_Condition], most: int) -> list[str]:
    """The first candidates, no more than can be checked."""
    checks = accumulate(_CHECKS * _open_for(name, conditions) for name in names)
    return [name for name, so_far in zip(names, checks, strict=True) if so_far <= most][:_MOST]


def _open_for(name: str, conditions: Sequence[_Condition]) -> int:
    """How many conditions a candidate is to be held against."""
    return sum(not condition.gave(name) for condition in conditions)


async def _check(ctx: Context, condition: _Condition, names: Sequence[str], careful: Careful) -> _Checked:
    """Which of the names fulfil a condition, and by which passages; those that it gave itself do."""
    node = condition.branch.node
    open_names = [name for name in names if not condition.gave(name)]
    branches = [
        Branch(Node(100 * node.id + number, _check_of(name, condition.text), node.id, 2), "Yes")
        for number, name in enumerate(open_names, 1)
    ]
    ctx.trace.add("plan", under=node.id, nodes=[written(one) for one in branches], issues=[])
    outcomes = await together(
        _one(ctx, branch, condition, name, careful) for branch, name in zip(branches, open_names, strict=True)
    )
    fulfilling = {name: condition.vouching(name) for name in names if condition.gave(name)}
    for name, outcome in zip(open_names, outcomes, strict=True):
        if outcome.label == "supported":
            fulfilling[name] = tuple(passage.id for passage in outcome.verdict.cited.passages)
    support = tuple(dict.fromkeys(name for found in fulfilling.values() for name in found))
    told = Answer(", ".join(fulfilling), "", "answered" if fulfilling else "unknown", "external", support)
    ctx.end_node(node, told, candidates=list(condition.names), facts=condition.vouching_facts())
    return _Checked(fulfilling, _CHECKS * len(open_names))


def _check_of(name: str, condition: str) -> str:
    """The check in words that keep two names apart: behind a colon, the second would be a part of a title."""
    return f"Is this true of {name}? {condition}?"


async def _one(ctx: Context, branch: Branch, condition: _Condition, name: str, careful: Careful) -> Outcome:
    """Whether a name fulfils a condition: by a verdict, and by something found that holds both."""
    ctx.begin_node(branch.node, branch.node.question)
    outcome = await careful(branch, _CHECKS, may_rebuild=False, wanted=lambda: True)
    if outcome.label == "supported" and not condition.grounds(name, outcome.attempts[-1].box):
        ctx.decide("held", "unknown", node=branch.node, said="supported", why="nothing that was found holds both")
        outcome = Outcome()
    said = {"supported": "Yes", "refuted": "No"}.get(outcome.label, "")
    cited = outcome.verdict.cited
    ctx.end_node(
        branch.node,
        Answer(said, "", "answered" if said else "unknown", "external", tuple(one.id for one in cited.passages)),
        hypothesis=said,
        attempts=[attempt.as_dict() for attempt in outcome.attempts],
        verdict=outcome.label,
        why=outcome.verdict.reason,
        facts=[list(fact.triple) for fact in cited.facts],
    )
    return outcome


_SHOWN = 8
"""Passages that the last reading sees beside the tree: those that verdicts cite, then others that were looked at."""


async def read_own(ctx: Context, question: str, evidence: Kinds) -> list[Answer]:
    """What the passages say that the question itself finds; nothing where only facts are to be looked at.

    What the model says that they say, and they do not hold, is a guess.
    """
    if evidence == "graph":
        return []
    passages = await ctx.search(question, k=SEARCHED)
    return [guess_unless_supported(reading, passages) for reading in await glances(ctx, question, passages)]


async def conclude(ctx: Context, question: str, walk: Walk, own: list[Answer]) -> Answer:
    """What a comparison comes to in code, or else the surest of the readings, with what it rests on.

    The tree is read only if evidence bears out all of it and the passages' readings differ, or nothing else is known: a
    model is as sure of its own guesses as of what it has read, so that their reading would be the surest for no good
    reason. Nor is it read beside them where it is but the question itself, answered from passages as well. What its
    nodes cite is cited for the answer only where that comes from the tree, and it is a guess where one of them is.
    """
    branches = [one for top in walk.tops for one in (top, *top.below())]
    moot = resting(walk, question)
    kept = [one for one in branches if one.node.id not in moot]
    # What evidence says alone is compared: a guess is nothing to compare by.
    verified = [one for one in kept if walk.outcomes[one.node.id].checked]
    said = [Answer(one.hypothesis, support=tuple(passage.id for passage in _cited(walk, one))) for one in verified]
    if compared := compare_pairs(
        ctx, question, [(one.node.question, answer) for one, answer in zip(verified, said, strict=True)]
    ):
        return compared
    whole = len(verified) == len(branches)
    borne_out = said if whole else []
    known = [answer for answer in own if answer.known]
    if known and (not whole or _agreed(known) or _echoes(walk, question)):
        return _checked(ctx, surest(ctx, own, when="final", named=GLANCES), borne_out)
    cited = [passage for one in verified for passage in _cited(walk, one)]
    seen = [
        passage for one in kept for attempt in walk.outcomes[one.node.id].attempts for passage in attempt.box.passages
    ]
    shown = tuple({passage.id: passage for passage in (*cited, *seen)}.values())[:_SHOWN]
    statements = list(told(ctx, walk.tops, walk.outcomes, texts=False, says=MODEL_SAYS, resting=moot))
    documents = [show_passages(ctx, shown, titles=True)] if shown else []
    sure = "logprobs" in ctx.model_for("answer").capabilities
    last = unmarked(await synthesise(ctx, question, [*statements, *documents], logprobs=sure))
    if last.known:
        grounds = _grounds(last.text, question, walk, kept, shown)
        says = bool(grounds) or any(tells(answer.text, last.text) for answer in said)
        fits = not explain_type_mismatch(question, last.text)
        # What is chosen stands there whatever is right, and what one node says may be said of another's guess.
        if whole and fits and (says or chooses(question)):
            ids = dict.fromkeys(passage.id for passage in (*cited, *shown) if passage in cited or passage.id in grounds)
            last = replace(last, support=tuple(ids))
        elif known:  # what stands nowhere is no answer where there is one that was read
            return _checked(ctx, surest(ctx, own, when="final", named=GLANCES), borne_out)
        else:
            return _guess(ctx, last, verified=len(verified), of=len(branches))
    taken = surest(ctx, [*own, last], when="final", named=(*(GLANCES if own else ()), "the tree and what it cites"))
    return _checked(ctx, taken, borne_out)


def told_as_guess(ctx: Context, walk: Walk, answer: Answer) -> Answer:
    """The answer of the paper's form, called a guess where nothing read holds it and no verified node says it."""
    if not answer.known:
        return answer
    boxes = [attempt.box for outcome in walk.outcomes.values() for attempt in outcome.attempts]
    facts = [Passage(fact.text, "", fact.text) for box in boxes for fact in box.facts]
    judged = guess_unless_supported(answer, [*(passage for box in boxes for passage in box.passages), *facts])
    branches = [one for top in walk.tops for one in (top, *top.below())]
    verified = [one for one in branches if walk.outcomes[one.node.id].checked]
    if not verified:
        ctx.warn("unsupported", "None of the answers below was verified; this one is put together from guesses.")
    elif any(tells(one.hypothesis, answer.text) for one in verified):
        return answer
    elif judged.source == "fallback":
        ctx.warn("unsupported", UNSUPPORTED)
    return replace(answer, source=judged.source)


def _checked(ctx: Context, taken: Answer, borne_out: Sequence[Answer]) -> Answer:
    """The reading that was taken: a guess where its passages do not hold it, unless it is `borne_out` by the tree."""
    if taken.source != "fallback":
        return taken
    if any(tells(one.text, taken.text) for one in borne_out):
        support = dict.fromkeys(name for one in borne_out for name in one.support)
        return replace(taken, source="synthesis", support=tuple(support))
    ctx.warn("unsupported", UNSUPPORTED)
    return taken


def _guess(ctx: Context, answer: Answer, *, verified: int, of: int) -> Answer:
    """The answer of a tree, called a guess: so many `of` its nodes are `verified`."""
    why = "The answer is a guess: it stands in nothing that was found, and in no answer that was verified."
    if not verified:
        why = "The answer is put together from guesses that nothing found confirms."
    elif verified < of:
        why = "The answer is a guess: not all that it rests on is verified."
    ctx.warn("unsupported", why)
    return replace(answer, source="fallback")


def _echoes(walk: Walk, question: str) -> bool:
    """Whether the tree is but one node that asks the question itself."""
    tops = [one for one in walk.tops if question_key(one.node.question) == question_key(question)]
    return len(tops) == len(walk.tops) == 1 and not tops[0].children


def _cited(walk: Walk, branch: Branch) -> tuple[Passage, ...]:
    return walk.outcomes[branch.node.id].verdict.cited.passages


def _agreed(answers: Sequence[Answer]) -> bool:
    """Whether there are several answers that say the same."""
    return len(answers) > 1 and all(agree(one.text, other.text) for one in answers for other in answers)


def _grounds(
    answer: str, question: str, walk: Walk, kept: Sequence[Branch], shown: tuple[Passage, ...]
) -> frozenset[str]:
    """What holds an answer beside a name from the question or one below it: texts of facts, and ids of passages."""
    facts = [fact for one in kept for attempt in walk.outcomes[one.node.id].attempts for fact in attempt.box.facts]
    box = EvidenceBox(shown, tuple(dict.fromkeys(facts)))
    below = [one.node.question for one in kept if parts_of(one.node.question.partition(" ")[2])]
    return frozenset(ground for asked in (question, *below) for ground in box.supporting(answer, asked))
