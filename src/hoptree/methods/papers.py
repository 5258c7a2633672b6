"""The papers that methods are of: title, year and where to read them, by what a method calls its paper."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper; no `year` or `link` where none is known. The year is that of its first version, not of its venue."""

    title: str
    year: int | None = None
    link: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def cited(self) -> str:
        """In one line, without the link."""
        return f"{self.title} ({self.year})" if self.year else self.title


def _on_arxiv(title: str, number: str) -> Paper:
    """The number begins with year and month."""
    return Paper(title, 2000 + int(number[:2]), f"https://arxiv.org/abs/{number}")


PAPERS: dict[str, tuple[Paper, ...]] = {
    "Adaptive-RAG": (
        _on_arxiv(
            "Adaptive-RAG: Learning to Adapt Retrieval-Augmented Large Language Models through Question Complexity",
            "2403.14403",
        ),
    ),
    "CoK": (
        _on_arxiv(
            "Chain-of-Knowledge: Grounding Large Language Models via Dynamic Knowledge Adapting over Heterogeneous "
            "Sources",
            "2305.13269",
        ),
    ),
    "CoT": (_on_arxiv("Chain-of-Thought Prompting Elicits Reasoning in Large Language Models", "2201.11903"),),
    "CoT-SC": (_on_arxiv("Self-Consistency Improves Chain of Thought Reasoning in Language Models", "2203.11171"),),
    "CompAct": (_on_arxiv("CompAct: Compressing Retrieved Documents Actively for Question Answering", "2407.09014"),),
    "DRAGIN": (
        _on_arxiv(
            "DRAGIN: Dynamic Retrieval Augmented Generation based on the Real-time Information Needs of Large Language "
            "Models",
            "2403.10081",
        ),
    ),
    "DyPlan": (
        _on_arxiv(
            "Dynamic Strategy Planning for Efficient Question Answering with Large Language Models", "2410.23511"
        ),
    ),
    "FLARE": (_on_arxiv("Active Retrieval Augmented Generation", "2305.06983"),),
    "GenGround": (
        _on_arxiv(
            "Generate-then-Ground in Retrieval-Augmented Generation for Multi-hop Question Answering", "2406.14891"
        ),
    ),
    "HippoRAG": (
        _on_arxiv("HippoRAG: Neurobiologically Inspired Long-Term Memory for Large Language Models", "2405.14831"),
        _on_arxiv("From RAG to Memory: Non-Parametric Continual Learning for Large Language Models", "2502.14802"),
    ),
    "IRCoT": (
        _on_arxiv(
            "Interleaving Retrieval with Chain-of-Thought Reasoning for Knowledge-Intensive Multi-Step Questions",
            "2212.10509",
        ),
    ),
    "Iter-RetGen": (
        _on_arxiv(
            "Enhancing Retrieval-Augmented Large Language Models with Iterative Retrieval-Generation Synergy",
            "2305.15294",
        ),
    ),
    "Least-to-most": (
        _on_arxiv("Least-to-Most Prompting Enables Complex Reasoning in Large Language Models", "2205.10625"),
    ),
    "MIND": (
        _on_arxiv("Memory-Aware and Uncertainty-Guided Retrieval for Multi-Hop Question Answering", "2503.23095"),
    ),
    "RA-ISF": (
        _on_arxiv(
            "RA-ISF: Learning to Answer and Understand from Retrieval Augmentation via Iterative Self-Feedback",
            "2403.06840",
        ),
    ),
    "REPLUG": (_on_arxiv("REPLUG: Retrieval-Augmented Black-Box Language Models", "2301.12652"),),
    "SKR": (_on_arxiv("Self-Knowledge Guided Retrieval Augmentation for Large Language Models", "2310.05002"),),
    "SeaKR": (
        _on_arxiv("SeaKR: Self-aware Knowledge Retrieval for Adaptive Retrieval Augmented Generation", "2406.19215"),
    ),
    "Search-R1": (
        _on_arxiv(
            "Search-R1: Training LLMs to Reason and Leverage Search Engines with Reinforcement Learning", "2503.09516"
        ),
    ),
    "Self-Ask": (_on_arxiv("Measuring and Narrowing the Compositionality Gap in Language Models", "2210.03350"),),
    "Self-RAG": (
        _on_arxiv("Self-RAG: Learning to Retrieve, Generate, and Critique through Self-Reflection", "2310.11511"),
    ),
    "TAIKC": (Paper("TAIKC: Tree-Organized Active Internal Knowledge Completion for Multi-Hop Question Answering"),),
    "ToG": (
        _on_arxiv(
            "Think-on-Graph: Deep and Responsible Reasoning of Large Language Model on Knowledge Graph", "2307.07697"
        ),
    ),
    "ToG-2": (
        _on_arxiv(
            "Think-on-Graph 2.0: Deep and Faithful Large Language Model Reasoning with Knowledge-guided Retrieval "
            "Augmented Generation",
            "2407.10805",
        ),
    ),
    "TreeQA": (
        Paper(
            "TreeQA: Enhanced LLM-RAG with logic tree reasoning for reliable and interpretable multi-hop question "
            "answering",
            2025,
            "https://doi.org/10.1016/j.knosys.2025.114526",
        ),
    ),
}
