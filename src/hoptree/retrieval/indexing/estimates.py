"""What an index, or a change of one, will take, before it is made."""

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
from hoptree.retrieval.indexing.sources import source_name, sources_of, wait_for
from hoptree.retrieval.open_encoder import open_encoder
from hoptree.retrieval.vectors import expected_bytes

_DISK = 50_000
_DISK_PER_BYTE = 1.05
_LINKS_PER_BYTE = 0.55
_UNPACKED = 2.8
_MEMORY, _SMALL = 600 * 2**20, 200 * 2**20
_PASSAGE = 600
"""Bytes of a passage in its source, if it is as long as those of the usual collections."""
_DIMENSIONS = 768
_VECTORS_TWICE = 2
"""Vectors are held in memory, with room to grow, until they are written."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an index will take, before it is made."""

    source_bytes: int
    disk_bytes: int
    memory_bytes: int
    free_bytes: int


def estimate(sources: Sequence[Path], out: Path, settings: Settings) -> Estimate:
    """Expected size on disk and in memory, from the sizes of the sources."""
    files = (file for source in _named(sources).values() for file in _files(source, out))
    return _estimate(files, out, settings, _DISK)


def estimate_change(out: Path, sources: Sequence[Path] | None = None, *, reread: bool = False) -> Estimate:
    """What taking in what is new or changed in these sources, or in those of the index, takes beside what is there.

    The ledger counts too: a change works on a copy of it.
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
    """What giving an index vectors takes beside what is there."""
    index = Index(out)
    with closing(index.ledger()) as ledger:
        disk = ledger.bytes + (vectors := _vector_bytes(encoder, index.manifest.passages))
    return Estimate(0, disk, _SMALL + _VECTORS_TWICE * vectors, _free(out))


def _named(sources: Iterable[Path]) -> dict[str, Path]:
    """The sources by their names, each once."""
    return {source_name(source): source for source in sources}


def _files(source: Path, out: Path, *, may_be_empty: bool = False) -> Iterator[SourceFile]:
    """The files of a source; how much may be broken is for the run to say, which counts it again."""
    return find_files(source, problems=Problems(sys.maxsize), may_be_empty=may_be_empty, never=out)


def _estimate(files: Iterable[SourceFile], out: Path, settings: Settings, at_least: int) -> Estimate:
    packed = plain = 0
    for file in files:
        if _is_gzip(file.path):
            packed += file.size
        else:
            plain += file.size
    text = plain + packed * _UNPACKED
    disk = at_least + text * (_DISK_PER_BYTE + (_LINKS_PER_BYTE if settings.links else 0))
    memory = min(_MEMORY + (LINK_MEMORY_BYTES if settings.links else 0), _SMALL + round(3 * text))
    vectors = _vector_bytes(settings.encoder, round(text / _PASSAGE)) if settings.encoder and text else 0
    return Estimate(packed + plain, round(disk) + vectors, memory + _VECTORS_TWICE * vectors, _free(out))


def _vector_bytes(encoder: str, passages: int) -> int:
    return expected_bytes(passages, wait_for(_dimensions(encoder)) or _DIMENSIONS)


async def _dimensions(encoder: str) -> int:
    """The numbers in a vector, or 0 for an endpoint, which tells only with its first answer."""
    opened = open_encoder(encoder)
    try:
        return opened.dimensions
    finally:
        await opened.aclose()


def _free(out: Path) -> int:
    near = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    return shutil.disk_usage(near).free


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False
