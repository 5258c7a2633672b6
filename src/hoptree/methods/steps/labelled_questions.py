"""Questions labelled by whether documents made the answer better, as `align skr` writes and SKR reads them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, InputError

Label = Literal["better", "worse", "tie"]
"""What documents made of the answer to a question."""
_HOW = "Make the file from two runs over train questions: hoptree align skr RUN_WITHOUT RUN_WITH --out FILE"


@dataclass(frozen=True, slots=True)
class Labels:
    """Questions for which documents made a difference, whether for the better, and for how many they made none."""

    questions: tuple[str, ...]
    better: tuple[bool, ...]
    ties: int
    digest: str = ""


def read_labels(path: str) -> Labels:
    """Read the labelled questions of a file with an object a line, of a `question` and its `label`."""
    if not path:
        raise ConfigError("skr with how=knn needs labelled questions: --set labels=FILE was not given.", _HOW)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"The labels in {path} cannot be read: {error.strerror or error}.", _HOW) from error
    rows = [_read_row(path, number, line) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()]
    decisive = [(question, label == "better") for question, label in rows if label != "tie"]
    if not decisive:
        raise InputError(f"{path} holds no question for which documents made a difference.", "Label more questions.")
    questions, better = zip(*decisive, strict=True)
    return Labels(questions, better, len(rows) - len(decisive), hashlib.sha256(raw).hexdigest()[:12])


def _read_row(path: str, number: int, line: bytes) -> tuple[str, Label]:
    try:
        row: Any = json.loads(line)
        question, label = row["question"], row["label"]
        if not isinstance(question, str) or label not in get_args(Label):
            raise TypeError("its label is none of better, worse and tie")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"Line {number} of {path} is no labelled question: {error}.", _HOW) from error
    return question, label
