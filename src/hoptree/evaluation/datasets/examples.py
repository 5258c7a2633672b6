"""A question with its gold answers and passages, and a data set of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import unquote_plus

from hoptree.core.errors import InputError
from hoptree.core.values import Question
from hoptree.corpus.document import Document
from hoptree.corpus.records import digest_of as document_digest
from hoptree.corpus.records import name_for
from hoptree.evaluation.datasets.rows import Fields, spaced

_PAGE_ADDRESS = re.compile(r"(?:[?&]title=|/wiki/)([^&?#]+)")
_TAG = re.compile(r"</?[A-Za-z][^>]*>")
TAKEN_APART = "with accepted answers that are a printed list split into characters, and so no answers"


@dataclass(frozen=True, slots=True)
class Example:
    """A question with accepted answers (main first) and gold passages."""

    id: str
    question: str
    answers: tuple[str, ...] = ()
    type: str = ""
    hops: int = 0
    dataset: str = ""
    supporting_ids: tuple[str, ...] = ()  # from the file, or as an index of the same file names the passages
    supporting_titles: tuple[str, ...] = ()
    supporting_facts: tuple[tuple[str, int], ...] | None = None  # gold sentences: title, and number from 0
    decomposition: tuple[str, ...] = ()
    decomposition_answers: tuple[str, ...] = ()
    hop_ids: tuple[tuple[str, ...], ...] = ()  # the gold passages of each step; empty if unknown
    hop_titles: tuple[tuple[str, ...], ...] = ()
    wanted: tuple[tuple[str, ...], ...] = ()  # of a list answer: its names, each with aliases
    answerable: bool = True  # if False, abstaining is correct

    def as_question(self) -> Question:
        """Return the question for a method, without gold answers and passages."""
        return Question(self.question, id=self.id, type=self.type, hops=self.hops)


_FIELDS = tuple(field.name for field in fields(Example) if field.name not in ("wanted", "answerable"))


def digest_of(examples: Iterable[Example]) -> str:
    """Return the SHA-256 of the examples; newer fields count only if they are set."""
    digest = hashlib.sha256()
    for example in examples:
        known = [getattr(example, name) for name in _FIELDS] + [example.wanted] * bool(example.wanted)
        known += ["unanswerable"] * (not example.answerable)
        row = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
        digest.update(row.encode("utf-8", "surrogatepass") + b"\n")
    return digest.hexdigest()


@dataclass(frozen=True, slots=True)
class DataSet:
    """The chosen examples of a file."""

    examples: tuple[Example, ...]
    digest: str  # of the whole file
    form: str
    name: str
    left_out: tuple[str, ...] = ()  # ids of questions that cannot be scored
    taken_apart: tuple[str, ...] = ()  # those of them whose answers are a printed list split into characters

    @property
    def reasons(self) -> dict[str, tuple[str, ...]]:
        """The ids of the questions that were left out, by reason."""
        broken = set(self.taken_apart)
        unanswered = tuple(key for key in self.left_out if key not in broken)
        reasons = {"without an accepted answer": unanswered, TAKEN_APART: self.taken_apart}
        return {why: keys for why, keys in reasons.items() if keys}

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about questions that were left out."""
        return tuple(
            f"{len(keys):,} {'question' if len(keys) == 1 else 'questions'} of {self.name} "
            f"{'was' if len(keys) == 1 else 'were'} left out: {why} (the first: {keys[0]})."
            for why, keys in self.reasons.items()
        )

    def select(self, ids: Iterable[str]) -> DataSet:
        """Return the set with these examples in this order; unknown ids are errors."""
        by_id = {example.id: example for example in self.examples}
        chosen: dict[str, Example] = {}
        for key in ids:
            if key not in by_id:
                if key in self.taken_apart:
                    cause = f"The question '{key}' of {self.name} is left out: {TAKEN_APART}."
                    raise InputError(cause, "Take it out of the ids.")
                why = "has no answer in" if key in self.left_out else "is not in"
                raise InputError(f"The question '{key}' {why} {self.name}.", "Give ids of the same data set.")
            if key in chosen:
                raise InputError(f"The question '{key}' is asked for twice.", "Name each id once.")
            chosen[key] = by_id[key]
        return replace(self, examples=tuple(chosen.values()))


def gold_facts(row: Fields) -> tuple[tuple[str, int], ...] | None:
    """Return title and sentence number of supporting facts, or None."""
    value = row.get("supporting_facts")
    pairs: list[tuple[Any, ...]]
    if isinstance(value, dict):
        inside = row.part("supporting_facts")
        titles, numbers = inside.items("title"), inside.items("sent_id")
        if len(titles) != len(numbers):
            raise row.wrong(': "supporting_facts" has different numbers of titles and sentences')
        pairs = list(zip(titles, numbers, strict=True))
    else:
        pairs = row.rows("supporting_facts", 2)
    if not all(isinstance(pair[0], str) and type(pair[1]) is int for pair in pairs):
        raise row.wrong(': "supporting_facts" is not a list of titles with the numbers of sentences')
    return tuple(dict.fromkeys((spaced(pair[0]), pair[1]) for pair in pairs)) or None


def passage_name(title: str, text: str) -> str:
    """Return the id that a passage has in an index of the same file."""
    return name_for(title, document_digest(Document("", title, text, is_passage=True)))


def hops_by_subject(triples: Iterable[tuple[str, ...]], titles: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the gold title of each fact's subject, by step; () if it is ambiguous."""
    by_name: dict[str, list[str]] = {}
    for title in titles:
        for name in {_folded(title), _folded(title.partition(" (")[0])}:
            by_name.setdefault(name, []).append(title)
    hops = tuple(tuple(by_name.get(_folded(triple[0]), ())) for triple in triples)
    clear = all(len(hop) == 1 for hop in hops) and {hop[0] for hop in hops} == set(titles)
    return tuple(dict.fromkeys(hops)) if clear else ()


def _folded(name: str) -> str:
    return spaced(name).casefold()


def page_title(row: Fields) -> str:
    """Return the title of a question's page, or else the title in its address."""
    address = unquote_plus(row.text("document_url"))
    match = _PAGE_ADDRESS.search(address)
    return spaced(row.text("document_title") or (match[1].replace("_", " ") if match else ""))


def page_words(row: Fields) -> list[str]:
    """Return the tokens of a question's page, including tags."""
    text = row.row.get("document_text")
    return text.split(" ") if isinstance(text, str) else [part.text("token") for part in row.parts("document_tokens")]


def span_text(words: Sequence[str], span: Fields) -> str:
    """Return the text of a token span without tags, or ""."""
    start, end = span.row.get("start_token"), span.row.get("end_token")
    if type(start) is not int or type(end) is not int or not 0 <= start < end <= len(words):
        return ""
    return spaced(" ".join(word for word in words[start:end] if not _TAG.fullmatch(word)))
