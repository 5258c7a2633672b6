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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.index.manifest import MANIFEST, read_manifest
from hoptree.retrieval.remote import is_remote
from hoptree.sample import sample_index
from hoptree.server.error_responses import Refusal
from hoptree.server.names import check_name, unknown

SAMPLE = "sample"
MADE_ANEW = "Add or remove a document: the index is made anew then; or tell whoever runs the server."


@dataclass(frozen=True, slots=True)
class ManagedCorpus:
    """A corpus that was made here."""

    name: str
    folder: Path

    @property
    def documents(self) -> Path:
        return self.folder / "documents"

    @property
    def index(self) -> Path:
        return self.folder / "index"

    @property
    def pending(self) -> Path:
        return self.folder / "pending"

    @property
    def replaced(self) -> Path:
        return self.folder / "replaced"

    @property
    def counts(self) -> Path:
        return self.folder / "passages"

    @property
    def outcome(self) -> Path:
        return self.folder / "job"

    @property
    def ready(self) -> bool:
        return (self.index / MANIFEST).exists()

    def files(self) -> list[tuple[str, int]]:
        """Name and size of the documents, by name; one that is taken away at this moment is left out."""
        found = []
        for above, _, names in os.walk(self.documents):
            for name in names:
                path = Path(above) / name
                with suppress(FileNotFoundError, NotADirectoryError):
                    found.append((path.relative_to(self.documents).as_posix(), path.stat().st_size))
        return sorted(found)

    def count(self) -> int:
        """How many documents there are: as the index has them, and as they lie there while it is being changed."""
        known = {} if self.pending.exists() else self.passages()
        return len(known) or len(self.files())

    def passages(self) -> dict[str, int]:
        """How many passages the index has of each document, as far as that is known."""
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
            self._named[name] = str(sample_index()) if where == SAMPLE else where
            if not is_remote(where):
                read_manifest(Path(self._named[name]))  # says what is wrong with it, before anything is served

    @property
    def names(self) -> tuple[str, ...]:
        """Those that can be asked about now."""
        return (*self._named, *(one.name for one in self.managed() if one.ready))

    @property
    def default(self) -> str | None:
        return next(iter(self._named), None) or next((one.name for one in self.managed() if one.ready), None)

    def managed(self) -> list[ManagedCorpus]:
        """The corpora made here, by name."""
        if self.folder is None or not self.folder.is_dir():
            return []
        found = [ManagedCorpus(entry.name, entry) for entry in self.folder.iterdir() if (entry / "documents").is_dir()]
        return sorted((one for one in found if one.name not in self._named), key=lambda one: one.name)

    def taken(self, name: str) -> bool:
        return name in self._named or (self.folder is not None and (self.folder / name).exists())

    def own(self, name: str) -> ManagedCorpus:
        """A corpus made here; any other name is refused."""
        check_name(name)
        if name in self._named:
            raise Refusal(
                403, "NotManaged", f"The corpus '{name}' was not made here.", "Whoever runs the server can change it."
            )
        known = {one.name: one for one in self.managed()}
        if name not in known:
            raise unknown("corpus", name, known, status=404)
        return known[name]

    def place(self, name: str) -> str:
        """The folder or address of a corpus that can be asked about."""
        if name in self._named:
            return self._named[name]
        known = {one.name: one for one in self.managed()}
        if name not in known:
            raise unknown("corpus", name, self.names)
        if not known[name].ready:
            raise _not_ready(known[name])
        return str(known[name].index)

    def told(self) -> list[dict[str, Any]]:
        """All corpora as the list shows them."""
        named = [{**self._about(name, self.place(name)), "managed": False} for name in self._named]
        own = []
        for one in self.managed():
            about = self._about(one.name, str(one.index)) if one.ready else _nothing(one.name)
            own.append({**about, "documents": one.count(), "managed": True})
        return [*named, *own]

    def _about(self, name: str, where: str) -> dict[str, Any]:
        if is_remote(where):
            return {"name": name, "passages": None, "documents": None, "retrievers": [DEFAULT_RETRIEVER, "bm25"]}
        try:
            manifest = read_manifest(Path(where))
        except CorpusError:
            return _nothing(name)
        settings = manifest.settings
        kinds = [DEFAULT_RETRIEVER, "bm25", *(["linked"] if settings.links else [])]
        kinds += ["dense", "hybrid"] if settings.encoder else []
        return {"name": name, "passages": manifest.passages, "documents": None, "retrievers": kinds}


def _not_ready(corpus: ManagedCorpus) -> Refusal:
    if corpus.pending.exists():
        cause, remedy = f"The corpus '{corpus.name}' is still being made.", "Wait for its job to be done."
    else:
        cause, remedy = f"The index of the corpus '{corpus.name}' is gone.", MADE_ANEW
    return Refusal(409, "NotReady", cause, remedy)


def _nothing(name: str) -> dict[str, Any]:
    return {"name": name, "passages": 0, "documents": None, "retrievers": []}
