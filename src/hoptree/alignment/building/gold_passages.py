"""Passages to read a sub-question's gold answer from: what a search finds, with a gold passage among it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from hoptree.alignment.building.judged_passages import GoldPassages
from hoptree.alignment.plans.sub_questions import is_named
from hoptree.alignment.plans.trees import GoldStep
from hoptree.errors import ModelError
from hoptree.evaluation.datasets import Example
from hoptree.evaluation.metrics import normalise
from hoptree.retrieval import DEFAULT_RETRIEVER
from hoptree.retrieval.opening import open_retriever
from hoptree.retrieval.remote import is_remote
from hoptree.runtime.calls import Calls
from hoptree.sample import sample_index
from hoptree.values import Passage

__all__ = ["GoldReader", "drawn"]


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
