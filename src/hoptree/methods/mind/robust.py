"""What MIND does beyond its paper (`robust`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hoptree.core.values import Answer, Passage
from hoptree.methods.mind.look_up import Found, LookUp, sought_words
from hoptree.methods.mind.memory import is_relation
from hoptree.methods.mind.names import Candidate, Doubted, Filter, Filtered, Names, names_in
from hoptree.methods.steps.answer import holding, synthesise
from hoptree.methods.steps.choose import surest
from hoptree.methods.steps.continuation import Telling
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.multi_read import GLANCES, glances
from hoptree.text.names import fold
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, find_mentions
from hoptree.text.tokens import Span
from hoptree.text.word_classes import Tagger

_ASIDE = re.compile(r"\s*\([^()]*\)|\A(?:the|an?)\s+", re.IGNORECASE)


def spoken_of(
    candidates: Sequence[Candidate], sentence: str, tagger: Tagger
) -> tuple[tuple[Candidate, tuple[Span, ...]], ...]:
    """The candidates that a sentence names, each with the places where it does.

    A name that the sentence has stands for no other; one that begins or ends a longer name, but for what is in
    brackets, stands for that.
    """
    whole = [one for one in candidates if find_mentions(one.name, sentence)]
    short = [name for name in names_in(sentence, tagger) if not any(find_mentions(name, one.name) for one in whole)]
    found = []
    for one in candidates:
        called = [one.name, *(name for name in short if _is_short_for(name, one.name))]
        places = tuple(place for name in called for place in find_mentions(name, sentence))
        if places:
            found.append((one, places))
    return tuple(found)


def _is_short_for(name: str, longer: str) -> bool:
    bare = _ASIDE.sub("", longer)
    return any(start == 0 or end == len(bare) for start, end in find_mentions(name, bare))


_FEW = 3
"""Names that are not filtered."""
_OWN = 5
"""Passages that are found with the question itself."""
_SHOWN = 8
"""Passages of the last reading."""


class CarefulNames(Names):
    """Never drops names of the question, nor those that the passages read last brought in.

    What is in doubt is no candidate. Three names or fewer are not filtered. Of two filters one is chosen each time:
    confidence where the model tells how sure it is of a name, which keeps more of the bridges and costs no call, and
    CoT where it does not. The question's names are asked for when the first sentence is in doubt.
    """

    _begun = False

    async def begin(self, telling: Telling) -> None:
        self._unread = "confidence" in self._filtering.filters and telling == "entropy"

    async def chosen(self, doubted: Doubted, latest: Sequence[Passage]) -> Filtered:
        if not self._begun:
            self._begun = True
            await self._extract()
        candidates = await self._candidates(doubted)
        # How to begin a sentence is often unsure, and it often begins with a name that is not.
        known = [self._question, *(f"{passage.title} . {passage.text}" for passage in latest)]
        in_doubt = [one.name for one in candidates if doubted.is_in_doubt(one.name, known)]
        candidates = tuple(one for one in candidates if one.name not in in_doubt)
        safe = [one for one in candidates if len(candidates) <= _FEW or _is_bridge(one, latest)]
        filters = self._fitting([one for one in candidates if one not in safe])
        return await self._filtered(doubted, candidates, filters, safe=safe, in_doubt=in_doubt)

    def _fitting(self, candidates: Sequence[Candidate]) -> Filter:
        """The filter that tells something of these names, of those that may be used."""
        if self._filtering.filters != "cot+confidence":
            return self._filtering.filters
        return "confidence" if any(one.confidence != NEUTRAL_CONFIDENCE for one in candidates) else "cot"


class CarefulLookUp(LookUp):
    """Begins with what the question itself finds, searches with the names of the sentence in doubt, and reads all.

    Where a search finds nothing new, names that were dropped are tried, those of earlier doubts among them. One
    sentence must state a fact.
    """

    quoted = True
    _own: tuple[Passage, ...] = ()
    _deferred: tuple[Candidate, ...] = ()

    def context(self) -> str:
        return self._show(self._own[: self._wanted.k])

    async def read_own(self) -> list[Answer]:
        """The answers in what the question itself finds, which every draft is shown from then on."""
        if not self.left:
            return []
        self._own = self._latest = await self._find(self._question, _OWN)
        self.read += self._own
        return await glances(self._ctx, self._question, self._own)

    async def surest_of(self, own: Sequence[Answer], text: str) -> Answer:
        """The surest of some answers and of the one in what was written, with the passages that were found."""
        last = await self._read_all(text)
        named = (*GLANCES[: len(own)], "the text and what it found")
        return surest(self._ctx, [*own, last], when="final", named=named)

    async def _read_all(self, text: str) -> Answer:
        """The answer in a text, with the passages found last and those the question itself finds."""
        found = (*self._latest, *self._own, *reversed(self.read))
        shown = list({passage.id: passage for passage in found}.values())[:_SHOWN]
        documents = show_passages(self._ctx, shown, titles=True)
        sure = "logprobs" in self._ctx.model_for("answer").capabilities
        answer = await synthesise(self._ctx, self._question, [text, documents], logprobs=sure)
        return replace(answer, support=holding(answer.text, shown) if answer.known else ())

    async def _found(self, doubted: Doubted, chosen: Filtered, sought: Sequence[str]) -> Found | None:
        found = await super()._found(doubted, chosen, sought)
        if found is None:
            return None
        deferred = self._put_off(chosen)
        if self._unread(found.passages) or not deferred or self.left <= 0:
            return found
        self._deferred = ()
        more = await self._search(doubted, deferred, sought, again=True)
        return Found(more, deferred) if more else found

    def _put_off(self, chosen: Filtered) -> tuple[Candidate, ...]:
        """The names that were dropped and not searched with since, the latest first."""
        kept = {fold(one.name) for one in chosen.kept}
        left = {fold(one.name): one for one in (*chosen.dropped, *self._deferred) if fold(one.name) not in kept}
        self._deferred = tuple(left.values())
        return self._deferred

    def _narrowed(
        self, doubted: Doubted, kept: Sequence[Candidate], sought: Sequence[str]
    ) -> tuple[Sequence[Candidate], Sequence[str]]:
        spoken = spoken_of(kept, doubted.sentence, self._tagger)
        if not spoken:
            return kept, sought
        if not sought and all(doubted.hits_any(places) for _, places in spoken):
            # Nothing says what is sought of the one name there is, and that is in doubt: the question does.
            of_question = [one for one in kept if find_mentions(one.name, self._question)]
            return of_question, sought_words(self._question, (), self._tagger)
        used = [one for one, _ in spoken]
        if all(one.kind == "relation" and is_relation(one.name) for one in used):
            used = [one for one in kept if one in used or (one.kind == "entity" and one.origin == "question")]
        return used, sought


def _is_bridge(candidate: Candidate, latest: Sequence[Passage]) -> bool:
    if candidate.kind == "entity" and candidate.origin == "question":
        return True
    return any(find_mentions(candidate.name, f"{passage.title} . {passage.text}") for passage in latest)
