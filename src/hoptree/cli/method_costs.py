"""What a question costs with each method: measured on the packaged sample, and kept in a file of the package."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from hoptree.errors import InputError
from hoptree.methods.registry import Method
from hoptree.runtime.prompts import prompts_digest
from hoptree.whole_files import write_whole

__all__ = ["Cost", "made_from", "read_costs", "write_costs"]

_FORMAT = 1
_MADE_OF = ("hoptree.methods.", "hoptree.steps.")
_FRAME = ("hoptree.methods.registry",)


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
    """A digest of what a method is made of: its code, that of the steps it uses, and all prompts it may use."""
    found = hashlib.sha256(prompts_digest(method.name).encode())
    for name, code in sorted(_modules(method.run.__module__).items()):
        found.update(f"\0{name}\0{code}".encode())
    return found.hexdigest()[:12]


def _modules(first: str) -> dict[str, str]:
    """The code of a module and of those with methods and steps that it uses, itself or by others."""
    found: dict[str, str] = {}
    left = [first]
    while left:
        name = left.pop()
        if name in found:
            continue
        found[name] = ""  # no source, as of a method made in an interpreter
        with contextlib.suppress(OSError, TypeError):
            found[name], used = _code(inspect.getsource(import_module(name)))
            left += [one for one in used if one.startswith(_MADE_OF) and one not in _FRAME]
    return found


@cache
def _code(source: str) -> tuple[str, tuple[str, ...]]:
    """The lines of a module without comments, docstrings and what is registered of a method, and what it imports."""
    statements = list(_statements(ast.parse(source)))
    only_said = {line for node in statements for one in _said_in(node) for line in _lines(one)}
    lines = [line for number, line in enumerate(source.splitlines(), 1) if number not in only_said]
    imported = [node.module or "" for node in statements if isinstance(node, ast.ImportFrom)]
    return "\n".join(line for line in lines if not line.strip().startswith("#") and line.strip()), tuple(imported)


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """All statements, without the expressions in them, which are many."""
    for part in ("body", "handlers", "orelse", "finalbody"):
        for statement in getattr(node, part, ()):
            yield statement
            yield from _statements(statement)


def _said_in(node: ast.stmt) -> Iterator[ast.expr]:
    """The texts that stand for themselves, and what a method is registered with."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        yield node.value
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        calls = (one for one in node.decorator_list if isinstance(one, ast.Call))
        yield from (one for one in calls if isinstance(one.func, ast.Name) and one.func.id == "method")


def _lines(node: ast.expr) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


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
