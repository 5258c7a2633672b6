"""A film's graph and pages, and a question put to a method that explores them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from tests.methods.asked import Asked
from tests.methods.continuation_asked import Scripted
from tests.methods.small_knowledge import Pages, SmallGraph

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.events import Event
from hoptree.graph.facts import Term
from hoptree.models.model import Choice, Reply, Request
from hoptree.models.scripted import Rule

__all__ = ["BORN", "BORN_WHEN", "FILM", "PAGES", "Run", "films", "scored", "so"]

BORN = "In which city was the director of Whiplash born?"
BORN_WHEN = "19 January 1985"
FILM = (
    ("Whiplash", "director", "Damien Chazelle"),
    ("Whiplash", "composer", "Justin Hurwitz"),
    ("Whiplash", "publication date", "2014"),
    ("Damien Chazelle", "place of birth", "Providence"),
    ("Damien Chazelle", "date of birth", BORN_WHEN),
    ("Damien Chazelle", "spouse", "Olivia Hamilton"),
    ("La La Land", "director", "Damien Chazelle"),
)
PAGES = (
    Passage("w", "Whiplash", "Whiplash is a film about a drummer. The director of Whiplash is Damien Chazelle."),
    Passage("d", "Damien Chazelle", "Damien Chazelle is a director. He was born in the city of Providence."),
    Passage("j", "Justin Hurwitz", "Justin Hurwitz writes music."),
    Passage("p", "Providence", "Providence is a city in Rhode Island."),
)


def films(*triples: tuple[str, str, str]) -> SmallGraph:
    """A graph in which what begins with a digit is no entity."""
    graph = SmallGraph(*triples)
    graph.known = {name: entity for name, entity in graph.known.items() if not entity.label[:1].isdigit()}
    graph.triples = [
        replace(fact, object=Term("", fact.object.text)) if fact.object.id not in graph.known else fact
        for fact in graph.triples
    ]
    return graph


def so(answer: str, *before: str) -> str:
    return " ".join((*before, f"So the answer is: {answer}."))


def scored(**scores: float) -> str:
    """Scores in the form that is asked for; underscores are spaces."""
    return "\n".join(f"{{{name.replace('_', ' ')} (Score: {score})}}" for name, score in scores.items())


class _Drawn(Scripted):
    """A model whose samples of a chain of thought differ."""

    drawn: tuple[str, ...] = ()

    async def generate(self, request: Request, *, step: str) -> Reply:
        reply = await super().generate(request, step=step)
        if not (step.endswith("/think") and request.temperature and self.drawn):
            return reply
        replies = (self.drawn[(request.seed + number) % len(self.drawn)] for number in range(request.n))
        return Reply(tuple(map(Choice, replies)), reply.usage)


class Run(Asked):
    """One question asked of a method over the film's graph and pages, unless others are given."""

    shelf: Any

    def __init__(
        self,
        method: str,
        script: list[Rule],
        *,
        drawn: tuple[str, ...] = (),
        question: str = BORN,
        graph: SmallGraph | None = None,
        pages: Pages | None = None,
        budget: Budget | None = None,
        without: frozenset[str] = frozenset(),
        **options: Any,
    ) -> None:
        self.events: list[Event] = []
        self.method = method
        self.graph = films(*FILM) if graph is None else graph
        self.shelf = Pages(*PAGES) if pages is None else pages
        self.model = self.scripted = _Drawn([*script, Rule("[]", step="mentions"), Rule("", step="think")], without)
        self.scripted.drawn = drawn
        self.result = asyncio.run(self._ask(question, budget, None, options))
        assert not self.result.error_message.startswith("Hoptree"), self.result.error_message

    def sent(self, step: str) -> list[Request]:
        return [request for sent_step, request in self.scripted.sent if sent_step == step]

    def texts(self, step: str) -> list[str]:
        return [request.messages[-1].content for request in self.sent(step)]

    def values(self, kind: str) -> list[Any]:
        return [event["value"] for event in self.of("decision", kind=kind)]

    def unread(self, step: str) -> list[str]:
        return [event["error"] for event in self.of("parse", step=step, ok=False)]
