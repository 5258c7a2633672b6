"""The passages of a corpus, one after the other: those of an index, or of files as an index would cut them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hoptree.corpus.files import find_files
from hoptree.corpus.problems import Problems
from hoptree.corpus.read import read_passages
from hoptree.errors import CorpusError, InputError
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.manifest import MANIFEST
from hoptree.retrieval.remote import is_remote
from hoptree.sample import sample_index
from hoptree.values import Passage

__all__ = ["Passages", "open_passages", "passage_key"]

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Passages:
    """A corpus to be read through; `identity` is a digest of all it says, whatever it is called.

    `known` is how many passages it has where that need not be counted. `problems` collects what cannot be read.
    """

    name: str
    identity: str
    known: int | None
    stream: Callable[[Problems], Iterator[Passage]]
    problems: Problems

    def distinct(self, limit: int | None = None) -> Iterator[tuple[int, Passage]]:
        """The passages with their keys, each once, the first `limit` of them."""
        # What is broken was noted when they were counted.
        return islice(_each_once(self.stream(Problems(self.problems.limit))), limit)

    def count(self, limit: int | None = None) -> int:
        """How many passages there are, `limit` at most; an error if there is none."""
        if self.known is None:
            found = sum(1 for _ in islice(_each_once(self.stream(self.problems)), limit))
        else:
            found = self.known if limit is None else min(limit, self.known)
        if not found:
            why = f" ({self.problems.summary()})" if self.problems.counts else ""
            raise CorpusError(f"{self.name} holds no passage{why}.", "Give a corpus with text in it.")
        return found


def _each_once(passages: Iterator[Passage]) -> Iterator[tuple[int, Passage]]:
    seen: set[int] = set()
    for passage in passages:
        if (key := passage_key(passage)) not in seen:
            seen.add(key)
            yield key, passage


def passage_key(passage: Passage) -> int:
    """A number that stands for a passage and all it says."""
    said = f"{passage.id}\0{passage.title}\0{passage.text}".encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest())


def open_passages(corpus: str) -> Passages:
    """The passages of an index folder, of a file or folder of documents, or of the packaged sample."""
    if is_remote(corpus):
        raise InputError(
            f"{corpus} is an engine elsewhere, which cannot be read through.",
            "Give an index made by hoptree index, or the documents themselves.",
        )
    path = sample_index() if corpus == "sample" else Path(corpus)
    if (path / MANIFEST).exists():
        index = Index(path)
        return Passages(
            corpus,
            f"index:{index.manifest.digest}",
            index.manifest.passages,
            lambda problems: (passage for _, _, passage in index.texts.scan()),
            Problems(),
        )
    identity = f"files:{_digest(path)}"
    return Passages(corpus, identity, None, lambda problems: read_passages(path, problems=problems), Problems())


def _digest(path: Path) -> str:
    """The digest of all files of a corpus with their names below it."""
    found = hashlib.sha256()
    for file in find_files(path):
        name = "" if path.is_file() else file.name
        found.update(f"{name}\0{file.size}\0".encode("utf-8", "surrogatepass"))
        try:
            with file.path.open("rb") as stream:
                while block := stream.read(_BLOCK):
                    found.update(block)
        except OSError:
            found.update(b"unreadable")  # reading the passages says so
    return found.hexdigest()[:32]
