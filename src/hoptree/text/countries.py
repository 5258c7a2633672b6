"""Countries by name, other name or demonym, past countries among them; the table is countries.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Countries:
    """The table of countries, all names in lower case."""

    by_name: dict[str, str]
    """From a name, other name or demonym to the name of the country."""
    regions: frozenset[str]
    """Names that stand for no single country."""
    successors: frozenset[frozenset[str]]
    """Pairs that may be the same country, such as the Soviet Union and Russia."""


@cache
def countries() -> Countries:
    """Load the table once, when it is first needed."""
    data = json.loads(Path(__file__).with_name("countries.json").read_text(encoding="utf-8"))
    by_name = {
        spelling: country
        for country, names in data["countries"].items()
        for name in (country, *names)
        for spelling in (name, name.rstrip("."))
    }
    pairs = (frozenset((old, new)) for old, successors in data["successors"].items() for new in successors)
    return Countries(by_name, frozenset(data["regions"]), frozenset(pairs))
