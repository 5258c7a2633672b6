"""What single facts a question asks for on its way: two questions that share one share an answer.

MuSiQue puts its questions together from single ones, which it uses again and again: whoever has trained on another
question with the same last step has seen the answer.
"""

from __future__ import annotations

import re

from hoptree.alignment.questions.reading import TrainingQuestion
from hoptree.evaluation.metrics import normalise

__all__ = ["steps_within"]

_COMPOSED = re.compile(r"\d+hop\d*__(\d+(?:_\d+)*)")
"""MuSiQue's ids: the kind of a question, and the numbers of those it is put together from (2hop__92051_827343)."""
_REFERENCE = re.compile(r"#\s?(\d{1,2})(?!\d)")
_ADDITION = re.compile(r"\s*\([^()]*\)\s*$")


def steps_within(question: TrainingQuestion) -> frozenset[tuple[str, ...]]:
    """The steps of a question by its own fields: its id, its facts and its sub-questions.

    A fact is known by its subject and property, whatever its value. A sub-question that refers to another has its
    answer in the place of the reference; where that is not known it says nothing alone, and does not count.
    """
    example = question.example
    found: set[tuple[str, ...]] = set()
    if composed := _COMPOSED.fullmatch(example.id):
        found.update(("single", number) for number in composed[1].split("_"))
    for subject, name, _ in question.facts:
        found.add(("fact", normalise(_ADDITION.sub("", subject)), normalise(name)))
    for text in example.decomposition:
        asked = _filled(text, example.decomposition_answers)
        if asked:
            found.add(("asked", asked))
    return frozenset(found)


def _filled(text: str, answers: tuple[str, ...]) -> str:
    """A sub-question in its normal form; "" where it rests on an answer that is not known."""
    numbers = [int(number) for number in _REFERENCE.findall(text)]
    if any(not 1 <= number <= len(answers) or not answers[number - 1].strip() for number in numbers):
        return ""
    return normalise(_REFERENCE.sub(lambda match: answers[int(match[1]) - 1], text))
