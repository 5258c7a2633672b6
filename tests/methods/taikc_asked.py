"""A question put to TAIKC over a passage, with a model that says what a test wants."""

from __future__ import annotations

import json
from typing import Any

from tests.methods.asked import Asked, Shelf

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

__all__ = ["CHAIN", "FOUND", "ROOT", "Run", "plan", "rules"]

ROOT = "Where was the director of the film Whiplash born?"
CHAIN = {
    "query1": {
        "question": "Who directed the film Whiplash?",
        "children": {"query2": {"question": "Where was #query1 born?"}},
    }
}
FOUND = Passage("p1", "Whiplash", "Whiplash was directed by Damien Chazelle, born in Providence.", 2.5)


def plan(raw: object) -> Rule:
    return Rule(json.dumps(raw), step="decompose")


def rules(
    raw: object = CHAIN,
    *,
    confident: str | list[str] = "RAG_REQUIRED",
    read: str | list[str] = "read answer",
    direct: str | list[str] = "direct answer",
    summarise: str | list[str] = "a chain",
    final: str = "final answer",
    logprob: float = -0.01,
) -> list[Rule]:
    """A rule a step."""
    return [
        plan(raw),
        Rule(confident, step="confident"),
        Rule(read, step="read"),
        Rule(direct, step="direct", logprob=logprob),
        Rule(summarise, step="summarise"),
        Rule(final, step="final"),
    ]


class Run(Asked):
    """One question asked of TAIKC."""

    def __init__(
        self,
        script: list[Rule],
        *,
        question: str = ROOT,
        shelf: Shelf | None = None,
        budget: Budget | None = None,
        **options: Any,
    ) -> None:
        shelf = Shelf(FOUND) if shelf is None else shelf
        super().__init__("taikc", script, question, shelf, budget=budget, options=options)
