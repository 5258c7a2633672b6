"""How TreeQA goes through its tree: node after node, level by level, or all at once; and the caps that end it.

Whatever is worked on first, outcomes are settled in the order of the walk. Those of `speculative` are settled as those
of `serial`, so that the same replies give the same tree, caps included.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.methods.treeqa.evidence import Ahead, Wanted
from hoptree.methods.treeqa.nodes import Branch, NodeProcess, Outcome
from hoptree.runtime.context import Context
from hoptree.runtime.once import Once
from hoptree.runtime.schedule import both, together
from hoptree.steps.logic_tree import MAX_NODES, Claim
from hoptree.steps.substitution import carried
from hoptree.steps.verify import Verdict
from hoptree.tree import Node
from hoptree.values import Answer

__all__ = ["MAX_FIXES", "MAX_VALIDATIONS", "Traversal", "Walk", "hang", "written"]

Traversal = Literal["serial", "level", "speculative"]
MAX_FIXES = 8
MAX_VALIDATIONS = 40
_Key = tuple[int, Claim]
_ROOM = 100
"""Numbers that a rebuilt node has for what hangs below it: more than there are nodes."""


@dataclass(frozen=True, slots=True)
class _Found:
    """What became of a node, and what would hang below it then."""

    outcome: Outcome
    below: tuple[Branch, ...] = ()


class Walk:
    """One walk through one tree, from its top nodes down."""

    def __init__(self, ctx: Context, process: NodeProcess, tops: list[Branch]) -> None:
        self._ctx, self._process, self.tops = ctx, process, tops
        self.outcomes: dict[int, Outcome] = {}
        self.struck: dict[int, str] = {}
        self.fixes = self.validations = 0
        self._nodes = sum(1 + len(top.below()) for top in tops)
        self._once = Once()
        self._discarded: set[_Key] = set()
        self._ahead = False
        self._refuted: dict[_Key, asyncio.Future[Verdict | None]] = {}
        self._foreseen: dict[_Key, list[_Key]] = {}
        self._rebuilt: set[_Key] = set()

    async def go(self, traversal: Traversal) -> None:
        """Validate and correct all nodes, those that come into the tree on the way included."""
        if traversal == "level":
            await self._by_level()
        elif traversal == "speculative":
            self._ahead = True
            ahead = _thinned(self.tops, MAX_NODES)  # as it is now: the walk changes the tree, and may be faster
            await both(self._explore(ahead), self._in_turn(self.tops, (0,)))
        else:
            await self._in_turn(self.tops, (0,))
        self._ctx.decide("corrected", self.fixes, validations=self.validations, nodes=self._nodes)

    async def again(self, branch: Branch, path: tuple[int, ...]) -> None:
        """Validate a branch that was changed from outside, and all below it."""
        await self._in_turn([branch], path)

    def restate(self, branch: Branch, path: tuple[int, ...], answer: str) -> None:
        """Give a node another answer, for what was found below it."""
        before = branch.hypothesis
        outcome = replace(self.outcomes[branch.node.id], stated=answer)
        branch.hypothesis = answer
        self.outcomes[branch.node.id] = outcome
        self._record(branch, outcome, path, before, branch.claim.size)

    async def _in_turn(self, branches: Iterable[Branch], path: tuple[int, ...]) -> None:
        """Depth first, a node before those below it."""
        for branch in branches:
            self._settle(branch, await self._reach(branch), path)
            await self._in_turn(branch.children, (*path, branch.node.id))

    async def _by_level(self) -> None:
        level: list[tuple[Branch, tuple[int, ...]]] = [(branch, (0,)) for branch in self.tops]
        while level:
            found = await together(self._find(branch) for branch, _ in level)
            below: list[tuple[Branch, tuple[int, ...]]] = []
            for (branch, path), one in zip(level, found, strict=True):
                self._settle(branch, one, path)
                below += [(child, (*path, branch.node.id)) for child in branch.children]
            level = below

    async def _explore(self, branches: Iterable[Branch]) -> None:
        """Begin all nodes at once; of a refuted one, what was below is given up and what is new is begun."""

        async def onward(branch: Branch) -> None:
            found = await self._find(branch)
            if found.outcome.label == "refuted":
                new = set(map(_key, _all(found.below)))
                self._rebuilt.add(_key(branch))
                begun = (*map(_key, branch.below()), *self._foreseen.get(_key(branch), ()))
                given_up = [key for key in begun if key not in self._discarded and key not in new]
                if given_up:
                    self._discarded.update(given_up)
                    self._ctx.decide("discarded", [number for number, _ in given_up], node=branch.node)
                await self._explore(found.below)

        every = _all(branches)
        await together((*map(onward, every), *(self._foresee(branch) for branch in every if branch.children)))

    async def _foresee(self, branch: Branch) -> None:
        """While the tree below a refuted node is written anew, begin what it likely is: the old one, put right."""
        key = _key(branch)
        verdict = await self._refuted_by(key)
        if verdict is None or not verdict.correction or key in self._rebuilt:
            return
        claims = carried(branch.claim, verdict.correction)
        likely = _all(hang(claims or (), branch.node, first=_ROOM * branch.node.id + 1))
        self._foreseen[key] = list(map(_key, likely))
        await together(map(self._find, likely))

    def _refuted_by(self, key: _Key) -> asyncio.Future[Verdict | None]:
        """The verdict that refutes a node, as soon as it is known; None where it is not refuted."""
        return self._refuted.setdefault(key, asyncio.get_running_loop().create_future())

    async def _reach(self, branch: Branch) -> _Found:
        """As `_find`, for a node that the walk has come to: one that was given up is done again.

        That happens only where a cap kept what was above it from being refuted.
        """
        found = await self._find(branch)
        if (key := _key(branch)) in self._discarded:
            found = await self._once(("again", key), lambda: self._work(branch, lambda: True))
        return found

    async def _find(self, branch: Branch) -> _Found:
        key = _key(branch)

        def wanted() -> bool:
            return key not in self._discarded

        if not self._ahead:
            return await self._once(key, lambda: self._work(branch, wanted))
        refuted = self._refuted_by(key)

        def tell(verdict: Verdict | None) -> None:
            if not refuted.done():
                refuted.set_result(verdict)

        try:
            return await self._once(key, lambda: self._work(branch, Ahead(wanted, tell)))
        finally:  # whatever became of it: somebody may wait for the verdict
            tell(None)

    async def _work(self, branch: Branch, wanted: Wanted) -> _Found:
        if not wanted():
            return _Found(Outcome())
        node = branch.node
        self._ctx.begin_node(node, node.question)
        outcome = await self._process(
            branch,
            min(self._process.max_attempts, MAX_VALIDATIONS - self.validations),
            may_rebuild=self.fixes < MAX_FIXES,
            wanted=wanted,
        )
        new = outcome.rebuilt.claim.children if outcome.rebuilt else ()
        return _Found(outcome, tuple(hang(new, node, first=_ROOM * node.id + 1)))

    def _settle(self, branch: Branch, found: _Found, path: tuple[int, ...]) -> None:
        """Put an outcome into the tree, within the caps."""
        outcome = found.outcome.within(MAX_VALIDATIONS - self.validations)
        self.validations += len(outcome.attempts)
        before, size = branch.hypothesis, branch.claim.size
        if outcome.rebuilt and self.fixes >= MAX_FIXES:
            outcome = replace(outcome, rebuilt=None)
        if outcome.stated:
            branch.hypothesis = outcome.stated
        if outcome.rebuilt and before:
            self.struck[branch.node.id] = before
        if outcome.label == "refuted":  # what was below rests on what is wrong
            self._replant(branch, outcome.rebuilt.claim if outcome.rebuilt else None, found.below)
        self.outcomes[branch.node.id] = outcome
        self._record(branch, outcome, path, before, size)

    def _replant(self, branch: Branch, claim: Claim | None, below: Sequence[Branch]) -> None:
        """Put a rebuilt tree in the place of a node and all below it; without one only the node stays."""
        self._nodes -= len(branch.below())
        branch.children = []
        dropped = 0
        if claim is not None:
            self.fixes += 1
            branch.node = replace(branch.node, question=claim.question)
            branch.hypothesis = claim.hypothesis
            branch.children = _thinned(below, MAX_NODES - self._nodes)
            self._nodes += len(branch.below())
            dropped = claim.size - branch.claim.size
        issue = {"kind": "cap_nodes", "node": branch.node.id, "detail": f"{dropped} nodes beyond {MAX_NODES} dropped"}
        self._ctx.trace.add(
            "plan",
            under=branch.node.id,
            rebuilt=True,
            nodes=[written(one) for one in branch.below()],
            issues=[issue] if dropped else [],
        )

    def _record(self, branch: Branch, outcome: Outcome, path: tuple[int, ...], before: str, size: int) -> None:
        """What the paper's tables are made from, for one node."""
        cited = outcome.verdict.cited
        checked = outcome.label == "supported" or outcome.rebuilt is not None
        support = tuple(passage.id for passage in cited.passages)
        answer = Answer(branch.hypothesis, source="external" if checked else "internal", support=support)
        self._ctx.end_node(
            branch.node,
            answer,
            resolved=branch.node.question,
            path=[*path, branch.node.id],
            depth=branch.node.depth,
            level=branch.node.depth - 1,
            verdict=outcome.label,
            why=_why(outcome),
            hypothesis=branch.hypothesis,
            hypothesis_before=before,
            struck=[before] if before and (outcome.rebuilt or outcome.stated) else [],
            attempts=[attempt.as_dict() for attempt in outcome.attempts],
            clues=[attempt.query for attempt in outcome.attempts[1:]],
            facts=[list(fact.triple) for fact in cited.facts],
            fabricated=list(cited.fabricated),
            rebuilt=outcome.rebuilt is not None,
            rebuild_issues=list(outcome.rebuilt.issues) if outcome.rebuilt else [],
            size_before=size,
            size_after=branch.claim.size,
            stages=_stages(self._ctx, branch.node.id),
        )


def _key(branch: Branch) -> _Key:
    """What the outcome of a node depends on: a cap may have left less below it than it began with."""
    return branch.node.id, branch.claim


def hang(claims: Iterable[Claim], parent: Node, *, first: int) -> list[Branch]:
    """Claims as branches under a node, numbered from `first` on, each before those below it."""
    branches = []
    for claim in claims:
        branch = Branch(Node(first, claim.question, parent.id, parent.depth + 1), claim.hypothesis)
        branch.children = hang(claim.children, branch.node, first=first + 1)
        branches.append(branch)
        first += claim.size
    return branches


def written(branch: Branch) -> dict[str, Any]:
    """A branch as a plan tells of it."""
    node = branch.node
    told = {"id": node.id, "question": node.question, "parent": node.parent, "refs": []}
    return {**told, "hypothesis": branch.hypothesis}


def _all(branches: Iterable[Branch]) -> list[Branch]:
    return [one for branch in branches for one in (branch, *branch.below())]


def _thinned(branches: Iterable[Branch], most: int) -> list[Branch]:
    """The first `most` branches, each before those below it."""
    kept = []
    for branch in branches:
        if most < 1:
            break
        kept.append(Branch(branch.node, branch.hypothesis, _thinned(branch.children, most - 1)))
        most -= 1 + len(kept[-1].below())
    return kept


def _why(outcome: Outcome) -> str:
    if not outcome.attempts:
        return "not validated: too many validations"
    tries = len(outcome.attempts)
    if outcome.label == "unknown":
        return f"nothing found says so, {tries} attempt{'s' if tries > 1 else ''}"
    return outcome.verdict.reason if outcome.label == "refuted" else ""


def _stages(ctx: Context, node: int) -> dict[str, int]:
    """Tokens of a node by the step that took them."""
    spent: Counter[str] = Counter()
    for event in ctx.trace.events:
        if event["event"] == "llm" and event.get("node") == node:
            spent[event["step"]] += event["prompt_tokens"] + event["completion_tokens"]
    return dict(spent)
