"""Entity and relation linking recall (TreeQA, Figures 4 and 5)."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hoptree.core.errors import ConfigError, GraphError, HoptreeError, InputError
from hoptree.core.lazy import import_optional
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.schedule import together
from hoptree.engine.trace import Trace
from hoptree.evaluation.ask_question import at_once
from hoptree.evaluation.datasets.reading import HALVES, half_of
from hoptree.evaluation.datasets.rows import Fields, read_question_rows
from hoptree.evaluation.statistics import interval, unseen
from hoptree.graph.facts import Candidates, Entity, KnowledgeGraph, Property
from hoptree.graph.relation_linking import Relation, name_words, relations_in, relations_of
from hoptree.graph.vocabulary import WIKIDATA
from hoptree.methods.steps.link import keep_entities
from hoptree.methods.steps.mentions import EntityCandidates, find_entities
from hoptree.methods.steps.relations import RelationRanking
from hoptree.models.model import Model
from hoptree.models.scripted import ScriptedModel
from hoptree.text.names import fold

_ID = re.compile(r"[QP][1-9]\d*|name:.+|[a-z]+://\S+", re.ASCII | re.DOTALL)
_REVERSED = re.compile(r"R(?=[1-9]\d*\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LinkingQuestion:
    """A question with the entity and the relation it is about, each an id or, where there is none, a name.

    `relation_name` is what the data set calls the relation, "" where it does not tell.
    """

    id: str
    text: str
    entity: str
    relation: str = ""
    relation_name: str = ""

    @property
    def by_name(self) -> bool:
        """Whether the entity is known by its name alone: any entity of that name is right then."""
        return _ID.fullmatch(self.entity) is None

    def is_entity(self, entity: Entity) -> bool:
        if not self.by_name:
            return entity.id == self.entity
        return fold(self.entity) in {fold(name) for name in (entity.label, *entity.aliases)}

    def is_relation(self, relation: Relation) -> bool:
        """By the id, or by the name: graphs of several sources have the same relation under several ids."""
        names = {name_words(name) for name in (self.relation_name, self.relation) if name}
        return relation.id == self.relation or name_words(relation.label) in names


@dataclass(frozen=True, slots=True)
class LinkingSet:
    """The questions of a file whose entity is known."""

    questions: tuple[LinkingQuestion, ...]
    without_entity: int = 0


def read_linking_questions(path: Path, *, half: str = "", limit: int | None = None) -> LinkingSet:
    """Read the first `limit` questions of a file, or of one half of it.

    The entity is in `subject_qid`, `subject`, or the first of `evidence_triples`; the relation in `property`,
    `relation`, or its second part.
    """
    if half and half not in HALVES:
        raise ConfigError(f"'{half}' is no half of a data set.", f"Choose {' or '.join(HALVES)}.")
    found: list[LinkingQuestion] = []
    without = 0
    for number, (line, row) in enumerate(read_question_rows(path)):
        question = _question(Fields(row, f"Line {line} of {path.name}", "own"), number)
        if half and half_of(question.id) != half:
            continue
        if question.entity:
            found.append(question)
        else:
            without += 1
    if not found:
        raise InputError(
            f"{path} holds no question whose entity is known.",
            'Rows need "subject_qid" (or "subject") and "property" (or "relation"), or "evidence_triples".',
        )
    return LinkingSet(tuple(found[:limit]), without)


def _question(row: Fields, number: int) -> LinkingQuestion:
    triples = row.rows("evidence_triples", 3)
    subject, relation = (str(part) for part in triples[0][:2]) if triples else ("", "")
    told = row.text("property", "relation") or relation
    return LinkingQuestion(
        row.text("id", "_id") or str(number),
        row.question("question"),
        (row.text("subject_qid", "subject") or subject).removeprefix(WIKIDATA),
        _REVERSED.sub("P", told),  # SimpleQuestions on Wikidata: R19 is P19 the other way round
        row.text("property_label"),
    )


ENTITY_KS, RELATION_KS = (1, 3, 5), (1, 3, 6)
"""The depths of Figures 4 and 5."""
Among = Literal["entity", "graph"]
"""Whose relations are ranked: those of the question's own entity, or all of the graph."""
_STEPS_OF = "treeqa"
_WITH_MODEL = ("linker", "model", "union", "kept")
_MUST_CHANGE = 2
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Parts:
    """What is measured: a graph with its candidates, a model if there is one, and rankings of relations by name.

    `linker` takes the place of the index of names over whole questions; the index is then measured beside it.
    """

    graph: KnowledgeGraph
    candidates: Candidates
    rankings: Mapping[str, RelationRanking] = field(default_factory=dict)
    model: Model | None = None
    calls: Calls = field(default_factory=lambda: Calls(None))
    among: Among = "entity"
    linker: Candidates | None = None


@dataclass(frozen=True, slots=True)
class Linked:
    """The rank (from 1) of the right entity and relation by each linker; None where it is missing.

    `in_graph` and `relation_in_graph` tell whether it could be found at all; `relations` is how many were ranked.
    """

    question: LinkingQuestion
    in_graph: bool = False
    relation_in_graph: bool = False
    relations: int = 0
    entity_places: Mapping[str, int | None] = field(default_factory=dict)
    relation_places: Mapping[str, int | None] = field(default_factory=dict)
    found: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        asked = self.question
        return {
            "id": asked.id,
            "question": asked.text,
            "entity": asked.entity,
            "relation": asked.relation,
            "in_graph": self.in_graph,
            "relation_in_graph": self.relation_in_graph,
            "entities": dict(self.entity_places),
            "relations": dict(self.relation_places),
            "ranked": self.relations,
            "linker": list(self.found),
            "mentions": list(self.mentions),
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class LinkingRun:
    """All questions, and the recall of each linker with its interval."""

    asked: LinkingSet
    linked: tuple[Linked, ...]
    entity_ks: tuple[int, ...] = ENTITY_KS
    relation_ks: tuple[int, ...] = RELATION_KS

    @property
    def failed(self) -> int:
        return sum(bool(one.error) for one in self.linked)

    def as_dict(self) -> dict[str, Any]:
        """Recall over all questions, and over those whose entity (or relation) is in the graph."""
        there = [one for one in self.linked if one.in_graph]
        known = [one for one in self.linked if one.relation_in_graph]
        ranked = [one.relations for one in self.linked if one.relations]
        return {
            "questions": len(self.linked),
            "failed": self.failed,
            "without_entity": self.asked.without_entity,
            "entity_in_graph": len(there),
            "relation_in_graph": len(known),
            "relations_ranked": sum(ranked) / len(ranked) if ranked else 0.0,
            "entities": _recall(self.linked, "entity_places", self.entity_ks),
            "entities_in_graph": _recall(there, "entity_places", self.entity_ks),
            "relations": _recall(self.linked, "relation_places", self.relation_ks),
            "relations_in_graph": _recall(known, "relation_places", self.relation_ks),
        }


def _recall(linked: Sequence[Linked], field_name: str, ks: Iterable[int]) -> dict[str, dict[str, dict[str, float]]]:
    """Return recall with a 95 % interval by linker and depth."""
    places: list[Mapping[str, int | None]] = [getattr(one, field_name) for one in linked]
    ways = dict.fromkeys(way for one in places for way in one)
    told: dict[str, dict[str, dict[str, float]]] = {}
    for way in ways:
        for k in ks:
            scores = [float((place := one.get(way)) is not None and place <= k) for one in places]
            told.setdefault(way, {})[f"recall@{k}"] = _spread(scores)
    return told


def _spread(scores: Sequence[float]) -> dict[str, float]:
    spread = interval(scores)
    # Where all are found, or none, resampling would say that this is certain.
    low = 1 - unseen(len(scores)) if min(scores) == 1 else spread.low
    high = unseen(len(scores)) if max(scores) == 0 else spread.high
    return {"recall": spread.mean, "low": low, "high": high}


async def evaluate_linking(
    asked: LinkingSet,
    parts: Parts,
    *,
    entity_ks: tuple[int, ...] = ENTITY_KS,
    relation_ks: tuple[int, ...] = RELATION_KS,
    on_done: Callable[[], None] = lambda: None,
) -> LinkingRun:
    """Link every question; a failed one has found nothing.

    A failure that every question would meet (a key, a missing model) is raised.
    """
    import_optional("numpy", "Measuring linking", "eval")  # missed before the work, not after it
    properties = await parts.graph.properties()
    known = {one.id: one for one in properties}
    looked = _Looked(parts, known, relations_in(properties), max(entity_ks), max(relation_ks))
    places = asyncio.Semaphore(at_once(parts.model.slots) if parts.model else 2)

    async def one(question: LinkingQuestion) -> Linked:
        async with places:
            linked = await looked.link(question)
        on_done()
        return linked

    linked = await together(one(question) for question in asked.questions)
    return LinkingRun(asked, tuple(linked), entity_ks, relation_ks)


class _Looked:
    """Looks single questions up with parts that all of them share."""

    def __init__(
        self,
        parts: Parts,
        properties: Mapping[str, Property],
        relations: tuple[Relation, ...],
        entities_kept: int,
        relations_kept: int,
    ) -> None:
        self._parts, self._properties, self._all = parts, properties, relations
        self._entities_kept, self._relations_kept = entities_kept, relations_kept

    async def link(self, question: LinkingQuestion) -> Linked:
        gold = await self._gold(question)
        ways: dict[str, int | None] = dict.fromkeys(("index",) if self._parts.linker else ())
        ways |= dict.fromkeys(_WITH_MODEL if self._parts.model else ("linker",))
        by_relation: dict[str, int | None] = dict.fromkeys(self._parts.rankings)
        found = EntityCandidates(())
        ranked: tuple[Relation, ...] = ()
        errors: list[str] = []
        try:
            found = await self._entities(question, ways)
        except HoptreeError as error:
            errors.append(_told(error))
        try:
            ranked, about = await self._candidates(gold)
            for name, ranking in self._parts.rankings.items():
                best = await ranking.rank(
                    self._context(), question.text, ranked, keep=self._relations_kept, entity=about
                )
                by_relation[name] = _place(question.is_relation(one) for one in best)
        except HoptreeError as error:
            errors.append(_told(error))
        return Linked(
            question,
            bool(gold),
            any(map(question.is_relation, ranked)),
            len(ranked),
            ways,
            by_relation,
            tuple(one.id for one in found.linker[:_SHOWN]),
            found.mentions,
            " ".join(dict.fromkeys(errors)),
        )

    async def _gold(self, question: LinkingQuestion) -> tuple[Entity, ...]:
        """Return the entity if the graph has it; all entities of its name where only that is known."""
        if question.by_name:
            return await self._parts.graph.entities(question.entity)
        try:
            known = await self._parts.graph.entity(question.entity)
        except GraphError:  # an id of another kind of graph
            return ()
        return (known,) if known else ()

    async def _entities(self, question: LinkingQuestion, ways: dict[str, int | None]) -> EntityCandidates:
        """Fill in the ranks as far as they are known when something fails."""
        text = question.text
        depth = max(self._entities_kept, _SHOWN)
        linker = self._parts.linker or self._parts.candidates
        if linker is not self._parts.candidates:
            by_index = await self._parts.candidates.of_text(text, limit=depth)
            ways["index"] = _place(question.is_entity(one.entity) for one in by_index)
        alone = tuple(one.entity for one in await linker.of_text(text, limit=depth))
        ways["linker"] = _place(map(question.is_entity, alone))
        if self._parts.model is None:
            return EntityCandidates(alone)
        ctx = self._context()
        found = await find_entities(ctx, linker, text)
        ways["model"] = _place(map(question.is_entity, found.model))
        # Both lists to the same depth, as the figure has it: up to twice as many candidates.
        ways["union"] = min((place for place in (ways["linker"], ways["model"]) if place), default=None)
        kept = await keep_entities(ctx, text, found.union, keep=self._entities_kept)
        ways["kept"] = _place(map(question.is_entity, kept))
        return found

    async def _candidates(self, gold: Sequence[Entity]) -> tuple[tuple[Relation, ...], Entity | None]:
        if self._parts.among == "graph":
            return self._all, None
        if not self._parts.rankings or not gold:
            return (), None
        around = [await self._parts.graph.facts(one.id) for one in gold]
        relations = dict.fromkeys(one for found in around for one in relations_of(found, self._properties))
        return tuple(relations), gold[0]

    def _context(self) -> Context:
        model = self._parts.model or ScriptedModel("none", rules=[])  # never asked
        trace = Trace(uuid.uuid4().hex[:12])
        return Context(method=_STEPS_OF, model=model, calls=self._parts.calls, trace=trace, graph=self._parts.graph)


def _told(error: HoptreeError) -> str:
    if error.exit_code == _MUST_CHANGE:
        raise error
    return str(error)


def _place(right: Iterable[bool]) -> int | None:
    return next((place for place, found in enumerate(right, 1) if found), None)
