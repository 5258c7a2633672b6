"""Runs that differ in one option alone, and what their names share."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hoptree.evaluation.report.runs import Run

__all__ = ["all_but", "option_of", "shared_name", "varied"]


def all_but(run: Run, option: str) -> str:
    """All that a run rests on but one option."""
    rests_on = run.about["rests_on"]
    others = {name: value for name, value in _options(run).items() if name != option}
    return json.dumps({**rests_on, "options": others}, sort_keys=True)


def option_of(run: Run, option: str) -> Any:
    """The value of an option; None for a method that has none of this name."""
    return _options(run).get(option)


def varied(runs: Iterable[Run], option: str) -> list[tuple[Run, ...]]:
    """The runs that differ in one option alone, together: those with two values or more, one run each."""
    alike: dict[str, dict[str, Run]] = {}
    for run in runs:
        if (value := option_of(run, option)) is not None:
            alike.setdefault(all_but(run, option), {}).setdefault(json.dumps(value), run)
    return [tuple(some.values()) for some in alike.values() if len(some) > 1]


def shared_name(runs: Sequence[Run]) -> str:
    """What the names of all these runs share ("k 1, GPT" and "k 3, GPT"); "" if nothing."""
    first, *others = [run.label.split(", ") for run in runs]
    return ", ".join(part for part in first if all(part in other for other in others))


def _options(run: Run) -> Mapping[str, Any]:
    options = run.about["rests_on"].get("options")
    return options if isinstance(options, Mapping) else {}
