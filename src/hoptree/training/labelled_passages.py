"""Passages with known relevance: what a search finds, and the gold passages of data sets."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hoptree.core.errors import ModelError
from hoptree.core.values import Passage
from hoptree.engine.calls import Calls
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.rows import spaced
from hoptree.evaluation.metrics import contains, normalise
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.remote import is_remote
from hoptree.sample import sample_index
from hoptree.training.plans.gold_trees import GoldStep
from hoptree.training.plans.sub_questions import is_named

_CLOSED_ANSWERS = ("yes", "no")


@dataclass(frozen=True, slots=True)
class JudgedPassages:
    """The passages for one question by relevance; `missing` are ids of gold passages that the corpus lacks."""

    relevant: tuple[Passage, ...] = ()
    irrelevant: tuple[Passage, ...] = ()
    unclear: tuple[Passage, ...] = ()
    missing: tuple[str, ...] = ()


class PassageFinder:
    """Searches one corpus, and looks up gold passages in it; of a remote corpus only what a search finds is known."""

    def __init__(self, corpus: str, retriever: str, *, rerank: str, k: int) -> None:
        where = str(sample_index()) if corpus == "sample" else corpus
        self._index = None if is_remote(where) else Index(Path(where))
        self._retriever = open_retriever(where, retriever, rerank=rerank)
        self._calls = Calls(None)
        self.k = k

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._retriever.aclose()

    @property
    def identity(self) -> str:
        return self._retriever.identity

    async def search(self, text: str) -> tuple[Passage, ...]:
        return (await self._calls.search(self._retriever, text, k=self.k, where=None, on_retry=_ignore)).reply

    def _gold(self, ids: Sequence[str]) -> dict[str, Passage]:
        if self._index is None or not ids:
            return {}
        return {passage.id: passage for passage in self._index.texts.fetch([key_of(name) for name in ids]).values()}

    async def judge(self, example: Example) -> JudgedPassages:
        """Judge passages for a question: gold ones are relevant, found or not; others among the first `k` are not.

        Another passage that says an accepted answer is unclear, as data sets mark only some of the relevant ones. Gold
        is known by ids, or else by the titles of what was found.
        """
        found = await self.search(example.question)
        ids = example.supporting_ids
        titles = () if ids else example.supporting_titles
        gold = {passage.id: passage for passage in found if passage.id in ids} | self._gold(ids)
        by_title = [passage for passage in found if spaced(passage.title) in titles]
        relevant = [gold[name] for name in ids if name in gold] or by_title
        relevant_ids = {passage.id for passage in relevant}
        others = [passage for passage in found if passage.id not in relevant_ids]
        answers = [answer for answer in example.answers if normalise(answer) not in _CLOSED_ANSWERS]
        unclear = [passage for passage in others if contains(f"{passage.title} | {passage.text}", answers)]
        return JudgedPassages(
            tuple(relevant),
            tuple(passage for passage in others if passage not in unclear),
            tuple(unclear),
            tuple(name for name in ids if name not in gold),
        )

    async def find(self, example: Example, step: GoldStep, key: str) -> tuple[Passage, tuple[Passage, ...]] | None:
        """Return a gold passage that says the answer of a step, and the passages to show; None if there is none.

        A gold passage that the search does not find replaces one that it did; `key` decides which.
        """
        known = self._gold(example.supporting_ids)
        ordered = [known[name] for name in _ids_of_step(example, step) if name in known]
        telling = [passage for passage in ordered if _says(passage, step.answer)]
        if not telling:
            return None
        found = await self.search(step.asked)
        telling_ids = {passage.id for passage in telling}
        if gold := next((passage for passage in found if passage.id in telling_ids), None):
            return gold, found
        shown = list(found[: self.k - 1])
        shown.insert(drawn(key) % (len(shown) + 1), telling[0])
        return telling[0], tuple(shown)

    async def find_others(self, step: GoldStep) -> tuple[Passage, ...]:
        """Return what a search for a step finds without the passages that may say its answer."""
        return tuple(passage for passage in await self.search(step.asked) if not _says(passage, step.answer))


def drawn(key: str) -> int:
    """Return a number that depends on a key alone."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()[0]


def _ids_of_step(example: Example, step: GoldStep) -> Sequence[str]:
    """Return the gold passages of a step if the data set says; else those whose titles it asks about."""
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
    """Whether all words of the answer are in the passage, in any order: dates are written in several."""
    words = set(normalise(f"{passage.title} {passage.text}").split())
    return set(normalise(answer).split()) <= words


def _ignore(error: ModelError, wait: float) -> None:
    """A search that is retried needs no mention."""
