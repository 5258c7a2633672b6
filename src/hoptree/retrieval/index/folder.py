"""Reading an index folder: its manifest and the files of its generation."""

from __future__ import annotations

import hashlib
import shlex
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import Checksums, VersionedFolder, cache_dir, is_busy, manifest_fields
from hoptree.retrieval.index.links import LINK_AGAIN, Links
from hoptree.retrieval.index.tantivy_files import ALLOW, BUILD_AGAIN, TantivyErrors
from hoptree.retrieval.index.text_index import Texts

if TYPE_CHECKING:
    from hoptree.retrieval.index.ledger import Ledger
    from hoptree.retrieval.vectors import Vectors

FORMAT = 4
MANIFEST = "hoptree-index.json"
_ANY_GENERATION = "[0-9][0-9][0-9][0-9][0-9][0-9]/text"
_MAX_WAIT_S = 30.0
_POLL_S = 0.05
_CHECKED_AT_ONCE_BYTES = 32 * 2**20
"""Bytes of a part that are compared with their checksums before it is used; the rest is read in the background."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How an index is made, and everything that is added later."""

    language: str = "english"
    links: bool = True
    encoder: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index holds and how it was made.

    `generation` names the folder with the data, `digest` the set of passages; `bytes` is their size on disk.
    `reading` is how sources are read (chunking and the like), for `hoptree index update`. `checksums` is the digest of
    the list of its files; an index of an earlier version has none.
    """

    format: int
    generation: int
    passages: int
    digest: str
    bytes: int
    settings: Settings = field(default_factory=Settings)
    reading: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    checksums: str = ""


def index_folder(folder: Path) -> VersionedFolder:
    return VersionedFolder(folder, MANIFEST, marker="text")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index folder; errors say what the folder is instead."""
    rebuild = f"hoptree index … --out {folder}"
    try:
        data = index_folder(folder).read_manifest()
        if data.get("format") != FORMAT:
            cause = f"The index {folder} is of format {data.get('format')}, not {FORMAT}."
            raise CorpusError(cause, f"It was made by another version of Hoptree: build it again with {rebuild}")
        data = manifest_fields(data, Manifest)
        return Manifest(**(data | {"settings": Settings(**data["settings"]), "sources": tuple(data["sources"])}))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_index(folder) from error
    except PermissionError as error:
        raise CorpusError(f"The index {folder} may not be read by you: {error.strerror}.", ALLOW) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorpusError(f"The index {folder} is damaged: {error}.", f"Build it again: {rebuild}") from error


def _no_index(folder: Path) -> CorpusError:
    if folder.is_dir() and any(folder.glob("[0-9]*.part")):
        cause = f"{folder} is not an index yet: it is being built, or that was cut off."
        return CorpusError(cause, "Wait, or repeat the command that built it: it goes on from there.")
    if folder.is_dir() and any(folder.glob(_ANY_GENERATION)):
        rebuild = f"Build it again: hoptree index … --out {folder}"
        return CorpusError(f"The index {folder} has lost its file {MANIFEST}.", rebuild)
    if folder.is_file() and not holds_documents(folder):
        from hoptree.corpus.kinds import KNOWN_KINDS

        return CorpusError(f"{folder} is not an index, and files of this kind are not read.", KNOWN_KINDS)
    if folder.exists():
        return CorpusError(f"{folder} is not an index.", f"Make one: hoptree index {folder} --out {folder}.idx")
    return CorpusError(f"There is no index at {folder}.", f"Make one: hoptree index FOLDER --out {folder}")


class Index:
    """An index folder, open for reading; later changes of the folder do not show.

    A part is compared with its checksums when it is opened. Large files are checked in the background; damage found
    there ends the next search.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._damage: list[CorpusError] = []
        for attempt in range(3):
            self.manifest = read_manifest(folder)
            self.generation = index_folder(folder).generation(self.manifest.generation)
            try:
                if not self.generation.is_dir():
                    raise CorpusError(f"The index {folder} is damaged: a folder of it is missing.", BUILD_AGAIN)
                language, digest = self.manifest.settings.language, self.manifest.digest
                with self.errors(""):
                    self.checksums = Checksums(self.generation, self.manifest.checksums)
                self.verify("text/")
                self.texts = Texts(self.generation / "text", language=language, digest=digest, damage=self._damage)
                break
            except CorpusError:
                # A writer may have switched to the next generation between the two steps.
                if attempt == 2 or read_manifest(folder).generation == self.manifest.generation:
                    raise
        if len(self.texts) != self.manifest.passages:
            cause = f"The index {folder} holds {len(self.texts):,} passages, not {self.manifest.passages:,}."
            raise CorpusError(cause, BUILD_AGAIN)
        self.links, self.vectors = self.generation / "links", self.generation / "vectors"
        self.identity = f"{digest}:{language}"
        """What determines search results: the set of passages, and the language."""

    def errors(self, part: str) -> TantivyErrors:
        """Return a context that reports damage of a part, with its remedy."""
        remedies = {
            "links/": LINK_AGAIN,
            "vectors/": _encode_again(self.folder, self.manifest.settings.encoder),
            "facts/": f"Extract them again, then: hoptree index facts FOLDER --out {self.folder}",
        }
        if part in remedies:
            return TantivyErrors(f"The {part[:-1]} of the index {self.folder} are damaged", remedies[part])
        return TantivyErrors(f"The index {self.folder} is damaged", BUILD_AGAIN)

    def verify(self, part: str) -> None:
        """Raise an error if a part is damaged; large files are read in the background."""
        with self._opening(), self.errors(part):
            later = self.checksums.check(part, at_once=_CHECKED_AT_ONCE_BYTES)
        if later:
            Thread(target=self._verify_later, args=(part, later), daemon=True).start()

    def _verify_later(self, part: str, names: list[str]) -> None:
        try:
            with self.errors(part):
                for name in names:
                    self.checksums.check_file(name)
        except CorpusError as error:
            self._damage.append(error)
        except OSError:  # a writer has replaced the index
            return

    def verify_all(self, *, without: str = "", on_bytes: Callable[[int], None] = lambda count: None) -> None:
        """Read every file; raise an error for the first that is damaged."""
        for part in ("text/", "links/", "vectors/", "facts/", "ledger.sqlite"):
            if part != without:
                with self.errors(part):
                    self.checksums.check(part, on_bytes=on_bytes)

    def is_sound(self, part: str) -> bool:
        try:
            self.checksums.check(part)
        except ValueError:
            return False
        return True

    def open_links(self) -> Links:
        self.verify("links/")
        with self._opening():
            return Links(self.links)

    def open_vectors(self) -> Vectors:
        self.verify("vectors/")
        with self._opening():
            return open_vectors(self.vectors, self.folder, self.manifest.settings.encoder)

    def ledger(self) -> Ledger:
        from hoptree.retrieval.index.ledger import Ledger

        with self._opening():
            with self.errors(""):
                self.checksums.check("ledger.sqlite")
            ledger = Ledger(self.generation / "ledger.sqlite")
            check_fit(ledger, self.manifest, self.folder)
            return ledger

    @contextmanager
    def _opening(self) -> Iterator[None]:
        """Report files that a writer has removed meanwhile, unlike damage, as retryable."""
        try:
            yield
        except (CorpusError, FileNotFoundError) as error:
            if read_manifest(self.folder).generation == self.manifest.generation:
                raise
            cause = f"The index {self.folder} was changed while it was being opened."
            raise IndexUnavailable(cause, "Give the same command again.") from error


def open_vectors(vectors: Path, index: Path, encoder: str) -> Vectors:
    """Open the vectors of an index; an error names the command that mends it."""
    from hoptree.retrieval.vectors import Vectors

    try:
        return Vectors(vectors)
    except CorpusError as error:
        raise vectors_damaged(index, encoder) from error


def vectors_damaged(index: Path, encoder: str, why: str = "") -> CorpusError:
    """Return the error that says how vectors are made again."""
    cause = f"The vectors of the index {index} are damaged{f': {why}' if why else ''}."
    return CorpusError(cause, _encode_again(index, encoder))


def _encode_again(index: Path, encoder: str) -> str:
    return f"Make them again: hoptree index encode --encoder {shlex.quote(encoder)} --out {index}"


def check_fit(ledger: Ledger, manifest: Manifest, folder: Path) -> None:
    """Raise an error if the ledger is of another index: passages would be lost."""
    if (ledger.passages, ledger.digest) != (manifest.passages, manifest.digest):
        raise CorpusError(f"The index {folder} is damaged: its ledger does not fit.", BUILD_AGAIN)


def holds_documents(corpus: Path) -> bool:
    """Return whether a corpus is a file or folder of documents, and no index."""
    if corpus.is_file():
        from hoptree.corpus.files import is_document

        return is_document(corpus)
    try:
        if not corpus.is_dir() or (corpus / MANIFEST).exists():
            return False
    except PermissionError:  # opening it as an index says so
        return False
    return not any(corpus.glob("[0-9]*.part")) and not any(corpus.glob(_ANY_GENERATION))


def sample_index() -> Path:
    """Return the folder of the packaged sample's index; the first call builds it."""
    corpus = Path(__file__).parents[2] / "sample" / "corpus.jsonl"
    digest = hashlib.sha256(corpus.read_bytes()).hexdigest()[:12]
    folder = cache_dir() / f"sample-{digest}-{FORMAT}"
    deadline = time.monotonic() + _MAX_WAIT_S
    while not (folder / MANIFEST).exists():
        from hoptree.retrieval.indexing import build_index  # slow to import, and seldom needed

        try:
            build_index(corpus, folder)
        except CorpusError as error:
            if is_busy(error):  # another process builds it, which takes a second or two
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
            elif not (folder / MANIFEST).exists():  # else another process was quicker
                raise type(error)(error.cause, "Set XDG_CACHE_HOME to a folder that can be written.") from error
    return folder
