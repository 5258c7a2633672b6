"""Measuring what a question costs: by asking the packaged sample's, or from runs that did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.cli.method_costs import Cost, made_from
from hoptree.engine import Engine
from hoptree.errors import ConfigError, InputError
from hoptree.evaluation.run_folder import RUN, TRACES, Row, read_rows, read_run
from hoptree.evaluation.warned import Warned, warned_of
from hoptree.methods.registry import Method
from hoptree.models.model import Model
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.runtime.budget import Budget
from hoptree.runtime.prompts import prompts_digest
from hoptree.runtime.result import Result
from hoptree.runtime.schedule import together
from hoptree.runtime.trace import Event, read_events
from hoptree.sample import sample_questions

__all__ = ["Setting", "costs_of_runs", "measure", "short_name"]

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
        found[method.name] = (folder, _cost(folder, run, rows, method))
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


def _cost(folder: Path, run: Mapping[str, Any], rows: Sequence[Row], method: Method) -> Cost:
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
