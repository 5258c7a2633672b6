"""An index folder: its manifest, generations and atomic changes."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import FolderLock, VersionedFolder, check_fields, link_or_copy
from hoptree.core.values import Passage
from hoptree.retrieval.index.ledger import Entry, Ledger
from hoptree.retrieval.index.links import LINK_AGAIN, names_of
from hoptree.retrieval.index.tantivy_files import (
    ALLOW,
    BUILD_AGAIN,
    TantivyErrors,
    check_present,
    failed_change,
    unwritable,
)
from hoptree.retrieval.index.text_index import Texts, TextWriter
from hoptree.retrieval.vectors import Vectors

FORMAT = 4
MANIFEST = "hoptree-index.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """How an index is made; what is added later is made the same way."""

    language: str = "english"
    links: bool = True
    encoder: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index holds and how it was made.

    `generation` names the folder with the data, `digest` the set of passages; `bytes` is their size on disk.
    `reading` is how sources are read (chunking and the like), for `hoptree index update`.
    """

    format: int
    generation: int
    passages: int
    digest: str
    bytes: int
    settings: Settings = field(default_factory=Settings)
    reading: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


def index_folder(folder: Path) -> VersionedFolder:
    return VersionedFolder(folder, MANIFEST, marker="text")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index folder; the error says what the folder is instead."""
    rebuild = f"hoptree index … --out {folder}"
    try:
        data = index_folder(folder).read_manifest()
        if data.get("format") != FORMAT:
            raise CorpusError(
                f"The index {folder} is of format {data.get('format')}, not {FORMAT}.",
                f"It was made by another version of Hoptree: build it again with {rebuild}",
            )
        check_fields(data, Manifest)
        settings = Settings(**data["settings"])
        _check_types(data, settings)
        return Manifest(**(data | {"settings": settings, "sources": tuple(data["sources"])}))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_index(folder) from error
    except PermissionError as error:
        raise CorpusError(f"The index {folder} may not be read by you: {error.strerror}.", ALLOW) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorpusError(f"The index {folder} is damaged: {error}.", f"Build it again: {rebuild}") from error


def _no_index(folder: Path) -> CorpusError:
    if folder.is_dir() and any(folder.glob("[0-9]*.part")):
        return CorpusError(
            f"{folder} is no index yet: it is being built, or that was cut off.",
            "Wait, or repeat the command that built it: it goes on from there.",
        )
    if folder.is_dir() and any(folder.glob("[0-9][0-9][0-9][0-9][0-9][0-9]/text")):
        rebuild = f"Build it again: hoptree index … --out {folder}"
        return CorpusError(f"The index {folder} has lost its file {MANIFEST}.", rebuild)
    if folder.exists():
        return CorpusError(f"{folder} is no index.", f"Make one: hoptree index {folder} --out {folder}.idx")
    return CorpusError(f"There is no index at {folder}.", f"Make one: hoptree index FOLDER --out {folder}")


def _check_types(data: Mapping[str, Any], settings: Settings) -> None:
    types = {"generation": int, "passages": int, "digest": str, "bytes": int, "reading": dict, "sources": list}
    wrong = [name for name, kind in types.items() if not isinstance(data[name], kind)]
    wrong += [item.name for item in fields(Settings) if type(getattr(settings, item.name)) is not type(item.default)]
    if wrong or not all(isinstance(value, str) for value in (*data["reading"].values(), *data["sources"])):
        raise ValueError(f"its manifest has values of another kind ({', '.join(wrong) or 'reading or sources'})")


_INTENT = "intent.json"
_WRITER_BYTES = 256 * 2**20
"""What tantivy may collect in memory before it writes a segment."""


class Index:
    """An index folder, open for reading; later changes of the folder do not show."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for attempt in range(3):
            self.manifest = read_manifest(folder)
            self.generation = index_folder(folder).generation(self.manifest.generation)
            try:
                if not self.generation.is_dir():
                    raise CorpusError(f"The index {folder} is damaged: a folder of it is missing.", BUILD_AGAIN)
                language, digest = self.manifest.settings.language, self.manifest.digest
                self.texts = Texts(self.generation / "text", language=language, digest=digest)
                break
            except CorpusError:
                # A writer may have switched to the next generation between the two steps.
                if attempt == 2 or read_manifest(folder).generation == self.manifest.generation:
                    raise
        if len(self.texts) != self.manifest.passages:
            raise CorpusError(
                f"The index {folder} holds {len(self.texts):,} passages, not {self.manifest.passages:,}.", BUILD_AGAIN
            )
        self.links, self.vectors = self.generation / "links", self.generation / "vectors"
        self.identity = f"{digest}:{language}"
        """What determines search results: the set of passages, and how words are compared."""

    def open_vectors(self) -> Vectors:
        return open_vectors(self.vectors, self.folder, self.manifest.settings.encoder)

    def check_present(self) -> None:
        """Raise an error if a file of the texts or the links is missing."""
        with TantivyErrors(f"The index {self.folder} is damaged"):
            check_present(self.generation / "text")
        if self.manifest.settings.links:
            with TantivyErrors(f"The links of the index {self.folder} are damaged", LINK_AGAIN):
                check_present(self.links)

    def ledger(self) -> Ledger:
        ledger = Ledger(self.generation / "ledger.sqlite")
        _check_fit(ledger, self.manifest, self.folder)
        return ledger


class Change:
    """One change of an index, as a context manager: what is not finished never happened.

    `intent` says what is being done: the same intent resumes an interrupted change, any other discards it. With
    `from_scratch` the old content is not carried over.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        *,
        intent: Mapping[str, str],
        from_scratch: bool = False,
        encoder: str | None = None,
    ) -> None:
        self.folder = folder.resolve()
        self._versions = index_folder(self.folder)
        self._from_scratch = from_scratch
        try:
            if self._read_base() is None and not from_scratch:
                read_manifest(self.folder)  # raises the error that says what is there instead
        except PermissionError as error:
            raise CorpusError(f"{folder} may not be used by you: {error.strerror}.", ALLOW) from error
        self._settings, self._encoder = settings, encoder
        self._lock = FolderLock(self.folder, IndexUnavailable)
        self._intent: dict[str, object] = {"afresh": from_scratch, **intent}
        self._is_new = not self.folder.exists()
        self.resumed = self._saved = False

    def _read_base(self) -> Manifest | None:
        """Read the manifest of the index that is there, if any; a folder with anything else in it is left alone."""
        if self._versions.is_foreign():
            raise CorpusError(f"{self.folder} exists and is no index.", "Choose a new folder for --out.")
        if not self._versions.has_manifest():
            return None
        try:
            return read_manifest(self.folder)
        except CorpusError:
            if not self._from_scratch:
                raise
            return None  # nothing of it is needed

    def __enter__(self) -> Change:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            try:
                self._stage()
            except BaseException:
                self._abandon()
                self._lock.release()
                raise
        except OSError as error:
            raise unwritable(self.folder, error) from error
        return self

    def _stage(self) -> None:
        # Read under the lock: another writer may have finished while this one waited for it.
        self.base = self._read_base()
        self.settings = self._settings or (self.base.settings if self.base else Settings())
        if self._encoder is not None:
            self.settings = replace(self.settings, encoder=self._encoder)
        self._intent |= {
            "settings": asdict(self.settings),
            "base": self.base.digest if self.base else "",
            "generation": self.base.generation if self.base else 0,
        }
        self._number = self.base.generation + 1 if self.base else self._versions.next_number()
        part, complete = self._versions.part(self._number), self._versions.generation(self._number)
        if complete.exists() and not part.exists() and self._versions.owns(complete):
            complete.rename(part)  # left by a run that was killed just before it wrote the manifest
        # Before `self.part` is set: what is not resumed is deleted if the run is stopped.
        self.resumed = _read_intent(part) == self._intent
        self.part = part
        if not self.resumed:
            for leftover in self.folder.glob("*.part"):
                if self._versions.owns(leftover):
                    self._versions.delete(leftover)
            self._copy_base()
        self.ledger = Ledger(self.part / "ledger.sqlite", writable=True)
        if self.base is not None and not self.resumed and not self._from_scratch:
            _check_fit(self.ledger, self.base, self.folder)
        self.texts = TextWriter(self.part / "text", language=self.settings.language, memory=_WRITER_BYTES)
        self._next = self.ledger.next_number
        if self.resumed:
            self.texts.remove_from(self._next)
            self.texts.commit()
        else:
            self.ledger.set_fact("first new", self._next)
            self.ledger.commit()
            # Last: a part without an intent is incomplete, and is not resumed.
            _write_json(self.part / _INTENT, self._intent)
        self.first_new = self.ledger.number("first new")
        """The number of the first passage that this change adds."""

    def _copy_base(self) -> None:
        (self.part / "text").mkdir(parents=True)
        if self.base is None or self._from_scratch:
            return
        Index(self.folder).check_present()  # what cannot be read would be left out without a word
        old = self._versions.generation(self.base.generation)
        for path in sorted(old.rglob("*")):
            target = self.part / path.relative_to(old)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            elif not path.name.endswith(".lock"):
                link_or_copy(path, target)

    def add(self, passages: Sequence[tuple[Passage, int, bytes]], file: int) -> None:
        """Add passages with their keys and contents; the keys must be new."""
        self.texts.add([(passage, key) for passage, key, _ in passages], self._next)
        self.ledger.add([(key, content, file, number) for number, (_, key, content) in enumerate(passages, self._next)])
        if self.settings.links:
            names = (name for passage, _, _ in passages for name in names_of(passage.title, passage.aliases))
            self.ledger.enter_names(names, self.first_new)
        self._next += len(passages)

    def remove(self, entries: Sequence[Entry]) -> None:
        self.texts.remove([entry.key for entry in entries])
        self.ledger.drop(entries)
        self.ledger.note_removed(entries)

    def save(self) -> None:
        """Save a checkpoint from which a killed run resumes."""
        self.texts.commit()
        self.ledger.set_fact("next", self._next)
        self.ledger.commit()
        self._saved = True

    def close_texts(self) -> None:
        """End the adding of passages: from now on the staged text index can be read."""
        self.save()
        self.texts.close()

    def staged(self) -> Texts:
        """Open the staged text index, to read what was added."""
        return Texts(self.part / "text", language=self.settings.language, digest=self.ledger.digest)

    def finish(self, *, reading: Mapping[str, str]) -> Manifest:
        """Check the new generation and put it in the place of the old one."""
        passages = len(self.staged())
        if passages != self.ledger.passages:
            shutil.rmtree(self.part)
            raise CorpusError(
                f"The change does not add up ({passages:,} passages, {self.ledger.passages:,} in its ledger); "
                "the index is as it was.",
                "Run the same command again: it starts afresh.",
            )
        sources = tuple(self.ledger.sources())
        digest = self.ledger.digest
        self.ledger.forget_removed()
        self.ledger.settle()
        self.ledger.close()
        size = 0
        for path in self.part.rglob("*"):
            if path.suffix == ".lock":
                path.unlink()
                continue
            if path.suffix == ".json":  # which tantivy lets only its user read
                path.chmod(self.ledger.mode)
            size += path.stat().st_size if path.is_file() else 0
        manifest = Manifest(FORMAT, self._number, passages, digest, size, self.settings, dict(reading), sources)
        final = self._versions.generation(self._number)
        self.part.rename(final)
        self._versions.write_manifest(manifest)
        (final / _INTENT).unlink()
        self._versions.sweep(keep={final.name})
        return manifest

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._abandon()
        self._lock.release()
        if isinstance(error, OSError):
            raise failed_change(self.folder, error) from error
        if isinstance(error, sqlite3.Error):
            raise IndexUnavailable(
                f"The ledger of the index {self.folder} cannot be used: {error}.",
                "Free some space and run the same command again; if that does not help, build the index again.",
            ) from error

    def _abandon(self) -> None:
        """Close the files after an error; a change without a checkpoint leaves nothing behind."""
        with suppress(AttributeError, CorpusError, sqlite3.Error):  # not opened yet, or closed already
            self.ledger.close()
        with suppress(AttributeError, CorpusError, RuntimeError):
            self.texts.close()
        if self._saved or self.resumed:
            return
        if hasattr(self, "part"):
            shutil.rmtree(self.part, ignore_errors=True)
        if self._is_new and not any(path.name != FolderLock.NAME for path in self.folder.iterdir()):
            shutil.rmtree(self.folder, ignore_errors=True)


def open_vectors(vectors: Path, index: Path, encoder: str) -> Vectors:
    """Open the vectors of an index; the error names the index and the command that mends it."""
    try:
        return Vectors(vectors)
    except CorpusError as error:
        raise vectors_damaged(index, encoder) from error


def vectors_damaged(index: Path, encoder: str, why: str = "") -> CorpusError:
    return CorpusError(
        f"The vectors of the index {index} are damaged{f': {why}' if why else ''}.",
        f"Make them again: hoptree index encode --encoder {shlex.quote(encoder)} --out {index}",
    )


def _check_fit(ledger: Ledger, manifest: Manifest, folder: Path) -> None:
    """Raise an error for the ledger of another text index: passages would vanish or come twice."""
    if (ledger.passages, ledger.digest) != (manifest.passages, manifest.digest):
        raise CorpusError(f"The index {folder} is damaged: its ledger does not fit.", BUILD_AGAIN)


def _read_intent(part: Path) -> object:
    try:
        return json.loads((part / _INTENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
