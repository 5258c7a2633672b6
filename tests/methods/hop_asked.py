"""Asking hop: a question, what is found, and a scripted model for its moves."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.methods.asked import Asked, Shelf

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.model import Capability, Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

ROOT = "In which city was the director of the film Whiplash born?"
WHICH = "Which film has the director who was born earlier, Whiplash or Vertigo?"
FOUND = (
    Passage("w", "Whiplash", "Whiplash is a film of 2014. It was directed by Damien Chazelle."),
    Passage("c", "Damien Chazelle", "Damien Chazelle is a director. He was born in 1985 in the city of Providence."),
    Passage("v", "Vertigo", "Vertigo is a film of 1958. It was directed by Alfred Hitchcock."),
    Passage("h", "Alfred Hitchcock", "Alfred Hitchcock was born in 1899 in London."),
)
CHAIN = {"query1": {"question": "Who directed the film Whiplash?", "children": {"query2": "Where was #query1 born?"}}}
HALF = math.log(0.5)
Ask = Callable[..., Asked]
_RIGHT = {
    "weights": {"agreement": 2.0, "against": -1.0, "confidence": 2.0, "quoted": 1.0, "computed": 1.5, "supported": 0.7},
    "bias": -1.5,
}
_AFTER = {"weights": {}, "bias": 0.85, "tokens": 2000}
"""A move after which seven of ten answers are right, whatever they were before."""
WEIGHTS = {
    "right": _RIGHT,
    "after": {"split": _AFTER},
    "worth": {"low": 0.1, "medium": 0.0},
}
CHOOSER = {"format": 2, "with_logprobs": WEIGHTS, "without_logprobs": WEIGHTS}
"""One by hand, so that fitting the packaged one anew changes no test."""
EVERY = {"effort": "high"}


def plan(raw: object = CHAIN) -> Rule:
    return Rule(json.dumps(raw), step="decompose")


def reads(**answers: str | tuple[str, float]) -> list[Rule]:
    """Readers by what the last line of a question holds."""
    rules = []
    for words, reply in answers.items():
        text, sure = reply if isinstance(reply, tuple) else (reply, -0.01)
        rules.append(Rule(text, step="read", regex=rf"Question: [^\n]*{words.replace('_', ' ')}", logprob=sure))
    return rules


def asking(folder: Path, shelf: type[Shelf] = Shelf) -> Ask:
    """Asks hop with a chooser by hand, which is written to a folder."""
    file = folder / "chooser.json"
    file.write_text(json.dumps(CHOOSER))

    def ask(script: list[Rule], question: str = ROOT, *, budget: Budget | None = None, **options: Any) -> Asked:
        return Asked("hop", script, question, shelf(*FOUND), budget=budget, options={"chooser": str(file), **options})

    return ask


class Recorded(Asked):
    """Keeps every message of each request; a model `without` a capability says so."""

    without: str = ""

    async def _ask(self, *given: Any) -> Any:
        self.prompts: list[str] = []
        recorded, inner = self, self.model

        class Model(ScriptedModel):
            @property
            def capabilities(self) -> frozenset[Capability]:
                return inner.capabilities - {recorded.without}

            async def generate(self, request: Request, *, step: str) -> Reply:
                recorded.prompts.append("\n".join(message.content for message in request.messages))
                return await super().generate(request, step=step)

        self.model = Model(rules=inner.rules)
        return await super()._ask(*given)


class WithoutLogprobs(Recorded):
    without = "logprobs"


def steps(run: Asked) -> list[str]:
    return [event["step"] for event in run.of("llm")]


def chosen(run: Asked) -> dict[str, Any]:
    (decision,) = run.of("decision", kind="chosen")
    return decision


def skipped(run: Asked) -> list[tuple[str, str]]:
    return [(event["value"], event["why"]) for event in run.of("decision", kind="skipped")]


def standings(run: Asked) -> list[list[dict[str, Any]]]:
    """How the answers stood after each move."""
    return [event["value"] for event in run.of("decision", kind="standings")]
