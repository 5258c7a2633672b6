"""Reading a reply in which a model asks itself one question after another, and answers them."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from itertools import zip_longest

from hoptree.steps.json_reading import MAX_REPLY
from hoptree.steps.parse import MAX_ANSWER, clean_answer, looks_unanswered, question_key
from hoptree.values import Answer

__all__ = ["Said", "first_line", "read_answer", "read_dialogue"]

_MARKS = "\"'“”‘’`*_ \t"
_NO_QUESTION = frozenset(("", "no", "none", "n a", "not needed", "nothing", "unknown"))


@dataclass(frozen=True, slots=True)
class Said:
    """What a reply adds to a dialogue: questions that it answers itself, one that it leaves open, the final answer."""

    pairs: tuple[tuple[str, str], ...] = ()
    open: str = ""
    final: str = ""

    @property
    def first(self) -> str:
        """The question that comes first; what a model writes behind it, unasked, rests on its own answer."""
        return self.pairs[0][0] if self.pairs else self.open

    @property
    def guess(self) -> str:
        """The model's own answer to the first question."""
        return self.pairs[0][1] if self.pairs else ""


def read_dialogue(text: str, labels: re.Pattern[str], asked: Collection[str] = ()) -> Said:
    """What stands in a reply up to its final answer; questions that were `asked` before (as keys) are passed over.

    `labels` finds what stands before a question (its group `ask`), an answer (`reply`) and the final one (`final`),
    anywhere in a line: some models write all on one. Of several questions without an answer between them the last
    counts: the others were thought better of.
    """
    text = text[:MAX_REPLY]
    marks = list(labels.finditer(text))
    known = set(asked) | _NO_QUESTION
    pairs: list[tuple[str, str]] = []
    pending = ""
    for mark, following in zip_longest(marks, marks[1:]):
        content = first_line(text[mark.end() : following.start() if following else len(text)])
        if mark.lastgroup == "ask" and question_key(content) not in known:
            pending = content
        elif mark.lastgroup == "reply" and pending and content:
            pairs.append((pending, content))
            known.add(question_key(pending))
            pending = ""
        elif mark.lastgroup == "final" and (answer := clean_answer(content)):
            return Said(tuple(pairs), pending, answer)
    return Said(tuple(pairs), pending)


def read_answer(text: str) -> Answer:
    """A text as an answer from memory; unknown where it says that there is none."""
    answer = clean_answer(text)
    known = bool(answer) and not looks_unanswered(answer)
    return Answer(answer if known else "", text, "answered" if known else "unknown", "internal")


def first_line(text: str) -> str:
    """The first line that says something."""
    lines = (line.strip(_MARKS) for line in text.splitlines())
    return next((" ".join(line.split())[:MAX_ANSWER] for line in lines if line), "")
