"""Load files into a graph, and remove sources."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from hoptree.core.errors import GraphError
from hoptree.graph import vocabulary as vocab
from hoptree.graph.folder import BATCH, Change, Manifest, Source, changing, check_place, read_manifest
from hoptree.graph.oxigraph import Node, Object, Triple, graph_name_of, ox
from hoptree.graph.triple_files import (
    BrokenPlaces,
    Form,
    Line,
    form_of,
    open_unpacked,
    read_lines,
    read_ntriples,
    read_triples,
    scope_of,
)
from hoptree.text.names import MAX_NAME_CHARS, fold, is_wanted_language

_MAX_CACHED = 50_000
_FACT_ROLES = ("fact", "claim", "value", "qualifier")
_PROPERTY_TYPE = f"{vocab.WIKIBASE}propertyType"


def _line_end(source: str, base: str, places: tuple[str, ...]) -> str:
    """Return the end of a line: its graph and a full stop."""
    graph = graph_name_of(source, places, base)
    return f" {graph} .\n" if isinstance(graph, ox.NamedNode) else " .\n"


class _Translator:
    """Translates triples of a source to N-Quads, which load faster than terms."""

    def __init__(self, source: str, base: str, languages: tuple[str, ...]) -> None:
        self._languages = languages
        self._line_end = lru_cache(_MAX_CACHED)(partial(_line_end, source, base))
        self._seen: set[tuple[str, str, str]] = set()
        self.left_out = 0

    def lines(self, triples: Iterable[Triple]) -> Iterator[str]:
        for subject, predicate, value, places in triples:
            role = vocab.predicate_role(predicate.value)
            graph = self._line_end(places)
            if role in _FACT_ROLES:
                is_type = predicate.value == vocab.TYPE and isinstance(value, ox.NamedNode)
                if is_type and value.value.startswith(vocab.WIKIBASE):
                    self.left_out += 1
                    continue
                yield f"{subject} {predicate} {value}{graph}"
            elif role in ("label", "alias", "description") and isinstance(value, ox.Literal):
                yield from self._name(subject, predicate.value, role, value, graph)
            else:
                yield from self._other(subject, predicate.value, value, graph)

    def _name(self, subject: Node, predicate: str, role: str, value: ox.Literal, graph: str) -> Iterator[str]:
        # Wikidata's dumps have every label three times.
        repeated = predicate != vocab.LABEL and role == "label" and subject.value.startswith(vocab.WIKIDATA)
        if repeated or not is_wanted_language(value.language or "", self._languages):
            self.left_out += 1
            return
        text = value.value
        if not text.strip() or (name := (subject.value, predicate, text)) in self._seen:
            return
        if len(self._seen) >= _MAX_CACHED:
            self._seen.clear()
        self._seen.add(name)  # tables repeat a name in every row
        kept = {"label": vocab.LABEL, "alias": vocab.ALIAS}.get(role, vocab.DESCRIPTION)
        yield f"{subject} <{kept}> {value}{graph}"
        if kept != vocab.DESCRIPTION and len(text) <= MAX_NAME_CHARS and (key := fold(text)):
            yield f"{subject} <{vocab.KEY}> {ox.Literal(key)}{graph}"

    def _other(self, subject: Node, predicate: str, value: Object, graph: str) -> Iterator[str]:
        if predicate == _PROPERTY_TYPE and isinstance(value, ox.NamedNode):
            yield f"{subject} <{vocab.DATATYPE}> {ox.Literal(value.value.removeprefix(vocab.WIKIBASE))}{graph}"
        elif predicate == vocab.DATATYPE and isinstance(value, ox.Literal):
            yield f"{subject} <{vocab.DATATYPE}> {value}{graph}"
        elif predicate == vocab.ABOUT and isinstance(value, ox.NamedNode) and (page := self._page(subject.value)):
            yield f"{value} <{vocab.PAGE}> {page}{graph}"
        else:
            self.left_out += 1

    def _page(self, address: str) -> ox.Literal | None:
        """Return the title of a Wikipedia article in a wanted language."""
        host, marker, title = address.removeprefix("https://").partition(".wikipedia.org/wiki/")
        if not marker or not title or "/" in host or not is_wanted_language(host, self._languages):
            return None
        try:
            return ox.Literal(unquote(title).replace("_", " "), language=host)
        except ValueError:  # not a tag of a language
            return None


_PREDICATE = re.compile(rb"[ \t]*<[^<>\s]+>[ \t]+<([^<>\s\\]+)>[ \t]+(?!_)")


def _load_lines(
    lines: Iterable[Line], path: Path, source: str, change: Change, broken: BrokenPlaces, translator: _Translator
) -> None:
    """Load N-Triples lines into `source`; plain facts go to the store directly."""
    graph = graph_name_of(source, (), change.manifest.base)
    plain: list[Line] = []
    others: list[Line] = []
    scope = scope_of(path, source)

    def the_long_way(batch: Iterable[Line]) -> None:
        change.add(translator.lines(read_ntriples(batch, path.name, broken, scope=scope)))

    def load_plain() -> None:
        text = b"".join(line if line.endswith(b"\n") else line + b"\n" for _, line in plain)
        try:
            change.store.bulk_load(text, ox.RdfFormat.N_TRIPLES, to_graph=graph)
            change.written += len(plain)
        except (SyntaxError, ValueError):  # triples that are stored already are not doubled
            the_long_way(plain)
        plain.clear()

    for line in lines:
        predicate = _PREDICATE.match(line[1])
        if predicate is not None and _is_plain(predicate[1]):
            plain.append(line)
            if len(plain) >= BATCH:
                load_plain()
        else:
            others.append(line)
            if len(others) >= BATCH // 4:
                the_long_way(others)
                others.clear()
    if plain:
        load_plain()
    the_long_way(others)


@lru_cache(4_096)
def _is_plain(predicate: bytes) -> bool:
    """Return whether all triples with a predicate are facts."""
    text = predicate.decode("utf-8", "replace")
    return text != vocab.TYPE and vocab.predicate_role(text) == "fact"


class _LossGuard:
    """Refuses loads that would lose facts; `manifest` is from before the load."""

    def __init__(self, folder: Path, manifest: Manifest, broken: BrokenPlaces, *, append: bool, empty: bool) -> None:
        self._folder, self._broken, self._empty = folder, broken, empty
        self._replaced = {} if append else {source.name: source for source in manifest.sources}

    def check_file(self, path: Path, source: str, form: str, kept: int, broken: int, left_out: int) -> None:
        """Refuse a file without any triple, and a damaged one for an existing source."""
        if not kept and path.name in self._broken.cut:
            cause = f"{path.name} is cut or damaged, and nothing of it can be read."
            raise GraphError(cause, "Get the file again. The graph is as it was.")
        if not kept and broken:
            first = next((sentence for sentence in self._broken.sentences if path.name in sentence), "")
            raise GraphError(
                f"Nothing of {path.name} can be read as {form} ({_count(broken, 'broken place')}). {first}".rstrip(),
                "Fix the file, or name its form with --form (nt, nq, ttl, tsv or jsonl). The graph is as it was.",
            )
        if not kept and not self._empty:
            why = f"Nothing of {path.name} is kept: {_count(left_out, 'triple')} left out"
            cause = f"{why} (names in other languages, or what a dump says of itself)."
            remedy = f"{self._instead(source)}The graph is as it was."
            raise GraphError(cause if left_out else f"{path} is empty.", remedy)
        old = self._replaced.get(source)
        if path.name in self._broken.cut and old is not None and old.facts + old.names:
            raise GraphError(
                f"{path.name} is cut or damaged, and would replace the {old.facts:,} facts of the source {source}.",
                f"Get the file again, or keep what can be read of it under another name: --source NAME. "
                f"To do without the old facts: hoptree graph remove '{source}' --out {self._folder}",
            )

    def check_sources(self, loaded: Iterable[Source]) -> None:
        """Refuse to replace a source with facts by one without."""
        for new in loaded:
            old = self._replaced.get(new.name)
            if old is not None and old.facts and not new.facts and not self._empty:
                cause = f"The {_count(old.facts, 'fact')} of the source {new.name} would be replaced by none."
                raise GraphError(cause, f"Use --append to keep them. {self._instead(new.name)}The graph is as it was.")

    def _instead(self, source: str) -> str:
        hint = "If that is meant, say --empty. "
        if source not in self._replaced:
            return hint
        return f"{hint}To take the source out: hoptree graph remove '{source}' --out {self._folder} . "


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a load: bytes of all files, and triples in them."""

    done: int
    total: int
    triples: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of a load, with counts of `broken` places."""

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
    """Load files into the graph at `folder`, creating it if needed.

    Each file is a source of its own, or all belong to `source`. An existing source is replaced, or extended with
    `append`. The old graph stays usable, and stays if the load is interrupted or refused: an empty or damaged file does
    not replace facts. `empty` allows a file without facts.
    """
    jobs = _jobs(files, source, form)
    broken = BrokenPlaces(skip_broken)
    reading = _ProgressMeter(sum(path.stat().st_size for path, _, _ in jobs), on_progress)
    left_out = 0
    with changing(folder, languages) as change:
        worth = _LossGuard(folder, change.manifest, broken, append=append, empty=empty)
        if not append:
            for name in dict.fromkeys(name for _, name, _ in jobs):
                change.clear(name)
        for path, name, kind in jobs:
            before, written = broken.count, change.written
            passed_by = _load(change, path, name, kind, broken, reading)
            worth.check_file(path, name, kind, change.written - written, broken.count - before, passed_by)
            left_out += passed_by
            # Counted after each file, so that the next one knows the graph's base.
            earlier = sum(known.broken for known in change.manifest.sources if known.name == name)
            change.count(name, broken.count - before + earlier)
        loaded = {name for _, name, _ in jobs}
        loaded_sources = tuple(known_source for known_source in change.manifest.sources if known_source.name in loaded)
        worth.check_sources(loaded_sources)
    return Loaded(change.manifest, loaded_sources, reading.triples, left_out, broken.count, tuple(broken.sentences))


def _load(change: Change, path: Path, name: str, form: Form, broken: BrokenPlaces, reading: _ProgressMeter) -> int:
    if not change.manifest.base and not any(known_source.name == name for known_source in change.manifest.sources):
        change.manifest = replace(change.manifest, base=name)
    translator = _Translator(name, change.manifest.base, change.manifest.languages)
    if form == "nt":
        with open_unpacked(path, reading.on_bytes) as stream:
            lines = reading.watched(read_lines(stream, path.name, broken))
            _load_lines(lines, path, name, change, broken, translator)
    else:
        triples = read_triples(path, form, broken, reading.on_bytes, source=name)
        change.add(translator.lines(reading.watched(triples)))
    reading.file_done()
    return translator.left_out


class _ProgressMeter:
    """Reports how far several files have been read."""

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
            cause = f"There is no file {path}."
            raise GraphError(cause, "Give files of triples (.nt, .ttl, .tsv, .jsonl; packed too).")
        name = source or path.name
        if not source and any(known == name for _, known, _ in jobs):
            raise GraphError(f"Two files are called {name}.", "Load them one by one, each with a --source of its own.")
        jobs.append((path, name, form_of(path, form)))
    return jobs


def remove_source(folder: Path, source: str) -> Manifest:
    """Remove a source; facts that other sources have too stay."""
    check_place(folder)
    read_manifest(folder)
    with changing(folder) as change:
        known = [known_source.name for known_source in change.manifest.sources]
        if source not in known:
            cause = f"The graph {folder} has no source '{source}'."
            raise GraphError(cause, f"Its sources: {', '.join(sorted(known)) or 'none'}.")
        change.clear(source)
    return change.manifest
