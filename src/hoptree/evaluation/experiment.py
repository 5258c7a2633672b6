"""An experiment: questions, method, model and corpus of one run."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.cache import Store
from hoptree.engine.context import Budget, Prices
from hoptree.engine.engine import Engine
from hoptree.engine.prompts import prompts_digest
from hoptree.engine.registry import DEFAULT_METHOD
from hoptree.engine.trace import Listener
from hoptree.evaluation.datasets.examples import DataSet
from hoptree.evaluation.datasets.reading import HALVES, filter_answers, read_examples
from hoptree.models import DEFAULT_MODEL, open_model
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.opening import open_retriever
from hoptree.sample import sample_index

_PACKAGES = ("tantivy", "httpx", "xllamacpp", "torch", "transformers", "peft", "usearch", "onnxruntime", "numpy")


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that decides what a run's numbers mean.

    `limit` takes the first questions of the file, or with a `seed` as many drawn by it; `ids` names a file of ids.
    `half`, first or second, takes those of one half of the file. `roles` gives parts of the method models of their own.
    `prompts` is a folder of prompts that stand in for ours. `budget` holds for each question. With `filter_answers`,
    accepted answers that are not in that many passages of the corpus are left out, as RA-ISF does for TriviaQA. `judge`
    is the model that judges the answers.
    """

    data: Path
    method: str = DEFAULT_METHOD
    model: str = DEFAULT_MODEL
    corpus: str | None = None
    graph: str | None = None
    retriever: str = DEFAULT_RETRIEVER
    rerank: str = ""
    prompts: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    base_url: str = ""
    limit: int | None = None
    seed: int | None = None
    ids: Path | None = None
    half: str = ""
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    filter_answers: int | None = None
    judge: str = ""
    judge_base_url: str = ""
    name: str = ""

    def read_data(self) -> DataSet:
        """Return the questions in order."""
        return read_examples(self.data, limit=self.limit, seed=self.seed, ids=self.ids, of_half=self.half)

    def __post_init__(self) -> None:
        passages = self.filter_answers
        if passages is not None and (type(passages) is not int or passages < 1):
            raise ConfigError(f"Answers cannot be looked for in {passages!r} passages.", "Write filter_answers: 1000.")
        if self.half not in ("", *HALVES):
            raise ConfigError(f"{self.half!r} is no half of a data set.", f"Write half: {' or half: '.join(HALVES)}.")
        if not isinstance(self.roles, Mapping) or not all(isinstance(spec, str) for spec in self.roles.values()):
            raise ConfigError(f"{self.roles!r} are no roles with models.", "Write roles: {decompose: openai/NAME}.")
        if not isinstance(self.prompts, str | None):
            raise ConfigError(f"{self.prompts!r} is no folder of prompts.", "Write prompts: FOLDER.")
        if not isinstance(self.judge, str):
            raise ConfigError(f"{self.judge!r} names no judge.", "Write judge: openai/NAME, or another model.")

    async def filtered(self, data: DataSet) -> tuple[DataSet, dict[str, Any]]:
        """Drop accepted answers that BM25 does not find in the corpus; also return what `run.json` records of it.

        BM25 is used whatever the run's retriever is, so that the answers are the same for all runs over a corpus.
        """
        if self.filter_answers is None:
            return data, {}
        if self.corpus is None:
            raise InputError("Answers cannot be looked for without documents.", "Add --corpus INDEX.")
        retriever = open_retriever(sample_index() if self.corpus == "sample" else self.corpus, "bm25")
        try:
            kept = await filter_answers(data, retriever, k=self.filter_answers)
        finally:
            await retriever.aclose()
        looked_in = f"{self.filter_answers} passages of {retriever.identity}"
        return kept.data, {"looked_in": looked_in, "left_out": kept.left_out, "untouched": len(kept.untouched)}

    def open_judge(self) -> Model:
        """Open the judge, at the run's own endpoint if it has no address of its own."""
        at_endpoint = self.judge.startswith("openai/")
        return open_model(self.judge, base_url=self.judge_base_url or (self.base_url if at_endpoint else ""))

    def open(
        self,
        *,
        listeners: Sequence[Listener] = (),
        cache: str | Path | Store | None,
        concurrency: int | None,
        model: Model | None = None,
        roles: Mapping[str, Model] | None = None,
    ) -> Engine:
        """Open the engine; models that are passed in open stay open."""
        return Engine(
            method=self.method,
            model=model or self.model,
            corpus=self.corpus,
            graph=self.graph,
            retriever=self.retriever,
            rerank=self.rerank,
            options=self.options,
            prompts=self.prompts,
            budget=self.budget,
            prices=self.prices,
            cache=cache,
            base_url=self.base_url,
            roles={**self.roles, **(roles or {})},
            concurrency=concurrency,
            listeners=listeners,
        )


def describe_run(
    experiment: Experiment, data: DataSet, engine: Engine, answer_filter: Mapping[str, Any]
) -> dict[str, Any]:
    """Return what `run.json` records; runs with equal `rests_on` can be mixed and compared."""
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
        "experiment": json.loads(json.dumps(asdict(experiment), default=str)),
        "rests_on": json.loads(json.dumps(rests_on, default=str)),
        "fidelity": engine.fidelity,
        "environment": _environment(),
        **({"answer_filter": dict(answer_filter)} if answer_filter else {}),
        "questions": ids,
    }


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
        try:
            packages[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "hoptree": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "packages": packages,
    }
