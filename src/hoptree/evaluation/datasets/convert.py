"""Convert a public release into our layout of questions and passages.

Passages keep the release's ids, or else get those of an index of the release's own file.
"""

from __future__ import annotations

import gzip
import html
import io
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TextIO, TypeVar

from hoptree.core.errors import InputError
from hoptree.corpus.document import Problems
from hoptree.corpus.files import open_bytes
from hoptree.corpus.json_rows import read_json_pairs
from hoptree.corpus.records import context_passages
from hoptree.evaluation.datasets.examples import Example, page_title, page_words, passage_name, span_text
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.releases import Release, public_sets
from hoptree.evaluation.datasets.rows import Fields, distinct, read_aliases, read_sound_rows, spaced

RETRIEVED = "retrieved"  # the form of questions with retrieved passages: DPR's files, and others with `ctxs`
_ALSO_READ = ("own", "flashrag")
_MIN_PARAGRAPH_WORDS = 10
_MAX_REASONS = 5
_TAG = re.compile(r"<[^<>]*>")
T = TypeVar("T")
_KEPT = {
    "hotpotqa": {"level": "level"},
    "2wikimultihopqa": {"evidences": "evidence_triples"},
    "strategyqa": {"term": "term", "facts": "facts"},
    "popqa": {"s_pop": "popularity"},
    "simplequestions": {"subject": "subject", "relation": "relation", "object": "object"},
}
"""Fields of a release's rows that are kept, with our names for them."""


@dataclass(frozen=True, slots=True)
class GivenPassage:
    """A passage of a release."""

    id: str
    title: str
    text: str
    is_gold: bool = False


@dataclass(frozen=True, slots=True)
class Item:
    """A question in our form with the passages that came with it."""

    example: Example
    passages: Sequence[GivenPassage] = ()
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Converted:
    """The result of a conversion, with counts of rows left out."""

    files: list[str] = field(default_factory=list)
    sha256: dict[str, str] = field(default_factory=dict)
    questions: int = 0
    passages: int = 0
    unanswered: int = 0
    skipped: int = 0
    reasons: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def convert(
    name: str,
    release: Release,
    paths: Mapping[str, Path],
    folder: Path,
    *,
    skip_bad: bool = False,
    on_bytes: Callable[[int], None] | None = None,
) -> Converted:
    """Write the questions and passages of a release; `skip_bad` counts bad rows."""
    reader = _Reader(name, release, paths, skip_bad, on_bytes)
    with ExitStack() as files:
        questions = files.enter_context(replaced(folder / f"{release.split}.jsonl"))
        passages = files.enter_context(replaced(folder / release.corpus)) if reader.has_passages else None
        seen: set[str] = set()
        for item in reader.items():
            for passage in item.passages:
                if passages is not None and passage.text and passage.id not in seen:
                    seen.add(passage.id)
                    row = {"id": passage.id, "title": passage.title, "text": passage.text}
                    passages.write(json.dumps(row, ensure_ascii=False) + "\n")
            if item.example.question:
                questions.write(json.dumps(_ours(item, name, release), ensure_ascii=False) + "\n")
        reader.result.passages = len(seen)
        read = reader.result.questions + reader.result.unanswered + reader.result.skipped
        if release.questions and read != release.questions:
            reader.result.notes.append(f"The release has {release.questions:,} questions, this file {read:,}.")
        if not reader.result.questions:
            cause = f"{paths['rows'].name} holds no question that can be scored."
            raise InputError(cause, f"Give the file {' or '.join(release.rows)} of the release.")
    return reader.result


@contextmanager
def replaced(path: Path) -> Iterator[TextIO]:
    """Yield a text file that replaces `path` at the end; .gz is compressed."""
    fresh = path.with_name(f"{path.name}.new")
    try:
        with fresh.open("wb") as raw:
            packed = gzip.GzipFile("", "wb", 6, raw, mtime=0) if path.suffix == ".gz" else None
            text = io.TextIOWrapper(packed or raw, "utf-8", "replace", newline="\n")
            yield text
            text.detach()
            if packed is not None:
                packed.close()
            raw.flush()
            os.fsync(raw.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


class _Reader:
    """Reads a release row by row, and counts rows in `result`."""

    def __init__(
        self,
        name: str,
        release: Release,
        paths: Mapping[str, Path],
        skip_bad: bool,
        on_bytes: Callable[[int], None] | None,
    ) -> None:
        self.result = Converted()
        self._name, self._release, self._skip_bad, self._on_bytes = name, release, skip_bad, on_bytes
        self._rows = paths["rows"]
        self._form = ""
        aliases = paths.get("aliases")
        if release.aliases and aliases is None:
            self.result.notes.append(f"{release.aliases} was not there: answers have no other names.")
        self._aliases = read_aliases(aliases) if aliases else None
        self._file = paths.get("passages")
        if release.passages and self._file is None:
            self.result.notes.append(f"{release.passages} was not there: no passages were written.")
        self.has_passages = bool(release.corpus) and not (release.passages and self._file is None)

    def items(self) -> Iterator[Item]:
        """Yield the questions that can be scored, and other passages."""
        if self._release.form == "iirc":
            yield from self._checked(self._with_articles())
            return
        if self._file is not None:  # StrategyQA: passages by id
            for key, value in self._pairs(self._file):
                row = Fields(value, f"'{key}' of {self._file.name}", self._release.form)
                if text := row.text("content", "text"):
                    yield Item(Example("", ""), (GivenPassage(key, spaced(row.text("title")), text),))
        parsed = self._parsed(self._items)
        yield from self._checked((where, item) for where, items in parsed for item in items)

    def _checked(self, items: Iterable[tuple[str, Item]]) -> Iterator[Item]:
        """Yield the items that have an answer and a unique id."""
        seen: set[str] = set()
        declared = FORMS.get(self._release.form)
        may_lack_answers = declared is not None and declared.may_lack_answers
        for where, item in items:
            example = item.example
            if not example.question:
                yield item
            elif example.id in seen:
                self._refuse(InputError(f"{where} has the id '{example.id}' of an earlier question."))
            elif not example.answers and not may_lack_answers:
                self._refuse(InputError(f"{where} has no answer."))
            else:
                seen.add(example.id)
                self.result.unanswered += not example.answers
                if example.answers:
                    self.result.questions += 1
                    yield item

    def _refuse(self, error: InputError) -> None:
        """Count a bad row, or raise its error."""
        if not self._skip_bad:
            raise InputError(error.cause, "Fix the row, or pass over such rows with --skip-bad.") from error
        self.result.skipped += 1
        if len(self.result.reasons) < _MAX_REASONS:
            self.result.reasons.append(error.cause)

    def _items(self, row: Fields, examples: Sequence[Example]) -> list[Item]:
        passages = _passages(row, self._form)
        if self._release.form == RETRIEVED and (gold := [passage for passage in passages if passage.is_gold]):
            ids, titles = distinct(passage.id for passage in gold), distinct(passage.title for passage in gold)
            examples = [replace(example, supporting_ids=ids, supporting_titles=titles) for example in examples]
        return [Item(example, passages, _kept(row, self._form, example)) for example in examples]

    def _parsed(self, use: Callable[[Fields, Sequence[Example]], T]) -> Iterator[tuple[str, T]]:
        """Yield the place of each valid row, and the result of `use` for its questions."""
        problems = Problems(limit=sys.maxsize)
        noticed = position = 0
        rows = read_sound_rows(self._rows, problems, self._on_bytes)
        while True:
            row = next(rows, None)
            if problems.cut_short:
                raise InputError(problems.sentences[-1], "The rest of it cannot be read: download or unpack it again.")
            for _ in range(noticed, problems.broken):
                self._refuse(InputError(problems.sentences[-1]))
            noticed = problems.broken
            if row is None:
                return
            position += 1
            where = f"Row {position:,} (line {row[0]:,}) of {self._rows.name}"
            self._form = self._form or self._form_of(row[1], where)
            of_set = str(row[1].get("dataset") or "") if self._form == "own" and isinstance(row[1], dict) else ""
            if of_set != self._name and of_set in public_sets():
                cause = f"{where} is of the data set {of_set}, not of {self._name}."
                remedy = f"Give the file {' or '.join(self._release.rows)}, or get {of_set} by its own name."
                raise InputError(cause, remedy)
            try:
                parts = Fields(row[1], where, self._form, self._aliases)
                examples = list(FORMS[self._form].read(parts, position - 1))
                if self._form == "own" and not parts.get("id", "_id", "ID", "qid"):
                    examples = [replace(example, id=f"{self._name}-{position - 1}") for example in examples]
                used = use(parts, examples)
            except InputError as error:
                self._refuse(error)
            else:
                yield where, used

    def _form_of(self, row: object, where: str) -> str:
        """Return the form of the file, by its first row."""
        expected = "own" if self._release.form == RETRIEVED else self._release.form
        if not isinstance(row, dict):
            raise InputError(f"{where} is not a JSON object.", f"Give the file {' or '.join(self._release.rows)}.")
        fitting = [name for name, form in FORMS.items() if form.fits(row)]
        if not fitting and not self._release.corpus and "question" in row:
            return "own"
        if expected in fitting or not fitting:
            return expected
        if fitting[0] in _ALSO_READ and expected != "iirc":
            return fitting[0]
        cause = f"{self._rows.name} is in the form of {fitting[0]}, not of {self._release.form}."
        raise InputError(cause, f"Give the file {' or '.join(self._release.rows)} of the release.")

    def _pairs(self, path: Path) -> Iterator[tuple[str, Any]]:
        try:
            with open_bytes(path) as stream:
                yield from read_json_pairs(stream, path.name)
        except (ValueError, OSError) as error:
            raise InputError(f"{error}.", "Download or unpack it again.") from error

    def _with_articles(self) -> Iterator[tuple[str, Item]]:
        """Yield IIRC's questions with the paragraphs of the pages they link to."""
        titles: dict[str, str] = {}
        marked: dict[str, list[tuple[int, str]]] = {}
        kept: list[tuple[str, Example, GivenPassage]] = []
        for where, (main, links, questions) in self._parsed(_iirc_page):
            titles |= {target.casefold(): target for target in links}
            for example, marks in questions:
                for page, sentence in marks:
                    titles.setdefault(page.casefold(), page)
                    marked.setdefault(page.casefold(), []).append((len(kept), sentence))
                kept.append((where, example, main))
        gold: dict[int, list[str]] = {number: [main.id] for number, (_, _, main) in enumerate(kept)}
        for name, page_text in self._pairs(self._file) if self._file else ():
            if (title := titles.get(name.casefold())) and isinstance(page_text, str):
                lines = (spaced(html.unescape(_TAG.sub("", line))) for line in page_text.split("\n"))
                # Headings are shorter than paragraphs.
                passages = [_passage(title, line) for line in lines if len(line.split()) > _MIN_PARAGRAPH_WORDS]
                for number, sentence in marked.get(name.casefold(), ()):
                    gold[number] += [passage.id for passage in passages if sentence and sentence in passage.text][:1]
                yield "", Item(Example("", ""), passages)
        for number, (where, example, main) in enumerate(kept):
            pages = distinct(titles.get(title.casefold(), title) for title in example.supporting_titles)
            ids = distinct(gold[number]) if self._file else ()
            yield where, Item(replace(example, supporting_ids=ids, supporting_titles=pages), (main,))


def _iirc_page(
    row: Fields, examples: Sequence[Example]
) -> tuple[GivenPassage, list[str], list[tuple[Example, list[tuple[str, str]]]]]:
    """Return the page of IIRC's questions, its links and marks."""
    main = _passage(spaced(row.text("title")), row.text("text"), is_gold=True)
    marks = [
        [(part.text("passage"), spaced(part.text("text"))) for part in question.parts("context")]
        for question in row.parts("questions")
    ]
    elsewhere = [[(page, sentence) for page, sentence in marked if page != "main"] for marked in marks]
    return main, [part.text("target") for part in row.parts("links")], list(zip(examples, elsewhere, strict=True))


def _passages(row: Fields, form: str) -> tuple[GivenPassage, ...]:
    """Return the passages in a row."""
    if form == "advhotpotqa":
        parts = row.parts("paragraphs")
        return tuple(_passage(spaced(part.text("title")), part.text("context", "text")) for part in parts)
    if form == "nq_annotated":
        words, title = page_words(row), page_title(row)
        spans = [part for part in row.parts("long_answer_candidates") if part.row.get("top_level") is True]
        spans += [part.part("long_answer") for part in row.parts("annotations")]
        return tuple(_passage(title, text) for text in dict.fromkeys(span_text(words, span) for span in spans) if text)
    contexts = [(part, part.get("isgold") is True) for part in row.parts("ctxs")]
    contexts += [(part, not number) for number, part in enumerate(row.parts("positive_ctxs"))]
    contexts += [(part, False) for part in row.parts("hard_negative_ctxs")]
    if contexts:
        return tuple(
            _passage(spaced(part.text("title")), text, part.text("passage_id", "id"), is_gold=gold)
            for part, gold in contexts
            if (text := part.text("text"))
        )
    return tuple(_passage(title, text) for title, text in context_passages(row.row))


def _passage(title: str, text: str, key: str = "", *, is_gold: bool = False) -> GivenPassage:
    return GivenPassage(key or passage_name(title, text), title, text, is_gold)


def _kept(row: Fields, form: str, example: Example) -> dict[str, Any]:
    """Return the further fields of a row that are kept, and its gold sentences."""
    kept = {ours: row.row[name] for name, ours in _KEPT.get(form, {}).items() if row.row.get(name) not in (None, "")}
    if str(kept.get("popularity")).isdecimal():  # tables hold only texts
        kept["popularity"] = int(kept["popularity"])
    pairs = row.row.get("context")
    pairs = [pair for pair in pairs if isinstance(pair, list) and len(pair) == 2] if isinstance(pairs, list) else []
    sentences = {spaced(str(title)): lines for title, lines in pairs}
    named = [(sentences.get(title), number) for title, number in example.supporting_facts or ()]
    gold = [lines[number] for lines, number in named if isinstance(lines, list) and 0 <= number < len(lines)]
    if form == "advhotpotqa":
        gold = [part.text("sentence") for part in row.parts("rationale")]
    return kept | ({"supporting_sentences": [spaced(text) for text in gold]} if gold else {})


_FIELDS = tuple(part.name for part in fields(Example) if part.name not in ("dataset", "wanted", "answerable"))


def _ours(item: Item, name: str, release: Release) -> dict[str, Any]:
    """Return a question as a row in our form; fields without a value are left out."""
    known = {part: value for part in _FIELDS if (value := getattr(item.example, part))}
    row = {"id": known.pop("id"), "dataset": name, **known, "source_split": release.source_split, **item.more}
    if item.passages and release.corpus and release.form != "iirc":
        row["context_ids"] = list(dict.fromkeys(passage.id for passage in item.passages))
    return row
