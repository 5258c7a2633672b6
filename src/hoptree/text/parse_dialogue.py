"""Read a reply in which a model asks itself one question after another, and answers them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import zip_longest

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import MAX_ANSWER_CHARS, clean_answer, looks_unanswered, question_key

_QUOTES = "\"'“”‘’`*_ \t"
_ITEM_NUMBER = lazy_re(r"\A\d{1,2}[.)]\s+(?=\D)")
_QUESTION_LABEL = lazy_re(r"\W*question\b[^:]{0,9}:", re.IGNORECASE)
_NO_QUESTION = frozenset(("", "no", "none", "n a", "not needed", "nothing", "unknown"))


@dataclass(frozen=True, slots=True)
class DialogueTurn:
    """What a reply adds to a dialogue: questions that it answers itself, one that it leaves open, the final answer.

    `idle` is what it has in place of a new question: one that was asked before, or the word that there is none.
    """

    pairs: tuple[tuple[str, str], ...] = ()
    open: str = ""
    final: str = ""
    idle: str = ""

    @property
    def error(self) -> str:
        """Why the reply could not be read; a question that comes again could."""
        return "" if self.first or self.final or self.idle else "neither a question nor a final answer"

    @property
    def first(self) -> str:
        """The first question; what a model writes behind it, unasked, rests on its own answer."""
        return self.pairs[0][0] if self.pairs else self.open

    @property
    def guess(self) -> str:
        """The model's own answer to the first question."""
        return self.pairs[0][1] if self.pairs else ""


def read_dialogue(text: str, labels: re.Pattern[str], asked: Collection[str] = ()) -> DialogueTurn:
    """Read a reply up to its final answer; questions that were `asked` before (as keys) are passed over.

    `labels` finds what stands before a question (its group `ask`), an answer (`reply`) and the final one (`final`),
    anywhere in a line: some models write all on one. Of several questions without an answer between them the last
    counts. A line that is a question counts where nothing but answers has a label.
    """
    text = text[:MAX_REPLY_CHARS]
    marks = list(labels.finditer(text))
    known = set(asked) | _NO_QUESTION
    pairs: list[tuple[str, str]] = []
    pending = idle = ""
    if all(mark.lastgroup == "reply" for mark in marks):
        question = _bare_question(text[: marks[0].start() if marks else len(text)])
        pending, idle = ("", question) if question_key(question) in known else (question, "")
    for mark, following in zip_longest(marks, marks[1:]):
        content = first_line(text[mark.end() : following.start() if following else len(text)])
        if mark.lastgroup == "ask":
            question = _ITEM_NUMBER.sub("", content)
            if question_key(question) in known:
                idle = question or idle
            else:
                pending = question
        elif mark.lastgroup == "reply" and pending and content:
            pairs.append((pending, content))
            known.add(question_key(pending))
            pending = ""
        elif mark.lastgroup == "final" and (answer := clean_answer(content)):
            return DialogueTurn(tuple(pairs), pending, answer, idle)
    return DialogueTurn(tuple(pairs), pending, "", idle)


def _bare_question(text: str) -> str:
    """Return the first line that is a question, without those the model labels as a new "Question:"."""
    lines = (first_line(line) for line in text.splitlines())
    questions = (line for line in lines if line.endswith("?") and not _QUESTION_LABEL.match(line))
    return next((_ITEM_NUMBER.sub("", line) for line in questions), "")


def read_answer(text: str) -> Answer:
    """Read a text as an answer from memory; unknown where it says that there is none."""
    answer = clean_answer(text)
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "internal")


def first_line(text: str) -> str:
    """Return the first line that says something, without quotes and list marks."""
    lines = (line.strip(_QUOTES) for line in text.splitlines())
    return next((" ".join(line.split())[:MAX_ANSWER_CHARS] for line in lines if line), "")
