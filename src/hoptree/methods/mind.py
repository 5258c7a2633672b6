"""MIND: look up what a model doubts, by names it is sure of, and remember what was read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.graph.naming import fold
from hoptree.methods.registry import method
from hoptree.models.model import Token
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.answer import holding, synthesise
from hoptree.steps.answering.choose import surest
from hoptree.steps.answering.conclusion import conclude
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.answering.glances import GLANCES, glances
from hoptree.steps.facts.candidates import (
    Candidate,
    Filtered,
    choose_by_confidence,
    choose_by_reasoning,
    extract_candidates,
    names_in,
)
from hoptree.steps.facts.learning import learn
from hoptree.steps.facts.memory import FactMemory, Held, relation_key
from hoptree.steps.facts.sub_query import sought_words, sub_query
from hoptree.steps.writing.doubts import Disagreeing, Unsure
from hoptree.steps.writing.rewriting import Doubt, Help, Judge, Limits, write_with_help
from hoptree.steps.writing.stretch import Draft, Pen, Telling, show_context, telling_of
from hoptree.steps.writing.worked import draw_worked
from hoptree.uncertainty import (
    NEUTRAL,
    Dynamic,
    Fixed,
    NameTagger,
    Span,
    Tagger,
    entity_confidence,
    mentions,
    open_tagger,
)
from hoptree.uncertainty.triggers import CEILING
from hoptree.values import Answer, Passage, Question

__all__ = ["mind"]

_FEW = 3
"""Names that the robust form does not filter."""
_OWN = 5
"""Passages that the robust form finds with the question itself."""
_SHOWN = 8
"""Passages of its last reading."""

Filter = Literal["none", "cot", "confidence", "cot+confidence"]


@method(
    "mind",
    title="Memory-aware, uncertainty-guided retrieval",
    paper="MIND",
    needs=("corpus",),
    signals=("entropy", "attention", "prefix"),
    iterative=True,
    dynamic=True,
    strategy="Entropy and attention of words, against a threshold of their own",
    query="Filtered names and the relation sought",
    beyond=("robust",),
    roles=("answer", "extract", "filter"),
)
async def mind(
    question: Question,
    ctx: Context,
    *,
    filters: Filter = "cot+confidence",
    threshold: Literal["dynamic", "fixed"] = "dynamic",
    alpha: float = 1.5,
    beta: float = 0.2,
    over: Literal["sentence", "history"] = "sentence",
    theta: float = 1.0,
    disagree: float = 0.5,
    gamma: float = 1.0,
    delta: float = 0.2,
    top_k: int = 5,
    cut: float | None = None,
    memory: bool = True,
    admit: float = 0.5,
    rendered: int = 3,
    k: int = 3,
    words: int = 25,
    stretch: int = 64,
    max_tokens: int = 256,
    retrievals: int = 8,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
    robust: bool = False,
) -> Answer:
    """Write on until a word is too unsure, search with filtered names, keep facts, and write that sentence again.

    A word's score is its entropy times its share of attention. The `dynamic` threshold is `alpha` times the mean
    entropy of content words plus `beta` times the mean share, `over` the sentence or all that was kept; the `fixed` one
    is `theta`. The dynamic one rises with the sentence, so that one which is unsure everywhere is not looked up. Names
    are those of the question and of the reasoning. The filter `confidence` keeps the `top_k` surest by `gamma` / (1 +
    H) + `delta` a, or those above `cut`, meant to be a quantile of a slice of questions: nearly all names pass small
    values. The filter `cot` asks the model which names the next step needs. Facts that passages state about kept names
    enter the memory with a confidence of `admit` or more; the `rendered` surest are shown, and what is there is not
    searched for again. Without attention or entropy it goes as with dragin. `stretch` and `max_tokens` count a draft
    and the whole text, `retrievals` every search. `shots` worked examples are shown; another `draw` than 0 shows
    others.

    `robust` goes beyond the paper: it begins with what the question itself finds, and gives the surest of three
    readings of that and one of all that was written and found. No dynamic threshold is higher than 1.5. What is in
    doubt is sought and not searched with, names of the question and of the passages read last are never dropped, three
    names or fewer are not filtered, the query is of the names of the sentence in doubt (of the question's, where it
    would be of a name in doubt alone), dropped names are tried where it finds nothing new, one sentence must state a
    fact, and a sentence is replaced by a surer one only.
    """
    ctx.require_corpus()
    telling = telling_of(ctx, attention=True)
    pen = Pen(ctx, question.text, draw_worked(shots, draw), telling=telling, attention=True)
    tagger = open_tagger()
    ceiling = CEILING if robust else math.inf
    by = Dynamic(alpha, beta, over, ceiling) if threshold == "dynamic" else Fixed(theta)
    names = _Names(ctx, question.text, NameTagger(tagger), filters, (gamma, delta), top_k, cut, robust)
    await names.begin(telling)
    held = FactMemory(admit) if memory else None
    search = _Search(
        ctx,
        question.text,
        tagger,
        names,
        held,
        k=k,
        words=words,
        rendered=rendered,
        titles=titles or robust,
        most=retrievals,
    )
    judge: Judge = Unsure(ctx, tagger, by, surer=robust)
    if telling == "samples":
        judge = Disagreeing(ctx, pen, tagger, theta=disagree, stretch=stretch, context=search.context)
    own = await search.read_own() if robust and retrievals else []
    written = await write_with_help(ctx, pen, judge, search, Limits(stretch, max_tokens, search.left))
    answer = await conclude(ctx, pen, written, context=search.context())
    if robust:
        last = await search.read_all(answer.raw)
        return surest(ctx, [*own, last], when="final", named=(*GLANCES[: len(own)], "the text and what it found"))
    return replace(answer, support=holding(answer.text, search.read)) if answer.known else answer


@dataclass(frozen=True, slots=True)
class _Doubted:
    """A sentence in doubt, the last of a text, with the words in doubt by their places in it."""

    text: Draft
    before: str
    sentence: str
    hits: tuple[Span, ...]

    def is_hit(self, name: str) -> bool:
        """Whether a name stands in the sentence with a word in doubt."""
        places = mentions(name, self.sentence)
        return any(start < last and first < end for start, end in places for first, last in self.hits)

    def is_in_doubt(self, name: str, known: Sequence[str]) -> bool:
        """Whether a name stands in the sentence with a word in doubt, and neither before nor in what is known."""
        return self.is_hit(name) and not any(mentions(name, text) for text in (self.before, *known))


def _is_bridge(candidate: Candidate, latest: Sequence[Passage]) -> bool:
    if candidate.kind == "entity" and candidate.origin == "question":
        return True
    return any(mentions(candidate.name, f"{passage.title} . {passage.text}") for passage in latest)


class _Names:
    """The candidates of one question, and the filters they go through."""

    def __init__(
        self,
        ctx: Context,
        question: str,
        tagger: Tagger,
        filters: Filter,
        weights: tuple[float, float],
        top_k: int,
        cut: float | None,
        robust: bool,
    ) -> None:
        self._ctx, self._question, self._tagger = ctx, question, tagger
        self._filters, self._top_k, self._cut = filters, top_k, cut
        self._gamma, self._delta = weights
        self.robust = robust
        self._extracted: tuple[Candidate, ...] = ()
        self._asked: tuple[Token, ...] = ()
        self._unread = False

    async def begin(self, telling: Telling) -> None:
        self._extracted = await extract_candidates(self._ctx, self._question, self._tagger)
        self._unread = "confidence" in self._filters and telling == "entropy"

    async def chosen(self, doubted: _Doubted, latest: Sequence[Passage]) -> Filtered:
        """Those worth searching for when a sentence is in doubt; each filter is recorded.

        The robust form never drops names of the question, nor those that the passages read last brought in.
        """
        candidates = self._all(doubted.text)
        if self._unread and (self._cut is not None or len(candidates) > self._top_k):
            # Of so many names some may be dropped: now it counts how sure the model would have been of the question's.
            self._unread, self._asked = False, await self._read_question()
            candidates = self._all(doubted.text)
        safe: list[Candidate] = []
        in_doubt: list[str] = []
        if self.robust:
            # How to begin a sentence is often unsure, and it often begins with a name that is not.
            known = [self._question, *(f"{passage.title} . {passage.text}" for passage in latest)]
            in_doubt = [one.name for one in candidates if doubted.is_in_doubt(one.name, known)]
            candidates = tuple(one for one in candidates if one.name not in in_doubt)
            safe = [one for one in candidates if len(candidates) <= _FEW or _is_bridge(one, latest)]
        kept = [one for one in candidates if one not in safe]
        dropped_by: dict[str, str] = {}
        if "cot" in self._filters and kept:
            found = await choose_by_reasoning(self._ctx, self._question, doubted.before, doubted.sentence, kept)
            dropped_by |= {one.name: "cot" for one in found.dropped}
            kept = [*found.kept]
        if "confidence" in self._filters:
            found = choose_by_confidence(kept, top_k=self._top_k, least=self._cut)
            dropped_by |= {one.name: "confidence" for one in found.dropped}
        self._ctx.decide(
            "filtered",
            [one.name for one in candidates if one.name not in dropped_by],
            filters=self._filters,
            in_doubt=in_doubt,
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
        for said, tokens in ((text.text, text.tokens), (self._question, self._asked)):
            sure = entity_confidence(name, said, tokens, gamma=self._gamma, delta=self._delta)
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


class _Search:
    """Sub-queries, what they found, and the memory of one question."""

    def __init__(
        self,
        ctx: Context,
        question: str,
        tagger: Tagger,
        names: _Names,
        memory: FactMemory | None,
        *,
        k: int,
        words: int,
        rendered: int,
        titles: bool,
        most: int,
    ) -> None:
        self._ctx, self._question, self._tagger, self._names = ctx, question, tagger, names
        self._memory = memory
        self._k, self._words, self._rendered, self._titles = k, words, rendered, titles
        self.left = most
        self._step = 0
        self._text = ""
        self._latest: tuple[Passage, ...] = ()
        self._told: dict[str, set[str]] = {}
        self._own: tuple[Passage, ...] = ()
        self.read: list[Passage] = []

    def context(self) -> str:
        return show_context(self._ctx, self._own[: self._k], titles=self._titles, facts=self._facts())

    async def read_own(self) -> list[Answer]:
        """The answers in what the question itself finds, which every draft is shown from then on."""
        self._own = self._latest = await self._find(self._question, _OWN)
        self.read += self._own
        return await glances(self._ctx, self._question, self._own)

    async def read_all(self, text: str) -> Answer:
        """The answer in what was written, with the passages found last and those the question itself finds."""
        found = (*self._latest, *self._own, *reversed(self.read))
        shown = list({passage.id: passage for passage in found}.values())[:_SHOWN]
        documents = show_passages(self._ctx, shown, titles=True)
        sure = "logprobs" in self._ctx.model_for("answer").capabilities
        answer = await synthesise(self._ctx, self._question, [text, documents], logprobs=sure)
        return replace(answer, support=holding(answer.text, shown) if answer.known else ())

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | None:
        self._step += 1
        doubted = _doubted(doubt, draft, written)
        sought = sought_words(doubted.sentence, doubted.hits, self._tagger)
        self._text = doubted.before
        if known := self._remembered(doubted, sought):
            return known
        chosen = await self._names.chosen(doubted, self._latest)
        left, names = self.left, chosen.kept
        passages = await self._search(doubted, [one.name for one in chosen.kept], sought)
        if passages is None:
            return None
        if self._names.robust and not self._unread(passages) and chosen.dropped and self.left > 0:
            more = await self._search(doubted, [one.name for one in chosen.dropped], sought, again=True)
            passages, names = (more, chosen.dropped) if more else (passages, names)
        about = [one.name for one in names if one.kind == "entity"]
        await self._remember(passages, about or [one.name for one in chosen.kept if one.kind == "entity"])
        self._latest = passages
        shown = show_context(self._ctx, passages, titles=self._titles, facts=self._facts())
        return Help(shown, searched=left - self.left)

    async def _search(
        self, doubted: _Doubted, names: Sequence[str], sought: Sequence[str], *, again: bool = False
    ) -> tuple[Passage, ...] | None:
        """What is found for names and what is sought of them; None where there is nothing to search with."""
        kept = list(names)
        if self._names.robust:
            names = [name for name in names if mentions(name, doubted.sentence)] or names
            if names and not sought and not again and all(map(doubted.is_hit, names)):
                # Nothing says what is sought of the one name there is, and that is in doubt: the question does.
                names = [name for name in kept if mentions(name, self._question)]
                sought = sought_words(self._question, (), self._tagger)
        query = sub_query(names, sought, limit=self._words)
        self._ctx.decide("sub_query", query, sentence=doubted.sentence, kept=kept, sought=list(sought), again=again)
        return await self._find(query, self._k) if query else None

    async def _find(self, query: str, k: int) -> tuple[Passage, ...]:
        self.left -= 1
        return await self._ctx.search(query, k=k)

    def _unread(self, passages: Sequence[Passage]) -> list[Passage]:
        read = {passage.id for passage in self.read}
        return [passage for passage in passages if passage.id not in read]

    async def _remember(self, passages: Sequence[Passage], names: Sequence[str]) -> None:
        """Read passages for facts; one that comes again has told its own already, but for names that are new."""
        self.read += self._unread(passages)
        if self._memory is None:
            return
        asked = {fold(name) for name in names}
        untold = [passage for passage in passages if asked - self._told.setdefault(passage.id, set())]
        for passage in untold:
            self._told[passage.id] |= asked
        await learn(self._ctx, self._memory, self._question, names, untold, step=self._step, quoted=self._names.robust)
        self._ctx.decide(
            "memory", self._facts().splitlines(), facts=len(self._memory), conflicts=_listed(self._memory.conflicts())
        )

    def _remembered(self, doubted: _Doubted, sought: tuple[str, ...]) -> Help | None:
        """What memory has of just what a sentence in doubt says: it is not searched for again."""
        if self._memory is None:
            return None
        held = self._memory.answers(doubted.sentence, relation_key(" ".join(sought)), hits=doubted.hits)
        if held is None:
            return None
        fact = held.fact
        self._ctx.decide(
            "skipped",
            True,
            sentence=doubted.sentence,
            fact=[fact.subject, fact.relation, fact.object],
            confidence=round(fact.confidence, 4),
            passage=fact.passage_id,
        )
        source = [passage for passage in self.read if passage.id == fact.passage_id]
        facts = self._facts(first=held)
        return Help(show_context(self._ctx, source, titles=self._titles, facts=facts), searched=0)

    def _facts(self, first: Held | None = None) -> str:
        if self._memory is None:
            return ""
        return self._memory.render(self._rendered, first=first, about=f"{self._question} {self._text}")


def _doubted(doubt: Doubt, draft: Draft, written: Draft) -> _Doubted:
    hits = tuple((start - doubt.start, end - doubt.start) for start, end in doubt.hits)
    before = written.followed_by(draft.until(doubt.start)).text
    return _Doubted(written.followed_by(draft.until(doubt.end)), before, draft.text[doubt.start : doubt.end], hits)


def _listed(conflicts: Sequence[Sequence[Held]]) -> list[list[list[str]]]:
    return [
        [[one.fact.subject, one.fact.relation, one.fact.object, one.fact.passage_id] for one in group]
        for group in conflicts
    ]
