"""What a question costs with each method: measured on the packaged sample, and kept in a file of the package."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import atomic_write
from hoptree.engine.budget import Budget
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.prompts import prompts_digest
from hoptree.engine.registry import Method
from hoptree.engine.result import Result
from hoptree.engine.schedule import together
from hoptree.engine.trace import read_events
from hoptree.evaluation.run_folder import RUN, TRACES, Row, Warned, read_rows, read_run, warned_of
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.sample import sample_questions

_FORMAT = 1
_MADE_OF = ("hoptree.methods.", "hoptree.steps.")
_FRAME = ("hoptree.engine.registry",)


@dataclass(frozen=True, slots=True)
class Cost:
    """The means of a method's questions, with its default options, and how they were found.

    `calls` to `retrievals` are those of the questions that did not fail, a question; `steps` are its calls by step, in
    the order in which they first came. `stopped` counts those that a budget ended. `made_from` changes with the
    method's code or its prompts: figures of another one are old.
    """

    model: str
    command: str
    version: str
    made_from: str
    questions: int
    failed: int
    stopped: int
    calls: float
    prompt_tokens: float
    completion_tokens: float
    retrievals: float
    steps: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def is_of(self, method: Method) -> bool:
        """Whether the method is still the one that was measured."""
        return self.made_from == made_from(method)


def made_from(method: Method) -> str:
    """Return a digest of what decides a method's calls: its prompts, and its options with their defaults."""
    options = "".join(f"\\0{option.name}={option.default}" for option in method.options)
    return hashlib.sha256(f"{prompts_digest(method.name)}{options}".encode()).hexdigest()[:12]


def read_costs(path: Path | None = None) -> dict[str, Cost]:
    """The figures of a file by method, or those of the package."""
    try:
        text = path.read_text(encoding="utf-8") if path else _packaged()
        data = json.loads(text)
        if data["format"] != _FORMAT:
            raise ValueError(f"its format is {data['format']}, not {_FORMAT}")
        return {str(name): _cost(row) for name, row in data["methods"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        named = path or "The file of measured costs"
        raise InputError(
            f"{named} cannot be read: {error}.", "Make it with: hoptree methods measure --out FILE"
        ) from error


def _packaged() -> str:
    file = files("hoptree.methods") / "costs.json"
    return file.read_text(encoding="utf-8") if file.is_file() else json.dumps({"format": _FORMAT, "methods": {}})


def _cost(row: Mapping[str, Any]) -> Cost:
    kinds: dict[str, Callable[[Any], Any]] = {"str": str, "int": int, "float": float}
    values = {one.name: kinds[str(one.type)](row[one.name]) for one in fields(Cost) if one.name != "steps"}
    return Cost(**values, steps={str(step): float(count) for step, count in row["steps"].items()})


def write_costs(path: Path, costs: Mapping[str, Cost], known: Iterable[str]) -> None:
    """Write figures of methods that are known, in one step; those of methods that are gone are left out."""
    rows = {name: costs[name].as_dict() for name in known if name in costs}
    try:
        atomic_write(path, [json.dumps({"format": _FORMAT, "methods": rows}, indent=1, ensure_ascii=False) + "\n"])
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Give --out a file in a folder that can be written.",
        ) from error


_FIGURES = {
    "calls": "llm_calls",
    "prompt_tokens": "prompt_tokens",
    "completion_tokens": "completion_tokens",
    "retrievals": "retrievals",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """What all methods are measured with; `command` is how a person says so."""

    model: Model
    questions: Sequence[Mapping[str, Any]]
    command: str
    graph: str | None = None
    budget: Budget | None = None
    cached: bool = True


async def measure(
    method: Method, setting: Setting, on_done: Callable[[], None] = lambda: None
) -> tuple[Cost, Mapping[str, Warned]]:
    """Ask the questions with a method's default options: the cost, and what they warned of.

    It is the failure, if all of them failed.
    """
    calls: list[tuple[str, str]] = []
    warnings: list[Event] = []
    results: list[tuple[str, Result]] = []
    model = setting.model

    async def one(question: Mapping[str, Any]) -> None:
        heard: list[Event] = []
        result = await engine.ask(question["question"], listeners=(heard.append,))
        results.append((question["id"], result))
        calls.extend((question["id"], event["step"]) for event in heard if event["event"] == "llm")
        warnings.extend(event for event in heard if event["event"] == "warning")
        on_done()

    async with Engine(
        method=method.name,
        model=model,
        corpus="sample",
        graph=setting.graph if "graph" in method.needs else None,
        budget=setting.budget,
        cache="default" if setting.cached else None,
    ) as engine:
        if model.slots == 1 or model.name.startswith("local/"):
            for question in setting.questions:  # each prompt's beginning stays in the model's memory
                await one(question)
        else:
            await together(one(question) for question in setting.questions)
    failures = [result.failure for _, result in results if result.failure]
    if len(failures) == len(results):
        raise failures[0]
    cost = Cost(
        model=short_name(model.name),
        command=setting.command,
        version=__version__,
        made_from=made_from(method),
        questions=len(results),
        failed=len(failures),
        stopped=sum(bool(result.stopped_by) for _, result in results),
        **_means({name: result.usage.as_dict() for name, result in results if not result.failure}, calls),
    )
    return cost, warned_of(warnings)


def _means(usages: Mapping[str, Mapping[str, float]], calls: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The means of the questions that did not fail, and their calls by step."""
    steps = Counter(step for question, step in calls if question in usages)
    means = {name: sum(one[key] for one in usages.values()) / len(usages) for name, key in _FIGURES.items()}
    return {
        **{name: round(value, 2) for name, value in means.items()},
        "steps": {step: round(count / len(usages), 2) for step, count in steps.items()},
    }


def costs_of_runs(folders: Sequence[Path], methods: Sequence[Method]) -> dict[str, Cost]:
    """The costs of those methods whose runs on the sample, with default options, are in these folders or below."""
    known = {method.name: method for method in methods}
    found: dict[str, tuple[Path, Cost]] = {}
    for folder in _runs(folders):
        run = read_run(folder)
        method = known.get(str(run["rests_on"].get("method")))
        rows = read_rows(folder)
        if method is None or not _is_default(run, method) or not _are_of_sample(rows):
            continue
        if method.name in found:
            raise ConfigError(
                f"{found[method.name][0]} and {folder} are both runs of {method.name} on the sample.",
                "Give --from the folder of only one of them.",
            )
        found[method.name] = (folder, _method_measuring_cost(folder, run, rows, method))
    if not found:
        raise InputError(
            "There is no run on the sample with default options.",
            "Make one: hoptree run --data sample --corpus sample --method … --out DIR",
        )
    return {name: cost for name, (_, cost) in found.items()}


def _runs(folders: Sequence[Path]) -> Iterator[Path]:
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder.", "Give --from the folder of runs: hoptree run --out FOLDER")
        yield from sorted(file.parent for file in folder.rglob(RUN))


def _is_default(run: Mapping[str, Any], method: Method) -> bool:
    """Whether a run asked a method as it is."""
    experiment, options = run["experiment"], run["rests_on"].get("options")
    defaults = {option.name: option.default for option in method.options}
    return options == defaults and not experiment.get("rerank") and not experiment.get("roles")


def _are_of_sample(rows: Sequence[Row]) -> bool:
    sample = {question["question"] for question in sample_questions()}
    return any(not row.error for row in rows) and all(row.question in sample for row in rows)


def _method_measuring_cost(folder: Path, run: Mapping[str, Any], rows: Sequence[Row], method: Method) -> Cost:
    answered = {row.trace: row.usage for row in rows if not row.error}
    traces = folder / TRACES  # which may have been left behind; then it is not told which step made the calls
    calls = (
        (event["run"], event["step"])
        for event in (read_events(traces) if traces.exists() else ())
        if event["event"] == "llm" and event["run"] in answered
    )
    model = short_name(str(run["experiment"].get("model")))
    same = run["rests_on"].get("prompts") == prompts_digest(method.name)
    try:
        means = _means(answered, calls)
    except KeyError as error:
        raise InputError(
            f"The run in {folder} lacks the figure {error}.", "Run it again into another folder."
        ) from error
    return Cost(
        model=model,
        command=_command(model, run["experiment"]),
        version=str(run["rests_on"].get("version", "")),
        made_from=made_from(method) if same else "",
        questions=len(rows),
        failed=sum(bool(row.error) for row in rows),
        stopped=sum(bool(row.stopped_by) for row in rows if not row.error),
        **means,
    )


def _command(model: str, experiment: Mapping[str, Any]) -> str:
    """How such a run is made, but for the method and the files of one machine."""
    parts = [f"hoptree run --corpus sample --model {model}"]
    if (retriever := experiment.get("retriever", "bm25")) != DEFAULT_RETRIEVER:
        parts.append(f"--retriever {retriever}")
    if experiment.get("graph"):
        parts.append("--graph …")
    limits = {name: value for name, value in (experiment.get("budget") or {}).items() if value is not None}
    if limits:
        parts.append(f"--budget {','.join(f'{name}={value:g}' for name, value in limits.items())}")
    return " ".join(parts)


def short_name(model: str) -> str:
    """A model's name; of a file or folder only its own name, not where it lies on some machine."""
    kind, _, name = model.partition("/")
    path = name.partition("?")[0]
    return f"{kind}/{Path(path).name}" if path.startswith(("/", "~", ".")) else model
