"""TreeQA's tree: build it with hypotheses, walk it, and rebuild what is refuted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned, PlanRepaired, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import SingleFlight, plan_row, together
from hoptree.engine.trace import ModelCalled, events_of
from hoptree.methods.steps import logic_tree
from hoptree.methods.steps.answer import direct_answer, note_reply
from hoptree.methods.steps.decompose import ask_twice
from hoptree.methods.steps.evidence_box import EvidenceBox, Label, Verdict
from hoptree.methods.steps.logic_tree import MAX_DEPTH, MAX_NODES, Claim, LogicTree, first_claims
from hoptree.methods.steps.mentions import Wanted
from hoptree.text.comparison import agree, same
from hoptree.text.grounding import parts_of
from hoptree.text.loose_json import read_json
from hoptree.text.parse import question_key, read_questions, says_unknown
from hoptree.text.question_tree import Issue, Node

_BUILD_TOKENS, _EXPAND_TOKENS, _REBUILD_TOKENS = 2048, 384, 1024
_EXTRA_LEVELS = 1  # levels that a rebuilt tree may have more than the one it replaces


async def build_tree(ctx: Context, question: str, *, recursive: bool) -> LogicTree:
    """BuildLogicTree: ask for a tree with hypotheses and a draft (Algorithm 1).

    Without a readable tree, the question itself is its only node.
    """
    if recursive:
        tree = await _build_recursively(ctx, question)
    else:
        prompt = prompt_for(ctx.method, "build").fill(question=question)
        *_, tree = await ask_twice(ctx, "build", prompt, lambda value: _read(value, question), tokens=_BUILD_TOKENS)
    if not tree.children:
        ctx.warn("build_failed", "The model's tree could not be read; the question was validated as one piece.")
        issue = Issue("build_failed", 0, "no tree in the reply; the question is its own node")
        tree = replace(tree, children=(Claim(question, tree.draft),), issues=(*tree.issues, issue))
    missing = [claim.question for top in tree.children for claim in top.all() if not claim.hypothesis]
    if missing:
        asked = list(dict.fromkeys(missing))
        answers = await together(direct_answer(ctx, question) for question in asked)
        known = {question: answer.text for question, answer in zip(asked, answers, strict=True) if answer.known}
        issue = Issue("hypothesis_empty", 0, f"{len(missing)} hypotheses were asked for one by one")
        tree = replace(tree, children=_complete(tree.children, known), issues=(*tree.issues, issue))
    if not tree.draft and tree.children[0].question == question:
        tree = replace(tree, draft=tree.children[0].hypothesis)
    return tree


def _complete(claims: tuple[Claim, ...], known: Mapping[str, str]) -> tuple[Claim, ...]:
    """Fill in missing hypotheses by their questions."""
    return tuple(
        Claim(claim.question, claim.hypothesis or known.get(claim.question, ""), _complete(claim.children, known))
        for claim in claims
    )


def _read(value: object, question: str) -> tuple[LogicTree, str]:
    tree = logic_tree.read_tree(value, question)
    return tree, "" if tree.children else "it holds no sub-question"


async def _build_recursively(ctx: Context, question: str) -> LogicTree:
    """Expand node by node, a level at once, until nothing is left (Algorithm 1)."""
    root, count = Branch(Node(0, question, depth=0), ""), 0
    issues: list[Issue] = []
    level: list[tuple[Branch, frozenset[str]]] = [(root, frozenset())]  # each with the questions above it
    while level:
        replies = await together(_expand(ctx, branch.node.question) for branch, _ in level)
        below: list[tuple[Branch, frozenset[str]]] = []
        for (branch, before), (hypothesis, questions) in zip(level, replies, strict=True):
            branch.hypothesis, depth = hypothesis, branch.node.depth
            above = before | {question_key(branch.node.question)}
            new = [asked for asked in questions if question_key(asked) not in above] if depth < MAX_DEPTH else []
            if len(new) > MAX_NODES - count:
                issues.append(Issue("cap_nodes", 0, f"{len(new) - MAX_NODES + count} nodes beyond {MAX_NODES} dropped"))
            branch.children = [Branch(Node(0, asked, depth=depth + 1), "") for asked in new[: MAX_NODES - count]]
            count += len(branch.children)
            below += [(child, above) for child in branch.children]
        level = below
    return LogicTree(root.claim.children, root.hypothesis, tuple(issues))


async def _expand(ctx: Context, question: str) -> tuple[str, Sequence[str]]:
    """Ask for the hypothesis of a question and the sub-questions below it."""
    prompt = prompt_for(ctx.method, "expand").fill(question=question)
    reading = read_json((await ctx.generate("expand", prompt, role="decompose", max_tokens=_EXPAND_TOKENS)).text)
    note_reply(ctx, "expand", reading.error, reading.repairs)
    value = reading.value
    if not isinstance(value, Mapping):
        return "", ()
    hypotheses = (logic_tree.answer_of(item, question) for name, item in value.items() if "hypo" in name.casefold())
    listed: object = next((item for name, item in value.items() if "sub" in name.casefold() or name == "children"), [])
    text_of = logic_tree.text_of
    texts = [text_of(item) for item in listed] if isinstance(listed, list) else read_questions(text_of(listed))
    return next(filter(None, hypotheses), ""), list(dict.fromkeys(filter(None, texts)))


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The claim that replaces a refuted one, issues, and whether evidence supports it."""

    claim: Claim
    issues: tuple[str, ...] = ()
    supported: bool = True


async def rebuild(
    ctx: Context, question: str, refuted: Claim, verdict: Verdict, box: EvidenceBox, *, node: Node
) -> Rebuilt | None:
    """RebuildSubtree: ask for the sub-tree anew, or take the correction."""
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "rebuild").fill(
        whole=question,
        subtree=refuted.as_json(),
        reason=verdict.reason or "The evidence contradicts the hypothesis.",
        correction=verdict.correction or "(see the reason)",
        texts=texts,
        facts=facts,
    )
    levels = min(refuted.levels + _EXTRA_LEVELS, MAX_DEPTH - node.depth + 1)

    def read(value: object) -> tuple[tuple[Claim | None, list[str]], str]:
        claim, issues = logic_tree.read_subtree(value, refuted, levels=levels)
        return (claim, [issue.kind for issue in issues]), "" if claim else "a node needs both of its texts"

    *_, (claim, kinds) = await ask_twice(ctx, "rebuild", prompt, read, tokens=_REBUILD_TOKENS, node=node)
    correction = verdict.correction or ("" if _tells_nothing(verdict.reason, refuted) else verdict.reason)
    if same(correction, refuted.hypothesis):
        correction = ""
    supported = True
    if claim is None:
        kinds.append("rebuild_unreadable")
        claim = Claim(refuted.question, correction)
    elif question_key(claim.hypothesis) == question_key(refuted.hypothesis):
        kinds.append("rebuild_noop")
        claim = replace(claim, hypothesis=correction, children=())
    else:
        supported = _is_supported(claim, refuted, verdict, box)
        kinds += [] if supported else ["rebuild_unsaid"]
    for kind in kinds:
        ctx.emit(PlanRepaired(kind=kind, node=node.id, detail=f"in the tree rebuilt for: {refuted.question}"))
    return Rebuilt(claim, tuple(kinds), supported) if claim.hypothesis else None


def _is_supported(claim: Claim, refuted: Claim, verdict: Verdict, box: EvidenceBox) -> bool:
    """Return whether the evidence or the verdict states the new hypothesis."""
    if verdict.correction and _says(claim.hypothesis, verdict.correction):
        return True
    if verdict.correction and question_key(claim.question) == question_key(refuted.question):
        return False
    in_reason = not verdict.correction and _says(claim.hypothesis, verdict.reason)
    return in_reason or bool(box.supporting(claim.hypothesis, claim.question))


def _tells_nothing(reason: str, refuted: Claim) -> bool:
    """Return whether a reason only says that nothing is known."""
    known = f" {question_key(f'{refuted.question} {refuted.hypothesis}')} "
    named = map(question_key, parts_of(reason.partition(" ")[2]))
    return says_unknown(reason) and all(f" {name} " in known for name in named)


def _says(hypothesis: str, correction: str) -> bool:
    """Return whether all names and dates of a hypothesis are in a correction."""
    parts = parts_of(hypothesis)
    return agree(hypothesis, correction) or (
        bool(parts) and all(any(agree(part, other) for other in parts_of(correction)) for part in parts)
    )


Traversal = Literal["serial", "level", "speculative"]
Path = tuple[int, ...]  # the ids of the nodes above a node
Key = tuple[int, Claim]  # the outcome of a node also depends on the claims below it, which a cap may cut
_CHILD_IDS = 100  # ids reserved below a rebuilt node: more than there are nodes


@dataclass(slots=True)
class Branch:
    """A node with its current hypothesis and the branches below it."""

    node: Node
    hypothesis: str
    children: list[Branch] = field(default_factory=list)

    @property
    def claim(self) -> Claim:
        return Claim(self.node.question, self.hypothesis, tuple(child.claim for child in self.children))

    @property
    def key(self) -> Key:
        return self.node.id, self.claim

    def below(self) -> list[Branch]:
        return flatten(self.children)

    def as_plan_node(self) -> dict[str, Any]:
        return {**plan_row(self.node), "hypothesis": self.hypothesis}


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
    """The outcome of a node; it `stays` if rebuilding gave nothing new."""

    attempts: tuple[Attempt, ...] = ()
    rebuilt: Rebuilt | None = None
    stays: bool = False

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
    def replants(self) -> bool:
        """Whether the nodes below this one are replaced or dropped."""
        return self.rebuilt is not None or (self.label == "refuted" and not self.stays)

    @property
    def why(self) -> str:
        """Why the node has its answer."""
        if not self.attempts:
            return "not validated: too many validations"
        if self.label == "unknown":
            return f"nothing found says so, {len(self.attempts)} attempt{'s' if len(self.attempts) > 1 else ''}"
        return self.verdict.reason if self.label == "refuted" else ""


class NodeProcess(Protocol):
    """ProcessNode: validate a node at most `allowed` times, and correct it."""

    max_attempts: int

    async def __call__(self, branch: Branch, allowed: int, *, may_rebuild: bool, wanted: Wanted) -> Outcome: ...


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

    def __init__(self, ctx: Context, process: NodeProcess, tops: list[Branch], *, by_level: bool = False) -> None:
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
                outcome = replace(outcome, rebuilt=None, stays=False)
            self.validations += len(outcome.attempts)
            self.fixes += outcome.rebuilt is not None
            self._settled[key] = outcome
        outcome = self.outcomes[branch.node.id] = self._settled[key]
        self._apply(branch, outcome)
        self._record(branch, outcome, path, before, size)

    def _apply(self, branch: Branch, outcome: Outcome) -> None:
        """Replace a refuted node and all below it by the rebuilt tree, if any."""
        if not outcome.replants:
            return
        for gone in branch.below():
            self._nodes -= 1
            self.outcomes.pop(gone.node.id, None)
        branch.children = []
        dropped = 0
        if outcome.rebuilt:
            claim = outcome.rebuilt.claim
            branch.node = replace(branch.node, question=claim.question)
            branch.hypothesis = claim.hypothesis
            branch.children = hang_below(branch, claim.children, MAX_NODES - self._nodes)
            self._nodes += len(branch.below())
            dropped = claim.size - branch.claim.size
        issue = {"kind": "cap_nodes", "node": branch.node.id, "detail": f"{dropped} nodes beyond {MAX_NODES} dropped"}
        nodes = [below.as_plan_node() for below in branch.below()]
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


def hang(claims: Iterable[Claim], parent: Node, *, first: int) -> list[Branch]:
    """Turn claims into branches under a node, numbered in pre-order."""
    branches = []
    for claim in claims:
        branch = Branch(Node(first, claim.question, parent.id, parent.depth + 1), claim.hypothesis)
        branch.children = hang(claim.children, branch.node, first=first + 1)
        branches.append(branch)
        first += claim.size
    return branches


def hang_below(branch: Branch, claims: tuple[Claim, ...], room: int) -> list[Branch]:
    """Turn the first claims into branches below a rebuilt node."""
    return hang(first_claims(claims, room), branch.node, first=_CHILD_IDS * branch.node.id + 1)


def flatten(branches: Iterable[Branch]) -> list[Branch]:
    """Return all branches, each before those below it."""
    return [below for branch in branches for below in (branch, *flatten(branch.children))]
