"""Holding an answer against the passages it is said to come from, without asking a model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from hoptree.names import name_spans
from hoptree.values import Answer, Passage

__all__ = ["covers", "grounded"]

_WORD = re.compile(r"[^\W_]+")
# Letters that Unicode does not take apart into a base and an accent.
_LETTERS = str.maketrans({"ł": "l", "ø": "o", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe", "þ": "th", "ð": "d", "ı": "i"})


def grounded(answer: Answer, question: str, passages: Sequence[Passage]) -> Answer:
    """The answer in the spelling of the passages that support it, or unknown where none does.

    A passage supports an answer if it holds the answer's words in a row, and a name from the question: a cemetery
    somebody else is buried in is not evidence. A question without names asks for the words alone; yes and no, which
    passages do not say, ask for the name alone.
    """
    names = _names(question)
    wanted = [_fold(word) for word in _WORD.findall(answer.text)]
    found = ""
    support = []
    for passage in passages:
        text = f"{passage.title}. {passage.text}"
        held = " ".join(_fold(word) for word in _WORD.findall(text))
        if names and not any(f" {name} " in f" {held} " for name in names):
            continue
        if spelled := answer.text if wanted in (["yes"], ["no"]) else _spelled(wanted, text):
            support.append(passage.id)
            found = found or spelled
    if not support:
        return replace(answer, status="unknown", support=())
    return replace(answer, text=found, support=tuple(support))


def covers(question: str, passages: Sequence[Passage]) -> bool:
    """Whether the passages together hold every name in the question; without any passage nothing is covered."""
    texts = (f"{passage.title}. {passage.text}" for passage in passages)
    held = " ".join(_fold(word) for text in texts for word in _WORD.findall(text))
    return bool(passages) and all(f" {name} " in f" {held} " for name in _names(question))


def _names(question: str) -> list[str]:
    """The names in a question, folded; its first word is a capital without being one."""
    first = re.match(r"\W*\w+", question)
    names = (question[start:end] for start, end in name_spans(question, first.end() if first else 0))
    return [" ".join(_fold(word) for word in _WORD.findall(re.sub(r"['’]s\b", "", name))) for name in names]


def _spelled(wanted: Sequence[str], text: str) -> str:
    """The place in the text that reads as the wanted words, as it is spelled there."""
    words = list(_WORD.finditer(text))
    folded = [_fold(word[0]) for word in words]
    # Readers add what kind of thing it is: "Père Lachaise Cemetery", "the city of Łódź".
    for part in (wanted, wanted[:-1], wanted[1:]) if len(wanted) > 2 else (wanted,):
        for start in range(len(words) - len(part) + 1 if part else 0):
            if folded[start : start + len(part)] == list(part):
                return text[words[start].start() : words[start + len(part) - 1].end()]
    return ""


def _fold(word: str) -> str:
    plain = unicodedata.normalize("NFKD", word.casefold().translate(_LETTERS))
    return "".join(char for char in plain if not unicodedata.combining(char))
