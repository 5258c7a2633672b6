"""Leaving out accepted answers that no retrieved document says, as RA-ISF does for TriviaQA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from hoptree.evaluation.datasets.examples import DataSet, Example, digest_of
from hoptree.evaluation.metrics import normalise
from hoptree.retrieval.retriever import Retriever

__all__ = ["FilteredAnswers", "filter_answers"]


@dataclass(frozen=True, slots=True)
class FilteredAnswers:
    """The set with the answers that are left, how many were left out, and the questions all of whose would have been.

    Those keep all they had: a question without answers could not be scored, and must not vanish.
    """

    data: DataSet
    left_out: int
    untouched: tuple[str, ...]


async def filter_answers(
    data: DataSet, retriever: Retriever, *, k: int = 1000, on_done: Callable[[], None] = lambda: None
) -> FilteredAnswers:
    """Keep the answers that occur, as whole words in normal form, in the first `k` passages for the question.

    The digest becomes that of the examples that are left, so that runs with other answers are told apart.
    """
    kept: list[Example] = []
    untouched: list[str] = []
    normal: dict[str, str] = {}  # the same passages are found for many questions
    for example in data.examples:
        passages = await retriever.search(example.question, k=k)
        for passage in passages:
            if passage.id not in normal:
                normal[passage.id] = f" {normalise(f'{passage.title} {passage.text}')} "
        said = " | ".join(normal[passage.id] for passage in passages)
        answers = tuple(answer for answer in example.answers if _occurs(answer, said))
        if not answers:
            untouched.append(example.id)
        kept.append(replace(example, answers=answers or example.answers))
        on_done()
    left_out = sum(len(before.answers) - len(after.answers) for before, after in zip(data.examples, kept, strict=True))
    return FilteredAnswers(replace(data, examples=tuple(kept), digest=digest_of(kept)), left_out, tuple(untouched))


def _occurs(answer: str, said: str) -> bool:
    normal = normalise(answer)
    return bool(normal) and f" {normal} " in said
