"""Atomic and resumable changes of an index folder."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import Checksums, FolderLock
from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import FORMAT, Index, Manifest, Settings, check_fit, index_folder, read_manifest
from hoptree.retrieval.index.ledger import Entry, Ledger
from hoptree.retrieval.index.links import names_of
from hoptree.retrieval.index.tantivy_files import ALLOW, failed_change, link_or_copy, unwritable
from hoptree.retrieval.index.text_index import Texts
from hoptree.retrieval.index.text_writer import TextWriter

_INTENT = "intent.json"
_WRITER_BYTES = 256 * 2**20  # what tantivy may collect in memory before it writes a segment


class Change:
    """A change of an index, as a context manager; an unfinished one has no effect.

    `intent` describes the change: the same intent resumes an interrupted one, any other discards it. With
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
                read_manifest(self.folder)  # its error names what the folder is instead
        except PermissionError as error:
            raise CorpusError(f"{folder} may not be used by you: {error.strerror}.", ALLOW) from error
        self._settings, self._encoder = settings, encoder
        self._lock = FolderLock(self.folder, IndexUnavailable)
        self._intent: dict[str, object] = {"afresh": from_scratch, **intent}
        self._is_new = not self.folder.exists()
        self.resumed = self._saved = False

    def _read_base(self) -> Manifest | None:
        """Read the manifest of the index, if any; refuse a folder of anything else."""
        if self._versions.is_foreign():
            raise CorpusError(f"{self.folder} exists and is not an index.", "Choose a new folder for --out.")
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
        # Before `self.part` is set: from then on a stopped run deletes what is not resumed.
        self.resumed = _read_intent(part) == self._intent
        self.part = part
        if not self.resumed:
            for leftover in self.folder.glob("*.part"):
                if self._versions.owns(leftover):
                    self._versions.delete(leftover)
            self._copy_base()
        self.ledger = Ledger(self.part / "ledger.sqlite", writable=True)
        if self.base is not None and not self.resumed and not self._from_scratch:
            check_fit(self.ledger, self.base, self.folder)
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
        self.first_new = self.ledger.number("first new")  # the number of the first passage that this change adds

    def _copy_base(self) -> None:
        (self.part / "text").mkdir(parents=True)
        if self.base is None or self._from_scratch:
            return
        index = Index(self.folder)
        redone = {"encode": "vectors", "facts": "facts"}.get(str(self._intent.get("what")), "")
        index.verify_all(without=f"{redone}/")  # checksums of the copy would hide damage
        old = index.generation
        left_out = "" if not redone or index.is_sound(f"{redone}/") else redone
        for path in sorted(old.rglob("*")):
            target = self.part / path.relative_to(old)
            if left_out and path.relative_to(old).parts[0] == left_out:
                continue  # it is made again
            if path.is_dir():
                target.mkdir(exist_ok=True)
            elif not path.name.endswith((".lock", Checksums.NAME)):
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
        size, mode = 0, (self.part / "ledger.sqlite").stat().st_mode & 0o666
        for path in self.part.rglob("*"):
            if path.suffix == ".lock":
                path.unlink()
                continue
            if path.suffix == ".json":  # which tantivy lets only its user read
                path.chmod(mode)
            size += path.stat().st_size if path.is_file() else 0
        sums = Checksums.write(self.part, before=self._sums_before(), without=(_INTENT,))
        size += (self.part / Checksums.NAME).stat().st_size
        manifest = Manifest(FORMAT, self._number, passages, digest, size, self.settings, dict(reading), sources, sums)
        final = self._versions.generation(self._number)
        self.part.rename(final)
        self._versions.write_manifest(manifest)
        (final / _INTENT).unlink()
        self._versions.sweep(keep={final.name})
        return manifest

    def _sums_before(self) -> tuple[Path, Checksums] | None:
        if self.base is None or self._from_scratch:
            return None
        old = self._versions.generation(self.base.generation)
        with suppress(ValueError):
            return old, Checksums(old, self.base.checksums)
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if error is not None:
            self._abandon()
        self._lock.release()
        if isinstance(error, OSError):
            raise failed_change(self.folder, error) from error
        if isinstance(error, sqlite3.Error):
            remedy = "Free some space and run the same command again; if that does not help, build the index again."
            raise IndexUnavailable(f"The ledger of the index {self.folder} cannot be used: {error}.", remedy) from error

    def _abandon(self) -> None:
        """Close the files after an error; remove a change without a checkpoint."""
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


def _read_intent(part: Path) -> object:
    try:
        return json.loads((part / _INTENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def _write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value), encoding="utf-8")
