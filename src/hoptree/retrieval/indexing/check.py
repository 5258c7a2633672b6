"""Check that an index is sound, and estimate what building or changing one takes."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from hoptree.core.errors import CorpusError, IndexUnavailable, MissingExtra
from hoptree.core.files import batched
from hoptree.core.values import Passage
from hoptree.corpus.document import Problems
from hoptree.corpus.files import SourceFile, find_files
from hoptree.corpus.kinds import suffix_of
from hoptree.corpus.read import format_of
from hoptree.retrieval.encoder import open_encoder
from hoptree.retrieval.hippo_retriever import count_facts
from hoptree.retrieval.index.enrichment import LINK_MEMORY_BYTES
from hoptree.retrieval.index.folder import Index, Settings, read_manifest, vectors_damaged
from hoptree.retrieval.index.ledger import Ledger, content_of
from hoptree.retrieval.index.links import LINK_AGAIN
from hoptree.retrieval.index.tantivy_files import ALLOW, BUILD_AGAIN, key_of
from hoptree.retrieval.indexing.sources import Listener, Progress, run_coroutine, source_name, sources_of
from hoptree.retrieval.vectors import VectorWriter, expected_bytes

_AT_ONCE = 1_000
_DIGEST_MODULUS = 2**128


@dataclass(frozen=True, slots=True)
class Checked:
    """How much was checked; None for parts that are missing or need a library."""

    bytes: int
    passages: int
    linked: int | None
    vectors: int | None


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The files of an index by suffix and kind, and the names of those not read.

    `unreadable` were not read to their end; of these, `outdated` have passages of an earlier state.
    """

    formats: dict[str, int]
    kinds: dict[str, int]
    passed_over: list[str]
    unreadable: list[str]
    outdated: list[str]
    files_without_passages: int


def count_files(ledger: Ledger) -> FileCounts:
    files, with_passages = [file for file in ledger.files() if file[2]], ledger.files_with_passages()
    read = [(Path(source), name) for file, source, name in files if file in with_passages]
    broken_off = ledger.broken_off()
    return FileCounts(
        formats=dict(Counter(suffix_of(name) for _, name in read).most_common()),
        kinds=dict(Counter(format_of(source, name) for source, name in read).most_common()),
        passed_over=ledger.passed_over(),
        unreadable=[*broken_off],
        outdated=[name for name, is_outdated in broken_off.items() if is_outdated],
        files_without_passages=len(files) - len(read),
    )


def check_parts(index: Index) -> None:
    """Raise an error if a part cannot be opened, or a first passage cannot be read."""
    index.texts.check()
    index.ledger().close()
    if index.manifest.settings.links:
        index.open_links()
    if index.manifest.settings.encoder:
        with suppress(MissingExtra):  # without the library the other parts can still be checked
            index.open_vectors()
    count_facts(index)


def check_all(index: Index, *, on_progress: Listener | None = None) -> Checked:
    """Read all of an index; raise an error for any damage that can be detected.

    Files are compared with their checksums, the ledger with itself, and every passage with the ledger; each must have
    its links and its vector.
    """
    tell = on_progress or (lambda progress: None)
    try:
        _check_files(index, tell)  # first, to read no damaged file
        check_parts(index)
        with closing(index.ledger()) as ledger:
            ledger.check()
            count_facts(index, deep=True)
            return _compare(index, ledger, tell)
    except (CorpusError, OSError, sqlite3.Error) as error:
        if read_manifest(index.folder).generation != index.manifest.generation:
            cause = f"The index {index.folder} was changed while it was looked at."
            raise IndexUnavailable(cause, "Run the same command again.") from error
        if isinstance(error, CorpusError):
            raise
        if isinstance(error, sqlite3.Error):
            raise CorpusError(f"The ledger of the index {index.folder} is damaged: {error}.", BUILD_AGAIN) from error
        remedy = ALLOW if isinstance(error, PermissionError) else BUILD_AGAIN
        raise CorpusError(f"{error.filename} cannot be read: {error.strerror}.", remedy) from error


def _check_files(index: Index, tell: Callable[[Progress], None]) -> None:
    """Compare all files with their checksums."""
    total, done = index.checksums.bytes, 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        tell(Progress("checking files", done, total, 0))

    index.verify_all(on_bytes=advance)


def _compare(index: Index, ledger: Ledger, tell: Callable[[Progress], None]) -> Checked:
    """Compare every passage with the ledger, the links and the vectors."""
    manifest, vectors = index.manifest, None
    links = index.open_links() if manifest.settings.links else None
    if manifest.settings.encoder:
        with suppress(MissingExtra):
            vectors = VectorWriter.open(index.vectors)
    if tuple(ledger.sources()) != manifest.sources:
        raise _damaged(index, "its ledger has other sources")
    done = contents = unlinked = unencoded = 0
    # The last number of the text index may be damaged.
    for rows in batched(index.texts.scan(0, ledger.next_number), _AT_ONCE):
        keys = [key for _, key, _ in rows]
        contents += _sum_contents(index, ledger, rows)
        unlinked += sum(not links.knows(key) for key in keys) if links else 0
        unencoded += len(vectors.missing(keys)) if vectors else 0
        done += len(rows)
        tell(Progress("comparing", done, manifest.passages, done))
    if (done, f"{contents % _DIGEST_MODULUS:032x}") != (manifest.passages, manifest.digest):
        raise _damaged(index, f"{done:,} of {manifest.passages:,} passages were found in it")
    if unlinked:
        cause = f"The links of the index {index.folder} are damaged: they lack {unlinked:,} passages."
        raise CorpusError(cause, LINK_AGAIN)
    if vectors and (unencoded or len(vectors) != done):
        why = f"{len(vectors):,} for {done:,} passages, of which {unencoded:,} have none"
        raise vectors_damaged(index.folder, manifest.settings.encoder, why)
    return Checked(index.checksums.bytes, done, done if links else None, done if vectors else None)


def _sum_contents(index: Index, ledger: Ledger, rows: list[tuple[int, int, Passage]]) -> int:
    """Sum the contents of passages; raise an error if one contradicts the ledger."""
    entries = ledger.look_up([key for _, key, _ in rows])
    for number, key, passage in rows:
        entry = entries.get(key)
        fits = entry is not None and (entry.number, entry.content) == (number, content_of(passage))
        if not fits or key != key_of(passage.id):
            raise _damaged(index, f"the passage '{passage.id}' is not what its ledger says")
    return sum(int.from_bytes(entry.content) for entry in entries.values())


def _damaged(index: Index, why: str) -> CorpusError:
    return CorpusError(f"The index {index.folder} is damaged: {why}.", BUILD_AGAIN)


_MIN_DISK_BYTES = 50_000
_DISK_PER_BYTE = 1.05
_LINKS_PER_BYTE = 0.55
_GZIP_RATIO = 2.8
_MAX_MEMORY_BYTES, _MIN_MEMORY_BYTES = 600 * 2**20, 200 * 2**20
_PASSAGE_BYTES = 600  # average of a passage in its source
_DEFAULT_DIMENSIONS = 768
_VECTOR_MEMORY_FACTOR = 2  # vectors stay in memory, with room to grow, until they are written


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes of the sources, the index, memory and free disk space."""

    source_bytes: int
    disk_bytes: int
    memory_bytes: int
    free_bytes: int


def estimate(sources: Sequence[Path], out: Path, settings: Settings) -> Estimate:
    """Estimate a build from the sizes of its sources."""
    files = (file for source in _named(sources).values() for file in _files(source, out))
    return _estimate(files, out, settings, _MIN_DISK_BYTES)


def estimate_change(out: Path, sources: Sequence[Path] | None = None, *, reread: bool = False) -> Estimate:
    """Estimate a change by new and changed files, including the ledger's copy."""
    may_be_empty = sources is None
    paths = sources_of(out) if sources is None else sources
    index = Index(out)
    with closing(index.ledger()) as ledger:
        changed = (
            file
            for name, source in _named(paths).items()
            for file in _files(source, out, may_be_empty=may_be_empty)
            if reread or not _is_known(ledger, name, file)
        )
        return _estimate(changed, out, index.manifest.settings, ledger.bytes)


def is_current(out: Path) -> bool:
    """Return whether an index holds its sources' files as they are now."""
    with closing(Index(out).ledger()) as ledger:
        for name, source in _named(sources_of(out)).items():
            known = {file_name for _, _, file_name in ledger.files(name)}
            for file in _files(source, out, may_be_empty=True):
                if not _is_known(ledger, name, file):
                    return False
                known.discard(file.name)
            if known:
                return False
    return True


def _is_known(ledger: Ledger, source: str, file: SourceFile) -> bool:
    """Return whether a file is unchanged since it was read, or found unreadable."""
    intact = ledger.file(source, file.name)
    read = intact is not None and intact.fits(file.size, file.modified_ns)
    return read or ledger.was_broken_off(source, file.name, file.modified_ns)


def estimate_encoding(out: Path, encoder: str) -> Estimate:
    """Estimate the disk and memory that encoding an index takes."""
    index = Index(out)
    with closing(index.ledger()) as ledger:
        disk = ledger.bytes + (vectors := _vector_bytes(encoder, index.manifest.passages))
    return Estimate(0, disk, _MIN_MEMORY_BYTES + _VECTOR_MEMORY_FACTOR * vectors, _free(out))


def _named(sources: Iterable[Path]) -> dict[str, Path]:
    """Return the sources by their names, each once."""
    return {source_name(source): source for source in sources}


def _files(source: Path, out: Path, *, may_be_empty: bool = False) -> Iterator[SourceFile]:
    """Find the files of a source; only the run limits broken places."""
    return find_files(source, problems=Problems(sys.maxsize), may_be_empty=may_be_empty, never=out)


def _estimate(files: Iterable[SourceFile], out: Path, settings: Settings, at_least: int) -> Estimate:
    sizes = Counter[bool]()
    for file in files:
        sizes[_is_gzip(file.path)] += file.size
    packed, plain = sizes[True], sizes[False]
    text = plain + packed * _GZIP_RATIO
    disk = at_least + text * (_DISK_PER_BYTE + (_LINKS_PER_BYTE if settings.links else 0))
    memory = min(_MAX_MEMORY_BYTES + (LINK_MEMORY_BYTES if settings.links else 0), _MIN_MEMORY_BYTES + round(3 * text))
    vectors = _vector_bytes(settings.encoder, round(text / _PASSAGE_BYTES)) if settings.encoder and text else 0
    return Estimate(packed + plain, round(disk) + vectors, memory + _VECTOR_MEMORY_FACTOR * vectors, _free(out))


def _vector_bytes(encoder: str, passages: int) -> int:
    return expected_bytes(passages, try_encoder(encoder) or _DEFAULT_DIMENSIONS)


def try_encoder(spec: str) -> int:
    """Return the length of an encoder's vectors; 0 for an endpoint not yet called."""
    encoder = open_encoder(spec)
    run_coroutine(encoder.aclose())
    return encoder.dimensions


def _free(out: Path) -> int:
    existing = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False
