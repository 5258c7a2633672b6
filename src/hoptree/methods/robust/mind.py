"""MIND beyond its paper (`robust=on`): names never dropped, narrower queries, and the surest of four readings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hoptree.core.values import Answer, Passage
from hoptree.engine.prompts import show_passages
from hoptree.methods.mind.entities import Candidate, EntityFilter, Filter, Filtered, UncertainSentence
from hoptree.methods.mind.lookup import Found, Lookup
from hoptree.methods.steps.answer import supporting_ids, synthesise
from hoptree.methods.steps.choose import READINGS, read_several_ways, surest
from hoptree.methods.steps.fact_extraction import StatedFact
from hoptree.text.names import capitalised_names, fold, sentences
from hoptree.text.relation_words import names_relation, states_relation
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, find_mentions, sought_words
from hoptree.text.tokens import Span
from hoptree.text.word_classes import Tagger

_ASIDE = re.compile(r"\s*\([^()]*\)|\A(?:the|an?)\s+", re.IGNORECASE)
_UNFILTERED_NAMES = 3
"""So many names or fewer are not filtered."""
_OWN_PASSAGES = 5
"""Passages that are found with the question itself."""
_MAX_SHOWN_PASSAGES = 8
"""Passages of the last reading."""


class RobustEntityFilter(EntityFilter):
    """Never drops names of the question, nor those that the passages read last brought in.

    What is in doubt is no candidate. Three names or fewer are not filtered. Of two filters one is chosen each time:
    confidence where the model tells how sure it is of a name, which keeps more of the bridges and costs no call, and
    CoT where it does not. The question's names are asked for when the first sentence is in doubt.
    """

    _has_extracted = False

    async def extract(self) -> None:
        """Leave it to the first sentence in doubt."""

    async def choose(self, uncertain: UncertainSentence, latest: Sequence[Passage]) -> Filtered:
        if not self._has_extracted:
            self._has_extracted = True
            await EntityFilter.extract(self)
        candidates = await self._candidates(uncertain)
        # How to begin a sentence is often unsure, and it often begins with a name that is not.
        known = [uncertain.before, self._question, *map(_titled, latest)]
        in_doubt = [
            candidate.name
            for candidate in candidates
            if uncertain.has_hit(find_mentions(candidate.name, uncertain.sentence))
            and not any(find_mentions(candidate.name, text) for text in known)
        ]
        candidates = tuple(candidate for candidate in candidates if candidate.name not in in_doubt)
        few = len(candidates) <= _UNFILTERED_NAMES
        safe = [candidate for candidate in candidates if few or _is_bridge(candidate, latest)]
        filters = self._fitting_filter([candidate for candidate in candidates if candidate not in safe])
        return await self._filter(uncertain, candidates, filters, safe=safe, in_doubt=in_doubt)

    def _fitting_filter(self, candidates: Sequence[Candidate]) -> Filter:
        """Return the filter that distinguishes these names, of those that may be used."""
        if self._setting.filters != "cot+confidence":
            return self._setting.filters
        scored = any(candidate.confidence != NEUTRAL_CONFIDENCE for candidate in candidates)
        return "confidence" if scored else "cot"


class RobustLookup(Lookup):
    """Begins with what the question itself finds, searches with the names of the uncertain sentence, and reads all.

    Where a search finds nothing new, names that were dropped are tried, those of earlier sentences among them. One
    sentence must state a fact.
    """

    _own: tuple[Passage, ...] = ()
    _own_readings: Sequence[Answer] = ()
    _deferred: tuple[Candidate, ...] = ()

    def context(self) -> str:
        return self._show(self._own[: self._setting.k])

    async def begin(self) -> None:
        """Read what the question itself finds, which every draft is shown from then on."""
        if self.left:
            self._own = self._latest = await self._search_corpus(self._question, _OWN_PASSAGES)
            self.read += self._own
            self._own_readings = await read_several_ways(self._ctx, self._question, self._own)

    async def end(self, answer: Answer) -> Answer:
        """Return the surest of these readings and of one of the text with the passages found last and first."""
        passages = (*self._latest, *self._own, *reversed(self.read))
        shown = list({passage.id: passage for passage in passages}.values())[:_MAX_SHOWN_PASSAGES]
        documents = show_passages(self._ctx, shown, titles=True)
        logprobs = "logprobs" in self._ctx.model_for("answer").capabilities
        last = await synthesise(self._ctx, self._question, [answer.raw, documents], logprobs=logprobs)
        last = replace(last, support=supporting_ids(last.text, shown) if last.known else ())
        named = (*READINGS[: len(self._own_readings)], "the text and what it found")
        return surest(self._ctx, [*self._own_readings, last], when="final", named=named)

    async def _retrieve(self, uncertain: UncertainSentence, chosen: Filtered, sought: Sequence[str]) -> Found | None:
        used, words = self._narrow(uncertain, chosen.kept, sought)
        passages = await self._search(uncertain, chosen.kept, used, words)
        if passages is None:
            return None
        found = Found(passages, chosen.kept)
        kept = {fold(candidate.name) for candidate in chosen.kept}
        dropped = {fold(one.name): one for one in (*chosen.dropped, *self._deferred) if fold(one.name) not in kept}
        self._deferred = tuple(dropped.values())
        if self._unread(found.passages) or not self._deferred or self.left <= 0:
            return found
        deferred, self._deferred = self._deferred, ()
        more = await self._search(uncertain, deferred, deferred, sought, again=True)
        return Found(more, deferred) if more else found

    def _quote(self, stated: StatedFact, passage: Passage) -> str | None:
        """Return the sentence that states a fact, the one that has most of its words before the others."""
        titled = bool(find_mentions(stated.subject, passage.title))
        for sentence in (stated.sentence, *sentences(passage.text)):
            named = (titled or find_mentions(stated.subject, sentence)) and find_mentions(stated.object, sentence)
            if named and states_relation(stated.relation, stated.object, sentence):
                return sentence or None
        return None

    def _narrow(
        self, uncertain: UncertainSentence, kept: Sequence[Candidate], sought: Sequence[str]
    ) -> tuple[Sequence[Candidate], Sequence[str]]:
        """Return the names to search with, of those that were kept, and what is sought of them."""
        named = _named_in(kept, uncertain.sentence, self._tagger)
        if not named:
            return kept, sought
        if not sought and all(uncertain.has_hit(places) for _, places in named):
            # The sentence has only an uncertain name and does not say what is sought of it: the question does.
            of_question = [candidate for candidate in kept if find_mentions(candidate.name, self._question)]
            return of_question, sought_words(self._question, (), self._tagger)
        used = [candidate for candidate, _ in named]
        if all(candidate.kind == "relation" and names_relation(candidate.name) for candidate in used):
            used = [one for one in kept if one in used or (one.kind == "entity" and one.origin == "question")]
        return used, sought


def _named_in(
    candidates: Sequence[Candidate], sentence: str, tagger: Tagger
) -> list[tuple[Candidate, tuple[Span, ...]]]:
    """Return the candidates that a sentence names, each with the places where it does.

    A name that the sentence has in full stands for no other; one that begins or ends a longer name, but for what is in
    brackets, stands for that.
    """
    in_full = [candidate for candidate in candidates if find_mentions(candidate.name, sentence)]
    short = [
        name
        for name in capitalised_names(sentence, tagger)
        if not any(find_mentions(name, one.name) for one in in_full)
    ]
    found = []
    for candidate in candidates:
        names = [candidate.name, *(name for name in short if _is_short_for(name, candidate.name))]
        if places := tuple(place for name in names for place in find_mentions(name, sentence)):
            found.append((candidate, places))
    return found


def _is_short_for(name: str, longer: str) -> bool:
    bare = _ASIDE.sub("", longer)
    return any(start == 0 or end == len(bare) for start, end in find_mentions(name, bare))


def _is_bridge(candidate: Candidate, latest: Sequence[Passage]) -> bool:
    if candidate.kind == "entity" and candidate.origin == "question":
        return True
    return any(find_mentions(candidate.name, _titled(passage)) for passage in latest)


def _titled(passage: Passage) -> str:
    return f"{passage.title} . {passage.text}"
