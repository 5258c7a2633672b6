"""A change of a graph's folder: made on a copy, counted only when it is complete.

    DIR/hoptree-graph.json   the manifest, which names the generation that counts
    DIR/000002/              its data (RocksDB files)
    DIR/000001/              the one before, for readers that still have it open; the next change removes it
    DIR/000003.part/         a change that is being made, or was cut off

Copying is cheap: the data files are never written again once they are there, so they are hard-linked.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from hoptree.graph.errors import GraphError, GraphUnavailable
from hoptree.graph.oxigraph import ox
from hoptree.graph.store.change import COMPACTED_FROM, Change
from hoptree.graph.store.damage import damage, damaged, reading
from hoptree.graph.store.manifest import MANIFEST, Manifest, data_bytes, read_manifest, write_manifest
from hoptree.lock import WriteLock

__all__ = ["changing", "check_place", "open_generation"]

_ADDRESS = re.compile(r"[a-z][a-z0-9+.-]+:/", re.IGNORECASE)
_GENERATION = re.compile(r"\d{6}(\.part)?", re.ASCII)


@contextmanager
def changing(folder: Path, languages: tuple[str, ...] | None = None) -> Iterator[Change]:
    """Change the graph in a folder, or make one: what is not finished never happened."""
    check_place(folder)
    folder = folder.resolve()
    made = _make(folder)
    with WriteLock(folder, GraphUnavailable):
        try:
            old = _old(folder, languages)
            new = replace(old, generation=old.generation + 1, languages=languages or old.languages)
            _sweep(folder, keep={f"{old.generation:06}"})
            with _part(folder, old, new) as change:
                yield change
                _finish(folder, change)
        except BaseException:
            if made:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _make(folder: Path) -> bool:
    """Whether the folder had to be made."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        if not (folder / MANIFEST).exists() and (
            not folder.is_dir() or any(not _ours(path.name) for path in folder.iterdir())
        ):
            read_manifest(folder)  # says what is there instead
        return False
    return True


def _old(folder: Path, languages: tuple[str, ...] | None) -> Manifest:
    if (folder / MANIFEST).exists():
        return read_manifest(folder)
    return Manifest(languages=languages) if languages else Manifest()


def _ours(name: str) -> bool:
    return _GENERATION.fullmatch(name) is not None or name in (WriteLock.NAME, f"{MANIFEST}.new")


@contextmanager
def _part(folder: Path, old: Manifest, new: Manifest) -> Iterator[Change]:
    """The copy that is changed; it is gone if the block fails."""
    part = folder / f"{new.generation:06}.part"
    change: Change | None = None
    try:
        if old.generation:
            open_generation(folder, old).backup(part)
            if data_bytes(part) != old.bytes:
                raise GraphError(f"The graph {folder} could not be copied whole.", "Try again, or load it anew.")
        change = Change(part, new)
        yield change
    except BaseException as error:
        if change is not None:
            change.close()
        shutil.rmtree(part, ignore_errors=True)
        if isinstance(error, OSError) and (error.errno == errno.ENOSPC or "No space left" in str(error)):
            raise GraphUnavailable(
                f"The disk is full; the graph {folder} is as it was.", "Free some space and run the same command."
            ) from error
        if isinstance(error, RuntimeError) and (why := damage(error)) is not None:
            raise damaged(folder, why) from error
        raise


def _finish(folder: Path, change: Change) -> None:
    part = folder / f"{change.manifest.generation:06}.part"
    if change.written >= COMPACTED_FROM:
        change.store.optimize()
    change.store.flush()  # what is only in the log would not be copied by the next change
    triples = len(change.store)
    change.close()
    change.manifest = replace(change.manifest, uid=uuid4().hex, triples=triples, bytes=data_bytes(part))
    part.rename(folder / f"{change.manifest.generation:06}")
    write_manifest(folder, change.manifest)
    _sweep(folder, keep={f"{change.manifest.generation - back:06}" for back in (0, 1)})


def _sweep(folder: Path, keep: set[str]) -> None:
    for path in folder.iterdir():
        if _GENERATION.fullmatch(path.name) and path.name not in keep:
            shutil.rmtree(path, ignore_errors=True)


def open_generation(folder: Path, manifest: Manifest) -> ox.Store:
    """The data of a graph, for reading; checked against its manifest."""
    generation = folder / f"{manifest.generation:06}"
    with reading(folder):
        size = data_bytes(generation)
        if size != manifest.bytes:
            raise damaged(folder, f"its data files have {size:,} bytes, not {manifest.bytes:,}")
        return ox.Store.read_only(str(generation))


def check_place(folder: Path) -> None:
    """Refuse what names a graph that is asked over a network, and not a folder of this machine."""
    if str(folder) == "wikidata":
        raise GraphError("'wikidata' stands for Wikidata itself, not for a folder.", "Give the folder another name.")
    if _ADDRESS.match(str(folder)):
        raise GraphError(
            "A graph behind an address cannot be changed, only asked.", "Give --out a folder on this machine."
        )
