"""The forms that training sets are written in: chat rows, and what TRL and LLaMA-Factory take."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import atomic_write
from hoptree.training.chat_rows import ChatRow, write_rows

Format = Literal["chat", "trl", "llama-factory"]
FORMATS: tuple[Format, ...] = get_args(Format)
_INFO = "dataset_info.json"
_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def read_format(name: str) -> Format:
    """The form of this name, if there is one."""
    for form in FORMATS:
        if name == form:
            return form
    raise ConfigError(f"There is no form of training sets '{name}'.", f"Choose one of {', '.join(FORMATS)}.")


def check_out(path: Path, form: Format) -> None:
    """Refuse, before anything is asked, a file that the set could not be written to in this form."""
    if form == "llama-factory":
        if path.suffix != ".json":
            raise ConfigError(f"LLaMA-Factory reads a list from {path.name}.", f"Give --out {path.stem}.json.")
        _known(path.parent / _INFO)


def write_set(path: Path, rows: Sequence[ChatRow], form: Format) -> list[Path]:
    """Write all rows in a form, or leave the file as it was; the files that were written.

    TRL takes a conversational prompt and its completion. LLaMA-Factory takes a list of conversations, and finds it
    under the file's name in a dataset_info.json beside it, in which other sets are kept.
    """
    if form == "chat":
        write_rows(path, rows)
        return [path]
    if form == "trl":
        _write(path, (f"{_dumped(_prompted(row))}\n" for row in rows))
        return [path]
    info = path.parent / _INFO
    known = _known(info)
    known[path.stem] = {
        "file_name": path.name,
        "formatting": "sharegpt",
        "columns": {"messages": "messages"},
        "tags": _TAGS,
    }
    _write(path, _listed(row.as_dict() for row in rows))
    _write(info, [json.dumps(known, ensure_ascii=False, indent=2) + "\n"])
    return [path, info]


def _prompted(row: ChatRow) -> dict[str, Any]:
    *prompt, completion = row.as_dict()["messages"]
    return {"prompt": prompt, "completion": [completion], "id": row.id, "meta": row.as_dict()["meta"]}


def _listed(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    yield "["
    for number, row in enumerate(rows):
        yield f"{',' if number else ''}\n{_dumped(row)}"
    yield "\n]\n"


def _known(info: Path) -> dict[str, Any]:
    """The sets that are listed already."""
    if not info.exists():
        return {}
    try:
        known = json.loads(info.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{info} cannot be read: {error}.", "Mend it, or give --out in another folder.") from error
    if not isinstance(known, dict):
        raise InputError(f"{info} lists no data sets.", "Mend it, or give --out in another folder.")
    return known


def _dumped(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def _write(path: Path, lines: Iterable[str]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, lines)
    except OSError as error:
        raise InputError(
            f"{path} cannot be written: {error.strerror or error}.", "Give --out a file that can."
        ) from error
