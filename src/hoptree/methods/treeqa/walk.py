"""TreeQA's tree while it is validated: its nodes, what becomes of each, the walk through them, and the golden tree."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol

from hoptree.core.singleflight import SingleFlight
from hoptree.core.values import Answer, Source
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned
from hoptree.engine.schedule import together
from hoptree.engine.trace import ModelCalled, events_of
from hoptree.methods.steps.evidence_box import Cited, EvidenceBox
from hoptree.methods.steps.logic_tree import MAX_NODES, Claim
from hoptree.methods.steps.verify import Label, Verdict, agree
from hoptree.methods.treeqa.hypotheses import Rebuilt
from hoptree.text.parse import looks_unanswered
from hoptree.text.question_tree import Node

Traversal = Literal["serial", "level", "speculative"]
Wanted = Callable[[], bool]
"""Whether work that was begun is still of use."""
Path = tuple[int, ...]
"""The ids of the nodes above a node."""
CHILD_IDS = 100
"""Ids that a rebuilt node has for what hangs below it: more than there are nodes."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """A `Wanted` of work that is done before it is known to be needed: to be there early, it may cost a call more.

    `refuted` is to be called with a verdict that refutes, before the node is rebuilt.
    """

    wanted: Wanted
    refuted: Callable[[Verdict], None]

    def __call__(self) -> bool:
        return self.wanted()


@dataclass(slots=True)
class Branch:
    """A node of the tree with its hypothesis as it is now, and what hangs below it; `dropped` as in a `Claim`."""

    node: Node
    hypothesis: str
    children: list[Branch] = field(default_factory=list)
    dropped: str = ""

    @property
    def claim(self) -> Claim:
        return Claim(self.node.question, self.hypothesis, tuple(child.claim for child in self.children), self.dropped)

    def below(self) -> list[Branch]:
        return [branch for child in self.children for branch in (child, *child.below())]

    def as_plan_node(self) -> dict[str, Any]:
        node = self.node
        planned = {"id": node.id, "question": node.question, "parent": node.parent, "refs": []}
        return {**planned, "hypothesis": self.hypothesis}


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
    """What became of a node: its validations, and the tree that takes its place, if it was refuted.

    `stays` is set where rebuilding gave nothing but the refuted hypothesis: node and children stay as they are. Beyond
    the paper, `stated` is an answer without a refutation: read from evidence where there was no hypothesis, or made to
    agree with what was corrected below, which is then `aligned`; and what hangs below an answered node is rebuilt where
    it names what was once guessed there.
    """

    attempts: tuple[Attempt, ...] = ()
    rebuilt: Rebuilt | None = None
    stated: str = ""
    aligned: bool = False
    stays: bool = False

    @property
    def checked(self) -> bool:
        """Whether evidence says what the node says now."""
        return self.label == "supported" or (self.rebuilt is not None and self.rebuilt.borne_out)

    @property
    def verdict(self) -> Verdict:
        return self.attempts[-1].verdict if self.attempts else Verdict()

    @property
    def label(self) -> Label:
        return self.verdict.label

    @property
    def replants(self) -> bool:
        """Whether what hung below the node does not stay there."""
        return self.rebuilt is not None or (self.label == "refuted" and not self.stays)

    @property
    def source(self) -> Source:
        return "external" if self.checked else "synthesis" if self.aligned else "internal"

    @property
    def clues(self) -> list[str]:
        """The queries that differ from the first one."""
        return [attempt.query for attempt in self.attempts[1:] if attempt.query != self.attempts[0].query]

    def why(self, before: str) -> str:
        if self.aligned:
            return f"it follows from what was corrected below{f'; the guess was: {before}' if before else ''}"
        if not self.attempts:
            return "not validated: too many validations"
        if self.label == "unknown":
            doubts = [attempt.verdict.doubt for attempt in self.attempts if attempt.verdict.doubt]
            tries = f"{len(self.attempts)} attempt{'s' if len(self.attempts) > 1 else ''}"
            return f"{doubts[-1] if doubts else 'nothing found says so'}, {tries}"
        return self.verdict.reason if self.label == "refuted" else ""

    def within(self, validations: int) -> Outcome:
        """Return the outcome as if only so many validations had been allowed."""
        if len(self.attempts) <= validations:
            return self
        left = self.attempts[:validations]
        return Outcome(left, stated=last_stated(left) if self.stated else "")


def last_stated(attempts: Sequence[Attempt]) -> str:
    """Return the answer of the last validation that gives one."""
    return next((attempt.verdict.stated for attempt in reversed(attempts) if attempt.verdict.stated), "")


class NodeProcess(Protocol):
    """ProcessNode: validate one node at most `allowed` times, and correct it where it is refuted."""

    max_attempts: int

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome: ...


@dataclass(frozen=True, slots=True)
class Processed:
    """What became of a node, and what would hang below it then."""

    outcome: Outcome
    below: tuple[Branch, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCorrected(Decision):
    """How many nodes were rebuilt and how often nodes were validated; `nodes` are left in the tree."""

    kind: ClassVar[str] = "corrected"
    value: int
    validations: int
    nodes: int


Key = tuple[int, Claim]
"""What the outcome of a node depends on: a cap may have left less below it than it began with."""


class Walk:
    """One walk through one tree, node after node or level by level, within the caps of the authors' runs.

    `outcomes` are by the id of a node; `struck` are the answers that a node had and that turned out wrong.
    """

    max_fixes = 8
    max_validations = 40

    def __init__(self, ctx: Context, process: NodeProcess, tops: list[Branch], *, by_level: bool = False) -> None:
        self._ctx, self._process, self.tops, self._by_level = ctx, process, tops, by_level
        self.outcomes: dict[int, Outcome] = {}
        self.struck: dict[int, tuple[str, ...]] = {}
        self.fixes = self.validations = 0
        self._nodes = len(flatten(tops))
        self._once = SingleFlight()
        self._settled: dict[Key, Outcome] = {}

    @property
    def spent(self) -> bool:
        """Whether nothing can be validated any more."""
        return self.validations >= self.max_validations

    async def run(self) -> None:
        """Validate and correct all nodes, those that come into the tree on the way included."""
        await self._traverse()
        self._ctx.emit(TreeCorrected(value=self.fixes, validations=self.validations, nodes=self._nodes))

    async def _traverse(self) -> None:
        if not self._by_level:
            await self._in_turn(self.tops, (0,))
        level: list[tuple[Branch, Path]] = [(branch, (0,)) for branch in self.tops] if self._by_level else []
        while level:
            processed = await together(self._process_once(branch) for branch, _ in level)
            for (branch, path), result in zip(level, processed, strict=True):
                self._settle(branch, result, path)
            level = [(child, (*path, branch.node.id)) for branch, path in level for child in branch.children]

    async def again(self, branch: Branch, path: Path) -> None:
        """Validate a node that was changed from outside, and what comes to hang below it; what stays there stands."""
        self._settle(branch, await self._reach(branch), path)
        if self.outcomes[branch.node.id].replants:
            await self._in_turn(branch.children, (*path, branch.node.id))

    def restate(self, branch: Branch, path: Path, answer: str) -> None:
        """Give a node another answer, which follows from what was found below it."""
        before, branch.hypothesis = branch.hypothesis, answer
        outcome = replace(self.outcomes[branch.node.id], stated=answer, aligned=True)
        self.outcomes[branch.node.id] = outcome
        self._record(branch, outcome, path, before, branch.claim.size)

    async def _in_turn(self, branches: Iterable[Branch], path: Path) -> None:
        """Depth first, a node before those below it."""
        for branch in branches:
            self._settle(branch, await self._reach(branch), path)
            await self._in_turn(branch.children, (*path, branch.node.id))

    async def _reach(self, branch: Branch) -> Processed:
        """Process a node that the walk has come to."""
        return await self._process_once(branch)

    async def _process_once(self, branch: Branch) -> Processed:
        return await self._once(key_of(branch), lambda: self._processed(branch, lambda: True))

    async def _processed(self, branch: Branch, wanted: Wanted) -> Processed:
        if not wanted():
            return Processed(Outcome())
        node = branch.node
        self._ctx.begin_node(node, node.question)
        allowed = min(self._process.max_attempts, self.max_validations - self.validations)
        outcome = await self._process(branch, allowed, may_rebuild=self.fixes < self.max_fixes, wanted=wanted)
        new = outcome.rebuilt.claim.children if outcome.rebuilt else ()
        return Processed(outcome, tuple(hang(new, node, first=CHILD_IDS * node.id + 1)))

    def _settle(self, branch: Branch, processed: Processed, path: Path) -> None:
        """Put an outcome into the tree, within the caps."""
        before, size, number = branch.hypothesis, branch.claim.size, branch.node.id
        outcome = self._within_caps(key_of(branch), processed.outcome)
        if outcome.stated:
            branch.hypothesis = outcome.stated
        # Other nodes may still name what was thought to be the answer of this one.
        dropped = "" if agree(branch.dropped, outcome.stated) else branch.dropped
        if wrong := before if outcome.rebuilt and before else dropped:
            self.struck[number] = (*self.struck.get(number, ()), wrong)
        if outcome.replants:  # what was below rests on what is wrong
            self._replant(branch, outcome.rebuilt.claim if outcome.rebuilt else None, processed.below)
        self.outcomes[number] = outcome
        self._record(branch, outcome, path, before, size)

    def _within_caps(self, key: Key, outcome: Outcome) -> Outcome:
        """Return what the caps leave of an outcome, and count it once."""
        if key not in self._settled:
            outcome = outcome.within(self.max_validations - self.validations)
            if self.fixes >= self.max_fixes:  # then nothing would have been asked for
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
            branch.children = first_branches(below, MAX_NODES - self._nodes)
            self._nodes += len(branch.below())
            dropped = claim.size - branch.claim.size
        issue = {"kind": "cap_nodes", "node": branch.node.id, "detail": f"{dropped} nodes beyond {MAX_NODES} dropped"}
        nodes = [one.as_plan_node() for one in branch.below()]
        self._ctx.emit(Planned(under=branch.node.id, rebuilt=True, nodes=nodes, issues=[issue] if dropped else []))

    def _record(self, branch: Branch, outcome: Outcome, path: Path, before: str, size: int) -> None:
        """Record what the paper's tables are made from, for one node."""
        cited, node = outcome.verdict.cited, branch.node
        support = tuple(passage.id for passage in cited.passages)
        stages: Counter[str] = Counter()
        for event in events_of(self._ctx.trace.events, node.id):
            if isinstance(event, ModelCalled):
                stages[event.step] += event.prompt_tokens + event.completion_tokens
        self._ctx.end_node(
            node,
            Answer(branch.hypothesis, source=outcome.source, support=support),
            resolved=node.question,
            path=[*path, node.id],
            depth=node.depth,
            level=node.depth - 1,
            verdict=outcome.label,
            why=outcome.why(before),
            hypothesis=branch.hypothesis,
            hypothesis_before=before,
            struck=[before] if before and outcome.rebuilt else [],
            attempts=[attempt.as_dict() for attempt in outcome.attempts],
            clues=outcome.clues,
            facts=[list(fact.triple) for fact in cited.facts],
            fabricated=list(cited.fabricated),
            rebuilt=outcome.rebuilt is not None,
            rebuild_issues=list(outcome.rebuilt.issues) if outcome.rebuilt else [],
            size_before=size,
            size_after=branch.claim.size,
            stages=dict(stages),
        )


def key_of(branch: Branch) -> Key:
    return branch.node.id, branch.claim


def hang(claims: Iterable[Claim], parent: Node, *, first: int) -> list[Branch]:
    """Turn claims into branches under a node, numbered from `first` on, each before those below it."""
    branches = []
    for claim in claims:
        branch = Branch(Node(first, claim.question, parent.id, parent.depth + 1), claim.hypothesis, [], claim.dropped)
        branch.children = hang(claim.children, branch.node, first=first + 1)
        branches.append(branch)
        first += claim.size
    return branches


def flatten(branches: Iterable[Branch]) -> list[Branch]:
    """Return all branches, each before those below it."""
    return [one for branch in branches for one in (branch, *branch.below())]


def first_branches(branches: Iterable[Branch], most: int) -> list[Branch]:
    """Return the first `most` branches, each before those below it."""
    kept: list[Branch] = []
    for branch in branches:
        if most < 1:
            break
        kept.append(replace(branch, children=first_branches(branch.children, most - 1)))
        most -= 1 + len(kept[-1].below())
    return kept


MODEL_SAYS = "the model says"
"""Beyond the paper, what evidence says is what code finds there."""
_SUPPORTED, _CORRECTED, _REFUTED = "supported by evidence", "corrected by evidence", "refuted by evidence"
_UNVERIFIED = "not verified"
_FOLLOWS = "as it follows from what was corrected below"
_MOOT = "it is asked about what turned out wrong"
_MARKS = "|".join((_SUPPORTED, _CORRECTED, _REFUTED, _UNVERIFIED, _FOLLOWS, _MOOT))
_MARK = re.compile(rf"\s*[(\[](?:{_MARKS})(?:[:;].*)?[)\]]?\W*\Z", re.IGNORECASE)
"""How sure an answer is, as it stands behind it in the golden tree."""


def render_tree(
    ctx: Context,
    branches: Sequence[Branch],
    outcomes: Mapping[int, Outcome],
    *,
    texts: bool = True,
    says: str = "evidence says",
    moot: Collection[int] = (),
    indent: str = "",
) -> Iterator[str]:
    """Render the golden tree: what was asked, the answer, how sure that is, and what it rests on.

    Without `texts`, passages are left out; the facts stay. `says` introduces a correction that was not borne out.
    Nothing cited is shown for a node whose new hypothesis it does not bear out, nor for `moot` nodes, which rest on
    what is wrong.
    """
    for branch in branches:
        number = branch.node.id
        outcome, is_moot = outcomes[number], number in moot
        unsaid = outcome.rebuilt is not None and not outcome.rebuilt.borne_out
        cited = Cited() if is_moot or unsaid else outcome.verdict.cited
        certainty = _MOOT if is_moot else _certainty(outcome, branch.hypothesis, says)
        yield f"{indent}- {branch.node.question}"
        yield f"{indent}  Answer: {branch.hypothesis or 'unknown'} ({certainty})"
        box = EvidenceBox(cited.passages if texts else (), cited.facts)
        for present, shown in zip((box.passages, box.facts), box.shown(ctx), strict=True):
            yield from (f"{indent}  {line}" for line in shown.splitlines() if present)
        yield from render_tree(ctx, branch.children, outcomes, texts=texts, says=says, moot=moot, indent=indent + "  ")


def strip_certainty(answer: Answer) -> Answer:
    """Remove the golden tree's words about certainty from an answer: small models copy them."""
    text = _MARK.sub("", answer.text)
    if text == answer.text:
        return answer
    raw = "\n".join(_MARK.sub("", line) for line in answer.raw.splitlines()) or text
    return replace(answer, text=text, status="unknown" if looks_unanswered(raw) else "answered")


def _certainty(outcome: Outcome, answer: str, says: str) -> str:
    said = outcome.verdict.correction or outcome.verdict.reason
    if outcome.rebuilt and outcome.label == "refuted":
        if outcome.rebuilt.borne_out:
            return _CORRECTED
        return f"{_UNVERIFIED}; {says}: {said}" if said and not agree(said, answer) else _UNVERIFIED
    if outcome.stays:
        return f"{_UNVERIFIED}: it was called wrong, and nothing else was given"
    if outcome.label == "refuted":
        return f"{_REFUTED}: {outcome.verdict.reason}".removesuffix(": ")
    if outcome.aligned:
        return _FOLLOWS
    return _SUPPORTED if outcome.label == "supported" else _UNVERIFIED
