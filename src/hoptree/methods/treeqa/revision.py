"""What TreeQA mends once its tree is walked, beyond its paper (`robust`): siblings and ancestors of what was corrected.

Children of one node should not rest on each other, and a node sums up what is below it; models keep to neither.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hoptree.methods.treeqa.nodes import Branch
from hoptree.methods.treeqa.told import told
from hoptree.methods.treeqa.walk import Walk
from hoptree.runtime.context import Context
from hoptree.steps.agreement import agree
from hoptree.steps.answer import synthesise
from hoptree.steps.substitution import names_it, substituted

__all__ = ["align_ancestors", "revise_siblings"]

Path = tuple[int, ...]


async def revise_siblings(ctx: Context, walk: Walk, whole: str) -> None:
    """Ask anew what names the refuted answer of a sibling, with the right one in its place.

    What the main question names itself, a sibling may name for that reason.
    """
    for branches, path in list(_groups(walk.tops, (0,))):
        for corrected in branches:
            wrong = walk.struck.get(corrected.node.id, "")
            if not wrong or names_it(whole, wrong):
                continue
            for other in branches:
                if other is not corrected and _rewritten(other, wrong, corrected.hypothesis):
                    ctx.decide("sibling_revised", other.node.id, node=corrected.node, asked=other.node.question)
                    await walk.again(other, path)


async def align_ancestors(ctx: Context, walk: Walk) -> None:
    """Bring nodes in line with what was corrected below them, the deepest first.

    Evidence of their own counts more: only those that none supports or refutes are asked again.
    """
    await _align(ctx, walk, walk.tops, (0,))


async def _align(ctx: Context, walk: Walk, branches: Sequence[Branch], path: Path) -> bool:
    """Whether anything in these branches was corrected."""
    touched = False
    for branch in branches:
        number = branch.node.id
        below = await _align(ctx, walk, branch.children, (*path, number))
        if below and walk.outcomes[number].label == "unknown":
            said = list(told(ctx, branch.children, walk.outcomes))
            answer = await synthesise(ctx, branch.node.question, said, prompt="final")
            if answer.known and not agree(answer.text, branch.hypothesis):
                ctx.decide("aligned", answer.text, node=branch.node, before=branch.hypothesis)
                walk.restate(branch, path, answer.text)
        touched = touched or below or number in walk.struck
    return touched


def _groups(branches: list[Branch], path: Path) -> Iterator[tuple[list[Branch], Path]]:
    """Siblings, those above before those below."""
    yield branches, path
    for branch in branches:
        yield from _groups(branch.children, (*path, branch.node.id))


def _rewritten(branch: Branch, wrong: str, right: str) -> bool:
    """Put what is right into a branch that names what is wrong, and say whether it did."""
    question = substituted(branch.node.question, wrong, right)
    changed = question is not None and question != branch.node.question
    if question is not None and changed:
        branch.node = replace(branch.node, question=question)
        branch.hypothesis = substituted(branch.hypothesis, wrong, right) or branch.hypothesis
        for child in branch.children:
            _rewritten(child, wrong, right)
    return changed
