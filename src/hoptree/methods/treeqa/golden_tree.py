"""A result as the golden tree that TreeQA's paper prints: sub-questions, what is held for true, and what says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoptree.core.values import Passage
from hoptree.engine.result import Result, TreeNode


def golden_tree(result: Result) -> dict[str, Any]:
    """The tree as JSON of Appendix B: texts as `ID||TEXT`, facts as `ENTITY-RELATION-VALUE`.

    The paper's trees hold what was verified. A node whose answer was not has a `verdict` beside the paper's fields:
    `unknown`, or `refuted` where nothing took its place; what was cited for another answer is not told as its `ref`.
    A run that was ended by a budget, or killed, is told by `stopped_by`.
    """
    texts = {passage.id: passage for passage in (*result.evidence, *result.cited)}
    tops = [child for node in result.tree for child in (node.children if node.id == 0 else [node])]
    return {
        "input_question": result.question,
        "logic_tree": {"children": [_written(node, texts) for node in tops]},
        "answer": result.answer,
        **({"stopped_by": result.stopped_by} if result.stopped_by else {}),
    }


def _written(node: TreeNode, texts: Mapping[str, Passage]) -> dict[str, Any]:
    verdict = node.unverified
    told: dict[str, Any] = {
        "sub_question": node.resolved or node.question,
        "hypothesis_answer": _held(node),
        **({"verdict": verdict} if verdict else {}),
    }
    if node.children:
        told["children"] = [_written(child, texts) for child in node.children]
    references = {
        "Wikipedia": [f"{name}||{texts[name].text}" for name in node.evidence if name in texts],
        "Wikidata": ["-".join(fact) for fact in node.facts],
    }
    return told | ({"ref": references} if any(references.values()) and verdict != "unknown" else {})


def _held(node: TreeNode) -> str:
    """The answer; what was guessed counts only until something is said of it."""
    if node.verdict:
        return node.answer or "unknown"
    return node.answer or node.hypothesis
