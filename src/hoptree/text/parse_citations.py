"""Read an answer with the sentence it cites, and find the passage that this sentence is from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from hoptree.core.values import Passage
from hoptree.text.loose_json import MAX_REPLY_CHARS, read_json
from hoptree.text.parse import MAX_ANSWER_CHARS, clean_answer, looks_unanswered, question_key
from hoptree.text.parse_dialogue import first_line
from hoptree.text.sentences import sentence_spans
from hoptree.text.uncertainty import agreement

_MAX_ANSWER_WORDS = 20  # a longer text is no bare answer
_LABEL = re.compile(r"\b(?P<name>answer|citation)(?:(?P<quoted>\"\s{0,3})|[\s*]{0,4}):", re.IGNORECASE)
_OBJECT_MARKS = '",}]` '  # between the text of one name and the next one, or at the object's end
PROSE = ("prose",)
_NO_ANSWER = frozenset(("", "none", "null", "nothing"))  # unless a citation supports the word
_INSUFFICIENT = re.compile(
    r"\b(?:insufficient|(?:no|not)\s+(?:enough|sufficient))\s+(?:information|evidence)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class CitedAnswer:
    """An answer and the sentence it is said to stand in; `insufficient` says that documents hold none.

    `error` says why a reply is neither, `repairs` what it took to read it.
    """

    answer: str = ""
    citation: str = ""
    insufficient: bool = False
    repairs: tuple[str, ...] = ()
    error: str = ""


def read_cited(text: str, *, bare: bool = False) -> CitedAnswer:
    """Read the answer and citation of a reply: JSON, two labelled lines, a bare answer, or prose with both.

    With `bare`, prose and long answers are errors.
    """
    text = text[:MAX_REPLY_CHARS].strip()
    fields, repairs = _fields(text)
    answer, citation = clean_answer(fields.get("answer", "")), fields.get("citation", "")
    if _INSUFFICIENT.search(answer or text) or (text and looks_unanswered(answer or text)):
        return CitedAnswer(insufficient=True)
    if "answer" in fields and "bare" not in repairs and not citation and question_key(answer) in _NO_ANSWER:
        return CitedAnswer(insufficient=True)
    if bare and repairs == PROSE:
        return CitedAnswer(error="there is no object in it", repairs=PROSE)
    if not any(char.isalnum() for char in answer):
        return CitedAnswer(error="there is no answer in it", repairs=repairs)
    if bare and (count := len(answer.split())) > _MAX_ANSWER_WORDS:
        return CitedAnswer("", citation, repairs=repairs, error=f"the answer has {count} words")
    return CitedAnswer(answer, citation, repairs=repairs)


def _fields(text: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return what a reply has under each name, and what it took to read it."""
    reading = read_json(text)
    value = reading.value[0] if isinstance(reading.value, list) and len(reading.value) == 1 else reading.value
    if isinstance(value, dict):
        return {str(name).casefold(): _as_text(part) for name, part in value.items()}, reading.repairs
    if fields := _labelled(text):
        return fields, ()
    if "{" in text:
        return {}, ()
    if len(text.split()) <= _MAX_ANSWER_WORDS:
        return {"answer": first_line(text)}, ("bare",)
    first = next((text[start:end] for start, end in sentence_spans(text)), "")
    return {"answer": first, "citation": " ".join(text.split())[:MAX_ANSWER_CHARS]}, PROSE


def _labelled(text: str) -> dict[str, str]:
    """Return what stands behind the first of each label, also in an object with broken quotation marks."""
    marks = list(_LABEL.finditer(text))
    fields: dict[str, str] = {}
    for mark, following in zip_longest(marks, marks[1:]):
        content = text[mark.end() : following.start() if following else len(text)]
        if mark["quoted"]:
            content = " ".join(content.split()).rstrip(_OBJECT_MARKS)
        fields.setdefault(mark["name"].casefold(), first_line(content))
    return fields


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(filter(None, map(_as_text, value)))
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def cited_passage(cited: CitedAnswer, passages: Sequence[Passage]) -> Passage | None:
    """Return the passage that shares most words with a citation (by F1), else with the answer.

    Words of which not even half stand in the passage were made up, or copied from elsewhere.
    """
    return _sharing(cited.citation, passages) or _sharing(cited.answer, passages)


def _sharing(words: str, passages: Sequence[Passage]) -> Passage | None:
    texts = [f"{passage.title} {passage.text}" for passage in passages]
    place = max(range(len(texts)), key=lambda place: agreement(words, texts[place]), default=None)
    wanted = set(question_key(words).split())
    if place is None or not wanted:
        return None
    shared = wanted & set(question_key(texts[place]).split())
    return passages[place] if 2 * len(shared) >= len(wanted) else None
