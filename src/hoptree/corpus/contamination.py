"""Leaving out passages that hold an evaluation question word for word, as its answer may stand beside it."""

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
_FEWEST_WORDS = 5
_KEPT = 20
_KINDS = (".jsonl", ".ndjson", ".json", ".tsv")
_ANOTHER = "build the index with another one"
_FORM = 'Each row has a field "question".'


def read_questions(path: Path, *, problems: Problems | None = None) -> Iterator[str]:
    """The questions of a file of rows with a field `question`, or of all such files in a folder."""
    check_questions(path)
    problems = Problems(limit=0) if problems is None else problems
    found = False
    try:
        for file in find_files(path, problems=problems):
            for _, row in read_rows(file, problems=problems):
                question = row.get("question") if isinstance(row, dict) else None
                if isinstance(question, str):
                    found = True
                    yield question
    except CorpusError as error:
        raise CorpusError(error.cause, f"Mend the questions in {path}, or {_ANOTHER}. {_FORM}") from error
    if not found:
        raise CorpusError(f"{path} holds no questions.", _FORM)


def check_questions(path: Path) -> None:
    """An error if there is no file by which questions could be left out."""
    wanted = "the questions that are to stand in no passage of the index (--without-questions)"
    if not path.exists():
        raise CorpusError(f"There is no {path}, which holds {wanted}.", f"Put it there, or {_ANOTHER}. {_FORM}")
    if path.is_file() and suffix_of(path.name) not in _KINDS:
        raise CorpusError(f"{path} is no file of questions: that is {', '.join(_KINDS)}.", _FORM)


class QuestionFilter:
    """Drops passages in whose title or text a question stands, whatever its capitals and punctuation.

    Questions of fewer than five words are not looked for (`short` counts them): they occur by chance. `dropped`
    counts the passages left out, and `ids` names the first of them.
    """

    def __init__(self, questions: Iterable[str]) -> None:
        self.short = 0
        self.dropped = 0
        self.ids: list[str] = []
        self._questions: dict[tuple[str, ...], set[tuple[str, ...]]] = {}
        for question in questions:
            words = tuple(_words(question))
            if len(words) < _FEWEST_WORDS:
                self.short += 1
            else:
                self._questions.setdefault(words[:_FEWEST_WORDS], set()).add(words)
        self._starts = {words[:2] for words in self._questions}

    def __call__(self, passages: Iterable[Passage]) -> Iterator[Passage]:
        """The passages that hold no question."""
        for passage in passages:
            if self.holds(passage):
                self.dropped += 1
                if len(self.ids) < _KEPT:
                    self.ids.append(passage.id)
            else:
                yield passage

    def holds(self, passage: Passage) -> bool:
        """Whether a question stands in the passage; nearly always the pairs of words in it rule that out at once."""
        return self._in(_words(passage.text)) or self._in(_words(passage.title))

    def _in(self, words: list[str]) -> bool:
        if self._starts.isdisjoint(pairwise(words)):
            return False
        return any(
            tuple(words[at : at + len(question)]) == question
            for at, pair in enumerate(pairwise(words))
            if pair in self._starts
            for question in self._questions.get(tuple(words[at : at + _FEWEST_WORDS]), ())
        )


def _words(text: str) -> list[str]:
    plain = text if text.isascii() else unicodedata.normalize("NFKC", text)
    return _WORD.findall(plain.casefold())
