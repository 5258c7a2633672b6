"""MIND's names: those of a question and of its reasoning, how sure the model is of each, and the paper's filters."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from hoptree.core.values import Passage, Token
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.continuation import Draft, Telling
from hoptree.methods.steps.rewrite_loop import Doubt
from hoptree.text.loose_json import read_json
from hoptree.text.names import fold, name_spans
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, entity_confidence, find_mentions
from hoptree.text.tokens import Span, word_spans
from hoptree.text.word_classes import Tagger, is_time_expression

Kind = Literal["entity", "relation"]
MAX_TOKENS = 128
_MOST, _LONGEST = 16, 120


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name or relation, where it first came from, and how sure the model was of it."""

    name: str
    kind: Kind = "entity"
    origin: Literal["question", "reasoning"] = "question"
    confidence: float = 0.5


@dataclass(frozen=True, slots=True)
class Filtered:
    """What a filter kept, and what not."""

    kept: tuple[Candidate, ...]
    dropped: tuple[Candidate, ...] = ()


async def extract_candidates(ctx: Context, question: str, tagger: Tagger) -> tuple[Candidate, ...]:
    """The names and relations that a model finds relevant to a question, and the names that the question has itself.

    Small models call relations entities: what has neither a capital nor a figure is a name only if nothing else is.
    """
    prompt = prompt_for(ctx.method, "extract").fill(question=question)
    reply = await ctx.generate("extract", prompt, role="extract", max_tokens=MAX_TOKENS)
    reading = read_json(reply.text)
    value = reading.value if isinstance(reading.value, dict) else {"entities": reading.value}
    entities, relations = _texts(value.get("entities")), _texts(value.get("relations"))
    readable = bool(entities or relations)
    error = "" if readable else reading.error or "no name"
    ctx.trace.add("parse", step="extract", ok=readable, repairs=list(reading.repairs), error=error)
    names = [one for one in entities if _is_name(one)]
    names += [one for one in names_in(question, tagger) if not any(find_mentions(one, name) for name in names)]
    common = [one for one in entities if not _is_name(one)]
    if not names:
        names, common = common, []
    found = [Candidate(name) for name in names] + [Candidate(name, "relation") for name in (*common, *relations)]
    once = _once_each(found)
    ctx.decide("extracted", [[one.name, one.kind] for one in once])
    return once


def _is_name(text: str) -> bool:
    """Whether a text has a figure, or a letter that is not small: scripts without capitals have no small ones."""
    return any(sign.isdigit() or (sign.isalpha() and not sign.islower()) for sign in text)


def names_in(text: str, tagger: Tagger) -> tuple[str, ...]:
    """The names in a text by their capitals; a word that only begins a sentence is none, unless it carries content.

    A month or a day of the week is none where it tells when something was.
    """
    found = []
    for start, end in name_spans(text):
        inside = [(first, last) for first, last in word_spans(text) if start <= first and last <= end]
        carrying = tagger.content(text, inside)
        while inside and not carrying[len(carrying) - len(inside)]:
            inside.pop(0)
        if inside and not is_time_expression(text, (inside[0][0], end)):
            found.append(text[inside[0][0] : end].removesuffix("'s").removesuffix("’s"))
    return tuple(dict.fromkeys(found))


async def choose_by_reasoning(
    ctx: Context, question: str, text: str, sentence: str, candidates: Sequence[Candidate]
) -> Filtered:
    """MIND's CoT filter: the names that a model needs for the next step; all of them if its reply names none.

    Relations stay: a model that is shown them among names keeps them and leaves nothing to search for.
    """
    names = [one for one in candidates if one.kind == "entity"]
    if not names:
        return Filtered(tuple(candidates))
    listed = "\n".join(f"{number}. {one.name}" for number, one in enumerate(names, 1))
    prompt = prompt_for(ctx.method, "filter").fill(
        question=question, text=text or "(nothing yet)", sentence=sentence, candidates=listed
    )
    reply = await ctx.generate("filter", prompt, role="filter", max_tokens=MAX_TOKENS)
    reading = read_json(reply.text)
    numbers = _numbers(reading.value, len(names))
    error = "" if numbers else reading.error or "no number of a name"
    ctx.trace.add("parse", step="filter", ok=bool(numbers), repairs=list(reading.repairs), error=error)
    if not numbers:
        return Filtered(tuple(candidates))
    left = [one for number, one in enumerate(names, 1) if number not in numbers]
    return _parted(candidates, [one for one in candidates if one not in left])


def choose_by_confidence(candidates: Sequence[Candidate], *, top_k: int, least: float | None = None) -> Filtered:
    """MIND's confidence filter: the surest `top_k`, or those that are at least this sure, but for the surest one.

    Names and relations are ranked together: what is kept may be relations alone.
    """
    ranked = sorted(candidates, key=lambda candidate: -candidate.confidence)
    if least is None:
        return _parted(candidates, ranked[:top_k])
    return _parted(candidates, [one for one in ranked if one.confidence >= least] or ranked[:1])


def _parted(candidates: Sequence[Candidate], kept: Sequence[Candidate]) -> Filtered:
    return Filtered(
        tuple(one for one in candidates if one in kept), tuple(one for one in candidates if one not in kept)
    )


def _numbers(value: Any, count: int) -> set[int]:
    if isinstance(value, dict):
        value = next((inner for inner in value.values() if isinstance(inner, list)), None)
    given = value if isinstance(value, list) else []
    return {n for one in given if isinstance(one, int | str) and (n := _number(one)) is not None and 0 < n <= count}


def _number(value: int | str) -> int | None:
    if isinstance(value, bool):
        return None
    text = str(value).strip(" .[]()")
    return int(text) if text.isdecimal() and len(text) < 4 else None


def _texts(value: Any) -> list[str]:
    given = value if isinstance(value, list) else [value]
    texts = (" ".join(one.split()) for one in given if isinstance(one, str))
    return [text for text in texts if word_spans(text) and len(text) <= _LONGEST][:_MOST]


def _once_each(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(fold(candidate.name), candidate)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class Doubted:
    """A sentence in doubt, the last of a text, with the words in doubt by their places in it."""

    text: Draft
    before: str
    sentence: str
    hits: tuple[Span, ...]

    @classmethod
    def of(cls, doubt: Doubt, draft: Draft, written: Draft) -> Doubted:
        """The sentence that a doubt is about, behind what was written and what the draft has before it."""
        hits = tuple((start - doubt.start, end - doubt.start) for start, end in doubt.hits)
        before = written.followed_by(draft.until(doubt.start)).text
        return cls(written.followed_by(draft.until(doubt.end)), before, draft.text[doubt.start : doubt.end], hits)

    def is_hit(self, name: str) -> bool:
        """Whether a name stands in the sentence with a word in doubt."""
        return self.hits_any(find_mentions(name, self.sentence))

    def hits_any(self, places: Sequence[Span]) -> bool:
        """Whether a word in doubt stands at one of these places of the sentence."""
        return any(start < last and first < end for start, end in places for first, last in self.hits)

    def is_in_doubt(self, name: str, known: Sequence[str]) -> bool:
        """Whether a name stands in the sentence with a word in doubt, and neither before nor in what is known."""
        return self.is_hit(name) and not any(find_mentions(name, text) for text in (self.before, *known))


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
            if not any(find_mentions(name, one.name) for one in self._extracted):  # "Hobbit" beside "The Hobbit"
                found.setdefault(fold(name), Candidate(name, origin="reasoning"))
        return tuple(replace(one, confidence=self._confidence(one.name, text)) for one in found.values())

    def _confidence(self, name: str, text: Draft) -> float:
        """Equation 4 where the model wrote the name; else where it would have written the question; else neutral."""
        gamma, delta = self._filtering.gamma, self._filtering.delta
        for said, tokens in ((text.text, text.tokens), (self._question, self._asked)):
            sure = entity_confidence(name, said, tokens, gamma=gamma, delta=delta)
            if sure is not None:
                return sure
        return NEUTRAL_CONFIDENCE

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
