"""From documents to an index: build, add, update, remove, compact. Only what changed is touched."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

from hoptree.corpus.chunk import Chunking, Tokenizer, load_tokenizer
from hoptree.corpus.contamination import QuestionFilter, read_questions
from hoptree.corpus.files import SourceFile, find_files
from hoptree.corpus.problems import Problems
from hoptree.corpus.read import read_file
from hoptree.corpus.seen import Seen
from hoptree.errors import CorpusError
from hoptree.retrieval.index.encoding import encode_passages
from hoptree.retrieval.index.folder import Change, Index
from hoptree.retrieval.index.ledger import Entry, content_of, key_of
from hoptree.retrieval.index.linking import LINK_MEMORY, link_passages
from hoptree.retrieval.index.manifest import Manifest, Settings, read_manifest
from hoptree.values import Passage

__all__ = [
    "Estimate",
    "Outcome",
    "Progress",
    "Reading",
    "add_to_index",
    "build_index",
    "compact_index",
    "encode_index",
    "estimate",
    "index_passages",
    "remove_from_index",
    "update_index",
]

T = TypeVar("T")

_AT_ONCE = 1_000
_SAVE_EVERY = 250_000
"""Passages after which work is made safe: what a killed run loses at most."""
_DISK_PER_BYTE = 1.0
_LINKS_PER_BYTE = 0.3
_UNPACKED = 3.0
_MEMORY = 600 * 2**20


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are read: kept in the index, so that `update` reads them the same way."""

    chunking: Chunking = field(default_factory=Chunking)
    tokenizer: Path | None = None
    skip_broken: int = 100
    without: tuple[Path, ...] = ()
    """Files of evaluation questions: a passage that holds one is left out (RA-ISF, section 4.3)."""

    def stored(self) -> dict[str, str]:
        return {
            "chunking": str(self.chunking),
            "tokenizer": str(self.tokenizer.resolve()) if self.tokenizer else "",
            "skip_broken": str(self.skip_broken),
            "without": "\n".join(str(path.resolve()) for path in self.without),
        }

    @classmethod
    def restored(cls, stored: Mapping[str, str]) -> Reading:
        return cls(
            Chunking.parse(stored.get("chunking") or "auto"),
            Path(stored["tokenizer"]) if stored.get("tokenizer") else None,
            int(stored.get("skip_broken") or 100),
            tuple(Path(path) for path in stored.get("without", "").split("\n") if path),
        )


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an indexing run is: `done` of `total` bytes when it reads, of passages when it links or encodes."""

    stage: str
    done: int
    total: int
    passages: int


Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an indexing run did."""

    manifest: Manifest
    added: int
    unchanged: int
    replaced: int
    removed: int
    repeated: int
    held_questions: int
    resumed: bool
    passed_over: str
    examples: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Estimate:
    """What an index will take, before it is made."""

    source_bytes: int
    disk_bytes: int
    memory_bytes: int
    free_bytes: int


def estimate(sources: Sequence[Path], out: Path, settings: Settings) -> Estimate:
    """Expected size on disk and in memory, from the sizes of the sources."""
    packed = plain = 0
    for source in sources:
        for file in find_files(source):
            if _is_gzip(file.path):
                packed += file.size
            else:
                plain += file.size
    text = plain + packed * _UNPACKED
    disk = text * (_DISK_PER_BYTE + (_LINKS_PER_BYTE if settings.links else 0))
    near = next(folder for folder in (out.resolve(), *out.resolve().parents) if folder.exists())
    memory = _MEMORY + (LINK_MEMORY if settings.links else 0)
    return Estimate(
        packed + plain, round(disk), min(memory, _MEMORY // 3 + round(3 * text)), shutil.disk_usage(near).free
    )


def build_index(
    sources: Path | Sequence[Path],
    out: Path,
    *,
    settings: Settings | None = None,
    reading: Reading | None = None,
    on_progress: Listener | None = None,
) -> Outcome:
    """Make an index of files or folders; one that is there already stays usable until the new one is complete."""
    paths = [sources] if isinstance(sources, Path) else list(sources)
    settings, reading = settings or Settings(), reading or Reading()
    names = [_source_name(path) for path in paths]
    intent = {"what": "build", "sources": "\n".join(names), **reading.stored()}
    with Change(out, settings, intent=intent, afresh=True) as change:
        run = _Run(change, reading, on_progress)
        run.take_in(paths)
        return run.finish()


def add_to_index(sources: Sequence[Path], out: Path, *, on_progress: Listener | None = None) -> Outcome:
    """Add the documents of further files or folders, or take in anew what changed in them."""
    manifest = read_manifest(out)
    reading = Reading.restored(manifest.reading)
    intent = {"what": "add", "sources": "\n".join(_source_name(path) for path in sources)}
    with Change(out, manifest.settings, intent=intent) as change:
        run = _Run(change, reading, on_progress)
        run.take_in(sources)
        return run.finish()


def update_index(out: Path, *, on_progress: Listener | None = None) -> Outcome:
    """Bring an index up to date with its sources: what is new, what changed, what is gone."""
    manifest = read_manifest(out)
    paths = [Path(source) for source in manifest.sources]
    if not paths:
        raise CorpusError(f"The index {out} was not made from files.", "Add to it, or build it again.")
    for path in paths:
        if not path.exists():
            raise CorpusError(
                f"The source {path} of the index is gone.",
                f"Put it back, or take its documents out: hoptree index remove {path} --out {out}",
            )
    reading = Reading.restored(manifest.reading)
    with Change(out, manifest.settings, intent={"what": "update"}) as change:
        run = _Run(change, reading, on_progress)
        run.take_in(paths)
        return run.finish()


def remove_from_index(
    out: Path, *, ids: Iterable[str] = (), sources: Sequence[Path] = (), on_progress: Listener | None = None
) -> Outcome:
    """Take passages out: by id (of a passage, or of a document), or all of a source."""
    manifest = read_manifest(out)
    names = [_source_name(path) for path in sources]
    for name in names:
        if name not in manifest.sources:
            raise CorpusError(
                f"{name} is no source of the index {out}.", f"Its sources are: {', '.join(manifest.sources) or 'none'}."
            )
    with Change(out, manifest.settings, intent={"what": "remove", "run": uuid4().hex}) as change:
        run = _Run(change, Reading.restored(manifest.reading), on_progress)
        run.take_out(ids)
        for name in names:
            for file, _, _ in change.ledger.files(name):
                run.drop_file(file)
        if not change.ledger.passages:
            raise CorpusError("That would leave the index empty.", f"Remove the folder {out} instead.")
        return run.finish()


def compact_index(out: Path, *, on_progress: Listener | None = None) -> Outcome:
    """Write an index anew from its own passages: smaller, and with scores as if it had been built at once."""
    index = Index(out)
    manifest = index.manifest
    with Change(out, manifest.settings, intent={"what": "compact"}, afresh=True) as change:
        run = _Run(change, Reading.restored(manifest.reading), on_progress)
        run.copy(index)
        return run.finish()


def encode_index(out: Path, encoder: str, *, on_progress: Listener | None = None) -> Outcome:
    """Give an index vectors by an encoder, or those of another one than it has."""
    manifest = read_manifest(out)
    with Change(out, replace(manifest.settings, encoder=encoder), intent={"what": "encode"}) as change:
        return _Run(change, Reading.restored(manifest.reading), on_progress).finish(any_encoder=True)


def index_passages(passages: Iterable[Passage], out: Path, *, settings: Settings | None = None) -> Manifest:
    """Make an index of passages that a program has at hand."""
    settings = settings or Settings()
    with Change(out, settings, intent={"what": "passages", "run": uuid4().hex}, afresh=True) as change:
        run = _Run(change, Reading(), None)
        run.take(passages, change.ledger.enter_file("", "", 0, 0), set())
        return run.finish().manifest


class _Run:
    """One indexing run over a change: reads, compares with the ledger, adds, removes, links, encodes, tells how far."""

    def __init__(self, change: Change, reading: Reading, on_progress: Listener | None) -> None:
        self._change, self._ledger = change, change.ledger
        self._reading = reading
        self._tell = on_progress or (lambda progress: None)
        self._problems = Problems(reading.skip_broken)
        questions = (question for path in reading.without for question in read_questions(path))
        self._filter = QuestionFilter(questions) if reading.without else None
        self._tokenizer: Tokenizer | None = load_tokenizer(reading.tokenizer) if reading.tokenizer else None
        self._added = self._unchanged = self._replaced = self._removed = self._repeated = 0
        self._unsaved = 0
        self._done = self._total = 0

    def take_in(self, sources: Sequence[Path]) -> None:
        """Bring the index up to date with these sources."""
        changed: list[tuple[int, SourceFile]] = []
        before: set[int] = set()
        for source in sources:
            name = _source_name(source)
            for file in find_files(source, problems=self._problems):
                if file.path.is_relative_to(self._change.folder):
                    continue  # the index itself, where it lies inside a source
                ids = self._ledger.ids_of(name, file.name)
                self._ledger.mark_present(ids)
                state = self._ledger.file(name, file.name)
                if state is None or (state.size, state.modified_ns) != (file.size, file.modified_ns):
                    number = self._ledger.enter_file(name, file.name, file.size, file.modified_ns)
                    self._ledger.mark_present([number])
                    changed.append((number, file))
                    before.update(set(ids) - {number})
                    self._total += file.size
            before.update(self._ledger.gone(name))
        # All of them from the start: a passage may have moved from a file that is read later to one that is read first.
        seen = Seen()
        for number, file in changed:
            self._take_file(number, file, before, seen)
        for older in before:
            self.drop_file(older)

    def _take_file(self, number: int, file: SourceFile, before: set[int], seen: Seen) -> None:
        passages = read_file(
            file,
            problems=self._problems,
            chunking=self._reading.chunking,
            tokenizer=self._tokenizer,
            on_bytes=lambda count: self._progress("reading", self._done + count),
            seen=seen,
        )
        self.take(passages, number, before)
        self._ledger.complete_file(number)
        self._done += file.size

    def take(self, passages: Iterable[Passage], file: int, before: set[int]) -> None:
        """Take in the passages of a file; what stood in the files `before` may move here or be replaced."""
        for some in _some(self._filter(passages) if self._filter else passages, _AT_ONCE):
            rows = [(passage, key_of(passage.id), content_of(passage)) for passage in some]
            known = self._ledger.look_up([key for _, key, _ in rows])
            met: dict[int, bytes] = {}
            fresh: dict[int, tuple[Passage, int, bytes]] = {}
            moved: list[int] = []
            replaced: list[Entry] = []
            for passage, key, content in rows:
                entry = known.get(key)
                if key in met:
                    self._check_repeated(passage, content, Entry(key, met[key], file, -1), file)
                    continue
                met[key] = content
                if entry is None:
                    fresh[key] = (passage, key, content)
                elif entry.file not in before:
                    self._check_repeated(passage, content, entry, file)
                elif entry.content == content:
                    moved.append(key)
                else:
                    replaced.append(entry)
                    fresh[key] = (passage, key, content)
            self._change.remove(replaced)
            self._ledger.move(moved, file)
            self._change.add(list(fresh.values()), file)
            self._unchanged += len(moved)
            self._replaced += len(replaced)
            self._added += len(fresh) - len(replaced)
            self._save_now_and_then(len(rows))

    def _check_repeated(self, passage: Passage, content: bytes, other: Entry, file: int) -> None:
        """An id that came before is no matter if the passage is the same; else one of the two would be lost."""
        if other.content != content:
            raise CorpusError(
                f"Two passages have the id '{passage.id}' and are not the same "
                f"(the other one is in {self._ledger.name_of(other.file)}).",
                "Give every passage an id of its own.",
            )
        if self._change.resumed and other.file == file and other.number >= 0:
            self._unchanged += 1  # the part of the file that was read before the run was cut off
        else:
            self._repeated += 1

    def take_out(self, ids: Iterable[str]) -> None:
        """Remove passages by id, or all passages of a document by its id."""
        for some in _some(ids, _AT_ONCE):
            keys = {key_of(name): name for name in some}
            entries = self._ledger.look_up(list(keys))
            for key, name in keys.items():
                if key not in entries:
                    entries |= self._pieces(name)
            self._remove(list(entries.values()))

    def _pieces(self, document: str) -> dict[int, Entry]:
        """The passages DOCUMENT#1, DOCUMENT#2, … of a document that was cut."""
        found: dict[int, Entry] = {}
        start = 1
        while more := self._ledger.look_up([key_of(f"{document}#{n}") for n in range(start, start + _AT_ONCE)]):
            found |= more
            start += _AT_ONCE
        if not found:
            raise CorpusError(f"The index has no passage '{document}'.", "hoptree search --json shows ids.")
        return found

    def drop_file(self, file: int) -> None:
        """Remove what is left of a file's passages, and the file."""
        while entries := list(islice(self._ledger.of_file(file), _AT_ONCE)):
            self._remove(entries)
        self._ledger.drop_file(file)

    def _remove(self, entries: Sequence[Entry]) -> None:
        self._change.remove(entries)
        self._removed += len(entries)
        self._save_now_and_then(len(entries))

    def copy(self, index: Index) -> None:
        """Take in all passages of another index, with the files they came from."""
        ledger = index.ledger()
        self._ledger.copy_files(ledger)
        self._total = len(index.texts)
        for rows in _some(index.texts.scan(), _AT_ONCE):
            entries = ledger.look_up([key for _, key, _ in rows])
            there = self._ledger.look_up(list(entries))
            for file in dict.fromkeys(entry.file for entry in entries.values()):
                fresh = [
                    (passage, key, entries[key].content)
                    for _, key, passage in rows
                    if entries[key].file == file and key not in there
                ]
                self._change.add(fresh, file)
            self._unchanged += len(rows)
            self._done += len(rows)
            self._save_now_and_then(len(rows))
            self._progress("copying", self._done)
        ledger.close()

    def _save_now_and_then(self, count: int) -> None:
        self._unsaved += count
        if self._unsaved >= _SAVE_EVERY:
            self._change.save()
            self._unsaved = 0

    def _progress(self, stage: str, done: int) -> None:
        self._tell(Progress(stage, done, self._total, self._added + self._unchanged + self._replaced))

    def finish(self, *, any_encoder: bool = False) -> Outcome:
        """Link and encode what is new, and put the change in place; `any_encoder` may be another one than before."""
        change = self._change
        if not self._ledger.passages:
            self._nothing()
        change.close_texts()
        fresh = self._added + self._replaced
        self._total = max(self._ledger.next_number - change.first_new, 1)
        if change.settings.links:
            link_passages(change, on_passage=lambda count: self._progress("linking", count))
        if change.settings.encoder:
            heard = lambda count: self._progress("encoding", count)  # noqa: E731
            asyncio.run(encode_passages(change, heard, any_encoder=any_encoder))
        self._total = fresh
        manifest = change.finish(reading=self._reading.stored())
        return Outcome(
            manifest,
            self._added,
            self._unchanged,
            self._replaced,
            self._removed,
            self._repeated,
            self._filter.dropped if self._filter else 0,
            change.resumed,
            self._problems.summary(),
            (*self._problems.sentences, *self._problems.notes),
        )

    def _nothing(self) -> None:
        said = f" ({self._problems.summary()})" if self._problems.counts else ""
        raise CorpusError(f"The corpus is empty: no passage was found{said}.", "Give a folder or file with text in it.")


def _source_name(source: Path) -> str:
    return str(source.resolve())


def _some(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    walk = iter(items)
    while part := list(islice(walk, count)):
        yield part


def _is_gzip(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError:
        return False
