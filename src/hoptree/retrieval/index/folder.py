"""An index folder: what is in it, and how it changes in one step.

    DIR/hoptree-index.json      the manifest, which names the generation that counts
    DIR/000007/text/            the text index (tantivy) with the passages
    DIR/000007/ledger.sqlite    every passage's key, digest and file
    DIR/000007/links/           who mentions whom (another tantivy index)
    DIR/000007/vectors/         vectors (usearch), if the index has an encoder
    DIR/000008.part/            a change that is being made, or was cut off

A change works on a copy of the generation. Copying is cheap: the large files are never written again once they are
there, so they are hard-linked. When it is complete, the manifest is replaced; until then the old generation is the
index. A change that was killed leaves its copy behind, and the same command goes on with it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import FolderLock
from hoptree.core.values import Passage
from hoptree.retrieval.index.ledger import Entry, Ledger
from hoptree.retrieval.index.links import LINK_AGAIN, names_of
from hoptree.retrieval.index.manifest import FORMAT, MANIFEST, Manifest, Settings, read_manifest, write_manifest
from hoptree.retrieval.index.tantivy_files import (
    ALLOW,
    BUILD_AGAIN,
    check_present,
    failed_change,
    tantivy_errors,
    unwritable,
)
from hoptree.retrieval.index.text_index import Texts, TextWriter
from hoptree.retrieval.vectors import Vectors

_INTENT = "intent.json"
_GENERATION = re.compile(r"\d{6}(\.part)?", re.ASCII)
_MEMORY = 256 * 2**20
"""Bytes tantivy may collect before it writes a segment."""


class Index:
    """An index folder, open for reading. It stays readable while a change is made, and as it was when it was opened."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for attempt in range(3):
            self.manifest = read_manifest(folder)
            self.generation = folder / _name(self.manifest.generation)
            try:
                if not self.generation.is_dir():
                    raise CorpusError(f"The index {folder} is damaged: a folder of it is missing.", BUILD_AGAIN)
                self.texts = Texts(
                    self.generation / "text", language=self.manifest.settings.language, digest=self.manifest.digest
                )
                break
            except CorpusError:
                # A writer may have switched to the next generation between the two steps.
                if attempt == 2 or read_manifest(folder).generation == self.manifest.generation:
                    raise
        if len(self.texts) != self.manifest.passages:
            raise CorpusError(
                f"The index {folder} holds {len(self.texts):,} passages, not {self.manifest.passages:,}.", BUILD_AGAIN
            )

    @property
    def identity(self) -> str:
        """What determines what a search in this index finds: its passages, and how words are compared."""
        return f"{self.manifest.digest}:{self.manifest.settings.language}"

    @property
    def links(self) -> Path:
        return self.generation / "links"

    @property
    def vectors(self) -> Path:
        return self.generation / "vectors"

    def open_vectors(self) -> Vectors:
        return open_vectors(self.vectors, self.folder, self.manifest.settings.encoder)

    def check_present(self) -> None:
        """An error if a file of the texts or the links is missing."""
        with tantivy_errors(f"The index {self.folder} is damaged"):
            check_present(self.generation / "text")
        if self.manifest.settings.links:
            with tantivy_errors(f"The links of the index {self.folder} are damaged", LINK_AGAIN):
                check_present(self.links)

    def ledger(self) -> Ledger:
        ledger = Ledger(self.generation / "ledger.sqlite")
        _check_fit(ledger, self.manifest, self.folder)
        return ledger


class Change:
    """One change of an index, as a context manager: what is not finished never happened.

    `intent` says what is being done: a change that was cut off is taken up by the same intent, and thrown away by any
    other. With `afresh` the old content is not carried over.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings | None = None,
        *,
        intent: Mapping[str, str],
        afresh: bool = False,
        encoder: str | None = None,
    ) -> None:
        self.folder = folder.resolve()
        try:
            if _base(self.folder, afresh) is None and not afresh:
                read_manifest(self.folder)  # says what is there instead
        except PermissionError as error:
            raise CorpusError(f"{folder} may not be used by you: {error.strerror}.", ALLOW) from error
        self._given, self._encoder = settings, encoder
        self._lock = FolderLock(self.folder, IndexUnavailable)
        self._intent: dict[str, object] = {"afresh": afresh, **intent}
        self._afresh = afresh
        self._new = not self.folder.exists()
        self.resumed = self._saved = False

    def __enter__(self) -> Change:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            try:
                self._stage()
            except BaseException:
                self._leave()
                self._lock.release()
                raise
        except OSError as error:
            raise unwritable(self.folder, error) from error
        return self

    def _stage(self) -> None:
        # Read under the lock: another writer may have finished while it was waited for.
        self.base = _base(self.folder, self._afresh)
        self.settings = self._given or (self.base.settings if self.base else Settings())
        if self._encoder is not None:
            self.settings = replace(self.settings, encoder=self._encoder)
        self._intent |= {
            "settings": asdict(self.settings),
            "base": self.base.digest if self.base else "",
            "generation": self.base.generation if self.base else 0,
        }
        self._number = self.base.generation + 1 if self.base else _first(self.folder)
        part = self.folder / f"{_name(self._number)}.part"
        complete = self.folder / _name(self._number)
        if complete.exists() and not part.exists() and _ours(complete):
            complete.rename(part)  # left by a run that was killed just before it wrote the manifest
        # First whether it is taken up: what is not would be taken away if the run is stopped here.
        self.resumed = _read_intent(part) == self._intent
        self.part = part
        if not self.resumed:
            for left in self.folder.glob("*.part"):
                if _ours(left):
                    _take_away(left)
            self._copy_base()
        self.ledger = Ledger(self.part / "ledger.sqlite", writable=True)
        if self.base is not None and not self.resumed and not self._afresh:
            _check_fit(self.ledger, self.base, self.folder)
        self.texts = TextWriter(self.part / "text", language=self.settings.language, memory=_MEMORY)
        if self.resumed:
            self.texts.remove_from(self.ledger.next_number)
            self.texts.commit()
        self._next = self.ledger.next_number
        if not self.resumed:
            self.ledger.set_fact("first new", self._next)
            self.ledger.commit()
            # Last: what has no intent is not taken up, so that what is taken up is whole.
            _write_json(self.part / _INTENT, self._intent)
        self.first_new = self.ledger.number("first new")
        """The number of the first passage that this change adds."""

    def _copy_base(self) -> None:
        (self.part / "text").mkdir(parents=True)
        if self.base is None or self._afresh:
            return
        Index(self.folder).check_present()  # what cannot be read would be left out without a word
        old = self.folder / _name(self.base.generation)
        for path in sorted(old.rglob("*")):
            target = self.part / path.relative_to(old)
            if path.is_dir():
                target.mkdir(exist_ok=True)
            elif not path.name.endswith(".lock"):
                _link_or_copy(path, target)

    def add(self, passages: Sequence[tuple[Passage, int, bytes]], file: int) -> None:
        """Add passages with their keys and contents; the keys must not be there yet."""
        self.texts.add([(passage, key) for passage, key, _ in passages], self._next)
        self.ledger.add([(key, content, file, number) for number, (_, key, content) in enumerate(passages, self._next)])
        if self.settings.links:
            self.ledger.enter_names(
                (name for passage, _, _ in passages for name in names_of(passage.title, passage.aliases)),
                self.first_new,
            )
        self._next += len(passages)

    def remove(self, entries: Sequence[Entry]) -> None:
        self.texts.remove([entry.key for entry in entries])
        self.ledger.drop(entries)
        self.ledger.note_removed(entries)

    def save(self) -> None:
        """Make what was done so far safe: a run that is killed after this goes on from here."""
        self.texts.commit()
        self.ledger.set_fact("next", self._next)
        self.ledger.commit()
        self._saved = True

    def close_texts(self) -> None:
        """No more passages: from now on the staged text index can be read."""
        self.save()
        self.texts.close()

    def staged(self) -> Texts:
        """The staged text index, to read what was added."""
        return Texts(self.part / "text", language=self.settings.language, digest=self.ledger.digest)

    def finish(self, *, reading: Mapping[str, str]) -> Manifest:
        """Check what was made and put it in the place of what was there."""
        found = len(self.staged())
        if found != self.ledger.passages:
            shutil.rmtree(self.part)
            raise CorpusError(
                f"The change does not add up ({found:,} passages, {self.ledger.passages:,} in its ledger); "
                "the index is as it was.",
                "Run the same command again: it starts afresh.",
            )
        sources = tuple(self.ledger.sources())
        manifest = Manifest(FORMAT, self._number, found, self.ledger.digest, 0, self.settings, dict(reading), sources)
        self.ledger.forget_removed()
        self.ledger.settle()
        self.ledger.close()
        for path in self.part.rglob("*"):
            if path.suffix == ".lock":
                path.unlink()
            elif path.suffix == ".json":  # tantivy keeps these to itself; whoever may read the folder may read them
                path.chmod(self.ledger.mode)
        manifest = replace(manifest, bytes=sum(path.stat().st_size for path in self.part.rglob("*") if path.is_file()))
        final = self.folder / _name(self._number)
        self.part.rename(final)
        write_manifest(self.folder, manifest)
        (final / _INTENT).unlink()
        for old in self.folder.iterdir():  # also one that a killed run left behind
            if old.is_dir() and old != final and _ours(old):
                # Readers that have the old generation open keep it until they close it.
                with suppress(OSError):
                    _take_away(old)
        return manifest

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            self._leave()
        self._lock.release()
        if isinstance(error, OSError):
            raise failed_change(self.folder, error) from error
        if isinstance(error, sqlite3.Error):
            raise IndexUnavailable(
                f"The ledger of the index {self.folder} cannot be used: {error}.",
                "Free some space and run the same command again; if that does not help, build the index again.",
            ) from error

    def _leave(self) -> None:
        """Let go of the files after an error; what was not begun in earnest leaves nothing behind."""
        with suppress(AttributeError, CorpusError, sqlite3.Error):  # what was not opened, or is closed already
            self.ledger.close()
        with suppress(AttributeError, CorpusError, RuntimeError):
            self.texts.close()
        if self._saved or self.resumed:
            return
        if hasattr(self, "part"):
            shutil.rmtree(self.part, ignore_errors=True)
        if self._new and not any(path.name != FolderLock.NAME for path in self.folder.iterdir()):
            shutil.rmtree(self.folder, ignore_errors=True)


def open_vectors(vectors: Path, index: Path, encoder: str) -> Vectors:
    """The vectors in a folder of an index, or an error that names the index and what mends it."""
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
    """A ledger that is not the one of the text index would let passages vanish or come twice."""
    if (ledger.passages, ledger.digest) != (manifest.passages, manifest.digest):
        raise CorpusError(f"The index {folder} is damaged: its ledger does not fit.", BUILD_AGAIN)


def _base(folder: Path, afresh: bool) -> Manifest | None:
    """The manifest of the index that is there, if one is; a folder with anything else in it is left alone.

    One that cannot be read is as good as none where nothing of it is needed.
    """
    if (folder / MANIFEST).exists():
        try:
            return read_manifest(folder)
        except CorpusError:
            if not afresh:
                raise
            return None
    strange = folder.exists() and (not folder.is_dir() or any(not _ours(path) for path in folder.iterdir()))
    if strange:
        raise CorpusError(f"{folder} exists and is no index.", "Choose a new folder for --out.")
    return None


def _ours(path: Path) -> bool:
    """Whether something in an index folder belongs to it; nothing else is ever taken away."""
    if path.name in (FolderLock.NAME, f"{MANIFEST}.new"):
        return True
    return bool(_GENERATION.fullmatch(path.name)) and not path.is_symlink() and (path / "text").is_dir()


def _take_away(generation: Path) -> None:
    """Delete a generation, last of all what it is known by: a killed run's rest goes with the next change."""
    for path in sorted(generation.iterdir(), key=lambda path: path.name == "text"):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    generation.rmdir()


def _first(folder: Path) -> int:
    """The number for an index without a manifest: that of what a killed run left, or one that nobody has."""
    there = [path for path in folder.iterdir() if _GENERATION.fullmatch(path.name)]
    left = [int(path.name[:6]) for path in there if _ours(path)]
    return max(left) if left else max((int(path.name[:6]) for path in there), default=0) + 1


def _name(generation: int) -> str:
    return f"{generation:06d}"


def _read_intent(part: Path) -> object:
    try:
        return json.loads((part / _INTENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")


def _link_or_copy(path: Path, target: Path) -> None:
    """Hard-link what is written once; copy what is written again, or what the file system cannot link."""
    if path.suffix not in (".json", ".sqlite"):
        try:
            os.link(path, target)
            return
        except OSError:
            pass
    shutil.copyfile(path, target)
