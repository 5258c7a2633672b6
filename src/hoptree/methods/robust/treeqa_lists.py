"""TreeQA beyond its paper (`robust=on`): intersect the candidates of several conditions.

"Who starred in A and also studied at B?" has no single hypothesis to follow: the paper's form guesses one name, and
gives up after two searches. Here every condition gives its candidates, every candidate is held against the conditions
that did not give it, all at once, and code intersects.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned, decision
from hoptree.engine.schedule import together
from hoptree.methods.robust.conditions import Listing, find_candidates, split_conditions
from hoptree.methods.robust.treeqa_process import RobustProcess, VerdictOverruled
from hoptree.methods.robust.treeqa_revision import RobustOutcome
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.treeqa.walk import Branch, Outcome
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

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
