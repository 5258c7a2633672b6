"""What a question costs with each method, measured on the packaged sample."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hoptree.cli.console import written
from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.files import atomic_write
from hoptree.engine.context import Budget
from hoptree.engine.prompts import prompts_digest
from hoptree.engine.registry import Method
from hoptree.engine.trace import ModelCalled, read_events
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.run_folder import RUN, TRACES, Row, Warned, read_rows, read_run
from hoptree.evaluation.running import Progress, RunOptions, run_experiment
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.sample import sample_questions

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """The mean cost of a question with a method's default options."""

    model: str
    command: str
    version: str
    made_from: str  # digest of the method's prompts and options: figures of another one are outdated
    questions: int
    failed: int
    stopped: int  # questions that a budget ended
    calls: float  # like the figures below, a mean over the questions that did not fail
    prompt_tokens: float
    completion_tokens: float
    retrievals: float
    steps: dict[str, float]  # calls by step, in the order they first came


def made_from(method: Method, own: Mapping[str, str] | None = None) -> str:
    """Return a digest of a method's prompts and default options."""
    options = "".join(f"\\0{option.name}={option.default}" for option in method.options)
    parts = f"{prompts_digest(method.name)}{options}{json.dumps(own) if own else ''}"
    return hashlib.sha256(parts.encode()).hexdigest()[:12]


def read_costs(path: Path | None = None) -> dict[str, Cost]:
    """Read the costs by method of a file, or those of the package."""
    try:
        file = path or files("hoptree.methods") / "costs.json"
        data = json.loads(file.read_text(encoding="utf-8"))
        if data["format"] != _FORMAT:
            raise ValueError(f"its format is {data['format']}, not {_FORMAT}")
        kinds: dict[str, Callable[[Any], Any]] = {"str": str, "int": int, "float": float, "dict[str, float]": dict}
        return {
            str(name): Cost(**{part.name: kinds[str(part.type)](row[part.name]) for part in fields(Cost)})
            for name, row in data["methods"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        cause = f"{path or 'The file of measured costs'} cannot be read: {error}."
        raise InputError(cause, "Make it with: hoptree methods measure --out FILE") from error


def write_costs(path: Path, costs: Mapping[str, Cost], known: Iterable[str]) -> None:
    """Write the costs of known methods atomically."""
    rows = {name: asdict(costs[name]) for name in known if name in costs}
    with written(path, "Give --out a file in a folder that can be written."):
        atomic_write(path, [json.dumps({"format": _FORMAT, "methods": rows}, indent=1, ensure_ascii=False) + "\n"])


_FIGURES = {
    "calls": "llm_calls",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "retrievals": "retrievals",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all methods are measured with; `command` repeats it."""

    model: Model
    questions: int
    command: str
    graph: str | None = None
    budget: Budget = field(default_factory=Budget)
    prompts: str | None = None
    cached: bool = True


async def measure(
    method: Method, setting: Setting, on_progress: Callable[[Progress], None]
) -> tuple[Cost, Mapping[str, Warned]]:
    """Run the sample with default options; return cost and warnings."""
    experiment = Experiment(
        Path("sample"),
        method=method.name,
        model=setting.model.name,
        corpus="sample",
        graph=setting.graph if "graph" in method.needs else None,
        limit=setting.questions,
        budget=setting.budget,
        prompts=setting.prompts,
    )
    options = RunOptions(cache="default" if setting.cached else None)
    with TemporaryDirectory(prefix="hoptree-measure-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        summary = await run_experiment(experiment, folder, options, model=setting.model, on_progress=on_progress)
        rows = read_rows(folder)
        if all(row.error for row in rows):
            raise HoptreeError(rows[0].error_message)
        cost = replace(_cost_of_run(folder, read_run(folder), rows, method), command=setting.command)
    return cost, {kind: Warned(**warned) for kind, warned in summary["warned"].items()}


def costs_of_runs(folders: Sequence[Path], methods: Sequence[Method]) -> dict[str, Cost]:
    """Return the costs of methods from runs on the sample below folders."""
    known = {method.name: method for method in methods}
    sample = {question["question"] for question in sample_questions()}
    costs: dict[str, tuple[Path, Cost]] = {}
    for place in folders:
        if not place.is_dir():
            raise InputError(f"{place} is not a folder.", "Give --from the folder of runs: hoptree run --out FOLDER")
    for folder in (run.parent for place in folders for run in sorted(place.rglob(RUN))):
        run = read_run(folder)
        method = known.get(str(run["rests_on"].get("method")))
        rows = read_rows(folder)
        of_sample = any(not row.error for row in rows) and all(row.question in sample for row in rows)
        if method is None or not of_sample or run["experiment"].get("rerank") or run["experiment"].get("roles"):
            continue
        if run["rests_on"].get("options") != {option.name: option.default for option in method.options}:
            continue
        if method.name in costs:
            cause = f"{costs[method.name][0]} and {folder} are both runs of {method.name} on the sample."
            raise ConfigError(cause, "Give --from the folder of only one of them.")
        costs[method.name] = (folder, _cost_of_run(folder, run, rows, method))
    if not costs:
        cause = "There is no run on the sample with default options."
        raise InputError(cause, "Make one: hoptree run --data sample --corpus sample --method … --out DIR")
    return {name: cost for name, (_, cost) in costs.items()}


def _cost_of_run(folder: Path, run: Mapping[str, Any], rows: Sequence[Row], method: Method) -> Cost:
    answered = {row.trace: row.usage for row in rows if not row.error}
    traces = folder / TRACES  # without it (it may have been deleted), calls by step are unknown
    calls = (
        (event.run, event.step)
        for event in (read_events(traces) if traces.exists() else ())
        if isinstance(event, ModelCalled) and event.run in answered
    )
    model = short_name(str(run["experiment"].get("model")))
    same = run["rests_on"].get("prompts") == prompts_digest(method.name)
    steps = Counter(step for _, step in calls)
    try:
        means = {
            name: round(sum(usage[key] for usage in answered.values()) / len(answered), 2)
            for name, key in _FIGURES.items()
        }
    except KeyError as error:
        cause = f"The run in {folder} lacks the figure {error}."
        raise InputError(cause, "Run it again into another folder.") from error
    return Cost(
        model=model,
        command=_command(model, run["experiment"]),
        version=str(run["rests_on"].get("version", "")),
        made_from=made_from(method, run["rests_on"].get("own_prompts") or {}) if same else "",
        questions=len(rows),
        failed=sum(bool(row.error) for row in rows),
        stopped=sum(bool(row.stopped_by) for row in rows if not row.error),
        **means,
        steps={step: round(count / len(answered), 2) for step, count in steps.items()},
    )


def _command(model: str, experiment: Mapping[str, Any]) -> str:
    """Return the command of a run, without the method and local paths."""
    parts = [f"hoptree run --corpus sample --model {model}"]
    if (retriever := experiment.get("retriever", "bm25")) != DEFAULT_RETRIEVER:
        parts.append(f"--retriever {retriever}")
    if experiment.get("prompts"):
        parts.append("--prompts …")
    if experiment.get("graph"):
        parts.append("--graph …")
    limits = {name: value for name, value in (experiment.get("budget") or {}).items() if value is not None}
    if limits:
        parts.append(f"--budget {','.join(f'{name}={value:g}' for name, value in limits.items())}")
    return " ".join(parts)


def short_name(model: str) -> str:
    """Return a model's name; of a file or folder, without its path."""
    kind, _, name = model.partition("/")
    path = name.partition("?")[0]
    return f"{kind}/{Path(path).name}" if path.startswith(("/", "~", ".")) else model
