"""Plain text files."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import PurePosixPath

from hoptree.corpus.document import Document
from hoptree.corpus.problems import Problems
from hoptree.corpus.stream import read_text

__all__ = ["read_text_file", "stem"]


def read_text_file(stream: io.BufferedReader, name: str, problems: Problems) -> Iterator[Document]:
    """The file is a document that is named after it."""
    text = read_text(stream, name, problems)
    if text is not None:
        yield Document(name, stem(name), text)


def stem(name: str) -> str:
    """What a file is called without folders and suffixes."""
    base = PurePosixPath(name).name
    return PurePosixPath(base[:-3] if base.lower().endswith(".gz") else base).stem
