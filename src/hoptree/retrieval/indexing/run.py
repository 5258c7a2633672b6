"""One indexing run: what it reads is compared with what the index holds, and only the difference is written."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path, PurePath
from time import monotonic
from typing import TypeVar

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Tokenizer, load_tokenizer
from hoptree.corpus.contamination import QuestionFilter, read_questions
from hoptree.corpus.document import Problems
from hoptree.corpus.files import SourceFile, find_files
from hoptree.corpus.read import read_file
from hoptree.retrieval.index.enrichment import carry_vectors, encode_passages, link_passages
from hoptree.retrieval.index.folder import Change, Index
from hoptree.retrieval.index.ledger import Entry, content_of, key_of
from hoptree.retrieval.indexing.sources import (
    Listener,
    Outcome,
    Progress,
    Reading,
    around,
    conflict,
    prefix_for,
    source_name,
    unclear,
    wait_for,
)

T = TypeVar("T")
Row = tuple[Passage, int, bytes]
"""A passage with its key and its content."""

_AT_ONCE = 1_000
_SAVE_EVERY, _SAVE_SECONDS = 1_000_000, 60.0
"""Passages, or seconds, after which work is made safe: what a killed run loses at most."""
_SO_FAR = "so far"


@dataclass(frozen=True, slots=True)
class _Told:
    """The passages of a file, told apart: to be added, standing in another file before or as well, to be taken out."""

    fresh: dict[int, Row] = field(default_factory=dict)
    moved: list[int] = field(default_factory=list)
    elsewhere: list[int] = field(default_factory=list)
    replaced: list[Entry] = field(default_factory=list)


class Run:
    """One indexing run over a change: reads, compares with the ledger, adds, removes, links, encodes, tells how far."""

    def __init__(
        self, change: Change, reading: Reading, on_progress: Listener | None, *, skip_broken: int | None = None
    ) -> None:
        self._change, self._ledger = change, change.ledger
        self._reading = reading
        self._tell = on_progress or (lambda progress: None)
        self._problems = Problems(reading.skip_broken if skip_broken is None else skip_broken)
        self._warnings: list[str] = []
        self._filter: QuestionFilter | None = None
        self._tokenizer: Tokenizer | None = None
        self._added = self._unchanged = self._replaced = self._removed = self._repeated = 0
        self._dropped = 0
        self._unsaved, self._saved_at = 0, monotonic()
        self._done = self._total = 0
        self._go_on()

    # What was done so far, also by a run that was cut off and is taken up

    def _go_on(self) -> None:
        said = self._ledger.fact(_SO_FAR) if self._change.resumed else ""
        if said:
            counts = [int(count) for count in said.split()]
            self._added, self._unchanged, self._replaced, self._removed, self._repeated, self._dropped = counts
        self._sure = self._repeated, self._dropped

    def _note(self) -> None:
        """Enter what was done. Of a file that is cut off, repetitions and questions are met again."""
        counts = (self._added, self._unchanged, self._replaced, self._removed, *self._sure)
        self._ledger.set_fact(_SO_FAR, " ".join(map(str, counts)))

    @property
    def _held(self) -> int:
        return self._dropped + (self._filter.dropped if self._filter else 0)

    # Reading

    def take_in(self, sources: Sequence[Path], *, may_be_empty: bool = False, reread: bool = False) -> None:
        """Bring the index up to date with these sources; `reread` looks into files that seem unchanged, too."""
        changed: list[tuple[int, SourceFile, list[int]]] = []
        before: set[int] = set()
        for name, source in {source_name(source): source for source in sources}.items():
            prefix = self._prefix(name)
            for file in find_files(
                source, problems=self._problems, may_be_empty=may_be_empty, never=self._change.folder
            ):
                if file.path.is_relative_to(self._change.folder):
                    continue  # the index itself, where it lies inside a source
                ids, state = self._ledger.ids_of(name, file.name), self._ledger.file(name, file.name)
                number = state.id if state else -1
                same = not reread and state is not None and state.fits(file.size, file.modified_ns)
                # A later id was given to it by a run that was cut off, and may have taken passages from this one.
                if not same or number != max(ids):
                    number = self._ledger.enter_file(name, file.name, file.size, file.modified_ns)
                    named = replace(file, name=f"{prefix}/{file.name}") if prefix else file
                    changed.append((number, named, [old for old in ids if old != number]))
                    self._total += file.size
                self._ledger.mark_present([*ids, number])
                before.update(set(ids) - {number})
            before.update(self._gone(name))
        if changed:
            self._prepare()
        # All of them from the start: a passage may have moved from a file that is read later to one that is read first.
        cut_short = [entered for entered in changed if not self._take_file(*entered[:2], before)]
        for number, _, earlier in cut_short:  # last: until then what they held may have moved elsewhere
            self._ledger.break_off(number, earlier)
        self._drop_files(before)

    def _prepare(self) -> None:
        """Load what reading needs; a change that reads nothing does without."""
        reading = self._reading
        if reading.without:
            self._filter = QuestionFilter(question for path in reading.without for question in read_questions(path))
        if reading.tokenizer:
            self._tokenizer = load_tokenizer(reading.tokenizer)

    def _gone(self, source: str) -> list[int]:
        """The files that are no longer there; what lies where nothing can be seen is not gone."""
        gone, unseen = self._ledger.gone(source), self._problems.unlisted
        self._problems.unlisted = []
        if not unseen:
            return gone
        below = tuple(f"{name}/" for name in unseen)
        names = {file: self._ledger.place_of(file)[1] for file in gone}
        return [file for file, name in names.items() if name not in unseen and not name.startswith(below)]

    def _prefix(self, source: str) -> str:
        """What the names of a source's documents begin with, settled when it is first taken in."""
        known = self._ledger.sources()
        if source not in known:
            inside = [other for other in known if PurePath(other).is_relative_to(source)]
            self._warnings += [around(source, other, self._change.folder) for other in inside]
            self._ledger.enter_source(source, prefix_for(source, self._ledger))
        return self._ledger.prefix_of(source)

    def _take_file(self, number: int, file: SourceFile, before: set[int]) -> bool:
        """Take in a file; whether its end was reached."""
        cut_short = self._problems.cut_short
        passages = read_file(
            file,
            problems=self._problems,
            chunking=self._reading.chunking,
            tokenizer=self._tokenizer,
            on_bytes=lambda count: self._progress("reading", self._done + count),
        )
        self.take(passages, number, before)
        self._done += file.size
        whole = self._problems.cut_short == cut_short
        if whole:
            self._ledger.complete_file(number)
        self._sure = self._repeated, self._held
        return whole

    def take(self, passages: Iterable[Passage], file: int, before: Collection[int]) -> None:
        """Take in the passages of a file; what stood in the files `before` may move here or be replaced."""
        for some in _some(self._filter(passages) if self._filter else passages, _AT_ONCE):
            rows = [(passage, key_of(passage.id), content_of(passage)) for passage in some]
            told = self._compare(rows, file, before)
            self._change.remove(told.replaced)
            self._ledger.move(told.moved, file)
            self._ledger.note_also(told.elsewhere, file)
            self._change.add(list(told.fresh.values()), file)
            self._unchanged += len(told.moved)
            self._replaced += len(told.replaced)
            self._added += len(told.fresh) - len(told.replaced)
            self._save_now_and_then(len(rows))

    def _compare(self, rows: Sequence[Row], file: int, before: Collection[int]) -> _Told:
        """Tell the passages of a file apart by what the index holds already."""
        known = self._ledger.look_up([key for _, key, _ in rows])
        met: dict[int, bytes] = {}
        told = _Told()
        for passage, key, content in rows:
            entry = known.get(key)
            if key in met:
                self._check_repeated(passage, content, Entry(key, met[key], file, -1), file)
                continue
            met[key] = content
            if entry is None:
                told.fresh[key] = (passage, key, content)
            elif entry.file not in before:
                self._check_repeated(passage, content, entry, file)
                if entry.file != file:
                    told.elsewhere.append(key)
            elif entry.content == content:
                told.moved.append(key)
            else:
                told.replaced.append(entry)
                told.fresh[key] = (passage, key, content)
        if told.replaced:
            self._check_replaced([told.fresh[entry.key][0] for entry in told.replaced], file, before)
        return told

    def _check_repeated(self, passage: Passage, content: bytes, other: Entry, file: int) -> None:
        """An id that came before is no matter if the passage is the same; else one of the two would be lost."""
        if other.content != content:
            raise conflict(passage, self._ledger.place_of(file), self._ledger.place_of(other.file))
        if not self._change.resumed or other.file != file or other.number < 0:
            self._repeated += 1  # else it was counted by the run that was cut off

    def _check_replaced(self, passages: Sequence[Passage], file: int, before: Collection[int]) -> None:
        """A passage may not be replaced while a file that did not change holds it as it was."""
        others = self._ledger.also_in([key_of(passage.id) for passage in passages])
        for passage in passages:
            for other in others.get(key_of(passage.id), ()):
                if other not in before:
                    raise conflict(passage, self._ledger.place_of(file), self._ledger.place_of(other))

    # Taking out

    def take_out(self, ids: Iterable[str]) -> None:
        """Remove passages by id, all passages of a document by its id, or those of a file by its name.

        Of a file, what stands in another one as well stays.
        """
        for some in _some(ids, _AT_ONCE):
            keys = {key_of(name): name for name in some}
            entries = self._ledger.look_up(list(keys))
            others: list[str] = []
            for name in (name for key, name in keys.items() if key not in entries):
                pieces = self._pieces(name)
                self._check_clear(name, {entry.file for entry in pieces.values()} or self._ledger.files_named(name))
                entries |= pieces
                others += () if pieces else (name,)
            self._remove(list(entries.values()))
            for name in others:
                self._take_out_file(name)

    def _pieces(self, document: str) -> dict[int, Entry]:
        """The passages DOCUMENT#1, DOCUMENT#2, … of a document that was cut."""
        found: dict[int, Entry] = {}
        start = 1
        while more := self._ledger.look_up([key_of(f"{document}#{n}") for n in range(start, start + _AT_ONCE)]):
            found |= more
            start += _AT_ONCE
        return found

    def _take_out_file(self, name: str) -> None:
        """Remove the passages of a file, such as one whose pages are documents of their own."""
        files = self._ledger.files_named(name) or self._files_at(name)
        if not files:
            raise CorpusError(
                f"Neither a passage nor a document, file or source of the index is called '{name}'.",
                "hoptree search --json shows ids, hoptree index info sources.",
            )
        for file in files:
            self._ledger.forget_also(file)
            self._empty(file)

    def _check_clear(self, name: str, named: Collection[int]) -> None:
        """An error if what is called so in the index is another file than the path leads to from here."""
        there = set(self._files_at(name))
        if other := there and set(named) - there:
            raise unclear(name, self._ledger.place_of(min(there)), self._ledger.place_of(min(other)))

    def _files_at(self, path: str) -> list[int]:
        """The files that a path leads to from here."""
        try:
            whole = Path(os.path.realpath(path))
        except (OSError, ValueError):
            return []
        below = [source for source in self._ledger.sources() if whole.is_relative_to(source)]
        return [file for source in below for file in self._ledger.ids_of(source, whole.relative_to(source).as_posix())]

    def drop_sources(self, names: Sequence[str]) -> None:
        """Remove whole sources; what of them stands in others as well stays."""
        self._drop_files([file for name in names for file, _, _ in self._ledger.files(name)])
        for name in names:
            self._ledger.forget_source(name)

    def _drop_files(self, files: Collection[int]) -> None:
        """Remove files with what is left of their passages, but for those that other files hold too."""
        self._ledger.leave(files)
        for file in files:
            self._empty(file)
            self._ledger.drop_file(file)

    def _empty(self, file: int) -> None:
        for entries in _some(self._ledger.of_file(file), _AT_ONCE):
            others = self._ledger.also_in([entry.key for entry in entries])
            for key, (other, *_) in others.items():
                self._ledger.move([key], other)
            self._unchanged += len(others)
            self._remove([entry for entry in entries if entry.key not in others])

    def _remove(self, entries: Sequence[Entry]) -> None:
        self._change.remove(entries)
        self._removed += len(entries)
        self._save_now_and_then(len(entries))

    # Compaction

    def copy(self, index: Index) -> None:
        """Take in all passages of another index, with the files they came from and their vectors."""
        ledger = index.ledger()
        self._ledger.copy_files(ledger)
        carry_vectors(index.vectors, self._change.part / index.vectors.name)
        self._total = len(index.texts)
        self._unchanged = 0  # all are gone through, also those that a run copied which was cut off
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

    # The end

    def _save_now_and_then(self, count: int) -> None:
        self._unsaved += count
        if self._unsaved >= _SAVE_EVERY or monotonic() - self._saved_at > _SAVE_SECONDS:
            self._note()
            self._change.save()
            self._unsaved, self._saved_at = 0, monotonic()

    def _progress(self, stage: str, done: int) -> None:
        self._tell(Progress(stage, done, self._total, self._added + self._unchanged + self._replaced))

    def finish(self, *, any_encoder: bool = False) -> Outcome:
        """Link and encode what is new, and put the change in place; `any_encoder` may be another one than before."""
        change = self._change
        if not self._ledger.passages:
            self._nothing()
        self._note()
        change.close_texts()
        fresh = self._added + self._replaced
        self._total = max(self._ledger.next_number - change.first_new, 1)
        if change.settings.links:
            link_passages(change, on_passage=lambda count: self._progress("linking", count))
        if change.settings.encoder:
            heard = lambda count: self._progress("encoding", count)  # noqa: E731
            wait_for(encode_passages(change, heard, any_encoder=any_encoder))
        self._total = fresh
        self._ledger.set_fact(_SO_FAR, "")
        manifest = change.finish(reading=self._reading.stored())
        return Outcome(
            manifest,
            self._added,
            self._unchanged,
            self._replaced,
            self._removed,
            self._repeated,
            self._held,
            change.resumed,
            self._problems.summary(),
            (*self._warnings, *self._problems.sentences, *self._problems.notes),
        )

    @property
    def refused(self) -> str:
        """What was met and not taken in: counts, and the first place; nothing if there was nothing else."""
        held = f"{self._held:,} passage{'s' * (self._held != 1)} left out because of an evaluation question"
        first = next(iter((*self._problems.sentences, *self._problems.notes)), "").rstrip(".")
        return "; ".join(filter(None, (held if self._held else "", self._problems.summary(), first)))

    def _nothing(self) -> None:
        said = f" ({self.refused})" if self.refused else ""
        raise CorpusError(f"The corpus is empty: no passage was found{said}.", "Give a folder or file with text in it.")


def _some(items: Iterable[T], count: int) -> Iterator[list[T]]:
    """The items in lists of at most so many."""
    walk = iter(items)
    while part := list(islice(walk, count)):
        yield part
