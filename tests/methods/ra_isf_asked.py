"""A question put to RA-ISF over three passages, with a model that says what a test wants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.methods.asked import Asked, Shelf

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.result import TreeNode
from hoptree.models.scripted import Rule

__all__ = ["FIRST", "FOUND", "ROOT", "SECOND", "SPLIT", "Run", "deeper", "knows", "listed", "rules"]

ROOT = "Who is the mother of the director of the film Whiplash?"
FIRST, SECOND = "Who directed the film Whiplash?", "Who is the mother of Damien Chazelle?"
SPLIT = f"1. {FIRST}\n2. {SECOND}"
FOUND = (
    Passage("p1", "Whiplash", "Whiplash was directed by Damien Chazelle.", 2.5),
    Passage("p2", "Damien Chazelle", "Damien Chazelle is a son of Celia Martin.", 2.0),
    Passage("p3", "Guy Chazelle", "An unrelated text about swimming.", 1.0),
)


def listed(*questions: str) -> str:
    return "\n".join(f"{number}. {question}" for number, question in enumerate(questions, 1))


def rules(
    *first: Rule,
    know: str | list[str] = "No",
    relevance: str | list[str] = "irrelevance",
    decompose: str | list[str] = SPLIT,
    direct: str | list[str] = "direct answer",
    read: str | list[str] = "read answer",
    combine: str | list[str] = "combined answer",
    logprob: float = -0.01,
) -> list[Rule]:
    """A rule a step, after those that come first."""
    return [
        *first,
        Rule(know, step="know"),
        Rule(relevance, step="relevance"),
        Rule(decompose, step="decompose"),
        Rule(direct, step="direct", logprob=logprob),
        Rule(read, step="read", logprob=logprob),
        Rule(combine, step="combine", logprob=logprob),
    ]


def knows(question: str) -> Rule:
    return Rule("Yes", step="know", contains=f"Question: {question}")


class Run(Asked):
    """One question asked of RA-ISF."""

    def __init__(
        self,
        script: list[Rule],
        *,
        question: str = ROOT,
        shelf: Shelf | None = None,
        budget: Budget | None = None,
        latency: float = 0.0,
        roles: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        shelf = Shelf(*FOUND) if shelf is None else shelf
        super().__init__(
            "ra_isf", script, question, shelf, budget=budget, latency=latency, roles=roles, options=options
        )

    def texts(self, step: str) -> list[str]:
        return [text for asked_step, text in self.model.requests if asked_step == f"ra_isf/{step}"]

    @property
    def root(self) -> TreeNode:
        (root,) = self.result.tree
        return root


def deeper(depth: int) -> list[Rule]:
    """A script under which nothing is ever known, and every question has one new sub-question."""
    asked = [
        Rule(listed(f"Who is number {n + 1}?"), step="decompose", contains=f"number {n}?") for n in range(depth + 3)
    ]
    return rules(*asked, combine="unknown")
