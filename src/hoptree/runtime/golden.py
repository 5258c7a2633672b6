"""A result as the golden tree that TreeQA's paper prints: sub-questions, what is held for true, and what says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoptree.runtime.result import Result, TreeNode
from hoptree.values import Passage

__all__ = ["golden_tree"]


def golden_tree(result: Result) -> dict[str, Any]:
    """The tree as JSON of Appendix B: texts as `ID||TEXT`, facts as `ENTITY-RELATION-VALUE`."""
    texts = {passage.id: passage for passage in result.evidence}
    tops = [child for node in result.tree for child in (node.children if node.id == 0 else [node])]
    return {
        "input_question": result.question,
        "logic_tree": {"children": [_written(node, texts) for node in tops]},
        "answer": result.answer,
    }


def _written(node: TreeNode, texts: Mapping[str, Passage]) -> dict[str, Any]:
    told: dict[str, Any] = {
        "sub_question": node.resolved or node.question,
        "hypothesis_answer": node.answer or node.hypothesis,
    }
    if node.children:
        told["children"] = [_written(child, texts) for child in node.children]
    references = {
        "Wikipedia": [f"{name}||{texts[name].text}" for name in node.evidence if name in texts],
        "Wikidata": ["-".join(fact) for fact in node.facts],
    }
    return told | ({"ref": references} if any(references.values()) else {})
