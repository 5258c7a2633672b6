"""An indexing run: compare sources with the index, and write the difference."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from time import monotonic

from hoptree.core.errors import CorpusError
from hoptree.core.files import batched
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Tokenizer, load_tokenizer
from hoptree.corpus.document import Problems
from hoptree.corpus.files import SourceFile, find_files
from hoptree.corpus.read import QuestionFilter, read_file, read_questions
from hoptree.retrieval.index.change import Change
from hoptree.retrieval.index.enrichment import carry_vectors, encode_passages, link_passages
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.ledger import PASSED_FACT, Entry, content_of
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.indexing.sources import (
    Listener,
    Outcome,
    Progress,
    Reading,
    ambiguous_name,
    id_conflict,
    prefix_for,
    run_coroutine,
    source_name,
)

Row = tuple[Passage, int, bytes]  # a passage with its key and its content

_AT_ONCE = 1_000
_SAVE_EVERY, _SAVE_INTERVAL_S = 1_000_000, 60.0
"""Passages, or seconds, between checkpoints: what a killed run loses at most."""
_COUNTS_FACT = "so far"
_MAX_PASSED = 10_000  # left-out files that were reported before


@dataclass(frozen=True, slots=True)
class _Difference:
    """A file's passages: new, from another file, in another file too, replaced."""

    fresh: dict[int, Row] = field(default_factory=dict)
    moved: list[int] = field(default_factory=list)
    elsewhere: list[int] = field(default_factory=list)
    replaced: list[Entry] = field(default_factory=list)


class Run:
    """An indexing run over a change."""

    def __init__(
        self, change: Change, reading: Reading, on_progress: Listener | None, *, skip_broken: int | None = None
    ) -> None:
        self._change, self._ledger = change, change.ledger
        self._reading = reading
        self._on_progress = on_progress or (lambda progress: None)
        self._passed = change.ledger.fact(PASSED_FACT).split("\n")
        self._problems = Problems(reading.skip_broken if skip_broken is None else skip_broken, self._passed)
        self._warnings: list[str] = []
        self._known_broken: set[int] = set()
        self._repeated_sentences: list[str] = []  # of files that could not be read before either, and have not changed
        self._filter: QuestionFilter | None = None
        self._tokenizer: Tokenizer | None = None
        self._added = self._unchanged = self._replaced = self._removed = self._repeated = 0
        self._dropped = 0
        self._unsaved, self._saved_at = 0, monotonic()
        self._done = self._total = 0
        self._restore_counts()

    # Counts, which a resumed run takes over

    def _restore_counts(self) -> None:
        stored = self._ledger.fact(_COUNTS_FACT) if self._change.resumed else ""
        if stored:
            counts = map(int, stored.split())
            self._added, self._unchanged, self._replaced, self._removed, self._repeated, self._dropped = counts
        self._settled = self._repeated, self._dropped

    def _store_counts(self) -> None:
        """Store the counts; repetitions of an interrupted file are counted again."""
        counts = (self._added, self._unchanged, self._replaced, self._removed, *self._settled)
        self._ledger.set_fact(_COUNTS_FACT, " ".join(map(str, counts)))

    @property
    def _held_questions(self) -> int:
        return self._dropped + (self._filter.dropped if self._filter else 0)

    # Reading

    def add_sources(self, sources: Sequence[Path], *, may_be_empty: bool = False, reread: bool = False) -> None:
        """Add new and changed files; `reread` reads unchanged ones, too."""
        changed: list[tuple[int, SourceFile, list[int]]] = []
        before: set[int] = set()
        for name, source in {source_name(source): source for source in sources}.items():
            prefix = self._prefix(name)
            files = find_files(source, problems=self._problems, may_be_empty=may_be_empty, never=self._change.folder)
            for file in files:
                if file.path.is_relative_to(self._change.folder):
                    continue  # the index itself, where it is inside of a source
                ids, state = self._ledger.ids_of(name, file.name), self._ledger.file(name, file.name)
                number = state.id if state else -1
                same = not reread and state is not None and state.fits(file.size, file.modified_ns)
                # An interrupted run may have given it a later id, and moved passages to that.
                if not same or number != max(ids):
                    known_broken = self._ledger.was_broken_off(name, file.name, file.modified_ns)
                    number = self._ledger.enter_file(name, file.name, file.size, file.modified_ns)
                    named = replace(file, name=f"{prefix}/{file.name}") if prefix else file
                    changed.append((number, named, [old for old in ids if old != number]))
                    self._known_broken |= {number} if known_broken and not reread else set()
                    self._total += file.size
                self._ledger.mark_present([*ids, number])
                before.update(set(ids) - {number})
            before.update(self._gone(name))
        if changed:
            self._prepare()
        # `before` is complete from the start: a passage may have moved from a file that is read later.
        incomplete = [entry for entry in changed if not self._add_file(*entry[:2], before)]
        for number, _, earlier in incomplete:  # last: until then their passages may have moved elsewhere
            self._ledger.break_off(number, earlier)
        self._drop_files(before)

    def _prepare(self) -> None:
        """Load what only reading needs."""
        reading = self._reading
        if reading.without:
            self._filter = QuestionFilter(question for path in reading.without for question in read_questions(path))
        if reading.tokenizer:
            self._tokenizer = load_tokenizer(reading.tokenizer)

    def _gone(self, source: str) -> list[int]:
        """Return the missing files, but for those in unreadable folders."""
        gone, unreadable = self._ledger.gone(source), self._problems.unlisted
        self._problems.unlisted = []
        below = tuple(f"{name}/" for name in unreadable)
        names = {file: self._ledger.place_of(file)[1] for file in gone} if unreadable else {}
        return [file for file in gone if not (names and (names[file] in unreadable or names[file].startswith(below)))]

    def _prefix(self, source: str) -> str:
        """Return the prefix of a source's documents, fixed when it is first indexed."""
        known = self._ledger.sources()
        if source not in known:
            self._warnings += (
                f"{source} holds {inner}, which is a source already: what is named after its file is in the index "
                f"twice. To have it once: hoptree index remove {inner} --out {self._change.folder}"
                for inner in known
                if PurePath(inner).is_relative_to(source)
            )
            self._ledger.enter_source(source, prefix_for(source, self._ledger))
        return self._ledger.prefix_of(source)

    def _add_file(self, number: int, file: SourceFile, before: set[int]) -> bool:
        """Add a file; return whether its end was reached."""
        cut_short, before_it = self._problems.cut_short, len(self._problems.sentences)
        passages = read_file(
            file,
            problems=self._problems,
            chunking=self._reading.chunking,
            tokenizer=self._tokenizer,
            on_bytes=lambda count: self._progress("reading", self._done + count),
        )
        self.add_passages(passages, number, before)
        self._done += file.size
        complete = self._problems.cut_short == cut_short
        if complete:
            self._ledger.complete_file(number)
        elif number in self._known_broken:
            self._repeated_sentences += self._problems.sentences[before_it:]
        self._settled = self._repeated, self._held_questions
        return complete

    def add_passages(self, passages: Iterable[Passage], file: int, before: Collection[int]) -> None:
        """Add the passages of a file; those of `before` may move or be replaced."""
        for batch in batched(self._filter(passages) if self._filter else passages, _AT_ONCE):
            rows = [(passage, key_of(passage.id), content_of(passage)) for passage in batch]
            difference = self._compare(rows, file, before)
            self._change.remove(difference.replaced)
            self._ledger.move(difference.moved, file)
            self._ledger.note_also(difference.elsewhere, file)
            self._change.add(list(difference.fresh.values()), file)
            self._unchanged += len(difference.moved)
            self._replaced += len(difference.replaced)
            self._added += len(difference.fresh) - len(difference.replaced)
            self._save_if_due(len(rows))

    def _compare(self, rows: Sequence[Row], file: int, before: Collection[int]) -> _Difference:
        """Compare the passages of a file with what the index holds already."""
        known = self._ledger.look_up([key for _, key, _ in rows])
        seen: dict[int, bytes] = {}
        difference = _Difference()
        for passage, key, content in rows:
            entry = known.get(key)
            if key in seen:
                self._check_repeated(passage, content, Entry(key, seen[key], file, -1), file)
                continue
            seen[key] = content
            if entry is None:
                difference.fresh[key] = (passage, key, content)
            elif entry.file not in before:
                self._check_repeated(passage, content, entry, file)
                if entry.file != file:
                    difference.elsewhere.append(key)
            elif entry.content == content:
                difference.moved.append(key)
            else:
                difference.replaced.append(entry)
                difference.fresh[key] = (passage, key, content)
        if difference.replaced:
            self._check_replaced([difference.fresh[entry.key][0] for entry in difference.replaced], file, before)
        return difference

    def _check_repeated(self, passage: Passage, content: bytes, other: Entry, file: int) -> None:
        """Raise an error if a repeated id has a different passage: one would be lost."""
        if other.content != content:
            raise id_conflict(passage, self._ledger.place_of(file), self._ledger.place_of(other.file))
        if not self._change.resumed or other.file != file or other.number < 0:
            self._repeated += 1  # otherwise the interrupted run has counted it

    def _check_replaced(self, passages: Sequence[Passage], file: int, before: Collection[int]) -> None:
        """Raise an error if an unchanged file holds the old version of a replaced passage."""
        others = self._ledger.also_in([key_of(passage.id) for passage in passages])
        for passage in passages:
            for other in others.get(key_of(passage.id), ()):
                if other not in before:
                    raise id_conflict(passage, self._ledger.place_of(file), self._ledger.place_of(other))

    # Removing

    def remove_passages(self, ids: Iterable[str]) -> None:
        """Remove passages by id, document or file; a file's stay if another has them."""
        for batch in batched(ids, _AT_ONCE):
            keys = {key_of(name): name for name in batch}
            entries = self._ledger.look_up(list(keys))
            others: list[str] = []
            for name in (name for key, name in keys.items() if key not in entries):
                pieces = self._pieces(name)
                self._check_clear(name, {entry.file for entry in pieces.values()} or self._ledger.files_named(name))
                entries |= pieces
                others += () if pieces else (name,)
            self._remove(list(entries.values()))
            for name in others:
                self._remove_file(name)

    def _pieces(self, document: str) -> dict[int, Entry]:
        """Return the passages DOCUMENT#1, DOCUMENT#2, … of a document."""
        pieces: dict[int, Entry] = {}
        start = 1
        while more := self._ledger.look_up([key_of(f"{document}#{n}") for n in range(start, start + _AT_ONCE)]):
            pieces |= more
            start += _AT_ONCE
        return pieces

    def _remove_file(self, name: str) -> None:
        """Remove a file's passages, such as those of pages that are documents."""
        files = self._ledger.files_named(name) or self._files_at(name)
        if not files:
            cause = f"Neither a passage nor a document, file or source of the index is called '{name}'."
            raise CorpusError(cause, "hoptree search --json shows ids, hoptree index info sources.")
        for file in files:
            self._ledger.forget_also(file)
            self._empty(file)

    def _check_clear(self, name: str, named: Collection[int]) -> None:
        """Raise an error if a name and the same path from here mean different files."""
        at_path = set(self._files_at(name))
        if other := at_path and set(named) - at_path:
            raise ambiguous_name(name, self._ledger.place_of(min(at_path)), self._ledger.place_of(min(other)))

    def _files_at(self, path: str) -> list[int]:
        """Return the files at a path, relative to the current folder."""
        try:
            real = Path(os.path.realpath(path))
        except (OSError, ValueError):
            return []
        below = [source for source in self._ledger.sources() if real.is_relative_to(source)]
        return [file for source in below for file in self._ledger.ids_of(source, real.relative_to(source).as_posix())]

    def drop_sources(self, names: Sequence[str]) -> None:
        """Remove whole sources; passages that other sources hold stay."""
        self._drop_files([file for name in names for file, _, _ in self._ledger.files(name)])
        for name in names:
            self._ledger.forget_source(name)

    def _drop_files(self, files: Collection[int]) -> None:
        """Remove files with the passages that no other file holds."""
        self._ledger.leave(files)
        for file in files:
            self._empty(file)
            self._ledger.drop_file(file)

    def _empty(self, file: int) -> None:
        for entries in batched(self._ledger.of_file(file), _AT_ONCE):
            others = self._ledger.also_in([entry.key for entry in entries])
            for key, (other, *_) in others.items():
                self._ledger.move([key], other)
            self._unchanged += len(others)
            self._remove([entry for entry in entries if entry.key not in others])

    def _remove(self, entries: Sequence[Entry]) -> None:
        self._change.remove(entries)
        self._removed += len(entries)
        self._save_if_due(len(entries))

    # Compaction

    def copy(self, index: Index) -> None:
        """Copy all passages of another index, with their files and vectors."""
        ledger = index.ledger()
        self._ledger.copy_files(ledger)
        carry_vectors(index.vectors, self._change.part / index.vectors.name)
        self._total = len(index.texts)
        self._unchanged = 0  # all are counted again, also those copied by an interrupted run
        for rows in batched(index.texts.scan(), _AT_ONCE):
            entries = ledger.look_up([key for _, key, _ in rows])
            copied = self._ledger.look_up(list(entries))
            for file in dict.fromkeys(entry.file for entry in entries.values()):
                keys = {key for key, entry in entries.items() if entry.file == file and key not in copied}
                new = [(passage, key, entries[key].content) for _, key, passage in rows if key in keys]
                self._change.add(new, file)
            self._unchanged += len(rows)
            self._done += len(rows)
            self._save_if_due(len(rows))
            self._progress("copying", self._done)
        ledger.close()

    # Finishing

    def _save_if_due(self, count: int) -> None:
        self._unsaved += count
        if self._unsaved >= _SAVE_EVERY or monotonic() - self._saved_at > _SAVE_INTERVAL_S:
            self._store_counts()
            self._change.save()
            self._unsaved, self._saved_at = 0, monotonic()

    def _progress(self, stage: str, done: int) -> None:
        self._on_progress(Progress(stage, done, self._total, self._added + self._unchanged + self._replaced))

    def finish(self, *, any_encoder: bool = False) -> Outcome:
        """Link and encode new passages, and commit; `any_encoder` allows another encoder."""
        change = self._change
        if not self._ledger.passages:
            why = f" ({self.refused})" if self.refused else ""
            remedy = "Give a folder or file with text in it."
            raise CorpusError(f"The corpus is empty: no passage was found{why}.", remedy)
        self._store_counts()
        change.close_texts()
        fresh = self._added + self._replaced
        self._total = max(self._ledger.next_number - change.first_new, 1)
        if change.settings.links:
            link_passages(change, on_passage=partial(self._progress, "linking"))
        if change.settings.encoder:
            run_coroutine(encode_passages(change, partial(self._progress, "encoding"), any_encoder=any_encoder))
        self._total = fresh
        self._ledger.set_fact(_COUNTS_FACT, "")
        passed = dict.fromkeys((*self._problems.passed, *self._passed))
        self._ledger.set_fact(PASSED_FACT, "\n".join(list(passed)[:_MAX_PASSED]))
        manifest = change.finish(reading=self._reading.stored())
        counts = (self._added, self._unchanged, self._replaced, self._removed, self._repeated, self._held_questions)
        examples = (*self._warnings, *self._problems.sentences, *self._problems.notes)
        problems = (line for line in self._problems.report() if line not in self._repeated_sentences)
        report = (*self._warnings, *problems)
        return Outcome(manifest, *counts, change.resumed, self._problems.summary(), examples, report)

    @property
    def refused(self) -> str:
        """A summary of what was left out: counts and the first place; "" for nothing."""
        count = self._held_questions
        held = f"{count:,} passage{'s' * (count != 1)} left out because of an evaluation question"
        first = next(iter((*self._problems.sentences, *self._problems.notes)), "").rstrip(".")
        return "; ".join(filter(None, (held if count else "", self._problems.summary(), first)))
