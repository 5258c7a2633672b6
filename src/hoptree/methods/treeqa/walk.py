"""How TreeQA goes through its tree: node after node, level by level, or all at once; and the caps that end it.

Whatever is worked on first, outcomes are settled in the order of the walk. Those of `speculative` are settled as those
of `serial`, so that the same replies give the same tree, caps included. What is begun ahead of the walk may be for
nothing: it has bounds of its own, and beyond these `speculative` is `serial`. Its failures count only where the walk
comes to them; a budget counts it as any other work, so that one just enough for `serial` may end before.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.errors import HoptreeError
from hoptree.core.singleflight import Once
from hoptree.core.values import Answer, Source
from hoptree.engine.context import Context
from hoptree.engine.schedule import both, together
from hoptree.engine.trace import events_of
from hoptree.methods.steps.agreement import agree
from hoptree.methods.steps.logic_tree import MAX_NODES, Claim, carried
from hoptree.methods.steps.verify import Verdict
from hoptree.methods.treeqa.nodes import Ahead, Branch, NodeProcess, Outcome, Wanted
from hoptree.text.question_tree import Node

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
        self.struck: dict[int, tuple[str, ...]] = {}
        self.fixes = self.validations = 0
        self._nodes = sum(1 + len(top.below()) for top in tops)
        self._once = Once()
        self._settled: dict[_Key, Outcome] = {}
        self._ahead = False
        self._begun: set[_Key] = set()
        self._under: dict[_Key | None, list[_Key]] = {}
        self._discarded: set[_Key] = set()
        self._refuted: dict[_Key, asyncio.Future[Verdict | None]] = {}
        self._rebuilt: set[_Key] = set()

    @property
    def spent(self) -> bool:
        """Whether nothing can be validated any more."""
        return self.validations >= MAX_VALIDATIONS

    async def go(self, traversal: Traversal) -> None:
        """Validate and correct all nodes, those that come into the tree on the way included."""
        if traversal == "level":
            await self._by_level()
        elif traversal == "speculative":
            self._ahead = True
            ahead = _thinned(self.tops, MAX_NODES)  # as it is now: the walk changes the tree, and may be faster
            await both(self._explore(ahead), self._in_turn_until_done())
        else:
            await self._in_turn(self.tops, (0,))
        self._ctx.decide("corrected", self.fixes, validations=self.validations, nodes=self._nodes)

    async def again(self, branch: Branch, path: tuple[int, ...]) -> None:
        """Validate a node that was changed from outside, and what comes to hang below it; what stays there stands."""
        self._settle(branch, await self._reach(branch), path)
        if self.outcomes[branch.node.id].replants:
            await self._in_turn(branch.children, (*path, branch.node.id))

    def restate(self, branch: Branch, path: tuple[int, ...], answer: str) -> None:
        """Give a node another answer, for what was found below it."""
        before = branch.hypothesis
        outcome = replace(self.outcomes[branch.node.id], stated=answer, aligned=True)
        branch.hypothesis = answer
        self.outcomes[branch.node.id] = outcome
        self._record(branch, outcome, path, before, branch.claim.size)

    async def _in_turn(self, branches: Iterable[Branch], path: tuple[int, ...]) -> None:
        """Depth first, a node before those below it."""
        for branch in branches:
            self._settle(branch, await self._reach(branch), path)
            await self._in_turn(branch.children, (*path, branch.node.id))

    async def _in_turn_until_done(self) -> None:
        await self._in_turn(self.tops, (0,))
        self._ahead = False
        self._discarded |= self._begun - self._settled.keys()  # nobody will come to it

    async def _by_level(self) -> None:
        level: list[tuple[Branch, tuple[int, ...]]] = [(branch, (0,)) for branch in self.tops]
        while level:
            found = await together(self._find(branch) for branch, _ in level)
            below: list[tuple[Branch, tuple[int, ...]]] = []
            for (branch, path), one in zip(level, found, strict=True):
                self._settle(branch, one, path)
                below += [(child, (*path, branch.node.id)) for child in branch.children]
            level = below

    async def _explore(self, branches: Iterable[Branch], under: _Key | None = None) -> None:
        """Begin all nodes at once; of a refuted one, what was below is given up and what is new is begun."""

        async def onward(branch: Branch) -> None:
            key, found = _key(branch), await self._find_ahead(branch)
            if found and found.outcome.replants:
                self._rebuilt.add(key)
                new = _thinned(found.below, self._room(key))
                self._give_up(branch, but=new)
                if key not in self._discarded:
                    await self._explore(new, key)

        begun = self._begin(branches, under)
        await together((*map(onward, begun), *(self._foresee(branch) for branch in begun if branch.children)))

    async def _foresee(self, branch: Branch) -> None:
        """While the tree below a refuted node is written anew, begin what it likely is: the old one, put right."""
        key = _key(branch)
        verdict = await self._refuted_by(key)
        if verdict is None or not verdict.correction or key in self._rebuilt or key in self._discarded:
            return
        likely = hang(carried(branch.claim, verdict.correction) or (), branch.node, first=_ROOM * branch.node.id + 1)
        await together(map(self._find_ahead, self._begin(_thinned(likely, self._room(key)), key)))

    def _begin(self, branches: Iterable[Branch], under: _Key | None) -> list[Branch]:
        """The branches that may be begun ahead: as many nodes as may be validated, below as many as may be rebuilt.

        What was given up counts too. Rebuilds under way when the bound is reached are not stopped.
        """
        begun: list[Branch] = []
        for branch in branches:
            key = _key(branch)
            if key not in self._begun:
                if not self._ahead or len(self._begun) >= MAX_VALIDATIONS or len(self._rebuilt) > MAX_FIXES:
                    break
                self._begun.add(key)
                self._under.setdefault(under, []).append(key)
            begun += [branch, *self._begin(branch.children, key)]
        return begun

    def _begun_under(self, key: _Key) -> list[_Key]:
        """What was begun below a node, whatever it was rebuilt or thought to be rebuilt into."""
        return [one for child in self._under.get(key, ()) for one in (child, *self._begun_under(child))]

    def _room(self, key: _Key) -> int:
        """How many nodes may come below a node, as far as is known ahead."""
        return MAX_NODES - len(self._begun.difference(self._discarded, self._begun_under(key)))

    def _give_up(self, branch: Branch, *, but: Iterable[Branch] = ()) -> None:
        """Go on with nothing that was begun below a node, but for what is known to come there."""
        stays = self._discarded.union(map(_key, _all(but)))
        given_up = [key for key in dict.fromkeys(self._begun_under(_key(branch))) if key not in stays]
        if given_up:
            self._discarded.update(given_up)
            self._ctx.decide("discarded", [number for number, _ in given_up], node=branch.node)

    def _refuted_by(self, key: _Key) -> asyncio.Future[Verdict | None]:
        """The verdict that refutes a node, as soon as it is known; None where it is not refuted."""
        return self._refuted.setdefault(key, asyncio.get_running_loop().create_future())

    async def _reach(self, branch: Branch) -> _Found:
        """As `_find`, for a node that the walk has come to: one that was given up is done again.

        That happens only where a cap kept what was above it from being refuted.
        """
        key = _key(branch)
        try:
            found = await self._find(branch)
        except HoptreeError:
            if key not in self._discarded:
                raise
        else:
            if key not in self._discarded:
                return found
        return await self._once(("again", key), lambda: self._work(branch, lambda: True))

    async def _find_ahead(self, branch: Branch) -> _Found | None:
        """As `_find`; None where it failed, of which the walk is told if it comes to this node, and nobody else."""
        try:
            return await self._find(branch)
        except HoptreeError as error:
            self._ctx.decide("failed_ahead", type(error).__name__, node=branch.node)
            return None

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
                if verdict is not None:  # at once: what is below must not be rebuilt as well
                    self._give_up(branch)

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
        before, size = branch.hypothesis, branch.claim.size
        outcome = self._counted(_key(branch), found.outcome)
        if outcome.stated:
            branch.hypothesis = outcome.stated
        if gone := _gone(branch, outcome, before):
            self.struck[branch.node.id] = (*self.struck.get(branch.node.id, ()), gone)
        if outcome.replants:  # what was below rests on what is wrong
            self._replant(branch, outcome.rebuilt.claim if outcome.rebuilt else None, found.below)
        self.outcomes[branch.node.id] = outcome
        self._record(branch, outcome, path, before, size)

    def _counted(self, key: _Key, outcome: Outcome) -> Outcome:
        """What the caps leave of an outcome; one that comes again has been counted."""
        if key not in self._settled:
            outcome = outcome.within(MAX_VALIDATIONS - self.validations)
            if self.fixes >= MAX_FIXES:  # then nothing would have been asked for
                outcome = replace(outcome, rebuilt=None, stays=False)
            self.validations += len(outcome.attempts)
            self.fixes += outcome.rebuilt is not None
            self._settled[key] = outcome
        return self._settled[key]

    def _replant(self, branch: Branch, claim: Claim | None, below: Sequence[Branch]) -> None:
        """Put a rebuilt tree in the place of a node and all below it; without one only the node stays."""
        for gone in branch.below():
            self._nodes -= 1
            self.outcomes.pop(gone.node.id, None)
            self.struck.pop(gone.node.id, None)
        branch.children = []
        dropped = 0
        if claim is not None:
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
        support = tuple(passage.id for passage in cited.passages)
        answer = Answer(branch.hypothesis, source=_source(outcome), support=support)
        self._ctx.end_node(
            branch.node,
            answer,
            resolved=branch.node.question,
            path=[*path, branch.node.id],
            depth=branch.node.depth,
            level=branch.node.depth - 1,
            verdict=outcome.label,
            why=_why(outcome, before),
            hypothesis=branch.hypothesis,
            hypothesis_before=before,
            struck=[before] if before and outcome.rebuilt else [],
            attempts=[attempt.as_dict() for attempt in outcome.attempts],
            clues=_clues(outcome),
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
        branch = Branch(Node(first, claim.question, parent.id, parent.depth + 1), claim.hypothesis, [], claim.dropped)
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
        kept.append(replace(branch, children=_thinned(branch.children, most - 1)))
        most -= 1 + len(kept[-1].below())
    return kept


def _gone(branch: Branch, outcome: Outcome, before: str) -> str:
    """What was thought to be the answer of a node, and is not: others may name it still."""
    if outcome.rebuilt and before:
        return before
    return branch.dropped if not agree(branch.dropped, outcome.stated) else ""


def _source(outcome: Outcome) -> Source:
    """Where the answer of a node comes from: evidence, what is below it, or the model's memory."""
    if outcome.checked:
        return "external"
    return "synthesis" if outcome.aligned else "internal"


def _clues(outcome: Outcome) -> list[str]:
    """The new things that were searched for: to follow what the evidence mentions is to ask the same again."""
    first = outcome.attempts[0].query if outcome.attempts else ""
    return [attempt.query for attempt in outcome.attempts[1:] if attempt.query != first]


def _why(outcome: Outcome, before: str) -> str:
    if outcome.aligned:
        return f"it follows from what was corrected below{f'; the guess was: {before}' if before else ''}"
    if not outcome.attempts:
        return "not validated: too many validations"
    tries = len(outcome.attempts)
    if outcome.label == "unknown":
        doubts = [attempt.verdict.doubt for attempt in outcome.attempts if attempt.verdict.doubt]
        return f"{doubts[-1] if doubts else 'nothing found says so'}, {tries} attempt{'s' if tries > 1 else ''}"
    return outcome.verdict.reason if outcome.label == "refuted" else ""


def _stages(ctx: Context, node: int) -> dict[str, int]:
    """Tokens of a node by the step that took them."""
    spent: Counter[str] = Counter()
    for event in events_of(ctx.trace.events, node):
        if event["event"] == "llm":
            spent[event["step"]] += event["prompt_tokens"] + event["completion_tokens"]
    return dict(spent)
