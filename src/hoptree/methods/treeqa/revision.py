"""What TreeQA mends once its tree is walked, beyond its paper (`robust`): siblings and ancestors of what was corrected.

Children of one node should not rest on each other, and a node sums up what is below it; models keep to neither.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from hoptree.methods.treeqa.nodes import Branch
from hoptree.methods.treeqa.told import MODEL_SAYS, told, unmarked
from hoptree.methods.treeqa.walk import Walk
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import synthesise
from hoptree.steps.hypotheses.agreement import agree
from hoptree.steps.hypotheses.substitution import names_it, substituted

__all__ = ["align_ancestors", "resting", "revise_siblings"]

Path = tuple[int, ...]
_Looked = tuple[int, str, int, str]
"""A node, its wrong answer, and the number and question of one that may rest on it."""


async def revise_siblings(ctx: Context, walk: Walk, whole: str) -> None:
    """Ask anew what names the refuted answer of a sibling, with the right one in its place; below its siblings too.

    What the main question names itself, a sibling may name for that reason. Each change may change the tree, so that it
    is looked at from its top again; what was looked at once for the same reason is left as it is.
    """
    seen: set[_Looked] = set()
    while case := next((one for one in _known(walk, whole) if not seen.issuperset(one.targets)), None):
        seen.update(case.targets)
        changed = _rewritten(ctx, case)
        seen.update(case.targets)  # with the questions that they have now
        for change in changed:
            if not any(one is change.branch for one in (case.other, *case.other.below())):
                continue  # what hung above it was rebuilt
            if walk.spent:
                change.undo()
                _leave(ctx, case, change.branch, "no validations left")
                continue
            branch = change.branch
            ctx.decide("sibling_revised", branch.node.id, node=case.corrected.node, asked=branch.node.question)
            await walk.again(branch, change.path)


def resting(walk: Walk, whole: str) -> frozenset[int]:
    """The nodes that name what a sibling, or the node above, was wrongly thought to be, and what hangs below these.

    What evidence says of them it says of the wrong thing, however true that is.
    """
    found = [branch for case in _cases(walk, whole) for branch, _ in case.named]
    for above in (one for top in walk.tops for one in (top, *top.below())):
        if above.dropped and not agree(above.dropped, above.hypothesis) and not names_it(whole, above.dropped):
            found += [one for one in above.below() if names_it(one.node.question, above.dropped, above.hypothesis)]
    return frozenset(one.node.id for branch in found for one in (branch, *branch.below()))


async def align_ancestors(ctx: Context, walk: Walk, whole: str) -> None:
    """Bring nodes in line with what was corrected below them, the deepest first.

    Evidence of their own counts more: only those that none supports or refutes are asked again.
    """
    await _align(ctx, walk, walk.tops, (0,), resting(walk, whole))


async def _align(ctx: Context, walk: Walk, branches: Sequence[Branch], path: Path, wrongly: Collection[int]) -> bool:
    """Whether anything in these branches was corrected, and evidence says what is right."""
    touched = False
    for branch in branches:
        number = branch.node.id
        below = await _align(ctx, walk, branch.children, (*path, number), wrongly)
        if below and walk.outcomes[number].label == "unknown":
            said = list(told(ctx, branch.children, walk.outcomes, says=MODEL_SAYS, resting=wrongly))
            answer = unmarked(
                await synthesise(ctx, branch.node.question, said, prompt="final", step="align", node=branch.node)
            )
            if answer.known and not agree(answer.text, branch.hypothesis):
                ctx.decide("aligned", answer.text, node=branch.node, before=branch.hypothesis)
                walk.restate(branch, path, answer.text)
        touched = touched or below or (number in walk.struck and walk.outcomes[number].checked)
    return touched


@dataclass(frozen=True, slots=True)
class _Case:
    """A node that was corrected, the wrong answer that it had, and a sibling that may rest on it."""

    corrected: Branch
    wrong: str
    other: Branch
    path: Path

    @property
    def named(self) -> list[tuple[Branch, Path]]:
        """The sibling and what is below it, as far as they name what is wrong, each with the path to it."""
        right = self.corrected.hypothesis
        walked = _walked(self.other, self.path)
        return [(one, path) for one, path in walked if names_it(one.node.question, self.wrong, right)]

    @property
    def targets(self) -> set[_Looked]:
        found = (branch.node for branch, _ in _walked(self.other, self.path))
        return {(self.corrected.node.id, self.wrong, node.id, node.question) for node in found}


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


def _cases(walk: Walk, whole: str) -> Iterator[_Case]:
    """Siblings of which one may rest on what was wrong with another, those above before those below."""
    for branches, path in _groups(walk.tops, (0,)):
        for corrected in branches:
            for wrong in walk.struck.get(corrected.node.id, ()):
                if agree(wrong, corrected.hypothesis) or names_it(whole, wrong):
                    continue
                cases = (_Case(corrected, wrong, other, path) for other in branches if other is not corrected)
                yield from (case for case in cases if case.named)


def _known(walk: Walk, whole: str) -> Iterator[_Case]:
    """The cases of which evidence says what is right."""
    return (case for case in _cases(walk, whole) if walk.outcomes[case.corrected.node.id].checked)


def _groups(branches: Sequence[Branch], path: Path) -> Iterator[tuple[Sequence[Branch], Path]]:
    yield branches, path
    for branch in branches:
        yield from _groups(branch.children, (*path, branch.node.id))


def _walked(branch: Branch, path: Path) -> Iterator[tuple[Branch, Path]]:
    yield branch, path
    for child in branch.children:
        yield from _walked(child, (*path, branch.node.id))


def _rewritten(ctx: Context, case: _Case) -> list[_Change]:
    """Put what is right into what names what is wrong, wherever code can tell how."""
    wrong, right = case.wrong, case.corrected.hypothesis
    changed = []
    for branch, path in case.named:
        question = substituted(branch.node.question, wrong, right)
        if question is None or question == branch.node.question:
            _leave(ctx, case, branch, "cannot be rewritten")
            continue
        changed.append(_Change(branch, path, branch.node.question, branch.hypothesis, branch.dropped))
        branch.node = replace(branch.node, question=question)
        # What was thought to be the answer is one to another question.
        branch.hypothesis, branch.dropped = "", branch.hypothesis or branch.dropped
    return changed


def _leave(ctx: Context, case: _Case, branch: Branch, why: str) -> None:
    ctx.decide(
        "sibling_left",
        branch.node.id,
        node=case.corrected.node,
        asked=branch.node.question,
        names=case.wrong,
        right=case.corrected.hypothesis,
        why=why,
    )
