"""TreeQA beyond its paper (`robust=on`): the whole run, and the surest of several readings as its answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned, decision
from hoptree.engine.prompts import show_passages
from hoptree.engine.result import UNSUPPORTED
from hoptree.engine.schedule import both, together
from hoptree.methods.robust.conditions import Listing, find_candidates, split_conditions
from hoptree.methods.robust.treeqa_process import RobustProcess, VerdictOverruled
from hoptree.methods.robust.treeqa_revision import (
    RobustOutcome,
    RobustTree,
    RobustWalk,
    align_ancestors,
    make_robust_walk,
    moot_nodes,
    revise_siblings,
)
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.choose import READINGS, read_several_ways, surest
from hoptree.methods.steps.compare import chooses, compare_pairs
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.graph_evidence import SEARCHED, Sources
from hoptree.methods.steps.mentions import EvidenceKinds
from hoptree.methods.treeqa.hypotheses import build_tree
from hoptree.methods.treeqa.method import end_tree, plant_tree, propose_draft
from hoptree.methods.treeqa.walk import Branch, Outcome, Traversal, Walk, flatten, strip_certainty
from hoptree.text.comparison import agree, tells
from hoptree.text.grounding import explain_type_mismatch, guess_unless_supported, parts_of
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

_MAX_SHOWN_PASSAGES = 8
"""Passages that the last reading sees beside the tree: those that verdicts cite, then others that were looked at."""


async def robust_treeqa(
    ctx: Context,
    question: str,
    sources: Sources,
    max_attempts: int,
    traversal: Traversal,
    evidence: EvidenceKinds,
    *,
    recursive: bool,
) -> Answer:
    """Intersect candidates where the question lists conditions; else validate the tree, revise it, and read it."""
    process = RobustProcess(ctx, question, sources, max_attempts=max_attempts, evidence=evidence)
    listed = await intersect(ctx, question, process, max_validations=Walk.max_validations)
    if listed.answer:
        return listed.answer
    building = build_tree(ctx, question, recursive=recursive, guess=False)
    tree, own_readings = await both(building, _read_own(ctx, question, evidence))
    root, draft = plant_tree(ctx, question, tree)
    propose_draft(ctx, draft)
    walk = make_robust_walk(traversal, ctx, process, root.children)
    walk.validations = listed.validations  # one cap for both
    await walk.run()
    await revise_siblings(ctx, walk, question)
    await align_ancestors(ctx, walk, question)
    return end_tree(ctx, root, walk, tree, await _conclude(ctx, question, walk, own_readings))


async def _read_own(ctx: Context, question: str, evidence: EvidenceKinds) -> list[Answer]:
    """Read the passages that the question itself finds; an answer that they do not hold is a guess.

    Nothing is read where only facts are to be looked at.
    """
    if evidence == "graph":
        return []
    passages = await ctx.search(question, k=SEARCHED)
    return [guess_unless_supported(reading, passages) for reading in await read_several_ways(ctx, question, passages)]


async def _conclude(ctx: Context, question: str, walk: RobustWalk, own: list[Answer]) -> Answer:
    """Compare in code, or else take the surest of the readings, with what it rests on.

    The tree is read only if evidence bears out all of it and the passages' readings differ, or nothing else is known: a
    model is as sure of its own guesses as of what it has read, so that their reading would be the surest for no good
    reason. Nor is it read beside them where it is but the question itself, answered from passages as well. What its
    nodes cite is cited for the answer only where that comes from the tree, and it is a guess where one of them is.
    """
    branches = flatten(walk.tops)
    moot = moot_nodes(walk, question)
    kept = [branch for branch in branches if branch.node.id not in moot]
    # Guesses are not compared, only what evidence says.
    verified = [branch for branch in kept if walk.outcomes[branch.node.id].checked]
    said = [Answer(branch.hypothesis, support=tuple(p.id for p in _cited(walk, branch))) for branch in verified]
    pairs = [(branch.node.question, answer) for branch, answer in zip(verified, said, strict=True)]
    if compared := compare_pairs(ctx, question, pairs):
        return compared
    all_verified = len(verified) == len(branches)
    borne_out = said if all_verified else []
    known = [answer for answer in own if answer.known]
    if known and (not all_verified or _agree(known) or _only_restates(walk, question)):
        return _checked(ctx, surest(ctx, own, when="final", named=READINGS), borne_out)
    cited = [passage for branch in verified for passage in _cited(walk, branch)]
    boxes = [attempt.box for branch in kept for attempt in walk.outcomes[branch.node.id].attempts]
    seen = [passage for box in boxes for passage in box.passages]
    shown = tuple({passage.id: passage for passage in (*cited, *seen)}.values())[:_MAX_SHOWN_PASSAGES]
    statements = list(RobustTree(ctx, walk.outcomes, moot=moot, texts=False).lines(walk.tops))
    documents = [show_passages(ctx, shown, titles=True)] if shown else []
    logprobs = "logprobs" in ctx.model_for("answer").capabilities
    last = strip_certainty(await synthesise(ctx, question, [*statements, *documents], logprobs=logprobs))
    if last.known:
        facts = tuple(dict.fromkeys(fact for box in boxes for fact in box.facts))
        grounds = _grounds(last.text, question, kept, EvidenceBox(shown, facts))
        is_said = bool(grounds) or any(tells(answer.text, last.text) for answer in said)
        fits = not explain_type_mismatch(question, last.text)
        # A choice stands there whatever is right, and what one node says may be said of another's guess.
        if all_verified and fits and (is_said or chooses(question)):
            ids = dict.fromkeys(passage.id for passage in (*cited, *shown) if passage in cited or passage.id in grounds)
            last = replace(last, support=tuple(ids))
        elif known:  # a reading of passages is better than what stands nowhere
            return _checked(ctx, surest(ctx, own, when="final", named=READINGS), borne_out)
        else:
            return _guess(ctx, last, verified=len(verified), of=len(branches))
    taken = surest(ctx, [*own, last], when="final", named=(*(READINGS if own else ()), "the tree and what it cites"))
    return _checked(ctx, taken, borne_out)


def _checked(ctx: Context, taken: Answer, borne_out: Sequence[Answer]) -> Answer:
    """Warn of a reading that its passages do not hold, unless it is `borne_out` by the tree."""
    if taken.source != "fallback":
        return taken
    if any(tells(answer.text, taken.text) for answer in borne_out):
        support = dict.fromkeys(passage_id for answer in borne_out for passage_id in answer.support)
        return replace(taken, source="synthesis", support=tuple(support))
    ctx.warn("unsupported", UNSUPPORTED)
    return taken


def _guess(ctx: Context, answer: Answer, *, verified: int, of: int) -> Answer:
    """Call the answer of a tree a guess, and warn of it; so many `of` its nodes are `verified`."""
    why = "The answer is a guess: it stands in nothing that was found, and in no answer that was verified."
    if not verified:
        why = "The answer is put together from guesses that nothing found confirms."
    elif verified < of:
        why = "The answer is a guess: not all that it rests on is verified."
    ctx.warn("unsupported", why)
    return replace(answer, source="fallback")


def _only_restates(walk: RobustWalk, question: str) -> bool:
    """Return whether the tree is but one node that asks the question itself."""
    top, *others = walk.tops
    return not others and not top.children and question_key(top.node.question) == question_key(question)


def _cited(walk: RobustWalk, branch: Branch) -> tuple[Passage, ...]:
    return walk.outcomes[branch.node.id].verdict.cited.passages


def _agree(answers: Sequence[Answer]) -> bool:
    """Return whether there are several answers that say the same."""
    return len(answers) > 1 and all(agree(one.text, other.text) for one in answers for other in answers)


def _grounds(answer: str, question: str, kept: Sequence[Branch], box: EvidenceBox) -> frozenset[str]:
    """Return what holds an answer beside a name from the question or one below it: texts of facts, ids of passages."""
    below = [branch.node.question for branch in kept if parts_of(branch.node.question.partition(" ")[2])]
    return frozenset(ground for asked in (question, *below) for ground in box.supporting(answer, asked))


_MAX_CANDIDATES = 12


@dataclass(frozen=True, slots=True)
class _Condition:
    """A condition, the names it is about, the evidence found for it, and the candidates this gave."""

    branch: Branch
    text: str
    about: str
    box: EvidenceBox
    names: tuple[str, ...]

    def gave(self, name: str) -> bool:
        return question_key(name) in map(question_key, self.names)

    def grounds(self, name: str, box: EvidenceBox) -> tuple[str, ...]:
        """Return what holds a name together with one of the condition: ids of passages, and texts of facts."""
        return box.supporting(name, f"It {self.about}")


@dataclass(frozen=True, slots=True)
class Intersection:
    """The names that fulfil all conditions, if there are any, and how many validations that took."""

    answer: Answer | None = None
    validations: int = 0


@decision("candidates")
class CandidatesFound(Decision):
    """The candidates that are checked against all conditions."""

    value: list[str]
    asked: str


@decision("intersected")
class CandidatesIntersected(Decision):
    """The names that fulfil all conditions; `found` is how many candidates there were."""

    value: list[str]
    found: int
    candidates: int
    validations: int


async def intersect(ctx: Context, question: str, process: RobustProcess, *, max_validations: int) -> Intersection:
    """Find the names that fulfil all conditions of a question.

    There is no answer where the question has no such conditions, or nothing fulfils them all.
    """
    listing = await split_conditions(ctx, question)
    if listing is None:
        return Intersection()
    root = Node(0, question, depth=0)
    tops = [
        Branch(Node(number, f"Of which {listing.asked} is this true: {condition}?", 0), "")
        for number, condition in enumerate(listing.conditions, 1)
    ]
    ctx.emit(Planned(nodes=[branch.as_plan_node() for branch in (Branch(root, ""), *tops)]))
    conditions = await together(_gather(ctx, listing, number, branch, process) for number, branch in enumerate(tops))
    candidates = _rank(conditions)
    checks = accumulate(_open_conditions(name, conditions) for name in candidates)
    names = [name for name, so_far in zip(candidates, checks, strict=True) if so_far <= max_validations]
    names = names[:_MAX_CANDIDATES]
    ctx.emit(CandidatesFound(value=names, asked=listing.asked))
    if not names:
        return Intersection()
    if len(names) < len(candidates):
        counts = f"{len(candidates):,} candidates were found, and {len(names):,} of them checked"
        ctx.warn("candidates_left", f"{counts}; the answer may lack some of the others.")
    if given_by_all := [name for name in names if all(condition.gave(name) for condition in conditions)]:
        ctx.propose(Answer(", ".join(given_by_all), source="synthesis"), order=0)
    fulfilling = await together(_check(ctx, condition, names, process) for condition in conditions)
    left = [name for name in names if all(name in passages for passages in fulfilling)]
    validations = sum(_open_conditions(name, conditions) for name in names)
    ctx.emit(CandidatesIntersected(value=left, found=len(candidates), candidates=len(names), validations=validations))
    if not left:
        return Intersection(validations=validations)
    support = dict.fromkeys(passage_id for ids in fulfilling for name in left for passage_id in ids[name])
    answer = Answer(", ".join(left), "; ".join(left), "answered", "synthesis", tuple(support))
    ctx.end_node(root, answer, candidates=names)
    return Intersection(answer, validations)


async def _gather(ctx: Context, listing: Listing, number: int, branch: Branch, process: RobustProcess) -> _Condition:
    """Find the candidates of one condition."""
    ctx.begin_node(branch.node, branch.node.question)
    text = listing.conditions[number]
    box = await process.retrieve(f"{listing.asked} {text}", branch.node)
    names = await find_candidates(ctx, listing, number, box, node=branch.node)
    return _Condition(branch, text, listing.about[number], box, names)


def _rank(conditions: Sequence[_Condition]) -> list[str]:
    """Return all candidates, those that several conditions give before the others."""
    names: dict[str, str] = {}
    for condition in conditions:
        for name in condition.names:
            names.setdefault(question_key(name), name)
    return sorted(names.values(), key=lambda name: _open_conditions(name, conditions))


def _open_conditions(name: str, conditions: Sequence[_Condition]) -> int:
    """Count the conditions that a candidate is to be held against, each of which takes one validation."""
    return sum(not condition.gave(name) for condition in conditions)


async def _check(
    ctx: Context, condition: _Condition, names: Sequence[str], process: RobustProcess
) -> dict[str, tuple[str, ...]]:
    """Return the names that fulfil a condition, with the passages that say so; those that it gave itself do."""
    node, box = condition.branch.node, condition.box
    open_names = [name for name in names if not condition.gave(name)]
    branches = [  # not "condition: name": behind a colon, the name would be read as part of a title
        Branch(Node(100 * node.id + number, f"Is this true of {name}? {condition.text}?", node.id, 2), "Yes")
        for number, name in enumerate(open_names, 1)
    ]
    ctx.emit(Planned(under=node.id, nodes=[branch.as_plan_node() for branch in branches]))
    outcomes = await together(
        _check_candidate(ctx, branch, condition, name, process)
        for branch, name in zip(branches, open_names, strict=True)
    )
    fulfilling = {}
    for name in filter(condition.gave, names):
        grounds = condition.grounds(name, box)
        fulfilling[name] = tuple(passage.id for passage in box.passages if passage.id in grounds)
    for name, outcome in zip(open_names, outcomes, strict=True):
        if outcome.label == "supported":
            fulfilling[name] = tuple(passage.id for passage in outcome.verdict.cited.passages)
    support = tuple(dict.fromkeys(passage_id for ids in fulfilling.values() for passage_id in ids))
    answer = Answer(", ".join(fulfilling), "", "answered" if fulfilling else "unknown", "external", support)
    facts = {ground for name in condition.names for ground in condition.grounds(name, box)}
    vouching = [list(fact.triple) for fact in box.facts if fact.text in facts]
    ctx.end_node(node, answer, candidates=list(condition.names), facts=vouching)
    return fulfilling


async def _check_candidate(
    ctx: Context, branch: Branch, condition: _Condition, name: str, process: RobustProcess
) -> Outcome:
    """Judge whether a name fulfils a condition: by a verdict, and by something found that holds both."""
    ctx.begin_node(branch.node, branch.node.question)
    outcome = await process(branch, 1, may_rebuild=False, wanted=lambda: True)
    if outcome.label == "supported" and not condition.grounds(name, outcome.attempts[-1].box):
        why = "nothing that was found holds both"
        ctx.emit(VerdictOverruled(value="unknown", said="supported", why=why), node=branch.node)
        outcome = RobustOutcome()
    text = {"supported": "Yes", "refuted": "No"}.get(outcome.label, "")
    cited = outcome.verdict.cited
    support = tuple(passage.id for passage in cited.passages)
    ctx.end_node(
        branch.node,
        Answer(text, "", "answered" if text else "unknown", "external", support),
        hypothesis=text,
        attempts=[attempt.as_dict() for attempt in outcome.attempts],
        verdict=outcome.label,
        why=outcome.verdict.reason,
        facts=[list(fact.triple) for fact in cited.facts],
    )
    return outcome
