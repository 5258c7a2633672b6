"""Rows of finished questions, kept until a set is complete."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hoptree import __version__
from hoptree.core.errors import InputError
from hoptree.core.files import JsonlLog, read_lines
from hoptree.engine.prompts import prompts_digest
from hoptree.models.model import Message
from hoptree.training.chat_rows import ChatRow, MadeRows

_FORMAT = 2


def journal_path(out: Path) -> Path:
    """Return where the rows of an unfinished training set are kept."""
    return out.with_name(f"{out.name}.part")


class RowJournal:
    """Appends the rows of each question to OUT.part, to resume from.

    What was made with other settings, prompts or versions is begun anew.
    """

    def __init__(self, out: Path, method: str, settings: Sequence[Any]) -> None:
        self.path = journal_path(out)
        known = [__version__, _FORMAT, prompts_digest(method), *settings]
        digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
        lines = [value for _, value in read_lines(self.path)]
        if lines and lines[0] != {"digest": digest}:
            self.path.unlink()
            lines = []
        self._made = {line["key"]: _read(line) for line in lines[1:]}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._log = JsonlLog(self.path)
            if not lines:
                with self.path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"digest": digest}) + "\n")
        except OSError as error:
            cause = f"{self.path} cannot be written: {error.strerror or error}."
            raise InputError(cause, "Give --out a file that can.") from error

    def get(self, key: str) -> MadeRows | None:
        """Return the rows of a question that is done; None if it is not."""
        return self._made.get(key)

    async def add(self, key: str, question_rows: MadeRows) -> None:
        await self._log.add({"key": key, **asdict(question_rows)})

    def close(self) -> None:
        self._log.close()


def _read(line: dict[str, Any]) -> MadeRows:
    rows = []
    for row in line["rows"]:
        messages = tuple(Message(**turn) for turn in row.pop("messages"))
        rows.append(ChatRow(messages=messages, **row))
    return MadeRows(tuple(rows), line["left_out"], line["report"])
