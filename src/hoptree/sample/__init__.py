"""The packaged sample: short passages on real things, and multi-hop questions over them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any


def sample_questions_file() -> AbstractContextManager[Path]:
    """Return a context manager with the questions file, as the package may be in an archive."""
    return as_file(files("hoptree.sample") / "questions.jsonl")


def sample_questions() -> list[dict[str, Any]]:
    """Read the questions with their gold answers; `answerable` says whether the sample holds the answer."""
    with sample_questions_file() as path:
        text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]
