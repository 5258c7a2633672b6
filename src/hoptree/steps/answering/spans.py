"""The sentence of a passage that an answer can be quoted from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.sentences import sentence_spans
from hoptree.steps.reading.parse import question_key
from hoptree.values import Passage

__all__ = ["Span", "quoted"]


@dataclass(frozen=True, slots=True)
class Span:
    """A sentence of a passage."""

    passage: str
    text: str


def quoted(answer: str, question: str, passages: Sequence[Passage]) -> Span | None:
    """The sentence that holds the answer's words and most of the question's; a title stands before its sentences.

    Of sentences with as many words of the question, the first is taken. None where no sentence holds the answer.
    """
    wanted = question_key(answer)
    if not wanted or wanted in ("yes", "no"):
        return None
    asked = set(question_key(question).split())
    best: tuple[int, Span] | None = None
    for passage in passages:
        named = set(question_key(passage.title).split())
        for start, end in sentence_spans(passage.text):
            sentence = passage.text[start:end]
            key = question_key(sentence)
            if f" {wanted} " not in f" {key} ":
                continue
            shared = len(asked & (set(key.split()) | named))
            if best is None or shared > best[0]:
                best = (shared, Span(passage.id, sentence))
    return best[1] if best else None
