"""TreeQA's walk: validate and correct the nodes of a tree, in turn or by level."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned, decision
from hoptree.engine.schedule import SingleFlight, together
from hoptree.engine.trace import ModelCalled, events_of
from hoptree.methods.steps.evidence_box import EvidenceBox, Label, Verdict, find_conflict, new_clue, validate
from hoptree.methods.steps.logic_tree import MAX_NODES
from hoptree.methods.steps.mentions import Ahead, Sources, Wanted
from hoptree.methods.treeqa.tree import Branch, Key, Rebuilt, branches_below, flatten, rebuild

Traversal = Literal["serial", "level", "speculative"]
Path = tuple[int, ...]  # the ids of the nodes above a node


@dataclass(frozen=True, slots=True)
class Attempt:
    """One validation: the query, the evidence found, and what it says."""

    query: str
    verdict: Verdict
    box: EvidenceBox

    def as_dict(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "verdict": self.verdict.label,
            "reason": self.verdict.reason,
            "passages": [passage.id for passage in self.box.passages],
            "facts": [fact.text for fact in self.box.facts],
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a node; it is `kept` if rebuilding gave nothing new."""

    attempts: tuple[Attempt, ...] = ()
    rebuilt: Rebuilt | None = None
    kept: bool = False

    @property
    def checked(self) -> bool:
        """Whether evidence supports the current hypothesis of the node."""
        return self.label == "supported" or (self.rebuilt is not None and self.rebuilt.supported)

    @property
    def verdict(self) -> Verdict:
        return self.attempts[-1].verdict if self.attempts else Verdict()

    @property
    def label(self) -> Label:
        return self.verdict.label

    @property
    def replaces_subtree(self) -> bool:
        """Whether the nodes below this one are replaced or dropped."""
        return self.rebuilt is not None or (self.label == "refuted" and not self.kept)

    @property
    def why(self) -> str:
        """Why the node has its answer."""
        if not self.attempts:
            return "not validated: too many validations"
        if self.label == "unknown":
            return f"nothing found says so, {len(self.attempts)} attempt{'s' if len(self.attempts) > 1 else ''}"
        return self.verdict.reason if self.label == "refuted" else ""


@dataclass(slots=True)
class ProcessNode:
    """ProcessNode (Algorithm 3), with VerifyAndCorrect (Algorithm 2) inside its loop.

    It stops early once the node is not wanted any more.
    """

    ctx: Context
    question: str
    sources: Sources
    max_attempts: int
    separate_reason: bool
    dual: bool
    accumulate: bool

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome:
        ctx, node, asked, hypothesis = self.ctx, branch.node, branch.node.question, branch.hypothesis
        query = f"{asked} {hypothesis}" if self.dual and hypothesis else asked
        box, with_reason = EvidenceBox(), not self.separate_reason
        attempts: tuple[Attempt, ...] = ()
        for number in range(1, allowed + 1):
            if not wanted():
                break
            retrieved = await self.sources.retrieve(query, node, wanted)
            box = retrieved.over(box) if self.accumulate else retrieved
            if not wanted():
                break
            verdict = await validate(ctx, asked, hypothesis, box, attempt=number, with_reason=with_reason, node=node)
            attempts += (Attempt(query, verdict, box),)
            if verdict.label == "refuted":
                return await self._correct(branch, attempts, may_rebuild=may_rebuild, wanted=wanted)
            if verdict.label == "supported" or number == allowed or not wanted():
                break
            query = await new_clue(ctx, asked, hypothesis, box, node=node)
            if not query:
                break
        return Outcome(attempts)

    async def _correct(
        self, branch: Branch, attempts: tuple[Attempt, ...], *, may_rebuild: bool, wanted: Wanted
    ) -> Outcome:
        """Algorithm 2 for a refuted node: find the conflict, and rebuild the sub-tree."""
        ctx, node, claim, last = self.ctx, branch.node, branch.claim, attempts[-1]
        if self.separate_reason and wanted():
            verdict = await find_conflict(ctx, claim.question, claim.hypothesis, last.verdict, last.box, node=node)
            attempts = (*attempts[:-1], replace(last, verdict=verdict))
        if not may_rebuild or not wanted():
            return Outcome(attempts)
        if isinstance(wanted, Ahead):
            wanted.refuted(attempts[-1].verdict)
        rebuilt = await rebuild(ctx, self.question, claim, attempts[-1].verdict, last.box, node=node)
        return Outcome(attempts, rebuilt, kept=rebuilt is None)


@decision("corrected")
class TreeCorrected(Decision):
    """How many nodes were rebuilt and validated; `nodes` are left in the tree."""

    value: int
    validations: int
    nodes: int


class Walk:
    """One walk through a tree, within the caps of the authors' runs."""

    max_fixes = 8
    max_validations = 40

    def __init__(self, ctx: Context, process: ProcessNode, tops: list[Branch], *, by_level: bool = False) -> None:
        self._ctx, self._process, self.tops, self._by_level = ctx, process, tops, by_level
        self.outcomes: dict[int, Outcome] = {}
        self.fixes = self.validations = 0
        self._nodes = len(flatten(tops))
        self._once = SingleFlight()
        self._settled: dict[Key, Outcome] = {}

    async def run(self) -> None:
        """Validate and correct all nodes, also new ones."""
        await self._traverse()
        self._ctx.emit(TreeCorrected(value=self.fixes, validations=self.validations, nodes=self._nodes))

    async def _traverse(self) -> None:
        level: list[tuple[Branch, Path]] = [(branch, (0,)) for branch in self.tops] if self._by_level else []
        if not self._by_level:
            await self._in_turn(self.tops, (0,))
        while level:
            outcomes = await together(self._reach(branch) for branch, _ in level)
            for (branch, path), outcome in zip(level, outcomes, strict=True):
                self._settle(branch, outcome, path)
            level = [(child, (*path, branch.node.id)) for branch, path in level for child in branch.children]

    async def _in_turn(self, branches: Iterable[Branch], path: Path) -> None:
        """Walk depth first, each node before those below it."""
        for branch in branches:
            self._settle(branch, await self._reach(branch), path)
            await self._in_turn(branch.children, (*path, branch.node.id))

    async def _reach(self, branch: Branch) -> Outcome:
        """Process a node that the walk has reached."""
        return await self._once(branch.key, lambda: self._process_node(branch, lambda: True))

    async def _process_node(self, branch: Branch, wanted: Wanted) -> Outcome:
        if not wanted():
            return Outcome()
        self._ctx.begin_node(branch.node, branch.node.question)
        allowed = min(self._process.max_attempts, self.max_validations - self.validations)
        return await self._process(branch, allowed, may_rebuild=self.fixes < self.max_fixes, wanted=wanted)

    def _settle(self, branch: Branch, outcome: Outcome, path: Path) -> None:
        """Put an outcome into the tree, within the caps."""
        before, size, key = branch.hypothesis, branch.claim.size, branch.key
        if key not in self._settled:  # it counts once
            allowed = self.max_validations - self.validations
            if len(outcome.attempts) > allowed:
                outcome = Outcome(outcome.attempts[:allowed])
            if self.fixes >= self.max_fixes:  # the serial walk would not have rebuilt it
                outcome = replace(outcome, rebuilt=None, kept=False)
            self.validations += len(outcome.attempts)
            self.fixes += outcome.rebuilt is not None
            self._settled[key] = outcome
        outcome = self.outcomes[branch.node.id] = self._settled[key]
        self._apply(branch, outcome)
        self._record(branch, outcome, path, before, size)

    def _apply(self, branch: Branch, outcome: Outcome) -> None:
        """Replace a refuted node and all below it by the rebuilt tree, if any."""
        if not outcome.replaces_subtree:
            return
        for gone in flatten(branch.children):
            self._nodes -= 1
            self.outcomes.pop(gone.node.id, None)
        branch.children = []
        dropped = 0
        if outcome.rebuilt:
            claim = outcome.rebuilt.claim
            branch.node = replace(branch.node, question=claim.question)
            branch.hypothesis = claim.hypothesis
            branch.children = branches_below(branch, claim.children, MAX_NODES - self._nodes)
            self._nodes += len(flatten(branch.children))
            dropped = claim.size - branch.claim.size
        issue = {"kind": "cap_nodes", "node": branch.node.id, "detail": f"{dropped} nodes beyond {MAX_NODES} dropped"}
        nodes = [below.as_plan_node() for below in flatten(branch.children)]
        self._ctx.emit(Planned(under=branch.node.id, rebuilt=True, nodes=nodes, issues=[issue] if dropped else []))

    def _record(self, branch: Branch, outcome: Outcome, path: Path, before: str, size: int) -> None:
        """Record the data of the paper's tables for a node."""
        cited, node, attempts = outcome.verdict.cited, branch.node, outcome.attempts
        stages: Counter[str] = Counter()
        for event in events_of(self._ctx.trace.events, node.id):
            if isinstance(event, ModelCalled):
                stages[event.step] += event.prompt_tokens + event.completion_tokens
        support = tuple(passage.id for passage in cited.passages)
        self._ctx.end_node(
            node,
            Answer(branch.hypothesis, source="external" if outcome.checked else "internal", support=support),
            resolved=node.question,
            path=[*path, node.id],
            depth=node.depth,
            level=node.depth - 1,
            verdict=outcome.label,
            why=outcome.why,
            hypothesis=branch.hypothesis,
            hypothesis_before=before,
            struck=[before] if before and outcome.rebuilt else [],
            attempts=[attempt.as_dict() for attempt in attempts],
            clues=[attempt.query for attempt in attempts[1:] if attempt.query != attempts[0].query],
            facts=[list(fact.triple) for fact in cited.facts],
            fabricated=list(cited.fabricated),
            rebuilt=outcome.rebuilt is not None,
            rebuild_issues=list(outcome.rebuilt.issues) if outcome.rebuilt else [],
            size_before=size,
            size_after=branch.claim.size,
            stages=dict(stages),
        )
