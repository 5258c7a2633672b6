"""What a tuning tries: options of a method with the values they take, and all combinations of these.

alpha=1.0,1.5,2.0      a list
beta=0:0.4:0.1         from 0 to 0.4 in steps of 0.1, the end included
k=1:5                  whole numbers
titles=on,off          switches, and options with few values, are listed as --set takes them
"""

from __future__ import annotations

import math
import random
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, DecimalException
from itertools import product
from typing import Any

from hoptree.errors import ConfigError, InputError
from hoptree.methods.registry import Method, Option, read_options

__all__ = ["Trial", "as_text", "read_trials"]

_HOW = "Write --vary OPTION=VALUE,VALUE,… or --vary OPTION=START:END:STEP."
_MOST_VALUES = 1_000
_MOST_TRIALS = 10_000


@dataclass(frozen=True, slots=True)
class Trial:
    """A combination: the values of the options that are varied."""

    values: Mapping[str, Any]

    @property
    def settings(self) -> tuple[str, ...]:
        """The values as --set takes them."""
        return tuple(f"{name}={as_text(value)}" for name, value in self.values.items())

    @property
    def name(self) -> str:
        return ", ".join(self.settings)


def as_text(value: Any) -> str:
    """A value as --set takes it."""
    if value is None:
        return "none"
    return ("on" if value else "off") if isinstance(value, bool) else str(value)


def read_trials(
    method: Method,
    varied: Sequence[str],
    fixed: Mapping[str, Any],
    *,
    max_trials: int | None = None,
    seed: int = 0,
) -> tuple[Trial, ...]:
    """The trials of OPTION=VALUES texts: the defaults of the options first, then the combinations in order.

    `fixed` are options that have one value in all of them. Of more combinations than `max_trials`, as many are drawn by
    the seed; the defaults come on top.
    """
    values = _values(method, varied)
    given = read_options(method, fixed)
    for name in values.keys() & given.keys():
        raise ConfigError(f"{name} is varied, and set to {as_text(given[name])}.", "Leave out --vary or --set.")
    count = math.prod(map(len, values.values()))
    if count > _MOST_TRIALS:
        raise InputError(f"There are {count:,} combinations.", f"Vary less: {_MOST_TRIALS:,} can be chosen from.")
    known = {option.name: option.default for option in method.options}
    defaults = Trial({name: known[name] for name in values})
    combinations = [Trial(dict(zip(values, chosen, strict=True))) for chosen in product(*values.values())]
    others = [trial for trial in combinations if trial != defaults]
    if max_trials is not None and len(others) > max_trials:
        drawn = sorted(random.Random(seed).sample(range(len(others)), max_trials))
        others = [others[place] for place in drawn]
    if not others:
        raise InputError("Nothing but the defaults would be tried.", "Give --vary other values.")
    return (defaults, *others)


def _values(method: Method, varied: Sequence[str]) -> dict[str, tuple[Any, ...]]:
    """The values of each option that is varied, checked against the method's signature, each once."""
    if not varied:
        raise InputError("Nothing is varied.", _HOW)
    options = {option.name: option for option in method.options}
    found: dict[str, tuple[Any, ...]] = {}
    for said in varied:
        name, sign, texts = said.partition("=")
        key = name.strip().replace("-", "_")
        if not sign or not key:
            raise InputError(f"--vary {said} is not possible.", _HOW)
        if key not in options:
            read_options(method, {key: texts})  # which says what there is instead
        if key in found:
            raise InputError(f"{key} is varied twice.", f"Write all its values at once: --vary {key}=VALUE,VALUE")
        parts = [part.strip() for part in texts.split(",")]
        listed = [text for part in parts for text in _expanded(part, options[key], said)]
        found[key] = tuple(dict.fromkeys(read_options(method, {key: text})[key] for text in listed))
    return found


def _expanded(part: str, option: Option, said: str) -> list[str]:
    """The values that a part of the list stands for: one, or those of a range."""
    if not part:
        raise InputError(f"--vary {said} lacks a value.", _HOW)
    kinds = {option.type, *typing.get_args(option.type)}
    if ":" not in part or not kinds & {int, float}:
        return [part]
    bounds = part.split(":")
    if len(bounds) == 2 and int in kinds:
        bounds.append("1")
    try:
        start, end, step = (Decimal(bound.strip()) for bound in bounds)
        steps = (end - start) / step
        if not steps.is_finite():
            raise ValueError(part)
    except (ValueError, DecimalException) as error:
        raise InputError(f"--vary {said}: {part} is no range.", "Write START:END:STEP, as in 0:0.4:0.1.") from error
    if steps < 0 or step < 0:
        raise InputError(f"--vary {said}: {part} is empty.", "Write the smallest value first, and a step above 0.")
    if steps >= _MOST_VALUES:
        raise InputError(f"--vary {said}: {part} has more than {_MOST_VALUES:,} values.", "Give a larger step.")
    return [format(start + number * step, "f") for number in range(int(steps) + 1)]
