"""TreeQA for questions that ask what fulfils several conditions, beyond its paper (`robust`).

"Who starred in A and also studied at B?" has no single hypothesis to follow: the paper's form guesses one name, and
gives up after two searches. Here every condition gives its candidates, every candidate is held against the conditions
that did not give it, all at once, and code intersects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from hoptree.methods.treeqa.careful import Careful
from hoptree.methods.treeqa.nodes import Branch, Outcome
from hoptree.methods.treeqa.walk import written
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import together
from hoptree.steps.hypotheses.conditions import Listing, find_candidates, split_conditions
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.reading.parse import question_key
from hoptree.tree import Node
from hoptree.values import Answer

__all__ = ["Listed", "intersect"]

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
