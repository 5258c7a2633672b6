"""The file formats of training sets: chat rows, TRL and LLaMA-Factory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.files import atomic_write
from hoptree.training.chat_rows import ChatRow

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
    """Return the format of this name."""
    for form in FORMATS:
        if name == form:
            return form
    raise ConfigError(f"There is no form of training sets '{name}'.", f"Choose one of {', '.join(FORMATS)}.")


def check_out(path: Path, form: Format) -> None:
    """Refuse a file that the set could not be written to in this format, before any model is asked."""
    if form == "llama-factory":
        if path.suffix != ".json":
            raise ConfigError(f"LLaMA-Factory reads a list from {path.name}.", f"Give --out {path.stem}.json.")
        _read_info(path.parent / _INFO)


def write_set(path: Path, rows: Sequence[ChatRow], form: Format) -> list[Path]:
    """Write all rows in a format, or leave the file as it was; return the files written.

    TRL takes a conversational prompt and its completion. LLaMA-Factory takes a list of conversations, and finds it
    under the file's name in a dataset_info.json beside it, in which other sets are kept.
    """
    objects = [row.as_dict() for row in rows]
    if form == "llama-factory":
        info = path.parent / _INFO
        columns = {"columns": {"messages": "messages"}, "tags": _TAGS}
        sets = _read_info(info) | {path.stem: {"file_name": path.name, "formatting": "sharegpt", **columns}}
        write_lines(path, ["[\n", ",\n".join(map(_dump, objects)), "\n]\n"])
        write_lines(info, [json.dumps(sets, ensure_ascii=False, indent=2) + "\n"])
        return [path, info]
    write_lines(path, (f"{_dump(_prompt_and_completion(row) if form == 'trl' else row)}\n" for row in objects))
    return [path]


def _prompt_and_completion(row: dict[str, Any]) -> dict[str, Any]:
    *prompt, completion = row["messages"]
    return {"prompt": prompt, "completion": [completion], "id": row["id"], "meta": row["meta"]}


def _read_info(info: Path) -> dict[str, Any]:
    """Return the sets that are listed already."""
    if not info.exists():
        return {}
    remedy = "Mend it, or give --out in another folder."
    try:
        sets = json.loads(info.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{info} cannot be read: {error}.", remedy) from error
    if not isinstance(sets, dict):
        raise InputError(f"{info} lists no data sets.", remedy)
    return sets


def _dump(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Write a file of --out atomically."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_write(path, lines)
    except OSError as error:
        cause = f"{path} cannot be written: {error.strerror or error}."
        raise InputError(cause, "Give --out a file that can.") from error
