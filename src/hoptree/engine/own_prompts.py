"""A user's own prompts: a folder of files that replace the package's by name."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, InputError, closest, did_you_mean
from hoptree.core.lazy import lazy_re
from hoptree.engine.prompts import (
    SECTIONS_HINT,
    OwnPrompts,
    packaged_names,
    packaged_text,
    read_prompt,
    read_rows,
    split_lines,
)
from hoptree.engine.registry import Method, list_methods, load_method

_SHARED = "shared"
_START = "Write our prompts as a start: hoptree methods prompts NAME --out FOLDER."
_HEADER = lazy_re(r"^[ \t]*---[ \t]*\w.*$", re.MULTILINE)
_KNOWN_HEADERS = ("--- system", "--- user", "--- assistant")
_IDENTIFIER = lazy_re(r"\{([^\W\d]\w*)\}")  # wider than the variables that are filled in, so that {Question} is refused


def open_prompts(given: str | Path | None) -> OwnPrompts:
    """Read and check a folder of prompts; without one, nothing is replaced."""
    if given is None:
        return OwnPrompts()
    folder = Path(given)
    if not folder.is_dir():
        raise InputError(f"There is no folder of prompts {folder}.", _START)
    texts = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or any(part.startswith(".") for part in name.split("/")):
            continue
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
    """Return the package's prompts and demonstrations of a method, its own first."""
    known = packaged_names()
    own = [name for name in known if name.startswith(f"{method.name}/")]
    shared = (f"{_SHARED}/{name}" for name in _shared_files(method))
    return (*own, *(name for name in shared if name in known))


def _shared_files(method: Method) -> list[str]:
    """Return the shared files of a method: all if another package's method names none."""
    if not method.shared_prompts and not method.run.__module__.startswith("hoptree."):
        return [name.partition("/")[2] for name in packaged_names() if name.startswith(f"{_SHARED}/")]
    return [name if "." in name else f"{name}.txt" for name in method.shared_prompts]


def write_prompts(method: Method, folder: Path) -> list[Path]:
    """Write the prompts of a method under its own name; raise if a file exists."""
    texts = {folder / method.name / name.partition("/")[2]: packaged_text(name) or "" for name in files_of(method)}
    if taken := next((path for path in texts if path.exists()), None):
        raise InputError(f"{taken} exists already.", "Choose another folder, or move the file away.")
    try:
        (folder / method.name).mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:
                file.write(text)
    except OSError as error:
        cause = f"Prompts cannot be written to {folder}: {error.strerror or error}."
        raise InputError(cause, "Give --out a folder that can be written.") from error
    return list(texts)


def _stands_for(folder: Path, name: str) -> str:
    """Return the package's text that a file replaces; raise ConfigError without one."""
    if (text := _find_ours(name)) is not None:
        return text
    owner, _, file = name.partition("/")
    method = load_method(owner) if file else None
    owners = {known.partition("/")[0] for known in packaged_names()}
    if not file and _find_ours(f"{(inner := folder.resolve()).name}/{name}") is not None:
        holder = inner.parent if folder.name in ("", "..") else folder.parent
        cause = f"{folder} holds the prompts of {inner.name} alone."
        raise ConfigError(cause, f"Give the folder that holds {inner.name}/: --prompts {holder}")
    named = [known for known in packaged_names() if known.partition("/")[2] == (file or name)]
    named.sort(key=lambda known: not known.startswith(f"{_SHARED}/"))
    if not file and named:
        raise ConfigError(f"{folder / name} stands in no method's folder.", f"Did you mean {' or '.join(named[:3])}?")
    if file and method is None and owner not in owners:
        names = [*(known.name for known in list_methods()), *sorted(owners)]
        raise ConfigError(f"{folder / owner} has no method's name.", did_you_mean(owner.casefold(), names, _START))
    if method:
        used = [used.partition("/")[2] for used in files_of(method)]
        hint = f"{owner} uses {', '.join(used)}."
        meant = [] if named else _closest_file(owner, file, used)  # another method's file name is not a misspelling
    else:
        used, hint = [known.partition("/")[2] for known in packaged_names() if known.startswith(f"{owner}/")], _START
        meant = named[:3] or _closest_file(owner, file, used)
    remedy = f"Did you mean {' or '.join(meant)}?" if meant else hint
    raise ConfigError(f"{folder / name} is neither a prompt nor a file of demonstrations that is used.", remedy)


def _closest_file(owner: str, file: str, used: Sequence[str]) -> list[str]:
    """Return the file with the most similar stem, if one is similar."""
    stems = {Path(name).stem: name for name in used}
    close = closest(Path(file).stem.casefold(), stems)
    return [f"{owner}/{stems[close]}"] if close else []


def _find_ours(name: str) -> str | None:
    """Return the package's text for OWNER/FILE, or of a shared file of the method."""
    if name in packaged_names():
        return packaged_text(name)
    owner, _, file = name.partition("/")
    method = load_method(owner) if owner not in (_SHARED, "") and file else None
    return packaged_text(f"{_SHARED}/{file}") if method is not None and file in _shared_files(method) else None


def _check_prompt(path: Path, text: str, ours: str) -> None:
    """Refuse a prompt with other variables than ours, or text outside its sections."""
    for line in _HEADER.findall(text):
        if line not in _KNOWN_HEADERS:
            cause = f"{path} has the unknown section '{line}'."
            raise ConfigError(cause, f"{SECTIONS_HINT} Nothing follows these words.")
    takes = read_prompt(path.name, ours).variables
    prompt = read_prompt(str(path), f"{text}\n")  # a header needs a line end, even at the end of the file
    form = f"It takes {', '.join(f'{{{name}}}' for name in sorted(takes)) or 'no variables'}."
    if unknown := sorted(set(_IDENTIFIER.findall(text)) - takes):
        close = closest(unknown[0].casefold(), sorted(takes))
        hint = f" Did you mean {{{close}}}?" if close else " For braces in the text itself put a space: { word }."
        raise ConfigError(f"{path} has the unknown variable {{{unknown[0]}}}.", f"{form}{hint}")
    if missing := sorted(takes - prompt.variables):
        raise ConfigError(f"{path} lacks the variable {{{missing[0]}}}.", form)
    if not text.strip() or not all(section.content for section in prompt.sections):
        raise ConfigError(f"{path} has an empty section.", "Write its text, or take the section out.")
    if prompt.sections[-1].role != "user":
        raise ConfigError(f"{path} does not end with the user's section.", SECTIONS_HINT)


def _check_demonstrations(path: Path, text: str, ours: str) -> None:
    """Refuse lines with other fields, types or names of strategies than ours."""
    model = read_rows(ours)
    rows = []
    for number, line in split_lines(text):
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"Line {number} of {path} is not JSON.", f"It is like: {json.dumps(model[0])}") from error
        if not _alike(rows[-1], model[0]):
            kinds: dict[type, str] = {str: "text", list: "list"}
            fields = ", ".join(f"{name} ({kinds.get(type(value), 'object')})" for name, value in model[0].items())
            raise ConfigError(f"Line {number} of {path} is not a demonstration.", f"A line is an object with {fields}.")
    if not rows:
        raise ConfigError(f"{path} has no line.", "Write one demonstration a line, or leave the file out.")
    if "name" in model[0] and [row["name"] for row in rows] != (names := [row["name"] for row in model]):
        raise ConfigError(f"{path} has other names than ours.", f"They are, in this order: {', '.join(names)}.")


def _alike(value: Any, ours: Any) -> bool:
    """Return whether a value has our fields, also in lists, but not in nested objects."""
    if not isinstance(ours, dict) or not isinstance(value, dict) or value.keys() != ours.keys():
        return False
    for name, part in ours.items():
        if not isinstance(value[name], type(part)):
            return False
        if isinstance(part, list) and part and not all(_alike(item, part[0]) for item in value[name]):
            return False
    return True
