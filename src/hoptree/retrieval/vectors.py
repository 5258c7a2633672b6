"""Vectors on disk, and dense retrieval over them.

A folder holds a memory-mapped usearch base, a small newer part, and a list of removed keys.

A mapped index cannot be changed: additions go to the newer part, removals to the list. When both together pass a
tenth of the base, a new base is written.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.core.files import atomic_write, batched
from hoptree.core.lazy import import_optional
from hoptree.core.values import Passage
from hoptree.retrieval.encoder import Encoder, FloatArray, QueryWindow, np
from hoptree.retrieval.retriever import PassageStore, fits, search_distinct

Dtype = Literal["f32", "i8"]

FORMAT = 1
HEADER = "vectors.json"
_NEIGHBOURS, _ADD_EXPANSION, _SEARCH_EXPANSION = 16, 96, 192
_COPY_AT_ONCE = 10_000
_BUILD_AGAIN = "Build the vectors again."
_USEARCH = ("usearch.index", "Dense retrieval", "dense")
_EXACT_UP_TO = 50_000
_INT8_ABOVE = 1_000_000
_COMPACT_ABOVE = 0.1
_NEIGHBOUR_BYTES = 150
_TIE_ROOM = 10
_MAX_TIES, _MAX_PASSAGE_TIES = 4_096, 10_000
_FILTER_FACTOR = 4
_ENCODE_AT_ONCE = 256
_SAVE_INTERVAL_S = 300.0  # saving rewrites what was added; losing it means encoding it again
_PASSAGE_TIE_ROOM = 8
_DECIMALS = 6  # of a similarity: more would depend on the processor and on the batch


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
    """Add an index's vectors to another, sorted by key so that links are equal."""
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
    """Open header, base and newer part."""
    import_optional(*_USEARCH)  # first: a missing library is reported before damaged files
    header = _read_header(folder)
    try:
        base = view(folder / header.base, header.base_count, header.base_bytes)
        newer = view(folder / header.newer, header.newer_count, header.newer_bytes) if header.newer else None
        if base.ndim != header.dimensions or header.count != len(base) - len(header.removed) + header.newer_count:
            raise ValueError("its header does not fit its files")
    except (OSError, RuntimeError, ValueError) as error:
        raise CorpusError(f"The vectors in {folder} are damaged: {error}.", _BUILD_AGAIN) from error
    return header, base, newer


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
    """Delete files that the header does not name; processes that map one keep it."""
    for path in folder.glob("*.usearch"):
        if path.name not in (header.base, header.newer):
            path.unlink(missing_ok=True)


def expected_bytes(count: int, dimensions: int) -> int:
    """Estimate the disk space of vectors; building takes up to twice that in memory."""
    width = 1 if _choose_dtype(count) == "i8" else 4
    return count * (dimensions * width + _NEIGHBOUR_BYTES)


class Vectors:
    """The mapped vectors of a folder: all are compared up to 50,000, else by HNSW."""

    def __init__(self, folder: Path) -> None:
        self._header, self._base, self._newer = open_files(folder)
        self.dimensions = self._header.dimensions
        self.dtype: Dtype = "i8" if self._header.dtype == "i8" else "f32"
        self._removed = frozenset(self._header.removed)
        self._exact = not self._header.graph or self._header.count <= _EXACT_UP_TO
        self._lock = threading.Lock()  # usearch keeps one scratch space for all callers

    def __len__(self) -> int:
        return self._header.count

    def search(self, vector: FloatArray, k: int) -> list[tuple[int, float]]:
        """Return the k nearest keys with their cosine similarity, best first, ties by key."""
        if vector.shape != (self.dimensions,):
            cause = f"The vectors have {self.dimensions} numbers, the query's has {vector.shape[-1]}."
            raise CorpusError(cause, "Search with the encoder that the index was built with.")
        if k <= 0:
            return []
        hits: list[tuple[int, float]] = []
        vector = _stored(vector[None, :], self.dtype)[0]
        with self._lock:
            for index, dropped in ((self._base, self._removed), (self._newer, frozenset[int]())):
                if index is not None and len(index):
                    hits += self._nearest(index, vector, k, dropped)
        hits.sort(key=lambda hit: (-hit[1], hit[0]))
        return hits[:k]

    def _nearest(self, index: Any, vector: Any, k: int, dropped: Collection[int]) -> list[tuple[int, float]]:
        """Return at least the k best that are not removed, with ties of the last of them."""
        wanted = k + _TIE_ROOM
        while True:
            matches = index.search(vector, min(wanted, len(index)), exact=self._exact, threads=1)
            pairs = zip(matches.keys.tolist(), matches.distances.tolist(), strict=True)
            hits = [(key, round(1.0 - distance, _DECIMALS)) for key, distance in pairs if key not in dropped]
            if wanted >= len(index):
                return hits
            if len(hits) >= k and (hits[-1][1] < hits[k - 1][1] or wanted >= k + _MAX_TIES):
                return hits
            wanted *= 4


class VectorWriter:
    """Adds and removes vectors, which others see after `save`; one at a time."""

    def __init__(self, folder: Path, header: Header, base: Any, newer: Any) -> None:
        self._folder, self._header, self._base, self._newer = folder, header, base, newer
        self._removed = set(header.removed)

    @classmethod
    def create(cls, folder: Path, dimensions: int, *, expected: int = 0) -> VectorWriter:
        """Make a writer for an empty folder; over a million vectors are stored as bytes."""
        header = Header(FORMAT, dimensions, _choose_dtype(expected), expected > _EXACT_UP_TO, 0)
        return cls(folder, header, None, new_index(header))

    @classmethod
    def open(cls, folder: Path) -> VectorWriter:
        """Open a writer for the vectors of a folder."""
        header, base, stored = open_files(folder)
        newer = new_index(header)
        if stored is not None:
            copy_vectors(stored, newer)
        return cls(folder, header, base, newer)

    @classmethod
    async def open_for(cls, folder: Path, encoder: Encoder, *, expected: int) -> VectorWriter:
        """Go on with the vectors of a folder, or begin; damaged ones are discarded."""
        if (folder / HEADER).exists():
            try:
                return cls.open(folder)
            except CorpusError:
                shutil.rmtree(folder)
        if not encoder.dimensions:  # an endpoint's are unknown before its first answer
            await encoder.encode(["dimensions"], role="passage")
        return cls.create(folder, encoder.dimensions, expected=expected)

    def __len__(self) -> int:
        return len(self._newer) + (len(self._base) - len(self._removed) if self._base is not None else 0)

    def missing(self, keys: Sequence[int]) -> list[int]:
        """Return the keys that have no vector yet, in their order."""
        newer, base = _holds(self._newer, keys), _holds(self._base, keys)
        return [
            key
            for key, is_newer, is_old in zip(keys, newer, base, strict=True)
            if not is_newer and (not is_old or key in self._removed)
        ]

    def add(self, keys: Sequence[int], vectors: FloatArray) -> None:
        """Add one vector for each key; a key that had one gets the new one."""
        if vectors.shape != (len(keys), self._header.dimensions):
            raise CorpusError(
                f"{len(keys)} vectors of {self._header.dimensions} numbers were due, not of the shape {vectors.shape}.",
                "Encode with the encoder that the index was begun with.",
            )
        if not np.isfinite(vectors).all():
            raise CorpusError("A vector holds a value that is not finite.", "Check what the encoder returns.")
        if not keys:
            return
        self.remove(keys)
        self._newer.add(np.asarray(keys, dtype=np.uint64), _stored(vectors, self._header.dtype), threads=1)

    def remove(self, keys: Sequence[int]) -> int:
        """Remove the vectors of these keys; return how many were removed."""
        keys = list(dict.fromkeys(keys))
        newer = [key for key, there in zip(keys, _holds(self._newer, keys), strict=True) if there]
        if newer:
            self._newer.remove(np.asarray(newer, dtype=np.uint64))
        in_base = {key for key, there in zip(keys, _holds(self._base, keys), strict=True) if there}
        old = in_base - self._removed
        self._removed |= old
        return len(newer) + len(old)

    def save(self) -> None:
        """Write what was added and removed to disk."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._write()
        except (OSError, RuntimeError, ValueError) as error:  # usearch raises the latter two when the disk is full
            cause = f"The vectors cannot be written to {self._folder} ({error})."
            raise IndexUnavailable(cause, "Make room there, or allow writing.") from error

    def _write(self) -> None:
        generation = self._header.generation + 1
        if self._base is None or len(self._newer) + len(self._removed) > _COMPACT_ABOVE * len(self._base):
            merged, graph = self._merged()
            name = f"base-{generation}.usearch"
            size = save_index(merged, self._folder / name)
            header = Header(
                FORMAT, self._header.dimensions, self._header.dtype, graph, len(merged), generation,
                base=name, base_bytes=size, base_count=len(merged),
            )  # fmt: skip
            newer, base = new_index(header), view(self._folder / name, len(merged), size)
        else:
            name, size = "", 0
            if len(self._newer):
                name = f"newer-{generation}.usearch"
                size = save_index(self._newer, self._folder / name)
            header = replace(
                self._header, count=len(self), generation=generation, newer=name, newer_bytes=size,
                newer_count=len(self._newer), removed=tuple(sorted(self._removed)),
            )  # fmt: skip
            base, newer = self._base, self._newer
        write_header(self._folder, header)
        self._header, self._base, self._newer, self._removed = header, base, newer, set(header.removed)
        delete_unused(self._folder, header)

    def _merged(self) -> tuple[Any, bool]:
        """Return all vectors in one index, and whether it is linked for HNSW."""
        old = self._header
        graph = old.graph or len(self) > _EXACT_UP_TO
        if self._base is None and graph == old.graph:
            return self._newer, graph
        if graph and old.graph:
            merged = restore(self._folder / old.base, mapped=False)
            if self._removed:
                merged.remove(np.asarray(sorted(self._removed), dtype=np.uint64))
        else:
            merged = new_index(Header(FORMAT, old.dimensions, old.dtype, graph, 0))
            if self._base is not None:
                copy_vectors(self._base, merged, self._removed)
        copy_vectors(self._newer, merged)
        return merged, graph


async def encode_missing(
    writer: VectorWriter, encoder: Encoder, texts: Iterable[tuple[int, str]], on_done: Callable[[int], None]
) -> None:
    """Encode the texts without a vector, by key, and save; report the texts seen."""
    count, saved_at = 0, time.monotonic()
    for batch in batched(texts, _ENCODE_AT_ONCE):
        by_key = dict(batch)
        if missing := writer.missing(list(by_key)):
            writer.add(missing, await encoder.encode([by_key[key] for key in missing], role="passage"))
        count += len(batch)
        on_done(count)
        if time.monotonic() - saved_at > _SAVE_INTERVAL_S:
            writer.save()
            saved_at = time.monotonic()
    writer.save()


def _choose_dtype(expected: int) -> Dtype:
    return "i8" if expected > _INT8_ABOVE else "f32"


def _stored(rows: FloatArray, dtype: str) -> Any:
    """Return the rows as they are stored; each row uses the full range of bytes.

    That leaves cosines unchanged. usearch would scale all rows alike, and give the small numbers of a long unit vector
    a few common values.
    """
    if dtype != "i8":
        return np.ascontiguousarray(rows, dtype=np.float32)
    largest = np.abs(rows).max(axis=1, keepdims=True)
    return np.rint(rows * (127 / np.where(largest == 0, 1, largest))).astype(np.int8)


def _holds(index: Any, keys: Sequence[int]) -> list[bool]:
    """Return for each key whether an index, if any, has it."""
    if index is None or not len(index) or not keys:
        return [False] * len(keys)
    held: list[bool] = np.atleast_1d(index.contains(np.asarray(keys, dtype=np.uint64))).tolist()
    return held


class Dense:
    """A retriever over vectors; queries that come together are encoded together."""

    kind = "dense"

    def __init__(self, store: PassageStore, vectors: Vectors, encoder: Encoder) -> None:
        self.identity = f"dense:{store.digest}:{encoder.identity}:{vectors.dtype}"
        self.remote = encoder.remote
        self._store, self._vectors, self._encoder = store, vectors, encoder
        self._encode = QueryWindow(encoder)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k <= 0 or not query.strip() or not len(self._vectors):
            return ()
        vector = await self._encode(query)
        return await asyncio.to_thread(
            search_distinct, lambda wanted: self._search(vector, wanted, where or {}), query, k
        )

    async def aclose(self) -> None:
        await self._encoder.aclose()

    def _search(self, vector: FloatArray, k: int, where: Mapping[str, str]) -> tuple[Passage, ...]:
        """Fetch more until k pass the filter; break ties at the cut by id, not by key."""
        if not vector.any():
            return ()
        wanted = k * _FILTER_FACTOR if where else k + _PASSAGE_TIE_ROOM
        while True:
            nearest = self._vectors.search(vector, wanted)
            passages = self._passages(nearest, where)
            untied = len(passages) >= k and (nearest[-1][1] < passages[k - 1].score or wanted > _MAX_PASSAGE_TIES + k)
            if len(nearest) < wanted or untied:
                return tuple(passages[:k])
            wanted *= _FILTER_FACTOR

    def _passages(self, nearest: Sequence[tuple[int, float]], where: Mapping[str, str]) -> list[Passage]:
        stored = self._store.fetch([key for key, _ in nearest])
        passages = [
            replace(passage, score=score, stages=(*passage.stages, (self.kind, score)))
            for key, score in nearest
            if (passage := stored.get(key)) is not None and fits(passage, where)
        ]
        passages.sort(key=lambda passage: (-passage.score, passage.id))
        return passages
