"""The corpora that clients choose among: those an administrator named, and those made here.

A corpus made here is a folder of its own below the corpora folder:

    NAME/documents/     the files as they were uploaded
    NAME/index/         the index of them
    NAME/pending        there while the index is not up to date with the documents: what is being done, and how far
    NAME/replaced/      the files that a change takes out, until the index is up to date
    NAME/passages       how many passages the index has of each document
    NAME/job            how the last change ended
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from typing_extensions import TypedDict

from hoptree.core.errors import CorpusError
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.index.manifest import MANIFEST, read_manifest
from hoptree.retrieval.remote import is_remote
from hoptree.sample import sample_index
from hoptree.server.error_responses import Refusal
from hoptree.server.names import check_name, unknown

_SAMPLE = "sample"
_REBUILD_REMEDY = "Add or remove a document: the index is made anew then; or tell whoever runs the server."


class CorpusAbout(TypedDict):
    """A corpus as the list shows it."""

    name: str
    passages: int | None
    documents: int | None
    retrievers: list[str]
    managed: bool


class ManagedCorpus:
    """A corpus that was made here, and the paths in its folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name, self.folder = name, folder
        self.documents, self.index, self.replaced = folder / "documents", folder / "index", folder / "replaced"
        self.pending, self.counts, self.outcome = folder / "pending", folder / "passages", folder / "job"

    @property
    def ready(self) -> bool:
        return (self.index / MANIFEST).exists()

    def files(self) -> list[tuple[str, int]]:
        """Return name and size of the documents, by name, without those removed at this moment."""
        files = []
        for parent, _, names in os.walk(self.documents):
            for name in names:
                path = Path(parent) / name
                with suppress(FileNotFoundError, NotADirectoryError):
                    files.append((path.relative_to(self.documents).as_posix(), path.stat().st_size))
        return sorted(files)

    def count(self) -> int:
        """Count the documents: as the index has them, or as they lie there while it is being changed."""
        indexed = {} if self.pending.exists() else self.passages()
        return len(indexed) or len(self.files())

    def passages(self) -> dict[str, int]:
        """Return how many passages the index has of each document, as far as that is known."""
        try:
            return {str(name): int(count) for name, count in json.loads(self.counts.read_text("utf-8")).items()}
        except (OSError, ValueError, TypeError, AttributeError):
            return {}


class Corpora:
    """All corpora by name; one that an administrator named cannot be changed by clients."""

    def __init__(self, named: Mapping[str, str], folder: Path | None) -> None:
        self._named: dict[str, str] = {}
        self.folder = folder
        for name, where in named.items():
            check_name(name)
            self._named[name] = str(sample_index()) if where == _SAMPLE else where
            if not is_remote(where):
                read_manifest(Path(self._named[name]))  # says what is wrong with it, before anything is served

    @property
    def names(self) -> tuple[str, ...]:
        """The corpora that can be asked about now."""
        return (*self._named, *(corpus.name for corpus in self.managed() if corpus.ready))

    @property
    def default(self) -> str | None:
        return next(iter(self._named), None) or next(iter(self.names), None)

    def managed(self) -> list[ManagedCorpus]:
        """Return the corpora made here, by name."""
        if self.folder is None or not self.folder.is_dir():
            return []
        folders = [path for path in self.folder.iterdir() if (path / "documents").is_dir()]
        return [ManagedCorpus(path.name, path) for path in sorted(folders) if path.name not in self._named]

    def taken(self, name: str) -> bool:
        return name in self._named or (self.folder is not None and (self.folder / name).exists())

    def own(self, name: str) -> ManagedCorpus:
        """Return a corpus made here; any other name is refused."""
        check_name(name)
        if name in self._named:
            cause = f"The corpus '{name}' was not made here."
            raise Refusal(403, "NotManaged", cause, "Whoever runs the server can change it.")
        known = {corpus.name: corpus for corpus in self.managed()}
        if name not in known:
            raise unknown("corpus", name, known, status=404)
        return known[name]

    def place(self, name: str) -> str:
        """Return the folder or address of a corpus that can be asked about."""
        if name in self._named:
            return self._named[name]
        corpus = next((corpus for corpus in self.managed() if corpus.name == name), None)
        if corpus is None:
            raise unknown("corpus", name, self.names)
        if corpus.ready:
            return str(corpus.index)
        if corpus.pending.exists():
            raise Refusal(409, "NotReady", f"The corpus '{name}' is still being made.", "Wait for its job to be done.")
        raise Refusal(409, "NotReady", f"The index of the corpus '{name}' is gone.", _REBUILD_REMEDY)

    def list_all(self) -> list[CorpusAbout]:
        """List all corpora, those made here last."""
        named = [_about(name, where) for name, where in self._named.items()]
        managed = [
            _about(corpus.name, str(corpus.index) if corpus.ready else None, corpus.count())
            for corpus in self.managed()
        ]
        return [*named, *managed]


def _about(name: str, where: str | None, documents: int | None = None) -> CorpusAbout:
    """Describe a corpus; one made here has a number of `documents`, and no place while it has no index."""
    passages: int | None = 0
    retrievers: list[str] = []
    if where is not None and is_remote(where):
        passages, retrievers = None, [DEFAULT_RETRIEVER, "bm25"]
    elif where is not None:
        with suppress(CorpusError):
            manifest = read_manifest(Path(where))
            passages, settings = manifest.passages, manifest.settings
            retrievers = [DEFAULT_RETRIEVER, "bm25", *(["linked"] if settings.links else [])]
            retrievers += ["dense", "hybrid"] if settings.encoder else []
    managed = documents is not None
    return CorpusAbout(name=name, passages=passages, documents=documents, retrievers=retrievers, managed=managed)
