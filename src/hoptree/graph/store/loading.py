"""Files into a graph, and sources out of it again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hoptree.graph.errors import GraphError
from hoptree.graph.reading.broken import Broken
from hoptree.graph.reading.files import Form, form_of, read_triples
from hoptree.graph.reading.lines import open_unpacked, read_lines
from hoptree.graph.store.change import Change
from hoptree.graph.store.direct import load_lines
from hoptree.graph.store.folder import changing, check_place
from hoptree.graph.store.manifest import Manifest, Source, read_manifest
from hoptree.graph.store.translating import Translator
from hoptree.graph.store.worth import Worth

__all__ = ["Loaded", "Progress", "load_graph", "remove_source"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a load is: bytes of all files read, and triples found in them."""

    done: int
    total: int
    triples: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """What came of a load; `sources` are those that were loaded, `broken` names places that were passed over."""

    manifest: Manifest
    sources: tuple[Source, ...]
    triples: int
    left_out: int
    broken: int
    examples: tuple[str, ...]


def load_graph(
    folder: Path,
    files: Sequence[Path],
    *,
    source: str = "",
    form: str = "",
    languages: tuple[str, ...] | None = None,
    skip_broken: int = 100,
    append: bool = False,
    empty: bool = False,
    on_progress: Callable[[Progress], None] | None = None,
) -> Loaded:
    """Load files into the graph at `folder`, which is made if there is none.

    Each file is a source of its own, or all are one with the name `source`. A source that is there already is replaced,
    or added to with `append`. The old graph stays usable meanwhile, and stays if the load is cut off or refused:
    nothing, or the rest of a damaged file, does not replace facts. `empty` says that a file may have no facts.
    """
    jobs = _jobs(files, source, form)
    broken = Broken(skip_broken)
    reading = _Reading(sum(path.stat().st_size for path, _, _ in jobs), on_progress)
    left_out = 0
    with changing(folder, languages) as change:
        worth = Worth(folder, change.manifest, broken, append=append, empty=empty)
        if not append:
            for name in dict.fromkeys(name for _, name, _ in jobs):
                change.clear(name)
        for path, name, kind in jobs:
            before, written = broken.count, change.written
            passed_by = _load(change, path, name, kind, broken, reading)
            worth.check_file(path, name, kind, change.written - written, broken.count - before, passed_by)
            left_out += passed_by
            # A file that is read counts at once, so that the next one knows the graph's base.
            change.count(name, broken.count - before + _broken_before(change.manifest, name))
        loaded = {name for _, name, _ in jobs}
        told = tuple(one for one in change.manifest.sources if one.name in loaded)
        worth.check_sources(told)
    return Loaded(change.manifest, told, reading.triples, left_out, broken.count, tuple(broken.sentences))


def _broken_before(manifest: Manifest, name: str) -> int:
    return next((one.broken for one in manifest.sources if one.name == name), 0)


def _load(change: Change, path: Path, name: str, form: Form, broken: Broken, reading: _Reading) -> int:
    if not change.manifest.base and not any(one.name == name for one in change.manifest.sources):
        change.manifest = replace(change.manifest, base=name)
    translator = Translator(name, change.manifest.base, change.manifest.languages)
    if form == "nt":
        with open_unpacked(path, reading.on_bytes) as stream:
            lines = reading.watched(read_lines(stream, path.name, broken))
            load_lines(lines, path, name, change, broken, translator)
    else:
        triples = read_triples(path, form, broken, reading.on_bytes, source=name)
        change.add(translator.lines(reading.watched(triples)))
    reading.file_done()
    return translator.left_out


class _Reading:
    """Tells a caller how far several files have been read."""

    def __init__(self, total: int, on_progress: Callable[[Progress], None] | None) -> None:
        self._total, self._on_progress = total, on_progress
        self._earlier = self._now = 0
        self.triples = 0

    def on_bytes(self, count: int) -> None:
        self._now = count
        if self._on_progress is not None:
            self._on_progress(Progress(self._earlier + count, self._total, self.triples))

    def file_done(self) -> None:
        self._earlier += self._now

    def watched(self, triples: Iterator[T]) -> Iterator[T]:
        for triple in triples:
            self.triples += 1
            yield triple


def _jobs(files: Sequence[Path], source: str, form: str) -> list[tuple[Path, str, Form]]:
    if not files:
        raise GraphError("There is nothing to load.", "Name at least one file of triples.")
    jobs: list[tuple[Path, str, Form]] = []
    for path in files:
        if path.is_dir():
            raise GraphError(f"{path} is a folder.", f"Give the files of triples in it, such as {path}/*.jsonl")
        if not path.is_file():
            raise GraphError(
                f"There is no file {path}.", "Give files of triples (.nt, .ttl, .tsv, .jsonl; packed too)."
            )
        name = source or path.name
        if not source and any(known == name for _, known, _ in jobs):
            raise GraphError(f"Two files are called {name}.", "Load them one by one, each with a --source of its own.")
        jobs.append((path, name, form_of(path, form)))
    return jobs


def remove_source(folder: Path, source: str) -> Manifest:
    """Take out what a source brought; facts that another source tells, too, stay."""
    check_place(folder)
    read_manifest(folder)
    with changing(folder) as change:
        known = [one.name for one in change.manifest.sources]
        if source not in known:
            raise GraphError(
                f"The graph {folder} has no source '{source}'.", f"Its sources: {', '.join(sorted(known)) or 'none'}."
            )
        change.clear(source)
    return change.manifest
