"""A knowledge graph and a corpus that fit on a page, for tests of methods that look things up in both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from hoptree.core.values import Passage
from hoptree.graph.facts import Direction, Entity, Fact, Neighbourhood, Property, Stats, Table, Term

__all__ = ["Pages", "SmallGraph"]


class SmallGraph:
    """Triples of texts; the id of an entity is its name with an underscore before it."""

    kind = "small"
    identity = "small"

    def __init__(self, *triples: tuple[str, str, str], remote: bool = False, names: Iterable[Entity] = ()) -> None:
        self.remote = remote
        self.asked: list[str] = []
        subjects = dict.fromkeys(name for s, _, o in triples for name in (s, o))
        self.known = {f"_{name}": Entity(f"_{name}", name) for name in subjects} | {each.id: each for each in names}
        self.triples = [
            Fact(Term(f"_{s}", s), Term(f"-{p}", p), Term(f"_{o}" if f"_{o}" in self.known else "", o))
            for s, p, o in triples
        ]

    async def facts(
        self, entity: str, *, direction: Direction = "both", relation: str = "", limit: int = 200, seconds: float = 10
    ) -> Neighbourhood:
        self.asked.append(entity)
        around = [fact for fact in self.triples if entity in (fact.subject.id, fact.object.id)]
        return Neighbourhood(self.known[entity], tuple(around[:limit]), len(around) <= limit)

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        self.asked.append(name)
        wanted = name.casefold()
        named = [each for each in self.known.values() if wanted in {n.casefold() for n in (each.label, *each.aliases)}]
        return tuple(named[:limit])

    async def entity(self, identifier: str) -> Entity | None:
        return self.known.get(identifier)

    async def properties(self) -> tuple[Property, ...]:
        return ()

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = 10) -> Table:
        return Table((), ())

    async def stats(self) -> Stats:
        return Stats(len(self.triples), len(self.known), 0)

    async def aclose(self) -> None:
        return None


class Pages:
    """A retriever over titled passages: those that share most words with the query, of one title where it is given."""

    kind = "pages"
    identity = "pages"
    remote = False

    def __init__(self, *passages: Passage) -> None:
        self.passages = passages
        self.asked: list[tuple[str, str]] = []

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        title = (where or {}).get("title", "")
        self.asked.append((query, title))
        words = set(query.casefold().split())
        passages = [
            replace(passage, score=float(len(words & set(passage.text.casefold().split()))))
            for passage in self.passages
            if not title or passage.title == title
        ]
        return tuple(sorted((p for p in passages if p.score or title), key=lambda p: (-p.score, p.id))[:k])

    async def aclose(self) -> None:
        return None
