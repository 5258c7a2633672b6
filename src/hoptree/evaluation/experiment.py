"""An experiment: which questions are put to which method, with which model over which documents."""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.engine import Engine
from hoptree.evaluation.datasets import DataSet, read_examples
from hoptree.models import DEFAULT_MODEL
from hoptree.models.model import Model
from hoptree.runtime.budget import Budget
from hoptree.runtime.cache import Store
from hoptree.runtime.context import Prices
from hoptree.runtime.prompts import prompts_digest
from hoptree.runtime.trace import Listener

__all__ = ["Experiment", "described"]

_PACKAGES = ("tantivy", "httpx", "xllamacpp", "torch", "transformers", "peft", "usearch", "onnxruntime", "numpy")


@dataclass(frozen=True, slots=True)
class Experiment:
    """Everything that decides what a run's numbers mean.

    `limit` takes the first questions of the file, or with a `seed` as many drawn by it; `ids` names a file of ids.
    `budget` holds for each question.
    """

    data: Path
    method: str = "taikc"
    model: str = DEFAULT_MODEL
    corpus: str | None = None
    retriever: str = "bm25"
    rerank: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    base_url: str = ""
    limit: int | None = None
    seed: int | None = None
    ids: Path | None = None
    budget: Budget = field(default_factory=Budget)
    prices: Prices | None = None
    name: str = ""

    def read_data(self) -> DataSet:
        """The questions that are asked, in their order."""
        return read_examples(self.data, limit=self.limit, seed=self.seed, ids=self.ids)

    def open(
        self,
        *,
        listeners: Sequence[Listener] = (),
        cache: str | Path | Store | None,
        concurrency: int | None,
        model: Model | None = None,
    ) -> Engine:
        """The engine that answers them; a `model` that is open already is used, and stays open."""
        return Engine(
            method=self.method,
            model=model or self.model,
            corpus=self.corpus,
            retriever=self.retriever,
            rerank=self.rerank,
            options=self.options,
            budget=self.budget,
            prices=self.prices,
            cache=cache,
            base_url="" if model else self.base_url,
            concurrency=concurrency,
            listeners=listeners,
        )


def described(experiment: Experiment, data: DataSet, engine: Engine) -> dict[str, Any]:
    """What `run.json` says of a run: two runs whose `rests_on` are equal ask the same of the same."""
    ids = [example.id for example in data.examples]
    options = {option.name: engine.options.get(option.name, option.default) for option in engine.method.options}
    rests_on = {
        "data": data.digest,
        "questions": hashlib.sha256("\n".join(ids).encode("utf-8", "replace")).hexdigest()[:16],
        "corpus": engine.retriever.identity if engine.retriever else None,
        "method": experiment.method,
        "options": options,
        "prompts": prompts_digest(experiment.method),
        "model": engine.model.identity,
        "budget": asdict(experiment.budget),
        "version": __version__,
    }
    digest = hashlib.sha256(json.dumps(rests_on, sort_keys=True, default=str).encode()).hexdigest()[:12]
    return {
        "format": 1,
        "id": digest,
        "name": experiment.name or f"{experiment.method} on {data.name}",
        "experiment": _as_json(experiment),
        "rests_on": json.loads(json.dumps(rests_on, default=str)),
        "fidelity": engine.method.fidelity(engine.options),
        "environment": _environment(),
        "questions": ids,
    }


def _as_json(experiment: Experiment) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(asdict(experiment), default=str))
    return data


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
