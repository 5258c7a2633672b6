"""Prompts of one's own: a folder of files that stand in for those of the package, by name."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, InputError, closest
from hoptree.engine.prompts import packaged_names, packaged_text, read_prompt
from hoptree.engine.registry import Method, load_method

_SHARED = "shared"
_START = "Write ours as a start: hoptree methods prompts NAME --out FOLDER."


@dataclass(frozen=True, slots=True)
class OwnPrompts:
    """Texts by file name, as under `hoptree/prompts`; those that are the same as ours are left out.

    `shared/FILE` stands in for a prompt that methods share, `METHOD/FILE` for the prompt of one method, also where that
    has none of its own and takes the shared one.
    """

    texts: Mapping[str, str] = field(default_factory=dict)

    def of(self, method: Method) -> dict[str, str]:
        """Return the digests, by file name, of the texts that a method may use."""
        if not self.texts:
            return {}
        method = load_method(method.name) or method  # parts of a method run under its name
        names = {name for used in files_of(method) for name in (used, f"{method.name}/{used.partition('/')[2]}")}
        return {name: _digest(text) for name, text in sorted(self.texts.items()) if name in names}


def open_prompts(given: str | Path | OwnPrompts | None) -> OwnPrompts:
    """Read a folder of prompts and refuse what is not ours to replace; one that was read already is returned."""
    if given is None or isinstance(given, OwnPrompts):
        return given or OwnPrompts()
    folder = Path(given)
    if not folder.is_dir():
        raise InputError(f"There is no folder of prompts {folder}.", _START)
    texts = {}
    for name, path in _listed(folder):
        ours = _stands_for(folder, name)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            raise InputError(f"{path} cannot be read: {reason}.", "Save it as UTF-8 text.") from error
        text = text.removeprefix("\ufeff").replace("\r\n", "\n")
        if text.strip() != ours.strip():
            (_check_prompt if name.endswith(".txt") else _check_demonstrations)(path, text, ours)
            texts[name] = text
    return OwnPrompts(texts)


def files_of(method: Method) -> tuple[str, ...]:
    """Return the names of all prompts and demonstrations of the package that a method uses, its own first."""
    known = packaged_names()
    own = [name for name in known if name.startswith(f"{method.name}/")]
    shared = (f"{_SHARED}/{name}" for name in _shared_files(method))
    return (*own, *(name for name in shared if name in known))


def _shared_files(method: Method) -> list[str]:
    """Return the shared files that a method uses: all of them for one of another package that names none."""
    if not method.shared_prompts and not method.run.__module__.startswith("hoptree."):
        return [name.partition("/")[2] for name in packaged_names() if name.startswith(f"{_SHARED}/")]
    return [name if "." in name else f"{name}.txt" for name in method.shared_prompts]


def write_prompts(method: Method, folder: Path) -> list[Path]:
    """Write what a method's prompts are made from under its own name; refuse where a file is there already."""
    texts = {folder / method.name / name.partition("/")[2]: packaged_text(name) or "" for name in files_of(method)}
    if taken := next((path for path in texts if path.exists()), None):
        raise InputError(f"{taken} is there already.", "Choose another folder, or move the file away.")
    try:
        (folder / method.name).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        cause = f"Prompts cannot be written to {folder}: {error.strerror or error}."
        raise InputError(cause, "Give --out a folder that can be written.") from error
    return list(texts)


def _listed(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            yield "/".join(parts), path


def _stands_for(folder: Path, name: str) -> str:
    """Return the text of the package that a file stands in for."""
    owner, _, file = name.partition("/")
    if (text := packaged_text(name) if name in packaged_names() else None) is not None:
        return text
    method = load_method(owner) if owner not in (_SHARED, "") and file else None
    if method is not None and file in _shared_files(method) and (text := packaged_text(f"{_SHARED}/{file}")):
        return text
    if method:
        used = [used.partition("/")[2] for used in files_of(method)]
        close = f"{owner}/{near}" if (near := closest(file, used)) else ""
        hint = f"{owner} uses {', '.join(used)}."
    else:
        close, hint = closest(name, packaged_names()), _START
    remedy = f"Did you mean {close}?" if close else hint
    raise ConfigError(f"{folder / name} is no prompt and no file of demonstrations that is used.", remedy)


def _check_prompt(path: Path, text: str, ours: str) -> None:
    """Refuse a prompt that does not take the variables of ours, or has text outside its sections."""
    prompt, takes = read_prompt(path.name, text), read_prompt(path.name, ours).variables
    form = f"It takes {', '.join(f'{{{name}}}' for name in sorted(takes)) or 'no variables'}."
    if unknown := sorted(prompt.variables - takes):
        close = closest(unknown[0], takes)
        hint = f" Did you mean {{{close}}}?" if close else " For braces in the text itself put a space: { word }."
        raise ConfigError(f"{path} has the unknown variable {{{unknown[0]}}}.", f"{form}{hint}")
    if missing := sorted(takes - prompt.variables):
        raise ConfigError(f"{path} lacks the variable {{{missing[0]}}}.", form)
    if not text.strip() or not all(section.content for section in prompt.sections):
        raise ConfigError(f"{path} has an empty section.", "Write its text, or take the section out.")
    if prompt.sections[-1].role != "user" or (len(prompt.sections) > 1 and not text.lstrip().startswith("--- ")):
        raise ConfigError(
            f"{path} does not begin with a section or does not end with the user's.",
            "Write --- system, --- user and --- assistant on lines of their own; the last one is --- user.",
        )


def _check_demonstrations(path: Path, text: str, ours: str) -> None:
    """Refuse lines that are not like ours: the same fields, of the same kinds, and the same names of strategies."""
    model = [json.loads(line) for line in ours.splitlines()]
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"Line {number} of {path} is no JSON.", f"It is like: {json.dumps(model[0])}") from error
        if not _alike(rows[-1], model[0]):
            fields = ", ".join(f"{name} ({_kind(value)})" for name, value in model[0].items())
            raise ConfigError(f"Line {number} of {path} is no demonstration.", f"A line is an object with {fields}.")
    if not rows:
        raise ConfigError(f"{path} has no line.", "Write one demonstration a line, or leave the file out.")
    if "name" in model[0] and [row["name"] for row in rows] != (names := [row["name"] for row in model]):
        raise ConfigError(f"{path} has other names than ours.", f"They are, in this order: {', '.join(names)}.")


def _alike(value: Any, ours: Any) -> bool:
    """Whether a value has the fields of ours; those of an object inside may be any, those in a list may not."""
    if not isinstance(ours, dict) or not isinstance(value, dict) or value.keys() != ours.keys():
        return False
    for name, part in ours.items():
        if not isinstance(value[name], type(part)):
            return False
        if isinstance(part, list) and part and not all(_alike(item, part[0]) for item in value[name]):
            return False
    return True


def _kind(value: Any) -> str:
    return "text" if isinstance(value, str) else "list" if isinstance(value, list) else "object"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:8]
