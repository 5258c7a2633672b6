"""Estimates of the disk space and memory that an index, or a change of one, will take."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from hoptree.corpus.document import Problems
from hoptree.corpus.files import SourceFile, find_files
from hoptree.retrieval.index.enrichment import LINK_MEMORY_BYTES
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.manifest import Settings
from hoptree.retrieval.indexing.sources import run_coroutine, source_name, sources_of
from hoptree.retrieval.open_encoder import open_encoder
from hoptree.retrieval.vectors import expected_bytes

_MIN_DISK_BYTES = 50_000
_DISK_PER_BYTE = 1.05
_LINKS_PER_BYTE = 0.55
_GZIP_RATIO = 2.8
_MAX_MEMORY_BYTES, _MIN_MEMORY_BYTES = 600 * 2**20, 200 * 2**20
_PASSAGE_BYTES = 600
"""Of a passage in its source, if it is as long as those of the usual collections."""
_DEFAULT_DIMENSIONS = 768
_VECTOR_MEMORY_FACTOR = 2
"""Vectors are held in memory, with room to grow, until they are written."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes that the sources have and that an index will take, and the free disk space."""

    source_bytes: int
    disk_bytes: int
    memory_bytes: int
    free_bytes: int


def estimate(sources: Sequence[Path], out: Path, settings: Settings) -> Estimate:
    """Estimate a build from the sizes of its sources."""
    files = (file for source in _named(sources).values() for file in _files(source, out))
    return _estimate(files, out, settings, _MIN_DISK_BYTES)


def estimate_change(out: Path, sources: Sequence[Path] | None = None, *, reread: bool = False) -> Estimate:
    """Estimate what adding the new and changed files of these sources, or of those of the index, takes beside it.

    The ledger counts too, as a change works on a copy of it.
    """
    may_be_empty = sources is None
    paths = sources_of(out) if sources is None else sources
    index = Index(out)
    with closing(index.ledger()) as ledger:
        changed = (
            file
            for name, source in _named(paths).items()
            for file in _files(source, out, may_be_empty=may_be_empty)
            if reread or not ((state := ledger.file(name, file.name)) and state.fits(file.size, file.modified_ns))
        )
        return _estimate(changed, out, index.manifest.settings, ledger.bytes)


def estimate_encoding(out: Path, encoder: str) -> Estimate:
    """Estimate what encoding an index takes beside it."""
    index = Index(out)
    with closing(index.ledger()) as ledger:
        disk = ledger.bytes + (vectors := _vector_bytes(encoder, index.manifest.passages))
    return Estimate(0, disk, _MIN_MEMORY_BYTES + _VECTOR_MEMORY_FACTOR * vectors, _free(out))


def _named(sources: Iterable[Path]) -> dict[str, Path]:
    """Return the sources by their names, each once."""
    return {source_name(source): source for source in sources}


def _files(source: Path, out: Path, *, may_be_empty: bool = False) -> Iterator[SourceFile]:
    """Find the files of a source; the limit of broken places is left to the run."""
    return find_files(source, problems=Problems(sys.maxsize), may_be_empty=may_be_empty, never=out)


def _estimate(files: Iterable[SourceFile], out: Path, settings: Settings, at_least: int) -> Estimate:
    packed = plain = 0
    for file in files:
        if _is_gzip(file.path):
            packed += file.size
        else:
            plain += file.size
    text = plain + packed * _GZIP_RATIO
    disk = at_least + text * (_DISK_PER_BYTE + (_LINKS_PER_BYTE if settings.links else 0))
    memory = min(_MAX_MEMORY_BYTES + (LINK_MEMORY_BYTES if settings.links else 0), _MIN_MEMORY_BYTES + round(3 * text))
    vectors = _vector_bytes(settings.encoder, round(text / _PASSAGE_BYTES)) if settings.encoder and text else 0
    return Estimate(packed + plain, round(disk) + vectors, memory + _VECTOR_MEMORY_FACTOR * vectors, _free(out))


def _vector_bytes(encoder: str, passages: int) -> int:
    return expected_bytes(passages, run_coroutine(_dimensions(encoder)) or _DEFAULT_DIMENSIONS)


async def _dimensions(encoder: str) -> int:
    """Return the length of a vector, or 0 for an endpoint, which tells only with its first answer."""
    opened = open_encoder(encoder)
    try:
        return opened.dimensions
    finally:
        await opened.aclose()


def _free(out: Path) -> int:
    existing = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    return shutil.disk_usage(existing).free


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False
