"""Passages to read a sub-question's gold answer from: what a search finds, with a gold passage among it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hoptree.core.errors import ModelError
from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.rows import spaced
from hoptree.evaluation.metrics import contains, normalise
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.remote import is_remote
from hoptree.retrieval.retriever import Retriever
from hoptree.sample import sample_index
from hoptree.training.plans.gold_trees import GoldStep
from hoptree.training.plans.sub_questions import is_named

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


class GoldReader:
    """Looks in one corpus for what a reader of a sub-question would be shown."""

    def __init__(self, corpus: str, retriever: str = DEFAULT_RETRIEVER, *, rerank: str = "", k: int = 5) -> None:
        where = str(sample_index()) if corpus == "sample" else corpus
        self._gold = GoldPassages(None if is_remote(where) else Path(where))
        self._retriever = open_retriever(where, retriever, rerank=rerank)
        self._calls = Calls(None)
        self.k = k

    @property
    def identity(self) -> str:
        return self._retriever.identity

    async def search(self, text: str) -> tuple[Passage, ...]:
        return (await self._calls.search(self._retriever, text, k=self.k, where=None, on_retry=_ignore)).reply

    async def find(self, example: Example, step: GoldStep, key: str) -> tuple[Passage, tuple[Passage, ...]] | None:
        """A gold passage that says the answer, and the passages to show; None where there is no such passage.

        A gold passage that the search does not find takes the place of one that it did, which one depends on `key`.
        """
        known = self._gold.find(example.supporting_ids)
        ordered = [known[name] for name in _ids(example, step) if name in known]
        telling = [passage for passage in ordered if _says(passage, step.answer)]
        if not telling:
            return None
        found = await self.search(step.asked)
        there = [passage for passage in found if passage.id in {one.id for one in telling}]
        if there:
            return there[0], found
        kept = list(found[: self.k - 1])
        kept.insert(drawn(key) % (len(kept) + 1), telling[0])
        return telling[0], tuple(kept)

    async def find_others(self, step: GoldStep) -> tuple[Passage, ...]:
        """What a search for a step finds without the passages that may say its answer; often enough that is nothing."""
        return tuple(passage for passage in await self.search(step.asked) if not _says(passage, step.answer))

    async def aclose(self) -> None:
        await self._retriever.aclose()


def drawn(key: str) -> int:
    """A number that depends on a key alone."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()[0]


def _ids(example: Example, step: GoldStep) -> Sequence[str]:
    """The gold passages that belong to a step, as far as the data set tells; else those whose titles it asks about."""
    steps = len(example.decomposition) or len(example.hop_ids)
    if len(example.hop_ids) == steps and step.place < steps:
        return example.hop_ids[step.place]
    ids, titles = example.supporting_ids, example.supporting_titles
    if example.decomposition and len(ids) == steps and step.place < steps:
        return ids[step.place : step.place + 1]
    if len(titles) != len(ids):
        return ()
    return [name for name, title in zip(ids, titles, strict=True) if is_named(title.partition(" (")[0], step.asked)]


def _says(passage: Passage, answer: str) -> bool:
    """Whether all words of the answer are in the passage, in whatever order: dates are written in several."""
    said = set(normalise(f"{passage.title} {passage.text}").split())
    return set(normalise(answer).split()) <= said


def _ignore(error: ModelError, wait: float) -> None:
    """A search that is tried again needs no mention."""
