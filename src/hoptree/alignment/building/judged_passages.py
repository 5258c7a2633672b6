"""Passages with a verdict on whether they are relevant to a question, from a data set's gold and a search."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hoptree.errors import ModelError
from hoptree.evaluation.datasets import Example
from hoptree.evaluation.datasets.fields import spaced
from hoptree.evaluation.metrics import contains, normalise
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.retriever import Retriever
from hoptree.runtime.calls import Calls
from hoptree.values import Passage

__all__ = ["GoldPassages", "JudgedPassages", "judge_found"]

_CLOSED = ("yes", "no")


@dataclass(frozen=True, slots=True)
class JudgedPassages:
    """The passages for one question: those that are relevant, those that are not, and those of which nobody knows.

    `missing` are gold passages that the corpus does not hold.
    """

    relevant: tuple[Passage, ...] = ()
    irrelevant: tuple[Passage, ...] = ()
    unclear: tuple[Passage, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def verdicts(self) -> tuple[tuple[Passage, bool], ...]:
        """The passages of which it is known, each with whether it is relevant."""
        return (*((passage, True) for passage in self.relevant), *((passage, False) for passage in self.irrelevant))


class GoldPassages:
    """Looks up passages of an index folder by their ids; without one, only what a search finds is known."""

    def __init__(self, folder: Path | None) -> None:
        self._index = Index(folder) if folder is not None else None

    def find(self, ids: Sequence[str]) -> dict[str, Passage]:
        if self._index is None or not ids:
            return {}
        return {passage.id: passage for passage in self._index.texts.fetch([key_of(name) for name in ids]).values()}


async def judge_found(
    example: Example, retriever: Retriever, gold: GoldPassages, calls: Calls, *, k: int
) -> JudgedPassages:
    """Gold passages are relevant, whether or not the search finds them; others among its first `k` are not.

    Another passage that says an accepted answer may well be relevant, as data sets mark only some of those that are:
    it is unclear. Gold is known by ids, or else by the titles of what was found.
    """
    found = (await calls.search(retriever, example.question, k=k, where=None, on_retry=_ignore)).reply
    ids = example.supporting_ids
    titles = () if ids else example.supporting_titles
    known = {passage.id: passage for passage in found if passage.id in ids} | gold.find(ids)
    by_title = [passage for passage in found if spaced(passage.title) in titles]
    relevant = [known[name] for name in ids if name in known] or by_title
    named = {passage.id for passage in relevant}
    others = [(passage, _says_answer(passage, example.answers)) for passage in found if passage.id not in named]
    return JudgedPassages(
        tuple(relevant),
        tuple(passage for passage, unclear in others if not unclear),
        tuple(passage for passage, unclear in others if unclear),
        tuple(name for name in ids if name not in known),
    )


def _says_answer(passage: Passage, answers: Sequence[str]) -> bool:
    told = [answer for answer in answers if normalise(answer) not in _CLOSED]
    return contains(f"{passage.title} | {passage.text}", told)


def _ignore(error: ModelError, wait: float) -> None:
    """A search that is tried again needs no mention."""
