"""Experiment files: several runs over several data sets in one file.

    name: TAIKC, Table 2
    data:
      2wikimultihopqa: {questions: 2wikimultihopqa/dev.jsonl, corpus: 2wikimultihopqa/corpus.jsonl.gz}
    every: {limit: 500, retriever: bm25}
    models: {GPT-4o: openai/gpt-4o, Llama-3.1-8B: hf/meta-llama/Llama-3.1-8B-Instruct}
    runs:
      direct: {method: direct}
      taikc external: {method: taikc, options: {source: external}}

Every run is made with every data set, and with every model if there are `models`. Paths are relative to the folder of
the data, or to that of the file if they begin with `./`. A corpus may be a list of files (searched as one), wikipedia,
or the address of an engine. A data set may have its own `limit`, `half` (first or second) and `ids` (a file beside the
experiment, like the folder of a run's `prompts`), and a knowledge `graph`: a folder, a URL, or wikidata. A run may be
`only` on some data sets; with `model: none` it has no model. `method: boundary` measures boundary awareness (hoptree
eval boundary), `method: linking` entity and relation linking (hoptree eval linking).

`index: {chunk: tokens:300, encoder: minilm, facts: on}`, for all runs or one, sets how files are indexed: how they are
chunked, the encoder of `dense` and `hybrid`, and whether the run's model extracts the facts that `hippo` needs. A
corpus on the network cannot be encoded: the encoder ranks the results of its own search instead. `options: {labels:
FILE}` is a file of labelled questions in the data set's folder, made by hoptree align skr.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, CorpusError, InputError, closest, did_you_mean
from hoptree.corpus.chunk import Chunking
from hoptree.engine.context import Budget, Prices
from hoptree.engine.registry import list_methods
from hoptree.evaluation.experiment import BOUNDARY_METHOD, LINKING_METHOD, BoundaryExperiment, Experiment
from hoptree.retrieval.encoder import absolute_spec, check_encoder, open_encoder
from hoptree.retrieval.index.folder import MANIFEST, Settings, read_manifest
from hoptree.retrieval.indexing import build_index, update_index
from hoptree.retrieval.indexing.sources import Listener, Reading
from hoptree.retrieval.rerank import open_reranker
from hoptree.retrieval.retriever import check_kind, is_remote

_PARTS = ("name", "about", "data", "every", "models", "runs")
_OF_THE_PLAN = ("index", "only")
_SETTINGS = (*sorted({part.name for part in fields(Experiment)} - {"data", "corpus", "graph", "name"}), *_OF_THE_PLAN)
NO_MODEL = "none"
_BY_VECTORS = ("dense", "hybrid", "hippo")  # retrievers that need an encoder, or profit from one
_BY_ENCODER = "embed/"  # prefix of rerankers that compare an encoder's vectors
_OF_ITS_QUESTIONS = ("limit", "half", "ids")
_OF_A_DATA_SET = ("questions", "corpus", "graph", *_OF_ITS_QUESTIONS)
_OF_A_MODEL = ("model", "base_url", "prices")
_TEXTS = ("base_url", "half", "judge", "judge_base_url", "method", "model", "rerank", "retriever", "sample")


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """How files are indexed: chunking, encoder and facts."""

    chunk: str = "auto"
    encoder: str = ""
    facts: bool = False
    tokenizer: str = "minilm"

    def __post_init__(self) -> None:
        Chunking.parse(str(self.chunk))
        if self.encoder:
            check_encoder(str(self.encoder))
        if not isinstance(self.facts, bool):
            raise ConfigError(f"Facts are on or off, not {self.facts!r}.", "Write index: {facts: on}.")

    def for_retriever(self, kind: str) -> IndexPlan:
        return replace(self, encoder=self.encoder if kind in _BY_VECTORS else "", facts=self.facts and kind == "hippo")

    def reading(self) -> Reading:
        chunking = Chunking.parse(self.chunk)
        if chunking.by != "tokens":
            return Reading(chunking)
        if self.tokenizer != "minilm":
            return Reading(chunking, Path(self.tokenizer))
        from hoptree.retrieval.encoder_backends import minilm_files

        return Reading(chunking, minilm_files().tokenizer)


@dataclass(frozen=True, slots=True)
class Planned:
    """One run of an experiment file, with its corpus files and index settings."""

    data_name: str
    run_name: str
    corpora: tuple[Path, ...]
    experiment: Experiment
    index: IndexPlan = field(default_factory=IndexPlan)

    @property
    def folder(self) -> Path:
        """The run's folder, relative to that of all runs."""
        return Path(*(plain_name(name) for name in (self.data_name, self.run_name) if name))


def experiments_folder() -> Path:
    package = Path(__file__).resolve().parents[1]
    packaged = package / "experiments"
    return packaged if packaged.is_dir() else package.parents[1] / "experiments"


def read_plan(path: Path, root: Path, overrides: Mapping[str, Any] | None = None) -> list[Planned]:
    """Read the runs of an experiment file; `overrides` apply to all.

    A model, graph, corpus or encoder among the overrides replaces all of the file's, the encoder also that of
    rerankers. `wikipedia=INDEX` replaces only that corpus; the reranker `none` removes the file's.
    """
    overrides = dict(overrides or {})
    graph, corpus, encoder = (overrides.pop(name, None) for name in ("graph", "corpus", "encoder"))
    if overrides.get("rerank") == "none":
        overrides["rerank"] = ""
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give an experiment file.") from error
    except (yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path} is not YAML: {' '.join(str(error).split())}.", "Fix it there.") from error
    plan = _mapping(content, "The file", path)
    _known(plan, _PARTS, path)
    data = _mapping(plan.get("data"), "data", path)
    named = _named_runs(plan, overrides, path)
    planned = []
    for data_name, places in data.items():
        _known(_mapping(places, f"data: {data_name}", path), _OF_A_DATA_SET, path)
        if "questions" not in places:
            raise InputError(f"{path}: the data set {data_name} has no questions.", "Write questions: FILE.")
        own = {name: places[name] for name in _OF_ITS_QUESTIONS if name in places and name not in overrides}
        for run_name, given in named.items():
            settings = {name: value for name, value in given.items() if name not in _OF_THE_PLAN}
            only = given.get("only", list(data))
            if not isinstance(only, list) or not set(only) <= set(data):
                first = next(iter(data), "NAME")
                raise ConfigError(f"{path}: {only!r} are not data sets of it.", f"Write only: [{first}].")
            if data_name not in only:
                continue
            method = settings.get("method")
            if encoder and "rerank" not in overrides and str(settings.get("rerank") or "").startswith(_BY_ENCODER):
                settings["rerank"] = f"{_BY_ENCODER}{absolute_spec(encoder)}"
            questions = _place(str(places["questions"]), root, path)
            options = settings.get("options")
            if isinstance(options, dict) and options.get("labels") and "options" not in overrides:
                settings["options"] = {**options, "labels": str(questions.parent / str(options["labels"]))}
            common: dict[str, Any] = {
                "data": questions,
                "name": f"{run_name} on {data_name}",
                **_converted({**settings, **own}, path),
            }
            if method == BOUNDARY_METHOD:
                planned.append(Planned(str(data_name), run_name, (), BoundaryExperiment(**common)))
                continue
            sources = _corpora(places, path)
            instead = _in_place_of(sources, corpus)
            corpora = tuple(_place(source, root, path) for source in sources if not instead and not is_remote(source))
            searched = instead or ", ".join(map(str, corpora or sources)) or None
            has_graph = method == LINKING_METHOD or any(
                known.name == method and "graph" in known.needs for known in list_methods()
            )
            facts = graph or (str(places.get("graph") or "") if has_graph else "")
            if facts and not graph and facts != "wikidata" and "://" not in facts:
                facts = str(_place(facts, root, path))
            experiment = Experiment(corpus=searched, graph=facts or None, **common)
            if searched:
                check_kind(experiment.retriever)
            index = _index(given, encoder, path)
            if searched and is_remote(searched) and experiment.retriever in _BY_VECTORS and index.encoder:
                rerank = experiment.rerank or f"{_BY_ENCODER}{index.encoder}"
                experiment = replace(experiment, retriever="bm25", rerank=rerank)
            index = index.for_retriever(experiment.retriever)
            planned.append(Planned(str(data_name), run_name, corpora, experiment, index))
    return planned


async def check_search(planned: Sequence[Planned]) -> None:
    """Open encoders and rerankers once, to find missing ones early."""
    encoders = dict.fromkeys(run.index.encoder for run in planned if run.index.encoder)
    rerankers = dict.fromkeys(run.experiment.rerank for run in planned if run.experiment.rerank)
    for spec in (*encoders, *rerankers):
        try:
            await (open_encoder(spec) if spec in encoders else open_reranker(spec)).aclose()
        except InputError as error:
            if spec.removeprefix(_BY_ENCODER) != "minilm":
                error.remedy = f"{error.remedy.rstrip('.')}; or take another: --encoder minilm, --rerank none."
            raise


def _index(settings: Mapping[str, Any], encoder: str | None, path: Path) -> IndexPlan:
    given = _mapping(settings.get("index", {}), "index", path)
    _known(given, tuple(part.name for part in fields(IndexPlan)), path)
    return IndexPlan(**given | ({"encoder": absolute_spec(encoder)} if encoder else {}))


def chosen(planned: Sequence[Planned], names: Sequence[str]) -> list[Planned]:
    """Return the runs of the given data sets and names; all if none are given."""
    data, runs = {run.data_name for run in planned}, {run.run_name for run in planned}
    for name in names:
        if name not in data | runs:
            close = closest(name, data | runs)
            hint = f"Did you mean '{close}'?" if close else f"There are {', '.join(sorted(data | runs))}."
            raise ConfigError(f"The file has no run and no data set '{name}'.", hint)
    wanted_data, wanted_runs = data & set(names) or data, runs & set(names) or runs
    return [run for run in planned if run.data_name in wanted_data and run.run_name in wanted_runs]


def _corpora(places: Mapping[str, Any], path: Path) -> tuple[str, ...]:
    """Return the corpora of a data set, which are searched as one."""
    value = places.get("corpus") or []
    corpora = tuple(value) if isinstance(value, list) else (str(value),)
    if not all(isinstance(corpus, str) for corpus in corpora):
        raise ConfigError(f"{path}: {value!r} are not corpora.", "Write corpus: FILE, or corpus: [FILE, FILE].")
    if len(corpora) > 1 and any(map(is_remote, corpora)):
        raise ConfigError(f"{path}: a corpus on the network stands alone.", "Name it, or files, and not both.")
    return corpora


def _place(name: str, root: Path, path: Path) -> Path:
    """Resolve a path below the data folder, or beside the experiment file."""
    return (path.parent if name.startswith("./") else root) / name


def _in_place_of(sources: Sequence[str], corpus: str | None) -> str:
    """Return the index that replaces these corpora, or ""."""
    name, sign, index = (corpus or "").partition("=")
    if not sign or not is_remote(name):
        return corpus or ""
    return index if name in sources else ""


def _named_runs(plan: Mapping[str, Any], overrides: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Return the settings of every run with every model, by display name."""
    runs = _mapping(plan.get("runs"), "runs", path)
    every = _mapping(plan.get("every", {}), "every", path)
    models = _models(plan, overrides, path)
    named = {}
    for run_name, settings in runs.items():
        own = _mapping(settings, f"runs: {run_name}", path)
        alone = own.get("model") == NO_MODEL
        if "models" in plan and "model" in own and not alone:
            cause = f"{path}: {run_name} has a model of its own beside those that all runs are made with."
            raise ConfigError(cause, "Name it in one place.")
        for model_name, model in ({"": {}} if alone else models).items():
            merged = {**every, **own, **model, **overrides} | ({"model": NO_MODEL} if alone else {})
            for name in {"options", "index"} & every.keys() & own.keys() - overrides.keys():
                merged[name] = _mapping(every[name], name, path) | _mapping(own[name], name, path)
            _known(merged, _SETTINGS, path)
            # A run is named by what distinguishes it: its name, its model, or both.
            name = f"{run_name}, {model_name}" if len(models) > 1 and model_name else run_name
            named[model_name if model_name and len(runs) == 1 else name] = merged
    return named


def _models(plan: Mapping[str, Any], overrides: Mapping[str, Any], path: Path) -> dict[str, dict[str, Any]]:
    """Return the models by display name."""
    if "models" not in plan:
        return {"": {}}
    if "model" in overrides:
        return {str(overrides["model"]): {}}
    models = {}
    for name, value in _mapping(plan["models"], "models", path).items():
        models[name] = {"model": value} if isinstance(value, str) else _mapping(value, f"models: {name}", path)
        _known(models[name], _OF_A_MODEL, path)
    if not models:
        raise InputError(f"{path}: models is empty.", "Name one: models: {NAME: openai/NAME}.")
    return models


def _mapping(value: Any, what: str, path: Path) -> dict[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str | int) for key in value):
        raise InputError(f"{path}: {what} is not a list of names with values.", "Write NAME: VALUE, one a line.")
    return {str(key): item for key, item in value.items()}


def _known(settings: Mapping[str, Any], names: tuple[str, ...], path: Path) -> None:
    for name in settings:
        if name not in names:
            raise ConfigError(f"{path}: there is no '{name}' here.", did_you_mean(name, names))


def _converted(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    values = dict(settings)
    budget, prices = values.get("budget"), values.get("prices")
    if budget is not None and not isinstance(budget, Budget):
        limits = budget.items() if isinstance(budget, dict) else [("", budget)]
        values["budget"] = Budget.parse(",".join(f"{name}={limit}" if name else str(limit) for name, limit in limits))
    if prices is not None and not isinstance(prices, Prices):
        values["prices"] = Prices.parse("/".join(map(str, prices)) if isinstance(prices, list) else str(prices))
    if isinstance(values.get("prompts"), str):
        values["prompts"] = str(path.parent / values["prompts"])
    if values.get("ids") is not None:
        values["ids"] = path.parent / str(values["ids"])
    for name in _TEXTS:
        if not isinstance(values.get(name, ""), str | None):
            raise ConfigError(f"{path}: {name} is not text: {values[name]!r}.", "Write a name or an address.")
    for name in ("limit", "seed"):
        if values.get(name) is not None and (type(values[name]) is not int or values[name] < 0):
            raise ConfigError(f"{path}: {name} is not a number: {values[name]!r}.", f"Write {name}: 300.")
    if not isinstance(values.get("options", {}), dict):
        raise ConfigError(f"{path}: options are not a list of names with values.", "Write options: {k: 5}.")
    return values


def plain_name(name: str) -> str:
    """Return a name that is safe for a folder."""
    plain = "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in name).strip(".-")
    if not plain:
        raise InputError(f"'{name}' cannot name a folder.", "Use letters and digits.")
    return plain


def index_for(
    corpus: Path | Sequence[Path],
    folder: Path,
    how: IndexPlan | None = None,
    model: str = "",
    *,
    on_progress: Listener | None = None,
) -> Path:
    """Return the index of the corpora, building or updating it if needed."""
    how = how or IndexPlan()
    corpora = [corpus] if isinstance(corpus, Path) else list(corpus)
    if len(corpora) == 1 and (corpora[0] / MANIFEST).exists():
        return corpora[0]
    for source in corpora:
        if not source.exists():
            raise InputError(f"There is no corpus at {source}.", "Give the folder of the data with --data.")
        if (source / MANIFEST).exists():
            raise InputError(f"{source} is an index, and cannot be joined with other corpora.", "Name its documents.")
    places = [str(source.resolve()) for source in corpora]
    name = "-".join(part.split(".")[0] for part in corpora[0].resolve().parts[-2:])
    more = f"-and-{len(corpora) - 1}-more" if len(corpora) > 1 else ""
    settings = [] if how == IndexPlan() else [repr(how), *([model] if how.facts else [])]
    digest = hashlib.sha256("\n".join((*places, *settings)).encode("utf-8", "surrogateescape")).hexdigest()[:8]
    out = folder / f"{name}{more}-{digest}"
    try:
        known = set(places) <= set(read_manifest(out).sources)
    except CorpusError:
        known = False
    if known:
        update_index(out, on_progress=on_progress)
    else:
        by_encoder = Settings(encoder=how.encoder)
        build_index(corpora, out, settings=by_encoder, reading=how.reading(), on_progress=on_progress)
    return out
