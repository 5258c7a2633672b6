"""MIND's candidate entities, their confidence, and the paper's filters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hoptree.core.values import Token
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.generation_view import GenerationView, Name
from hoptree.engine.prompts import prompt_for
from hoptree.engine.sentence_view import number
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.continuation import Draft, UncertaintySignal
from hoptree.methods.steps.rewrite_loop import Doubt
from hoptree.text.loose_json import read_json
from hoptree.text.names import capitalised_names, fold
from hoptree.text.parse_labels import read_numbers
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, entity_confidence, find_mentions
from hoptree.text.tokens import Span, word_spans
from hoptree.text.word_classes import Tagger

Filter = Literal["none", "cot", "confidence", "cot+confidence"]
_MAX_TOKENS = 128
_MAX_NAMES, _MAX_NAME_CHARS = 16, 120
_MAX_TEXT_NAMES = 64  # names of a question or a draft that are candidates; each is held against all others


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name or relation, where it first came from, and how sure the model was of it."""

    name: str
    kind: Literal["entity", "relation"] = "entity"
    origin: Literal["question", "reasoning"] = "question"
    confidence: float = NEUTRAL_CONFIDENCE


@decision("extracted")
class EntitiesExtracted(Decision):
    """The candidates of the question: pairs of name and kind."""

    value: list[list[str]]

    def add_to(self, view: GenerationView) -> None:
        view.extracted = tuple(name for name, _ in self.value)


@decision("filtered")
class EntitiesFiltered(Decision):
    """The names kept for a search, and all `candidates` with what dropped them."""

    value: list[str]
    filters: str
    in_doubt: list[str] = field(default_factory=list)  # this and the next as in stored traces
    safe: list[str] = field(default_factory=list)
    candidates: list[list[Any]] = field(default_factory=list)

    def add_to(self, view: GenerationView) -> None:
        view.part.names = tuple(
            Name(str(name), str(kind), str(origin), number(confidence), str(dropped_by or ""))
            for name, kind, origin, confidence, dropped_by in self.candidates
        )


async def extract_candidates(ctx: Context, question: str, tagger: Tagger) -> tuple[Candidate, ...]:
    """Ask for the names and relations of a question; add its capitalised names.

    Small models call relations entities: what has neither a capital nor a figure is a name only if nothing else is.
    """
    prompt = prompt_for(ctx.method, "extract").fill(question=question)
    reading = read_json((await ctx.generate("extract", prompt, role="extract", max_tokens=_MAX_TOKENS)).text)
    value = reading.value if isinstance(reading.value, dict) else {"entities": reading.value}
    entities, relations = _texts(value.get("entities")), _texts(value.get("relations"))
    readable = bool(entities or relations)
    note_reply(ctx, "extract", "" if readable else reading.error or "no name", reading.repairs)
    names = list(filter(_is_name, entities))
    names += [
        name
        for name in capitalised_names(question, tagger)[:_MAX_TEXT_NAMES]
        if not any(find_mentions(name, other) for other in names)
    ]
    common = [name for name in entities if not _is_name(name)]
    if not names:
        names, common = common, []
    candidates: dict[str, Candidate] = {}
    for candidate in (*map(Candidate, names), *(Candidate(name, "relation") for name in (*common, *relations))):
        candidates.setdefault(fold(candidate.name), candidate)
    ctx.emit(EntitiesExtracted(value=[[candidate.name, candidate.kind] for candidate in candidates.values()]))
    return tuple(candidates.values())


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    texts = (" ".join(text.split()) for text in listed if isinstance(text, str))
    return [text for text in texts if word_spans(text) and len(text) <= _MAX_NAME_CHARS][:_MAX_NAMES]


def _is_name(text: str) -> bool:
    """Return whether a text has a digit or a letter that is not lower case."""
    return any(sign.isdigit() or (sign.isalpha() and not sign.islower()) for sign in text)


async def dropped_by_reasoning(
    ctx: Context, question: str, text: str, sentence: str, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Return the names that the CoT filter drops: the next step needs them not.

    Where its reply names none that it needs, none is dropped.

    Relations stay: a model that is shown them among names keeps them and leaves nothing to search for.
    """
    names = [candidate for candidate in candidates if candidate.kind == "entity"]
    if not names:
        return []
    listed = "\n".join(f"{number}. {candidate.name}" for number, candidate in enumerate(names, 1))
    prompt = prompt_for(ctx.method, "filter").fill(
        question=question, text=text or "(nothing yet)", sentence=sentence, candidates=listed
    )
    reply = await ctx.generate("filter", prompt, role="filter", max_tokens=_MAX_TOKENS)
    numbers = _needed(reply.text, len(names))
    note_reply(ctx, "filter", "" if numbers else "no number of a name")
    return [candidate for number, candidate in enumerate(names, 1) if numbers and number not in numbers]


def _needed(reply: str, count: int) -> tuple[int, ...]:
    """Return the numbers of the names that a reply calls needed."""
    value = read_json(reply).value
    if isinstance(value, dict):
        reply = json.dumps(next((listed for listed in value.values() if isinstance(listed, list)), []))
    return read_numbers(reply.replace('"', ""), count)


def dropped_by_confidence(
    candidates: Sequence[Candidate], *, top_k: int, least: float | None = None
) -> list[Candidate]:
    """Return what the confidence filter drops: all but `top_k`, or below `least`.

    With `least`, the surest one stays in any case.
    Names and relations are ranked together: what is kept may be relations alone.
    """
    ranked = sorted(candidates, key=lambda candidate: -candidate.confidence)
    count = top_k if least is None else max(1, sum(candidate.confidence >= least for candidate in ranked))
    return ranked[count:]


@dataclass(frozen=True, slots=True)
class UncertainSentence:
    """An uncertain sentence, the text before it, and its uncertain words (`hits`)."""

    text: Draft
    before: str
    sentence: str
    hits: tuple[Span, ...]

    @classmethod
    def of(cls, doubt: Doubt, draft: Draft, written: Draft) -> UncertainSentence:
        hits = tuple((start - doubt.start, end - doubt.start) for start, end in doubt.hits)
        before = written.followed_by(draft.until(doubt.start)).text
        return cls(written.followed_by(draft.until(doubt.end)), before, draft.text[doubt.start : doubt.end], hits)


@dataclass(frozen=True, slots=True)
class Setting:
    """Options of the method, for filters and for searches.

    `scaled` attention has a mean of 1 over a sentence. With `by_question`, the model writes queries as questions.
    """

    filters: Filter
    gamma: float
    delta: float
    top_k: int
    cut: float | None
    scaled: bool
    k: int
    words: int
    rendered: int
    titles: bool
    retrievals: int
    by_question: bool


class EntityFilter:
    """The candidates of one question, and the filters they go through."""

    def __init__(
        self, ctx: Context, question: str, tagger: Tagger, setting: Setting, signal: UncertaintySignal
    ) -> None:
        self._ctx, self._question, self._tagger, self._setting = ctx, question, tagger, setting
        self._extracted: tuple[Candidate, ...] = ()
        self._question_tokens: tuple[Token, ...] = ()
        self._scores_question = "confidence" in setting.filters and signal == "entropy"

    async def extract(self) -> None:
        """Find the names of the question (step 1)."""
        self._extracted = await extract_candidates(self._ctx, self._question, self._tagger)

    async def choose(self, uncertain: UncertainSentence) -> tuple[Candidate, ...]:
        """Return the names worth searching for (step 4); record what each filter dropped."""
        candidates = self._score(uncertain.text)
        if self._scores_question and (self._setting.cut is not None or len(candidates) > self._setting.top_k):
            # Some names may be dropped now: score how sure the model would have been of the question's.
            self._scores_question, self._question_tokens = False, await self._read_question()
            candidates = self._score(uncertain.text)
        filters = self._setting.filters
        dropped: dict[Candidate, str] = {}
        if "cot" in filters:
            unused = await dropped_by_reasoning(
                self._ctx, self._question, uncertain.before, uncertain.sentence, candidates
            )
            dropped |= dict.fromkeys(unused, "cot")
        if "confidence" in filters:
            left = [candidate for candidate in candidates if candidate not in dropped]
            unsure = dropped_by_confidence(left, top_k=self._setting.top_k, least=self._setting.cut)
            dropped |= dict.fromkeys(unsure, "confidence")
        kept = tuple(candidate for candidate in candidates if candidate not in dropped)
        self._ctx.emit(
            EntitiesFiltered(
                value=[candidate.name for candidate in kept],
                filters=filters,
                candidates=[
                    [item.name, item.kind, item.origin, round(item.confidence, 4), dropped.get(item)]
                    for item in candidates
                ],
            )
        )
        return kept

    def _score(self, text: Draft) -> tuple[Candidate, ...]:
        """Return all names of the question and of a text, with their confidence."""
        named = {fold(candidate.name): candidate for candidate in self._extracted}
        for name in capitalised_names(text.text, self._tagger)[:_MAX_TEXT_NAMES]:
            if not any(find_mentions(name, candidate.name) for candidate in self._extracted):  # Hobbit, The Hobbit
                named.setdefault(fold(name), Candidate(name, origin="reasoning"))
        return tuple(replace(item, confidence=self._confidence(item.name, text)) for item in named.values())

    def _confidence(self, name: str, text: Draft) -> float:
        """Return Equation 4 where the name was generated, else in the question."""
        weights = {"gamma": self._setting.gamma, "delta": self._setting.delta}
        for written, tokens in ((text.text, text.tokens), (self._question, self._question_tokens)):
            confidence = entity_confidence(name, written, tokens, **weights, scaled=self._setting.scaled)
            if confidence is not None:
                return confidence
        return NEUTRAL_CONFIDENCE

    async def _read_question(self) -> tuple[Token, ...]:
        capabilities = self._ctx.model_for("answer").capabilities
        if "prefix" not in capabilities:
            return ()
        reply = await self._ctx.generate(
            "restate",
            prompt_for(self._ctx.method, "restate").fill(),
            max_tokens=0,
            prefix=self._question,
            signals=frozenset(("entropy", "attention") if "attention" in capabilities else ("entropy",)),
        )
        return reply.choices[0].tokens
