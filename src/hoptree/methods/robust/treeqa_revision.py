"""TreeQA beyond its paper (`robust=on`): the tree is revised by what was corrected in it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hoptree.core.values import Source
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.methods.steps.answer import synthesise
from hoptree.methods.steps.evidence_box import Cited
from hoptree.methods.steps.logic_tree import names_it, substituted
from hoptree.methods.treeqa.speculative import SpeculativeWalk
from hoptree.methods.treeqa.walk import (
    FOLLOWS,
    MOOT,
    Attempt,
    Branch,
    GoldenTree,
    NodeProcess,
    Outcome,
    Path,
    Traversal,
    Walk,
    flatten,
    strip_certainty,
)
from hoptree.text.comparison import agree


@decision("sibling_revised")
class SiblingRevised(Decision):
    """The id of a node that names the refuted answer of a sibling, and what it asks now."""

    value: int
    asked: str


@decision("sibling_left")
class SiblingLeft(Decision):
    """The id of a node that still names a refuted answer, with the right one and why it was left."""

    value: int
    asked: str
    names: str
    right: str
    why: str


@decision("aligned")
class NodeAligned(Decision):
    """An answer that follows from what was corrected below, and the one before."""

    value: str
    before: str


@dataclass(frozen=True, slots=True)
class RobustOutcome(Outcome):
    """What became of a node: `stated` is an answer without a refutation, which is `aligned` if it follows from below.

    It is read from evidence where there was no hypothesis. What hangs below an answered node is rebuilt where it names
    what was once guessed there.
    """

    stated: str = ""
    aligned: bool = False

    @property
    def source(self) -> Source:
        return "external" if self.checked else "synthesis" if self.aligned else "internal"

    @property
    def doubt(self) -> str:
        doubts = [attempt.verdict.doubt for attempt in self.attempts if attempt.verdict.doubt]
        return doubts[-1] if doubts else "nothing found says so"

    def why(self, before: str) -> str:
        if self.aligned:
            return f"it follows from what was corrected below{f'; the guess was: {before}' if before else ''}"
        return Outcome.why(self, before)

    def within(self, validations: int) -> Outcome:
        if len(self.attempts) <= validations:
            return self
        left = self.attempts[:validations]
        return RobustOutcome(left, stated=last_stated(left) if self.stated else "")


def last_stated(attempts: Sequence[Attempt]) -> str:
    """Return the answer of the last validation that gives one."""
    return next((attempt.verdict.stated for attempt in reversed(attempts) if attempt.verdict.stated), "")


class RobustWalk(Walk):
    """A walk whose tree can be changed afterwards; `struck` are the answers that a node had and that were wrong."""

    struck: dict[int, tuple[str, ...]]

    async def run(self) -> None:
        self.struck = {}
        await super().run()

    @property
    def spent(self) -> bool:
        """Whether nothing can be validated any more."""
        return self.validations >= self.max_validations

    async def again(self, branch: Branch, path: Path) -> None:
        """Validate a node that was changed from outside, and what comes to hang below it; what stays there stands."""
        self._settle(branch, await self._reach(branch), path)
        if self.outcomes[branch.node.id].replants:
            await self._in_turn(branch.children, (*path, branch.node.id))

    def restate(self, branch: Branch, path: Path, answer: str) -> None:
        """Give a node another answer, which follows from what was found below it."""
        before, branch.hypothesis = branch.hypothesis, answer
        outcome = self.outcomes[branch.node.id]
        outcome = RobustOutcome(outcome.attempts, outcome.rebuilt, outcome.stays, stated=answer, aligned=True)
        self.outcomes[branch.node.id] = outcome
        self._record(branch, outcome, path, before, branch.claim.size)

    def _apply(self, branch: Branch, outcome: Outcome) -> None:
        before, number = branch.hypothesis, branch.node.id
        stated = outcome.stated if isinstance(outcome, RobustOutcome) else ""
        if stated:
            branch.hypothesis = stated
        # Other nodes may still name what was thought to be the answer of this one.
        dropped = "" if agree(branch.dropped, stated) else branch.dropped
        if wrong := before if outcome.rebuilt and before else dropped:
            self.struck[number] = (*self.struck.get(number, ()), wrong)
        if outcome.replants:
            for gone in branch.below():
                self.struck.pop(gone.node.id, None)
        super()._apply(branch, outcome)


class _RobustSpeculativeWalk(RobustWalk, SpeculativeWalk):
    """The same, with an exploration ahead of it."""


def make_robust_walk(traversal: Traversal, ctx: Context, process: NodeProcess, tops: list[Branch]) -> RobustWalk:
    if traversal == "speculative":
        return _RobustSpeculativeWalk(ctx, process, tops)
    return RobustWalk(ctx, process, tops, by_level=traversal == "level")


class RobustTree(GoldenTree):
    """The golden tree, where `moot` nodes rest on what is wrong; passages are left out without `texts`.

    What evidence says is what code finds there, so that a correction is but the model's word.
    """

    correction_by = "the model says"

    def __init__(
        self, ctx: Context, outcomes: Mapping[int, Outcome], *, moot: Collection[int], texts: bool = True
    ) -> None:
        super().__init__(ctx, outcomes)
        self._moot, self._texts = moot, texts

    def cited(self, branch: Branch, outcome: Outcome) -> Cited:
        cited = Cited() if branch.node.id in self._moot else super().cited(branch, outcome)
        return cited if self._texts else replace(cited, passages=())

    def certainty(self, branch: Branch, outcome: Outcome) -> str:
        if branch.node.id in self._moot:
            return MOOT
        if isinstance(outcome, RobustOutcome) and outcome.aligned:
            return FOLLOWS
        return super().certainty(branch, outcome)


_Target = tuple[int, str, int, str]
"""A node, its wrong answer, and the number and question of one that may rest on it."""


async def revise_siblings(ctx: Context, walk: RobustWalk, question: str) -> None:
    """Ask anew what names the refuted answer of a sibling, with the right one in its place; below its siblings too.

    What the main question names itself, a sibling may name for that reason. Each change may change the tree, so that it
    is looked at from its top again; what was looked at once for the same reason is left as it is.
    """
    seen: set[_Target] = set()
    while True:
        cases = (case for case in _cases(walk, question) if walk.outcomes[case.corrected.node.id].checked)
        case = next((case for case in cases if not seen.issuperset(case.targets)), None)
        if case is None:
            return
        seen.update(case.targets)
        changes = _rewrite(ctx, case)
        seen.update(case.targets)  # with the questions that they have now
        for change in changes:
            branch = change.branch
            if not any(one is branch for one in (case.sibling, *case.sibling.below())):
                continue  # what hung above it was rebuilt
            if walk.spent:
                change.undo()
                _record_left(ctx, case, branch, "no validations left")
                continue
            ctx.emit(SiblingRevised(value=branch.node.id, asked=branch.node.question), node=case.corrected.node)
            await walk.again(branch, change.path)


def moot_nodes(walk: RobustWalk, question: str) -> frozenset[int]:
    """Return the nodes that name what a sibling, or the node above, was wrongly thought to be, and those below them.

    What evidence says of them it says of the wrong thing, however true that is.
    """
    moot = [branch for case in _cases(walk, question) for branch, _ in case.named]
    for above in flatten(walk.tops):
        if above.dropped and not agree(above.dropped, above.hypothesis) and not names_it(question, above.dropped):
            moot += [one for one in above.below() if names_it(one.node.question, above.dropped, above.hypothesis)]
    return frozenset(branch.node.id for branch in flatten(moot))


async def align_ancestors(ctx: Context, walk: RobustWalk, question: str) -> None:
    """Bring nodes in line with what was corrected below them, the deepest first.

    Evidence of their own counts more: only those that none supports or refutes are asked again.
    """
    await _align(ctx, walk, walk.tops, (0,), moot_nodes(walk, question))


async def _align(ctx: Context, walk: RobustWalk, branches: Sequence[Branch], path: Path, moot: Collection[int]) -> bool:
    """Return whether anything in these branches was corrected, and evidence says what is right."""
    touched = False
    for branch in branches:
        number = branch.node.id
        below = await _align(ctx, walk, branch.children, (*path, number), moot)
        if below and walk.outcomes[number].label == "unknown":
            lines = list(RobustTree(ctx, walk.outcomes, moot=moot).lines(branch.children))
            answer = strip_certainty(
                await synthesise(ctx, branch.node.question, lines, prompt="final", step="align", node=branch.node)
            )
            if answer.known and not agree(answer.text, branch.hypothesis):
                ctx.emit(NodeAligned(value=answer.text, before=branch.hypothesis), node=branch.node)
                walk.restate(branch, path, answer.text)
        touched = touched or below or (number in walk.struck and walk.outcomes[number].checked)
    return touched


@dataclass(frozen=True, slots=True)
class _Case:
    """A node that was corrected, the wrong answer that it had, and a sibling that may rest on it."""

    corrected: Branch
    wrong: str
    sibling: Branch
    path: Path

    @property
    def named(self) -> list[tuple[Branch, Path]]:
        """The sibling and what is below it, as far as they name what is wrong, each with the path to it."""
        right = self.corrected.hypothesis
        below = _with_paths(self.sibling, self.path)
        return [(branch, path) for branch, path in below if names_it(branch.node.question, self.wrong, right)]

    @property
    def targets(self) -> set[_Target]:
        nodes = (branch.node for branch, _ in _with_paths(self.sibling, self.path))
        return {(self.corrected.node.id, self.wrong, node.id, node.question) for node in nodes}


@dataclass(frozen=True, slots=True)
class _Change:
    """A branch that was rewritten, and what it was before."""

    branch: Branch
    path: Path
    question: str
    hypothesis: str
    dropped: str

    def undo(self) -> None:
        self.branch.node = replace(self.branch.node, question=self.question)
        self.branch.hypothesis, self.branch.dropped = self.hypothesis, self.dropped


def _cases(walk: RobustWalk, question: str) -> Iterator[_Case]:
    """Yield siblings of which one may rest on what was wrong with another, those above before those below."""
    for siblings, path in _sibling_groups(walk.tops, (0,)):
        for corrected in siblings:
            for wrong in walk.struck.get(corrected.node.id, ()):
                if agree(wrong, corrected.hypothesis) or names_it(question, wrong):
                    continue
                cases = (_Case(corrected, wrong, other, path) for other in siblings if other is not corrected)
                yield from (case for case in cases if case.named)


def _sibling_groups(branches: Sequence[Branch], path: Path) -> Iterator[tuple[Sequence[Branch], Path]]:
    yield branches, path
    for branch in branches:
        yield from _sibling_groups(branch.children, (*path, branch.node.id))


def _with_paths(branch: Branch, path: Path) -> Iterator[tuple[Branch, Path]]:
    yield branch, path
    for child in branch.children:
        yield from _with_paths(child, (*path, branch.node.id))


def _rewrite(ctx: Context, case: _Case) -> list[_Change]:
    """Put what is right into what names what is wrong, wherever code can tell how."""
    changes = []
    for branch, path in case.named:
        question = substituted(branch.node.question, case.wrong, case.corrected.hypothesis)
        if question is None or question == branch.node.question:
            _record_left(ctx, case, branch, "cannot be rewritten")
            continue
        changes.append(_Change(branch, path, branch.node.question, branch.hypothesis, branch.dropped))
        branch.node = replace(branch.node, question=question)
        # The old hypothesis answers another question.
        branch.hypothesis, branch.dropped = "", branch.hypothesis or branch.dropped
    return changes


def _record_left(ctx: Context, case: _Case, branch: Branch, why: str) -> None:
    asked, right = branch.node.question, case.corrected.hypothesis
    left = SiblingLeft(value=branch.node.id, asked=asked, names=case.wrong, right=right, why=why)
    ctx.emit(left, node=case.corrected.node)
