"""Entity and relation linking recall (TreeQA, Figures 4 and 5)."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hoptree import __version__
from hoptree.core.errors import ConfigError, GraphError, HoptreeError, InputError
from hoptree.core.files import atomic_write, with_sum, without_sum
from hoptree.core.lazy import import_optional
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.schedule import together
from hoptree.engine.trace import Trace
from hoptree.evaluation.datasets.reading import check_half, half_of
from hoptree.evaluation.datasets.rows import Fields, read_question_rows
from hoptree.evaluation.experiment import Experiment, at_once
from hoptree.evaluation.plan import NO_MODEL
from hoptree.evaluation.report.tables import Number
from hoptree.evaluation.run_folder import other_run, write_json
from hoptree.evaluation.statistics import interval, unseen
from hoptree.graph.facts import Candidates, Entity, KnowledgeGraph, Property
from hoptree.graph.relation_linking import Relation, name_words, relations_in, relations_of
from hoptree.graph.vocabulary import WIKIDATA
from hoptree.methods.steps.link import RelationRanking, keep_entities
from hoptree.methods.steps.mentions import EntityCandidates, find_entities
from hoptree.models.model import Model
from hoptree.models.scripted import ScriptedModel
from hoptree.text.names import fold

_ID = re.compile(r"[QP][1-9]\d*|name:.+|[a-z]+://\S+", re.ASCII | re.DOTALL)
_REVERSED = re.compile(r"R(?=[1-9]\d*\Z)", re.ASCII)


@dataclass(frozen=True, slots=True)
class LinkingQuestion:
    """A question with its gold entity and relation, as ids or names."""

    id: str
    text: str
    entity: str
    relation: str = ""
    relation_name: str = ""

    @property
    def by_name(self) -> bool:
        """Whether the gold entity is a name, not an id."""
        return _ID.fullmatch(self.entity) is None

    def is_entity(self, entity: Entity) -> bool:
        if not self.by_name:
            return entity.id == self.entity
        return fold(self.entity) in {fold(name) for name in (entity.label, *entity.aliases)}

    def is_relation(self, relation: Relation) -> bool:
        """Return whether a relation is the gold one, by id or by name."""
        names = {name_words(name) for name in (self.relation_name, self.relation) if name}
        return relation.id == self.relation or name_words(relation.label) in names


class LinkingSet(NamedTuple):
    """The questions whose entity is known, and the number of the others."""

    questions: tuple[LinkingQuestion, ...]
    without_entity: int = 0


def read_linking_questions(path: Path, *, half: str = "", limit: int | None = None) -> LinkingSet:
    """Read the first `limit` questions with a known entity, of a file or its half."""
    if half:
        check_half(half)
    questions = []
    for number, (line, row) in enumerate(read_question_rows(path)):
        given = Fields(row, f"Line {line} of {path.name}", "own")
        triples = given.rows("evidence_triples", 3)
        subject, relation = (str(part) for part in triples[0][:2]) if triples else ("", "")
        key, text = given.text("id", "_id") or str(number), given.question("question")
        entity = (given.text("subject_qid", "subject") or subject).removeprefix(WIKIDATA)
        # In SimpleQuestions on Wikidata, R19 is the inverse of P19.
        relation = _REVERSED.sub("P", given.text("property", "relation") or relation)
        questions.append(LinkingQuestion(key, text, entity, relation, given.text("property_label")))
    inside = [question for question in questions if not half or half_of(question.id) == half]
    usable = [question for question in inside if question.entity]
    if not usable:
        cause = f"{path} holds no question whose entity is known."
        remedy = 'Rows need "subject_qid" (or "subject") and "property" (or "relation"), or "evidence_triples".'
        raise InputError(cause, remedy)
    return LinkingSet(tuple(usable[:limit]), len(inside) - len(usable))


ENTITY_KS, RELATION_KS = (1, 3, 5), (1, 3, 6)  # the depths in Figures 4 and 5
Among = Literal["entity", "graph"]  # the relations to rank: those of the gold entity, or all of the graph
_STEPS_OF = "treeqa"
_WITH_MODEL = ("linker", "model", "union", "kept")
_MAX_SHOWN = 10
_RANKINGS = ("words", "dense", "llm")


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts to measure: graph, linkers, model and rankings."""

    graph: KnowledgeGraph
    candidates: Candidates
    rankings: Mapping[str, RelationRanking] = field(default_factory=dict)
    model: Model | None = None
    calls: Calls = field(default_factory=lambda: Calls(None))
    among: Among = "entity"
    linker: Candidates | None = None


@dataclass(frozen=True, slots=True)
class Linked:
    """The rank of the right entity and relation by each linker."""

    question: LinkingQuestion
    in_graph: bool = False  # whether the graph has the entity
    relation_in_graph: bool = False
    ranked: int = 0  # the number of relations
    entity_ranks: Mapping[str, int | None] = field(default_factory=dict)
    relation_ranks: Mapping[str, int | None] = field(default_factory=dict)
    candidates: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.question.id,
            "question": self.question.text,
            "entity": self.question.entity,
            "relation": self.question.relation,
            "in_graph": self.in_graph,
            "relation_in_graph": self.relation_in_graph,
            "entities": dict(self.entity_ranks),
            "relations": dict(self.relation_ranks),
            "ranked": self.ranked,
            "linker": list(self.candidates),
            "mentions": list(self.mentions),
            "error": self.error or None,
        }


@dataclass(frozen=True, slots=True)
class LinkingRun:
    """All questions, and the recall of each linker with its interval."""

    asked: LinkingSet
    linked: tuple[Linked, ...]

    @property
    def failed(self) -> int:
        return sum(bool(question.error) for question in self.linked)

    def as_dict(self) -> dict[str, Any]:
        """Return recall over all questions, and over those that the graph covers."""
        with_entity = [question for question in self.linked if question.in_graph]
        with_relation = [question for question in self.linked if question.relation_in_graph]
        ranked = [question.ranked for question in self.linked if question.ranked]
        return {
            "questions": len(self.linked),
            "failed": self.failed,
            "without_entity": self.asked.without_entity,
            "entity_in_graph": len(with_entity),
            "relation_in_graph": len(with_relation),
            "relations_ranked": sum(ranked) / len(ranked) if ranked else 0.0,
            "entities": _recall([question.entity_ranks for question in self.linked], ENTITY_KS),
            "entities_in_graph": _recall([question.entity_ranks for question in with_entity], ENTITY_KS),
            "relations": _recall([question.relation_ranks for question in self.linked], RELATION_KS),
            "relations_in_graph": _recall([question.relation_ranks for question in with_relation], RELATION_KS),
        }


def _recall(ranks: Sequence[Mapping[str, int | None]], ks: Sequence[int]) -> dict[str, dict[str, dict[str, float]]]:
    """Return recall with a 95 % interval by linker and depth."""
    by_linker: dict[str, dict[str, dict[str, float]]] = {}
    for linker in dict.fromkeys(name for question in ranks for name in question):
        for k in ks:
            scores = [float((rank := question.get(linker)) is not None and rank <= k) for question in ranks]
            mean = interval(scores)
            # If all or none are found, resampling would give an interval without width.
            low = 1 - unseen(len(scores)) if min(scores) == 1 else mean.low
            high = unseen(len(scores)) if max(scores) == 0 else mean.high
            by_linker.setdefault(linker, {})[f"recall@{k}"] = {"recall": mean.mean, "low": low, "high": high}
    return by_linker


async def evaluate_linking(
    asked: LinkingSet, parts: Parts, *, on_done: Callable[[], None] = lambda: None
) -> LinkingRun:
    """Link every question; a failed one counts as not linked."""
    import_optional("numpy", "Measuring linking", "eval")  # a missing one is an error before the work
    linker = _Linker(parts, await parts.graph.properties())
    limit = asyncio.Semaphore(at_once(parts.model.slots) if parts.model else 2)

    async def link(question: LinkingQuestion) -> Linked:
        async with limit:
            linked = await linker.link(question)
        on_done()
        return linked

    linked = await together(link(question) for question in asked.questions)
    return LinkingRun(asked, tuple(linked))


class _Linker:
    """Links one question at a time with the shared parts."""

    def __init__(self, parts: Parts, properties: Sequence[Property]) -> None:
        self._parts = parts
        self._properties = {known.id: known for known in properties}
        self._all_relations = relations_in(properties)

    async def link(self, question: LinkingQuestion) -> Linked:
        gold: tuple[Entity, ...] = ()  # the gold entity, or all entities of its name
        if question.by_name:
            gold = await self._parts.graph.entities(question.entity)
        else:
            with suppress(GraphError):  # an id of another kind of graph
                known = await self._parts.graph.entity(question.entity)
                gold = (known,) if known else ()
        entity_ranks: dict[str, int | None] = dict.fromkeys(("index",) if self._parts.linker else ())
        entity_ranks |= dict.fromkeys(_WITH_MODEL if self._parts.model else ("linker",))
        relation_ranks: dict[str, int | None] = dict.fromkeys(self._parts.rankings)
        candidates = EntityCandidates(())
        relations: tuple[Relation, ...] = ()
        errors: list[str] = []
        try:
            candidates = await self._entities(question, entity_ranks)
        except HoptreeError as error:
            errors.append(_message(error))
        try:
            relations, entity = await self._relations(gold)
            keep = max(RELATION_KS)
            for name, ranking in self._parts.rankings.items():
                best = await ranking.rank(self._context(), question.text, relations, keep=keep, entity=entity)
                relation_ranks[name] = _rank(map(question.is_relation, best))
        except HoptreeError as error:
            errors.append(_message(error))
        return Linked(
            question,
            bool(gold),
            any(map(question.is_relation, relations)),
            len(relations),
            entity_ranks,
            relation_ranks,
            tuple(entity.id for entity in candidates.linker[:_MAX_SHOWN]),
            candidates.mentions,
            " ".join(dict.fromkeys(errors)),
        )

    async def _entities(self, question: LinkingQuestion, ranks: dict[str, int | None]) -> EntityCandidates:
        """Return the candidates; fill in `ranks` one by one, in case a later one fails."""
        text = question.text
        linker = self._parts.linker or self._parts.candidates
        if linker is not self._parts.candidates:
            by_index = await self._parts.candidates.of_text(text, limit=_MAX_SHOWN)
            ranks["index"] = _rank(question.is_entity(candidate.entity) for candidate in by_index)
        by_linker = tuple(candidate.entity for candidate in await linker.of_text(text, limit=_MAX_SHOWN))
        ranks["linker"] = _rank(map(question.is_entity, by_linker))
        if self._parts.model is None:
            return EntityCandidates(by_linker)
        ctx = self._context()
        candidates = await find_entities(ctx, linker, text)
        ranks["model"] = _rank(map(question.is_entity, candidates.model))
        # The figure takes both lists to the same depth: up to twice as many candidates.
        ranks["union"] = min((rank for rank in (ranks["linker"], ranks["model"]) if rank), default=None)
        kept = await keep_entities(ctx, text, candidates.union, keep=max(ENTITY_KS))
        ranks["kept"] = _rank(map(question.is_entity, kept))
        return candidates

    async def _relations(self, gold: Sequence[Entity]) -> tuple[tuple[Relation, ...], Entity | None]:
        """Return the relations to rank, and the entity they belong to."""
        if self._parts.among == "graph":
            return self._all_relations, None
        if not self._parts.rankings or not gold:
            return (), None
        around = [await self._parts.graph.facts(entity.id) for entity in gold]
        relations = dict.fromkeys(relation for facts in around for relation in relations_of(facts, self._properties))
        return tuple(relations), gold[0]

    def _context(self) -> Context:
        model = self._parts.model or ScriptedModel("none", rules=[])  # never asked
        trace = Trace(uuid.uuid4().hex[:12])
        return Context(method=_STEPS_OF, model=model, calls=self._parts.calls, trace=trace, graph=self._parts.graph)


@dataclass(frozen=True, slots=True)
class LinkingOptions:
    """The options of a measurement."""

    graph: str
    model: str = ""
    linker: str = ""
    relations: tuple[str, ...] = ()
    among: Among = "entity"
    encoder: str = "minilm"

    def __post_init__(self) -> None:
        for ranking in self.relations:
            if ranking not in _RANKINGS:
                raise ConfigError(f"Relations cannot be ranked by '{ranking}'.", f"Choose of {', '.join(_RANKINGS)}.")
        if self.among not in ("entity", "graph"):
            raise ConfigError(f"There are no relations of '{self.among}'.", "Use --among entity or --among graph.")
        if "llm" in self.relations and not self.model:
            raise ConfigError("Without a model no relations are ranked by one.", "Add --model, or use words or dense.")

    @classmethod
    def of_run(cls, experiment: Experiment) -> LinkingOptions:
        """Read the options of a planned run."""
        options = dict(experiment.options)
        known = [part.name for part in fields(cls) if part.name not in ("graph", "model")]
        if unknown := options.keys() - set(known):
            raise ConfigError(f"Linking has no option '{unknown.pop()}'.", f"It has {', '.join(known)}.")
        relations = options.pop("relations", [])
        ranked = tuple(relations) if isinstance(relations, list) else (relations,)
        model = "" if experiment.model == NO_MODEL else experiment.model
        return cls(graph=experiment.graph or "", model=model, relations=ranked, **options)

    def rests_on(self, asked: LinkingSet) -> dict[str, Any]:
        """Return what the figures rest on, as JSON values."""
        digest = hashlib.sha256(repr(asked.questions).encode("utf-8", "replace")).hexdigest()[:16]
        return {"questions": digest, "version": __version__, **asdict(self), "relations": list(self.relations)}


LINKED = "linking.json"  # the figures of a planned run, in its folder


def is_linked(folder: Path, asked: LinkingSet, options: LinkingOptions, *, retry_failed: bool) -> bool:
    """Return whether a folder has these figures; other figures are an error."""
    known, rests_on = read_linked(folder), options.rests_on(asked)
    if known and known.get("rests_on") != rests_on:
        raise other_run(folder, known.get("rests_on", {}), rests_on, (known["questions"], len(asked.questions)))
    return bool(known) and not (retry_failed and known["failed"])


def write_linked(folder: Path, options: LinkingOptions, run: LinkingRun) -> None:
    """Write each question's ranks, then the figures, which finish the run."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = (json.dumps(linked.as_dict(), ensure_ascii=False) + "\n" for linked in run.linked)
    atomic_write(folder / "questions.jsonl", rows)
    write_json(folder / LINKED, with_sum({"rests_on": options.rests_on(run.asked), **run.as_dict()}))


def read_linked(folder: Path) -> dict[str, Any]:
    """Return the figures in a run's folder; {} without any."""
    try:
        figures = without_sum(json.loads((folder / LINKED).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{folder / LINKED} cannot be read: {error}.", "Delete it, and measure again.") from error
    return figures


def coverage(figures: Mapping[str, Any]) -> str:
    """Return a sentence on how many questions the graph covers."""
    relations = f", and the relation of {figures['relation_in_graph']:,}" if figures["relations"] else ""
    entities = f"the entity of {figures['entity_in_graph']:,} of the {figures['questions']:,} questions"
    return f"The graph has {entities}{relations}."


def recall_number(figures: Mapping[str, Any], measure: str, linker: str) -> Number | None:
    """Return a recall in points; `linker` "" is the first one."""
    kind, _, depth = measure.partition(":")
    by_linker = figures[kind]
    recalls = by_linker.get(linker) if linker else next(iter(by_linker.values()), None)
    at_depth = (recalls or {}).get(f"recall@{depth}")
    return Number(*(100 * at_depth[name] for name in ("recall", "low", "high"))) if at_depth else None


def _message(error: HoptreeError) -> str:
    """Return the message of an error; raise an error that all questions would meet."""
    if error.exit_code == InputError.exit_code:
        raise error
    return str(error)


def _rank(matches: Iterable[bool]) -> int | None:
    return next((rank for rank, match in enumerate(matches, 1) if match), None)
