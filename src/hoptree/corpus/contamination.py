"""Leaves out passages that hold an evaluation question word for word, as its answer may be beside it."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from itertools import pairwise
from pathlib import Path

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.document import Problems
from hoptree.corpus.files import find_files, suffix_of
from hoptree.corpus.read import read_rows

_WORD = re.compile(r"\w+")
_MIN_WORDS = 5
_MAX_IDS = 20
_KINDS = (".jsonl", ".ndjson", ".json", ".tsv")
_REBUILD = "build the index with another one"
_FORMAT = 'Each row has a field "question".'


def read_questions(path: Path) -> Iterator[str]:
    """Yield the questions of a file of rows with a field `question`, or of all such files in a folder."""
    check_questions(path)
    problems, empty = Problems(limit=0), True
    try:
        for file in find_files(path, problems=problems):
            for _, row in read_rows(file, problems=problems):
                question = row.get("question") if isinstance(row, dict) else None
                if isinstance(question, str):
                    empty = False
                    yield question
    except CorpusError as error:
        raise CorpusError(error.cause, f"Mend the questions in {path}, or {_REBUILD}. {_FORMAT}") from error
    if empty:
        raise CorpusError(f"{path} holds no questions.", _FORMAT)


def check_questions(path: Path) -> None:
    """Raise an error if there is no file of questions."""
    wanted = "the questions that are to stand in no passage of the index (--without-questions)"
    if not path.exists():
        raise CorpusError(f"There is no {path}, which holds {wanted}.", f"Put it there, or {_REBUILD}. {_FORMAT}")
    if path.is_file() and suffix_of(path.name) not in _KINDS:
        raise CorpusError(f"{path} is no file of questions: that is {', '.join(_KINDS)}.", _FORMAT)


class QuestionFilter:
    """Drops passages whose title or text holds a question, whatever its capitals and punctuation.

    Questions of fewer than five words are ignored (`short` counts them), as they occur by chance. `dropped` counts
    the passages left out, and `ids` names the first of them.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self.short = 0
        self.dropped = 0
        self.ids: list[str] = []
        self._questions: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for question in questions:
            words = tuple(_words(question))
            if len(words) < _MIN_WORDS:
                self.short += 1
            else:
                self._questions.setdefault(words[:_MIN_WORDS], set()).add(words)
        self._starts = {words[:2] for words in self._questions}

    def __call__(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """Yield the passages that hold no question."""
        for passage in passages:
            if self.holds(passage):
                self.dropped += 1
                if len(self.ids) < _MAX_IDS:
                    self.ids.append(passage.id)
            else:
                yield passage

    def holds(self, passage: Passage) -> bool:
        """Tell whether the passage holds a question; its pairs of words nearly always rule that out at once."""
        return self._in(_words(passage.text)) or self._in(_words(passage.title))

    def _in(self, words: list[str]) -> bool:
        if self._starts.isdisjoint(pairwise(words)):
            return False
        return any(
            tuple(words[at : at + len(question)]) == question
            for at, pair in enumerate(pairwise(words))
            if pair in self._starts
            for question in self._questions.get(tuple(words[at : at + _MIN_WORDS]), ())
        )


def _words(text: str) -> list[str]:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(plain.casefold())
