"""TreeQA's `traversal=speculative`: validate all nodes at once.

The same replies give the same tree as node by node, caps included. Work ahead of the walk may be wasted: it has bounds
of its own, beyond which the walk is serial. Its failures count only if the walk reaches them. It counts for the budget,
so that a budget that is just enough for the serial walk may end sooner.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from copy import deepcopy

from hoptree.core.errors import HoptreeError
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.schedule import both, together
from hoptree.methods.steps.evidence_box import Verdict
from hoptree.methods.steps.logic_tree import MAX_NODES, propagate_correction
from hoptree.methods.steps.mentions import Ahead
from hoptree.methods.treeqa.walk import Branch, Key, NodeProcess, Outcome, Traversal, Walk, flatten, hang_below


@decision("discarded")
class WorkDiscarded(Decision):
    """The nodes below a refuted one whose work ahead was abandoned."""

    value: list[int]


@decision("failed_ahead")
class FailedAhead(Decision):
    """The error of work ahead on a node."""

    value: str


def make_walk(traversal: Traversal, ctx: Context, process: NodeProcess, tops: list[Branch]) -> Walk:
    if traversal == "speculative":
        return SpeculativeWalk(ctx, process, tops)
    return Walk(ctx, process, tops, by_level=traversal == "level")


class SpeculativeWalk(Walk):
    """The serial walk, with an exploration ahead of it."""

    def __init__(self, ctx: Context, process: NodeProcess, tops: list[Branch]) -> None:
        super().__init__(ctx, process, tops)
        self._ahead = True
        self._begun: set[Key] = set()
        self._begun_under: dict[Key | None, list[Key]] = {}
        self._discarded: set[Key] = set()
        self._refuted: dict[Key, asyncio.Future[Verdict | None]] = {}
        self._rebuilt: set[Key] = set()

    async def _traverse(self) -> None:
        # A copy, since the walk changes the tree, and may be ahead.
        await both(self._explore(deepcopy(self.tops)), self._in_turn_until_done())

    async def _in_turn_until_done(self) -> None:
        await self._in_turn(self.tops, (0,))
        self._ahead = False
        self._discarded |= self._begun - self._settled.keys()  # the walk never reaches these

    async def _explore(self, branches: Iterable[Branch], under: Key | None = None) -> None:
        """Begin all nodes at once; below a refuted one, begin what is new."""

        async def explore_one(branch: Branch) -> None:
            key, outcome = branch.key, await self._process_ahead(branch)
            if outcome and outcome.replants:
                self._rebuilt.add(key)
                claims = outcome.rebuilt.claim.children if outcome.rebuilt else ()
                new = hang_below(branch, claims, self._room(key))
                self._give_up(branch, but=new)
                if key not in self._discarded:
                    await self._explore(new, key)

        begun = self._begin(branches, under)
        await together((*map(explore_one, begun), *(self._foresee(branch) for branch in begun if branch.children)))

    async def _foresee(self, branch: Branch) -> None:
        """Begin the likely new tree while a refuted one is rebuilt."""
        key = branch.key
        verdict = await self._refuted_by(key)
        if verdict is None or not verdict.correction or key in self._rebuilt or key in self._discarded:
            return
        claims = propagate_correction(branch.claim, verdict.correction) or ()
        likely = hang_below(branch, claims, self._room(key))
        await together(map(self._process_ahead, self._begin(likely, key)))

    def _begin(self, branches: Iterable[Branch], under: Key | None) -> list[Branch]:
        """Return the branches that may be begun, within the caps."""
        begun: list[Branch] = []
        for branch in branches:
            key = branch.key
            if key not in self._begun:
                bound = len(self._begun) >= self.max_validations or len(self._rebuilt) > self.max_fixes
                if bound or not self._ahead:
                    break
                self._begun.add(key)
                self._begun_under.setdefault(under, []).append(key)
            begun += [branch, *self._begin(branch.children, key)]
        return begun

    def _descendants(self, key: Key) -> list[Key]:
        """Return the nodes that were begun below a node."""
        return [below for child in self._begun_under.get(key, ()) for below in (child, *self._descendants(child))]

    def _room(self, key: Key) -> int:
        """Return how many nodes may be added below a node, as far as is known."""
        return MAX_NODES - len(self._begun.difference(self._discarded, self._descendants(key)))

    def _give_up(self, branch: Branch, *, but: Iterable[Branch] = ()) -> None:
        """Abandon the nodes that were begun below a node, but those in `but`."""
        stays = self._discarded.union(below.key for below in flatten(but))
        given_up = [key for key in dict.fromkeys(self._descendants(branch.key)) if key not in stays]
        if given_up:
            self._discarded.update(given_up)
            self._ctx.emit(WorkDiscarded(value=[number for number, _ in given_up]), node=branch.node)

    def _refuted_by(self, key: Key) -> asyncio.Future[Verdict | None]:
        """Return a future of the verdict that refutes a node; None if none does."""
        return self._refuted.setdefault(key, asyncio.get_running_loop().create_future())

    async def _reach(self, branch: Branch) -> Outcome:
        """Process a node, and again if it was abandoned too early."""
        key = branch.key
        try:
            outcome = await self._process_once(branch)
        except HoptreeError:
            if key not in self._discarded:
                raise
        else:
            if key not in self._discarded:
                return outcome
        return await self._once(("again", key), lambda: self._process_node(branch, lambda: True))

    async def _process_ahead(self, branch: Branch) -> Outcome | None:
        """Process a node ahead of the walk; return None if that failed."""
        try:
            return await self._process_once(branch)
        except HoptreeError as error:
            self._ctx.emit(FailedAhead(value=type(error).__name__), node=branch.node)
            return None

    async def _process_once(self, branch: Branch) -> Outcome:
        key = branch.key

        def wanted() -> bool:
            return key not in self._discarded

        if not self._ahead:
            return await self._once(key, lambda: self._process_node(branch, wanted))
        refuted = self._refuted_by(key)

        def announce(verdict: Verdict | None) -> None:
            if not refuted.done():
                refuted.set_result(verdict)
                if verdict is not None:  # at once, since the nodes below must not be rebuilt as well
                    self._give_up(branch)

        try:
            return await self._once(key, lambda: self._process_node(branch, Ahead(wanted, announce)))
        finally:  # `_foresee` may wait for the verdict even if the node failed
            announce(None)
