"""A question put to a method that writes step by step, with a model that says what a test wants, and how surely."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from tests.methods.asked import Asked, Shelf

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.models.model import Capability, Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel

__all__ = ["DUKES", "GRANDFATHER", "Run", "Scripted", "Search", "sure"]

GRANDFATHER = "Who is Charles Bretagne Marie de La Trémoille's paternal grandfather?"
DUKES = (
    Passage(
        "p1",
        "Charles Bretagne Marie de La Trémoille",
        "Charles Bretagne Marie de La Trémoille was the son of Jean Bretagne Charles de La Trémoille.",
        3.0,
    ),
    Passage(
        "p2",
        "Jean Bretagne Charles de La Trémoille",
        "Jean Bretagne Charles de La Trémoille was born in Paris to Charles Armand René de La Trémoille.",
        2.0,
    ),
    Passage("p3", "Thouars", "Thouars is a town in western France.", 1.0),
)


class Search(Shelf):
    """Finds first the passages that have most words of the query."""

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append((query, k))
        words = set(query.casefold().split())

        def shared(passage: Passage) -> int:
            return len(words & set(passage.title.casefold().split()))

        return tuple(sorted(self.passages, key=lambda passage: (-shared(passage), passage.id)))[:k]


class Scripted(ScriptedModel):
    """A scripted model that lacks some capabilities, and remembers whole requests."""

    without: frozenset[str] = frozenset()

    def __init__(self, rules: list[Rule], without: frozenset[str]) -> None:
        super().__init__(rules=rules)
        self.without = without
        self.sent: list[tuple[str, Request]] = []

    @property
    def capabilities(self) -> frozenset[Capability]:
        return frozenset(capability for capability in super().capabilities if capability not in self.without)

    async def generate(self, request: Request, *, step: str) -> Reply:
        self.sent.append((step.rpartition("/")[2], request))
        return await super().generate(request, step=step)


class Run(Asked):
    """One question asked of a method over three passages; MIND searches with words unless a test says otherwise."""

    def __init__(
        self,
        method: str,
        script: list[Rule],
        *,
        question: str = GRANDFATHER,
        shelf: Shelf | None = None,
        budget: Budget | None = None,
        without: frozenset[str] = frozenset(),
        **options: Any,
    ) -> None:
        self.events: list[Event] = []
        options = {"sub_query": "words", **options} if method == "mind" else options
        self.method, self.shelf = method, Shelf(*DUKES) if shelf is None else shelf
        self.model = self.scripted = Scripted([*_weighed(script), *script], without)
        self.result: Result = asyncio.run(self._ask(question, budget, None, options))
        assert not self.result.error_message.startswith("Hoptree"), self.result.error_message

    @property
    def queries(self) -> list[str]:
        return [query for query, _ in self.shelf.asked]

    def sent(self, step: str) -> list[Request]:
        return [request for sent_step, request in self.scripted.sent if sent_step == step]

    def values(self, kind: str) -> list[Any]:
        return [event["value"] for event in self.of("decision", kind=kind)]

    def sentences(self, triggered: bool, *, rewritten: bool = False) -> list[str]:
        return [event["text"] for event in self.of("decision", kind="sentence", value=triggered, rewritten=rewritten)]


def _weighed(script: list[Rule]) -> list[Rule]:
    """A draft that is read by itself gets the attention with which it was written, unless a script says otherwise."""
    drafted = [rule.attention for rule in script if rule.step == "draft" and rule.attention is not None]
    weighs = any(rule.step == "weigh" for rule in script)
    return [Rule(step="weigh", attention=drafted[0])] if drafted and not weighs else []


def sure(text: str, **doubted: float) -> list[float]:
    """An entropy a word: 0.1, but for the words that are named, which come without their marks."""
    return [doubted.get(word.strip(".,:;?!"), 0.1) for word in text.split()]
