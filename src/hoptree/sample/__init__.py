"""The packaged sample: short passages on real things, and multi-hop questions over them."""

from __future__ import annotations

import hashlib
import json
import time
from contextlib import AbstractContextManager
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError
from hoptree.core.files import cache_dir, is_busy
from hoptree.retrieval.index.folder import FORMAT, MANIFEST

_MAX_WAIT_S = 30.0
_POLL_S = 0.05


def sample_index() -> Path:
    """Return the folder of the sample's index; the first call builds it."""
    corpus = files("hoptree.sample") / "corpus.jsonl"
    digest = hashlib.sha256(corpus.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"sample-{digest}-{FORMAT}"
    deadline = time.monotonic() + _MAX_WAIT_S
    with as_file(corpus) as path:
        while not (folder / MANIFEST).exists():
            from hoptree.retrieval.indexing import build_index  # slow to import, and seldom needed

            try:
                build_index(path, folder)
            except CorpusError as error:
                if is_busy(error):  # another process builds it, which takes a second or two
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(_POLL_S)
                elif not (folder / MANIFEST).exists():  # else another process was quicker
                    raise type(error)(error.cause, "Set XDG_CACHE_HOME to a folder that can be written.") from error
    return folder


def sample_questions_file() -> AbstractContextManager[Path]:
    """Return a context manager with the questions file, as the package may be in an archive."""
    return as_file(files("hoptree.sample") / "questions.jsonl")


def sample_questions() -> list[dict[str, Any]]:
    """Read the questions with their gold answers; `answerable` says whether the sample holds the answer."""
    with sample_questions_file() as path:
        text = path.read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines() if line.strip()]
