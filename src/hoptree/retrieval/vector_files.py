"""Files of a folder of vectors: usearch indexes, and a header written last."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError
from hoptree.core.files import atomic_write
from hoptree.core.lazy import import_optional
from hoptree.retrieval.encoder import np

FORMAT = 1
HEADER = "vectors.json"
_NEIGHBOURS, _ADD_EXPANSION, _SEARCH_EXPANSION = 16, 96, 192
_COPY_AT_ONCE = 10_000
_BUILD_AGAIN = "Build the vectors again."
_USEARCH = ("usearch.index", "Dense retrieval", "dense")


@dataclass(frozen=True, slots=True)
class Header:
    """What a folder of vectors holds; `graph` says its base is linked for HNSW."""

    format: int
    dimensions: int
    dtype: str
    graph: bool
    count: int
    generation: int = 0
    base: str = ""
    base_bytes: int = 0
    base_count: int = 0
    newer: str = ""
    newer_bytes: int = 0
    newer_count: int = 0
    removed: tuple[int, ...] = ()


def new_index(header: Header) -> Any:
    return import_optional(*_USEARCH).Index(
        ndim=header.dimensions,
        metric="cos",
        dtype=header.dtype,
        connectivity=_NEIGHBOURS if header.graph else 2,
        expansion_add=_ADD_EXPANSION if header.graph else 1,
    )


def copy_vectors(source: Any, target: Any, dropped: Collection[int] = ()) -> None:
    """Add the vectors of one index to another, bit for bit, by ascending key: the same set gives the same links."""
    keys = np.sort(np.asarray(source.keys[:], dtype=np.uint64)) if len(source) else np.zeros(0, np.uint64)
    if dropped:
        keys = keys[~np.isin(keys, np.fromiter(dropped, np.uint64))]
    for start in range(0, len(keys), _COPY_AT_ONCE):
        batch = keys[start : start + _COPY_AT_ONCE]
        target.add(batch, np.stack(source.get(batch)), threads=1)


def save_index(index: Any, path: Path) -> int:
    """Write an index through to the disk; returns its size."""
    index.save(str(path))
    with path.open("rb") as file:
        os.fsync(file.fileno())
    return path.stat().st_size


def restore(path: Path, *, mapped: bool) -> Any:
    index = import_optional(*_USEARCH).Index.restore(str(path), view=mapped)
    if index is None:
        raise ValueError("no index of usearch")
    index.expansion_search, index.expansion_add = _SEARCH_EXPANSION, _ADD_EXPANSION  # are not saved with it
    return index


def view(path: Path, count: int, size: int) -> Any:
    if path.stat().st_size != size:  # usearch maps half a file without complaint
        raise ValueError(f"{path.name} has {path.stat().st_size} bytes, not {size}")
    index = restore(path, mapped=True)
    if len(index) != count:
        raise ValueError(f"{path.name} holds {len(index)} vectors, not {count}")
    return index


def open_files(folder: Path) -> tuple[Header, Any, Any]:
    """Open header, base and newer part; looks again when a writer has just replaced the files."""
    import_optional(*_USEARCH)  # first: without it nothing is said of the files
    for last in (False, False, True):
        header = _read_header(folder)
        try:
            base = view(folder / header.base, header.base_count, header.base_bytes)
            newer = view(folder / header.newer, header.newer_count, header.newer_bytes) if header.newer else None
            count = header.base_count - len(header.removed) + header.newer_count
            if base.ndim != header.dimensions or header.count != count:
                raise ValueError("its header does not fit its files")
            return header, base, newer
        except FileNotFoundError as error:
            if last:
                raise CorpusError(f"The vectors in {folder} are damaged: {error}.", _BUILD_AGAIN) from error
        except (OSError, RuntimeError, ValueError) as error:
            raise CorpusError(f"The vectors in {folder} are damaged: {error}.", _BUILD_AGAIN) from error
    raise AssertionError("the last round returns or raises")


def _read_header(folder: Path) -> Header:
    try:
        stored = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        header = Header(**{**stored, "removed": tuple(stored["removed"])})
        numbers = (header.count, header.dimensions, header.generation, *header.removed)
        sound = header.dtype in ("f32", "i8") and all(isinstance(number, int) for number in numbers)
        if not sound or any(name != Path(name).name for name in (header.base, header.newer)):
            raise ValueError("its header holds what no header does")
    except (FileNotFoundError, NotADirectoryError) as error:
        raise CorpusError(f"There are no vectors in {folder}.", "Build the index with an encoder.") from error
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise CorpusError(f"The vectors in {folder} are damaged: {error}.", _BUILD_AGAIN) from error
    if header.format != FORMAT:
        raise CorpusError(f"The vectors in {folder} are of format {header.format}, not {FORMAT}.", _BUILD_AGAIN)
    return header


def write_header(folder: Path, header: Header) -> None:
    atomic_write(folder / HEADER, [json.dumps(asdict(header))])
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def delete_unused(folder: Path, header: Header) -> None:
    """Delete files that the header does not name; whoever has one mapped keeps it."""
    for path in folder.glob("*.usearch"):
        if path.name not in (header.base, header.newer):
            path.unlink(missing_ok=True)
