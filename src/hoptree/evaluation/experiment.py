"""An experiment: its questions, its engine, and the scores of its answers."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from hoptree import __version__
from hoptree.core.errors import ConfigError, HoptreeError, InputError, RequestTooLong
from hoptree.core.http_client import without_password
from hoptree.core.values import Answer, Question, Usage
from hoptree.engine.cache import Store
from hoptree.engine.context import Budget, Context, Prices
from hoptree.engine.engine import Engine, check_question
from hoptree.engine.events import Decision, Event, Finished, NodeSettled, Planned
from hoptree.engine.prompts import prompt_for, prompts_digest
from hoptree.engine.registry import DEFAULT_METHOD, Method, Option, read_options
from hoptree.engine.result import Result
from hoptree.engine.schedule import together
from hoptree.engine.trace import Listener, Retrieved
from hoptree.evaluation import metrics
from hoptree.evaluation.datasets.examples import DataSet, Example
from hoptree.evaluation.datasets.reading import check_half, draw_types, filter_answers, read_examples
from hoptree.evaluation.datasets.releases import paper_sample
from hoptree.evaluation.run_folder import Row
from hoptree.methods.steps.answer import confident_answer, direct_answer
from hoptree.models import DEFAULT_MODEL, open_model
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.index.folder import sample_index
from hoptree.retrieval.retriever import open_retriever

_PACKAGES = ("tantivy", "xllamacpp", "torch", "transformers", "peft", "usearch", "onnxruntime", "numpy")
_ADDRESSES = ("base_url", "judge_base_url", "corpus", "graph", "rerank")
_OF_THE_ENGINE = ("method", "corpus", "graph", "retriever", "rerank", "options", "budget", "prices", "base_url")


@dataclass(frozen=True, slots=True)
class Experiment:
    """All settings that the results of a run depend on."""

    data: Path
    method: str = DEFAULT_METHOD
    model: str = DEFAULT_MODEL
    corpus: str | None = None
    graph: str | None = None
    retriever: str = DEFAULT_RETRIEVER
    rerank: str = ""
    prompts: str | None = None  # a folder of prompts that replace the packaged ones
    options: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)  # other models for parts of the method
    base_url: str = ""
    limit: int | None = None  # the first questions of the file, or as many drawn by the seed
    seed: int | None = None
    ids: Path | None = None  # a file of ids
    sample: str = ""  # a paper: draw as many questions of each type as it does, if there are as many
    half: str = ""  # first or second: only the questions of that half of the file
    budget: Budget = field(default_factory=Budget)  # for each question
    prices: Prices | None = None
    filter_answers: int | None = None  # drop answers that are not in the first N passages (RA-ISF, for TriviaQA)
    judge: str = ""
    judge_base_url: str = ""
    name: str = ""

    def read_data(self) -> DataSet:
        """Return the chosen questions in the order they are asked."""
        if not self.sample or self.ids is not None:
            return read_examples(self.data, limit=self.limit, seed=self.seed, ids=self.ids, of_half=self.half)
        data = read_examples(self.data, of_half=self.half)
        drawn = draw_types(data.examples, paper_sample(self.sample, data.name), self.seed or 0, at_most=True)
        return replace(data, examples=drawn[: self.limit])

    def __post_init__(self) -> None:
        passages = self.filter_answers
        if passages is not None and (type(passages) is not int or passages < 1):
            raise ConfigError(f"Answers cannot be looked for in {passages!r} passages.", "Write filter_answers: 1000.")
        if self.half:
            check_half(self.half)
        if not isinstance(self.roles, Mapping) or not all(isinstance(spec, str) for spec in self.roles.values()):
            raise ConfigError(f"{self.roles!r} are not roles with models.", "Write roles: {decompose: openai/NAME}.")
        if not isinstance(self.prompts, str | None):
            raise ConfigError(f"{self.prompts!r} is not a folder of prompts.", "Write prompts: FOLDER.")
        if not isinstance(self.judge, str):
            raise ConfigError(f"{self.judge!r} names no judge.", "Write judge: openai/NAME, or another model.")

    async def drop_unfound_answers(self, data: DataSet) -> tuple[DataSet, dict[str, Any]]:
        """Drop answers that BM25 does not find: the same for all runs over a corpus."""
        if self.filter_answers is None:
            return data, {}
        if self.corpus is None:
            raise InputError("Answers cannot be looked for without documents.", "Add --corpus INDEX.")
        where = sample_index() if self.corpus == "sample" else self.corpus
        async with aclosing(open_retriever(where, "bm25")) as retriever:
            kept, left_out, untouched = await filter_answers(data, retriever, k=self.filter_answers)
        looked_in = f"{self.filter_answers} passages of {retriever.identity}"
        return kept, {"looked_in": looked_in, "left_out": left_out, "untouched": len(untouched)}

    def open_judge(self) -> Model:
        """Open the judge, by default at the run's endpoint."""
        at_endpoint = self.judge.startswith("openai/")
        return open_model(self.judge, base_url=self.judge_base_url or (self.base_url if at_endpoint else ""))

    def open_models(self, opened: dict[tuple[str, str], Model]) -> dict[str, Model]:
        """Return the models by role; open those that are not in `opened` yet."""
        models = {}
        for role, spec in {"": self.model, **self.roles}.items():
            key = (spec, self.base_url if not role or spec.startswith("openai/") else "")
            if key not in opened:
                opened[key] = open_model(spec, base_url=key[1])
            models[role] = opened[key]
        return models

    def open_engine(
        self,
        *,
        listeners: Sequence[Listener] = (),
        cache: str | Path | Store | None,
        concurrency: int | None,
        model: Model | None = None,
        roles: Mapping[str, Model] | None = None,
    ) -> Engine:
        """Open the engine; it leaves models open that are passed in."""
        return Engine(
            model=model or self.model,
            roles={**self.roles, **(roles or {})},
            prompts=self.prompts,
            cache=cache,
            concurrency=concurrency,
            listeners=listeners,
            **{name: getattr(self, name) for name in _OF_THE_ENGINE},
        )


def describe_run(
    experiment: Experiment, data: DataSet, engine: Engine, answer_filter: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the content of `run.json`."""
    ids = [example.id for example in data.examples]
    options = {option.name: engine.options.get(option.name, option.default) for option in engine.method.options}
    rests_on = {
        "data": data.digest,
        "questions": hashlib.sha256("\n".join(ids).encode("utf-8", "replace")).hexdigest()[:16],
        "corpus": engine.retriever.identity if engine.retriever else None,
        **({"graph": engine.graph.identity} if engine.graph else {}),
        **engine.method.uses(options),
        "method": experiment.method,
        "options": options,
        "prompts": prompts_digest(experiment.method),
        **({"own_prompts": own} if (own := engine.prompts.of(engine.method)) else {}),
        "model": engine.models_identity,
        "budget": asdict(experiment.budget),
        "version": __version__,
        **({"answer_filter": answer_filter["looked_in"]} if answer_filter else {}),
    }
    digest = hashlib.sha256(json.dumps(rests_on, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return {
        "format": 1,
        "id": digest,
        "name": experiment.name or f"{experiment.method} on {data.name}",
        "data_name": data.name,
        "experiment": {**json.loads(json.dumps(asdict(experiment), default=str)), **_addresses(experiment)},
        "rests_on": json.loads(json.dumps(rests_on, default=str)),
        "fidelity": engine.fidelity,
        "environment": _environment(),
        **({"answer_filter": dict(answer_filter)} if answer_filter else {}),
        "questions": ids,
    }


def _addresses(experiment: Experiment) -> dict[str, str]:
    """Return all addresses without their passwords: runs are shown and shared."""
    values = {name: getattr(experiment, name) for name in _ADDRESSES}
    return {name: without_password(value) for name, value in values.items() if value}


def experiment_of(run: Mapping[str, Any], kind: type[Experiment] = Experiment) -> Experiment:
    """Rebuild the experiment that a `run.json` records."""
    known = {part.name for part in fields(Experiment)}
    try:
        settings = {name: value for name, value in run["experiment"].items() if name in known}
        settings["data"] = Path(settings["data"])
        settings["ids"] = Path(settings["ids"]) if settings.get("ids") is not None else None
        settings["budget"] = Budget(**settings.get("budget") or {})
        settings["prices"] = Prices(**settings["prices"]) if settings.get("prices") else None
        return kind(**settings)
    except (KeyError, TypeError, AttributeError) as error:
        raise InputError(f"The run does not say how it was made: {error}.", "Run it again with hoptree run.") from error


def _environment() -> dict[str, Any]:
    packages = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            packages[name] = version(name)
    return {
        "hoptree": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": packages,
    }


# Methods in runs and experiment files that answer no questions, and so are not registered.
BOUNDARY_METHOD = "boundary"
LINKING_METHOD = "linking"  # takes the options of `hoptree eval linking`
_STEPS_OF = "taikc"


@dataclass(frozen=True, slots=True)
class BoundaryExperiment(Experiment):
    """A run that asks every question twice by TAIKC's steps."""

    method: str = BOUNDARY_METHOD

    def open_engine(self, **how: Any) -> Engine:
        engine = Experiment.open_engine(replace(self, method=_STEPS_OF, corpus=None, options={}), **how)
        template = prompt_for(_STEPS_OF, "confident").template
        options = (Option("strict", bool, True), Option("prompt", Literal[template], template))
        # Under TAIKC's name, so that the two steps find its prompts.
        roles = ("know", "answer")
        engine.method = Method(_STEPS_OF, "Direct and Confident QA", _ask_twice, options, paper="TAIKC", roles=roles)
        engine.options = read_options(engine.method, self.options)
        return engine


async def _ask_twice(question: Question, ctx: Context, *, strict: bool = True, prompt: str = "") -> Answer:
    """Ask in both settings at once; `strict` reads replies as the paper does."""
    logprobs = "logprobs" in ctx.model_for("answer").capabilities
    direct, confident = await together(
        (direct_answer(ctx, question.text, logprobs=logprobs), confident_answer(ctx, question.text, strict=strict))
    )
    ctx.trace.add(
        BOUNDARY_METHOD,
        direct=direct.text,
        confidence=direct.confidence,
        confident=confident.text,
        refused=confident.status == "refused",
    )
    return direct


_MAX_AT_ONCE = 512  # concurrent questions: more would only wait for the model, and fill the memory
_QUESTIONS_PER_SLOT = 4  # concurrent questions for each slot of the model, so that no slot idles


class Asked(NamedTuple):
    """The outcome of a question; `stops_run` is an error that all would meet."""

    row: Row
    stops_run: HoptreeError | None = None


class Asker(Protocol):
    """Asks a method questions, `at_once` of them concurrently."""

    @property
    def at_once(self) -> int: ...

    async def ask(self, example: Example) -> Asked: ...


class EngineAsker:
    """Asks an engine in this process."""

    def __init__(self, engine: Engine, at_once: int = 1) -> None:
        self._engine = engine
        self.at_once = at_once

    async def ask(self, example: Example) -> Asked:
        events: list[Event] = []
        try:
            question = check_question(example.as_question())
        except InputError as error:  # the other questions may be valid
            return Asked(failed_row(example, error, searchable=searches(self._engine)))
        result = await self._engine.ask(question, listeners=(events.append,))
        failure = result.failure
        row = _row(example, result, events, searchable=searches(self._engine))
        # Another question's request may be short enough.
        meets_all = failure is not None and failure.exit_code == 2 and not isinstance(failure, RequestTooLong)
        return Asked(row, failure if meets_all else None)


def searches(engine: Engine) -> bool:
    """Return whether the method searches, so that retrieval can be scored."""
    return engine.retriever is not None and "corpus" in engine.method.needs


def at_once(slots: int, *, timed: bool = False) -> int:
    """Return the number of concurrent questions that keep a model's slots busy.

    With a budget of seconds (`timed`) each question has a slot: waiting for others would spend its time.
    """
    return max(1, min(_MAX_AT_ONCE, slots if timed else _QUESTIONS_PER_SLOT * slots))


def _row(example: Example, result: Result, events: Sequence[Event], *, searchable: bool) -> Row:
    if read := _decisions_of("read", events):  # the method records which passages it read
        searches = [read[-1].value]
    else:
        results = [event.passages for event in events if isinstance(event, Retrieved)]
        searches = [[passage["id"] for passage in passages] for passages in results]
    gold = {*example.supporting_ids, *(name for names in example.hop_ids for name in names)}

    def named(passages: Iterable[str]) -> tuple[str, ...]:
        """Replace the id of a gold passage's chunk (p#2) by the passage's id."""
        parents = ((name, name.rpartition("#")[0]) for name in passages)
        return tuple(dict.fromkeys(parent if parent in gold else name for name, parent in parents))

    sources: Counter[str] = Counter()  # of the answers in the last plan
    for event in events:
        if isinstance(event, Planned) and event.under is None:
            sources.clear()
        elif isinstance(event, NodeSettled):
            sources[event.source] += 1
    final = next((event for event in reversed(events) if isinstance(event, Finished)), Finished())
    cited = [passage.id for passage in result.consulted if not final.support or passage.id in final.support]
    if result.tree and not result.answer:
        cited = [name for top in result.tree for node in top.walk() for name in node.evidence]
    row = replace(
        _blank_row(example),
        answer=result.answer,
        abstained=result.abstained,
        error=result.error,
        error_message=result.error_message,
        stopped_by=result.stopped_by,
        source=final.source,
        usage=result.usage.as_dict(),
        retrieved=tuple(map(named, searches)),
        cited=named(cited),
        sources=dict(sources),
        trace=events[0].run,
    )
    return _score(example, row, events, searchable=searchable)


def failed_row(example: Example, failure: HoptreeError, *, searchable: bool) -> Row:
    """Return the outcome of a question that could not be asked."""
    row = replace(_blank_row(example), error=type(failure).__name__, error_message=str(failure))
    return _score(example, row, (), searchable=searchable)


def _blank_row(example: Example) -> Row:
    return Row(
        id=example.id,
        question=example.question,
        answers=example.answers,
        answer="",
        type=example.type,
        hops=example.hops,
        usage=Usage().as_dict(),
        gold=example.supporting_ids,
        gold_titles=example.supporting_titles,
    )


def _decisions_of(kind: str, events: Iterable[Event]) -> list[Decision]:
    """Return the decisions of a kind; those of other packages may have no type."""
    decisions = (event for event in events if isinstance(event, Decision))
    return [decision for decision in decisions if decision.as_dict()["kind"] == kind]


def cited_sentences(events: Sequence[Event]) -> tuple[metrics.Sentence, ...] | None:
    """Return the cited sentences as (title, number), or None."""
    decisions = _decisions_of("cited_sentences", events)
    if not decisions:
        return None
    try:
        return tuple((" ".join(title.split()), int(number)) for title, number in decisions[-1].value)
    except (TypeError, ValueError, AttributeError):
        return ()


def _score(example: Example, row: Row, events: Sequence[Event], *, searchable: bool) -> Row:
    """Return the row with all scores; None where not applicable."""
    if example.answerable:
        scores = metrics.score_answer(row.answer, row.answers)
    else:
        scores = metrics.score_none(row.abstained and not row.error)
    if searchable:
        if example.supporting_facts:
            cited = cited_sentences(events)
            scores |= metrics.score_support(row.answer, row.answers, cited, example.supporting_facts)
        passages = {name for search in row.retrieved for name in search}
        scores["retrieval_recall"] = metrics.recall(passages, row.gold)
        for hop, gold in enumerate(example.hop_ids, 1):
            scores[f"recall_hop_{hop}"] = metrics.recall(passages, gold)
        scores |= metrics.score_citations(row.cited, row.gold, failed=bool(row.error))
    if example.wanted:
        known = metrics.considered(events)
        scores |= metrics.score_list(row.answer, example.wanted)
        scores[metrics.CANDIDATES] = metrics.candidate_recall(known, example.wanted) if known is not None else None
    return replace(row, scores=scores)
