"""Whether an index is sound: a quick look at every part of it, and a long one at all it holds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import islice

from hoptree.core.errors import CorpusError, IndexUnavailable, MissingExtra
from hoptree.core.values import Passage
from hoptree.retrieval.hippo.retriever import held_facts
from hoptree.retrieval.index.folder import Index, vectors_damaged
from hoptree.retrieval.index.ledger import Ledger, content_of, key_of
from hoptree.retrieval.index.links import LINK_AGAIN, Links
from hoptree.retrieval.index.manifest import read_manifest
from hoptree.retrieval.index.tantivy_files import ALLOW, BUILD_AGAIN, check_files, summed_files, tantivy_errors
from hoptree.retrieval.indexing.sources import Listener, Progress
from hoptree.retrieval.vectors import VectorWriter

_AT_ONCE = 1_000
_CONTENTS = 2**128


@dataclass(frozen=True, slots=True)
class Checked:
    """How much was looked at: bytes of files, passages, and those of them that links and vectors know.

    None stands for what the index does not have, or cannot be looked at because a library is missing.
    """

    bytes: int
    passages: int
    linked: int | None
    vectors: int | None


def check_parts(index: Index) -> None:
    """An error if a file is missing, a part cannot be opened, or the first passage of a segment cannot be read."""
    index.check_present()
    index.texts.check()
    index.ledger().close()
    if index.manifest.settings.links:
        Links(index.links)
    if index.manifest.settings.encoder:
        with suppress(MissingExtra):  # who cannot search by vectors may still ask what else is there
            index.open_vectors()
    held_facts(index)


def check_all(index: Index, *, on_progress: Listener | None = None) -> Checked:
    """Read an index whole: an error if anything is not as it was written, as far as that can be known.

    Files of texts and links are compared with their checksums, the ledger with itself, every passage with the ledger,
    and each must have its links and its vector. Nothing is there to compare with: the numbers in the vectors, names and
    what is written down of files in the ledger, and settings in the manifest.
    """
    tell = on_progress or (lambda progress: None)
    try:
        count = _check_files(index, tell)  # first: what is damaged is not looked into
        check_parts(index)
        with closing(index.ledger()) as ledger:
            ledger.check()
            held_facts(index, deep=True)
            return _Comparison(index, ledger, tell).run(count)
    except (CorpusError, OSError, sqlite3.Error) as error:
        if read_manifest(index.folder).generation != index.manifest.generation:
            raise IndexUnavailable(
                f"The index {index.folder} was changed while it was looked at.", "Run the same command again."
            ) from error
        if isinstance(error, CorpusError):
            raise
        if isinstance(error, sqlite3.Error):
            raise CorpusError(f"The ledger of the index {index.folder} is damaged: {error}.", BUILD_AGAIN) from error
        remedy = ALLOW if isinstance(error, PermissionError) else BUILD_AGAIN
        raise CorpusError(f"{error.filename} cannot be read: {error.strerror}.", remedy) from error


def _check_files(index: Index, tell: Callable[[Progress], None]) -> int:
    """Compare the files of texts and links with their checksums; how many bytes that were."""
    folders = [(index.generation / "text", f"The index {index.folder} is damaged", BUILD_AGAIN)]
    if index.manifest.settings.links:
        folders.append((index.links, f"The links of the index {index.folder} are damaged", LINK_AGAIN))
    total = sum(path.stat().st_size for folder, _, _ in folders for path in summed_files(folder))
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        tell(Progress("checking files", done, total, 0))

    for folder, what, remedy in folders:
        with tantivy_errors(what, remedy):
            check_files(folder, advance)
    return total


class _Comparison:
    """Every passage of an index beside what the ledger, the links and the vectors know of it."""

    def __init__(self, index: Index, ledger: Ledger, tell: Callable[[Progress], None]) -> None:
        self._index, self._ledger, self._tell = index, ledger, tell
        settings = index.manifest.settings
        self._links = Links(index.links) if settings.links else None
        self._vectors: VectorWriter | None = None
        if settings.encoder:
            with suppress(MissingExtra):
                self._vectors = VectorWriter.open(index.vectors)

    def run(self, checked_bytes: int) -> Checked:
        manifest = self._index.manifest
        if tuple(self._ledger.sources()) != manifest.sources:
            raise self._damaged("its ledger has other sources")
        done = contents = unlinked = bare = 0
        walk = self._index.texts.scan(0, self._ledger.next_number)  # not to the last number there: that may be damaged
        while rows := list(islice(walk, _AT_ONCE)):
            keys = [key for _, key, _ in rows]
            contents += self._compare(rows)
            unlinked += sum(not self._links.knows(key) for key in keys) if self._links else 0
            bare += len(self._vectors.missing(keys)) if self._vectors else 0
            done += len(rows)
            self._tell(Progress("comparing", done, manifest.passages, done))
        if (done, f"{contents % _CONTENTS:032x}") != (manifest.passages, manifest.digest):
            raise self._damaged(f"{done:,} of {manifest.passages:,} passages were found in it")
        if unlinked:
            raise CorpusError(
                f"The links of the index {self._index.folder} are damaged: they lack {unlinked:,} passages.", LINK_AGAIN
            )
        if self._vectors and (bare or len(self._vectors) != done):
            why = f"{len(self._vectors):,} for {done:,} passages, of which {bare:,} have none"
            raise vectors_damaged(self._index.folder, manifest.settings.encoder, why)
        return Checked(checked_bytes, done, done if self._links else None, done if self._vectors else None)

    def _compare(self, rows: list[tuple[int, int, Passage]]) -> int:
        """The sum of the passages' contents, or an error if one is not what the ledger says."""
        entries = self._ledger.look_up([key for _, key, _ in rows])
        for number, key, passage in rows:
            entry = entries.get(key)
            if (
                entry is None
                or key != key_of(passage.id)
                or (entry.number, entry.content) != (number, content_of(passage))
            ):
                raise self._damaged(f"the passage '{passage.id}' is not what its ledger says")
        return sum(int.from_bytes(entry.content) for entry in entries.values())

    def _damaged(self, why: str) -> CorpusError:
        return CorpusError(f"The index {self._index.folder} is damaged: {why}.", BUILD_AGAIN)
