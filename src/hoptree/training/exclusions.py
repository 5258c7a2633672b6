"""Forms of `--exclude` beyond files and runs: the first questions of a file, and lists of ids by file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from hoptree.core.errors import InputError

_FIRST_ROWS = re.compile(r"(.+):(\d+)")


def split_first(path: Path) -> tuple[Path, int | None]:
    """Return a file and how many of its first questions are meant: `dev.jsonl:300`; None means all."""
    match = None if path.exists() else _FIRST_ROWS.fullmatch(str(path))
    if match is None:
        return path, None
    if not (count := int(match[2])):
        raise InputError(f"{path} excludes no question.", "Give a number from 1 on behind the colon.")
    return Path(match[1]), count


@dataclass(frozen=True, slots=True)
class ListedIds:
    """Ids of questions by the files that hold them, such as "musique/dev.jsonl"."""

    name: str
    by_file: Mapping[str, frozenset[str]]

    def __len__(self) -> int:
        return sum(map(len, self.by_file.values()))

    def holds(self, file: str, dataset: str, question_id: str) -> bool:
        """Tell whether a question is listed: under its own file, or under one in the folder of its data set."""
        parts = Path(file).absolute().parts
        for name, ids in self.by_file.items():
            listed = PurePosixPath(name).parts
            if question_id in ids and (parts[-len(listed) :] == listed or dataset in listed[:-1]):
                return True
        return False


def read_listed_ids(path: Path) -> ListedIds | None:
    """Return the ids of a JSON object of file names with lists of ids; None if the file is something else."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a file that can.") from error
    if not isinstance(content, dict) or not content:
        return None
    if not all(
        isinstance(ids, list) and all(isinstance(question_id, str) for question_id in ids) for ids in content.values()
    ):
        return None
    return ListedIds(path.name, {name: frozenset(ids) for name, ids in content.items()})
