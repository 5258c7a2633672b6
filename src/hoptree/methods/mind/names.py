"""MIND's names: those of a question and of its reasoning, how sure the model is of each, and the paper's filters."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.graph.naming import fold
from hoptree.methods.mind.doubted import Doubted
from hoptree.models.model import Token
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.facts.candidates import (
    Candidate,
    Filtered,
    choose_by_confidence,
    choose_by_reasoning,
    extract_candidates,
    names_in,
)
from hoptree.steps.writing.stretch import Draft, Telling
from hoptree.uncertainty import NEUTRAL, Tagger, entity_confidence, mentions
from hoptree.values import Passage

__all__ = ["Filter", "Filtering", "Names"]

Filter = Literal["none", "cot", "confidence", "cot+confidence"]


@dataclass(frozen=True, slots=True)
class Filtering:
    """Which filters there are; `gamma` and `delta` weigh entropy and attention in the confidence of a name.

    Kept are the `top_k` surest of names and relations together, or, with a `cut`, those that are as sure as that.
    """

    filters: Filter
    gamma: float
    delta: float
    top_k: int
    cut: float | None


class Names:
    """The candidates of one question, and the filters they go through."""

    def __init__(self, ctx: Context, question: str, tagger: Tagger, filtering: Filtering) -> None:
        self._ctx, self._question, self._tagger, self._filtering = ctx, question, tagger, filtering
        self._extracted: tuple[Candidate, ...] = ()
        self._asked: tuple[Token, ...] = ()
        self._unread = False

    async def begin(self, telling: Telling) -> None:
        """Find the names of the question, in whatever way the model tells its doubts."""
        self._unread = "confidence" in self._filtering.filters and telling == "entropy"
        await self._extract()

    async def chosen(self, doubted: Doubted, latest: Sequence[Passage]) -> Filtered:
        """Those worth searching for when a sentence is in doubt; each filter is recorded.

        `latest` are the passages that were read last.
        """
        return await self._filtered(doubted, await self._candidates(doubted), self._filtering.filters)

    async def _extract(self) -> None:
        self._extracted = await extract_candidates(self._ctx, self._question, self._tagger)

    async def _candidates(self, doubted: Doubted) -> tuple[Candidate, ...]:
        candidates = self._all(doubted.text)
        if self._unread and (self._filtering.cut is not None or len(candidates) > self._filtering.top_k):
            # Of so many names some may be dropped: now it counts how sure the model would have been of the question's.
            self._unread, self._asked = False, await self._read_question()
            candidates = self._all(doubted.text)
        return candidates

    async def _filtered(
        self,
        doubted: Doubted,
        candidates: Sequence[Candidate],
        filters: Filter,
        *,
        safe: Collection[Candidate] = (),
        in_doubt: Sequence[str] = (),
    ) -> Filtered:
        """What filters keep; what is `safe` does not go through them, and who is `in_doubt` is recorded with it."""
        kept = [one for one in candidates if one not in safe]
        dropped_by: dict[str, str] = {}
        if "cot" in filters and kept:
            found = await choose_by_reasoning(self._ctx, self._question, doubted.before, doubted.sentence, kept)
            dropped_by |= {one.name: "cot" for one in found.dropped}
            kept = [*found.kept]
        if "confidence" in filters:
            found = choose_by_confidence(kept, top_k=self._filtering.top_k, least=self._filtering.cut)
            dropped_by |= {one.name: "confidence" for one in found.dropped}
        self._ctx.decide(
            "filtered",
            [one.name for one in candidates if one.name not in dropped_by],
            filters=filters,
            in_doubt=list(in_doubt),
            safe=[one.name for one in safe],
            candidates=[
                [one.name, one.kind, one.origin, round(one.confidence, 4), dropped_by.get(one.name)]
                for one in candidates
            ],
        )
        return Filtered(
            tuple(one for one in candidates if one.name not in dropped_by),
            tuple(one for one in candidates if one.name in dropped_by),
        )

    def _all(self, text: Draft) -> tuple[Candidate, ...]:
        found = {fold(one.name): one for one in self._extracted}
        for name in names_in(text.text, self._tagger):
            if not any(mentions(name, one.name) for one in self._extracted):  # "Hobbit" beside "The Hobbit"
                found.setdefault(fold(name), Candidate(name, origin="reasoning"))
        return tuple(replace(one, confidence=self._confidence(one.name, text)) for one in found.values())

    def _confidence(self, name: str, text: Draft) -> float:
        """Equation 4 where the model wrote the name; else where it would have written the question; else neutral."""
        gamma, delta = self._filtering.gamma, self._filtering.delta
        for said, tokens in ((text.text, text.tokens), (self._question, self._asked)):
            sure = entity_confidence(name, said, tokens, gamma=gamma, delta=delta)
            if sure is not None:
                return sure
        return NEUTRAL

    async def _read_question(self) -> tuple[Token, ...]:
        can = self._ctx.model_for("answer").capabilities
        if "prefix" not in can:
            return ()
        reply = await self._ctx.generate(
            "restate",
            prompt_for(self._ctx.method, "restate").fill(),
            max_tokens=0,
            prefix=self._question,
            signals=frozenset(("entropy", "attention") if "attention" in can else ("entropy",)),
        )
        return reply.choices[0].tokens
