"""What a question costs with each method: measured on the packaged sample, and kept in a file of the package."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from hoptree.errors import InputError
from hoptree.methods.registry import Method
from hoptree.whole_files import write_whole

__all__ = ["Cost", "made_from", "read_costs", "write_costs"]

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cost:
    """The means of a method's questions, with its default options, and how they were found.

    `calls` to `retrievals` are those of the questions that did not fail, a question; `steps` are its calls by step, in
    the order in which they first came. `stopped` counts those that a budget ended. `made_from` changes with the
    method's module or its prompts: figures of another one are old.
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
    """A digest of the module that holds a method, and of the prompts that are its own."""
    found = hashlib.sha256()
    with contextlib.suppress(OSError, TypeError):  # no source, as of a method made in an interpreter
        found.update(inspect.getsource(sys.modules[method.run.__module__]).encode())
    folder = files("hoptree") / "prompts" / method.name
    for file in sorted(folder.iterdir(), key=lambda file: file.name) if folder.is_dir() else ():
        found.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return found.hexdigest()[:12]


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
        write_whole(path, [json.dumps({"format": _FORMAT, "methods": rows}, indent=1, ensure_ascii=False) + "\n"])
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}.",
            "Give --out a file in a folder that can be written.",
        ) from error
