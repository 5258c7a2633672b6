"""Settle an uncertain sentence from memory, or by a search with filtered names."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from hoptree.core.values import Answer, Passage, Token
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.generation_view import GenerationView, Name
from hoptree.engine.prompts import prompt_for
from hoptree.engine.sentence_view import number
from hoptree.methods.mind.memory import FactMemory, RememberedFact, learn
from hoptree.methods.steps.answer import note_reply, supporting_ids
from hoptree.methods.steps.chain_of_thought import Draft, show_context
from hoptree.methods.steps.uncertain_sentences import LookupResult, SubQuery, UncertainSentence
from hoptree.models.model import Signal
from hoptree.text.loose_json import read_json
from hoptree.text.names import NameTagger, Tagger, capitalised_names, fold
from hoptree.text.parse import read_questions
from hoptree.text.parse_labels import read_numbers
from hoptree.text.relation_words import relation_key
from hoptree.text.retrieval_triggers import (
    NEUTRAL_CONFIDENCE,
    entity_confidence,
    find_mentions,
    sought_words,
    sub_query,
)
from hoptree.text.tokens import Span, word_spans

Filter = Literal["none", "cot", "confidence", "cot+confidence"]
_MAX_TOKENS = 128
_MAX_NAMES, _MAX_NAME_CHARS = 16, 120
_MAX_TEXT_NAMES = 64  # candidates from a question or a draft; each is compared with all others


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name or relation, its first origin, and the model's confidence in it."""

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

    Small models call relations entities: a text without capital or digit counts as a name only if there is no other.
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
    """Return the names that the CoT filter drops; none if its reply keeps none.

    Relations always stay: a model that sees them among the names keeps only them, and nothing is left to search for.
    """
    names = [candidate for candidate in candidates if candidate.kind == "entity"]
    if not names:
        return []
    listed = "\n".join(f"{number}. {candidate.name}" for number, candidate in enumerate(names, 1))
    prompt = prompt_for(ctx.method, "filter").fill(
        question=question, text=text or "(nothing yet)", sentence=sentence, candidates=listed
    )
    reply = await ctx.generate("filter", prompt, role="filter", max_tokens=_MAX_TOKENS)
    needed, value = reply.text, read_json(reply.text).value
    if isinstance(value, dict):
        needed = json.dumps(next((listed for listed in value.values() if isinstance(listed, list)), []))
    numbers = read_numbers(needed.replace('"', ""), len(names))
    note_reply(ctx, "filter", "" if numbers else "no number of a name")
    return [candidate for number, candidate in enumerate(names, 1) if numbers and number not in numbers]


def dropped_by_confidence(
    candidates: Sequence[Candidate], *, top_k: int, least: float | None = None
) -> list[Candidate]:
    """Return the names beyond `top_k`, or below `least`, but never the surest."""
    ranked = sorted(candidates, key=lambda candidate: -candidate.confidence)
    count = top_k if least is None else max(1, sum(candidate.confidence >= least for candidate in ranked))
    return ranked[count:]


_QUESTION_TOKENS = 64


@decision("skipped")
class AnsweredByMemory(Decision):
    """A fact in memory settles a sentence: nothing is searched for."""

    value: bool = True
    sentence: str
    fact: list[str]
    confidence: float | None = None
    passage: str

    def add_to(self, view: GenerationView) -> None:
        view.use_fact(self.fact, self.confidence, self.passage, self.sentence)

    def log_line(self) -> str:
        return f"in memory: {' | '.join(self.fact)}"


@decision("memory")
class MemoryShown(Decision):
    """The facts that are shown, and those that contradict."""

    value: list[str]
    facts: int
    conflicts: list[list[list[str]]] = field(default_factory=list)

    def add_to(self, view: GenerationView) -> None:
        view.part.shown = tuple(self.value)
        view.conflicts = tuple(tuple(tuple(map(str, fact)) for fact in group) for group in self.conflicts)


@dataclass(slots=True, kw_only=True)
class Lookup:
    """The names, searches and memory of one question.

    `scores_question` says that the names of the question still need a confidence from its tokens. `scaled` attention
    has a mean of 1 over a sentence. With `by_question`, the model writes queries as questions.
    """

    ctx: Context
    question: str
    tagger: Tagger
    memory: FactMemory | None
    filters: Filter
    gamma: float
    delta: float
    top_k: int
    cut: float | None
    scaled: bool
    scores_question: bool
    by_question: bool
    words: int
    k: int
    rendered: int
    titles: bool
    searches_left: int
    read: list[Passage] = field(default_factory=list)
    _extracted: tuple[Candidate, ...] = ()
    _question_tokens: tuple[Token, ...] = ()
    _step: int = 0
    _text: str = ""
    _learned: dict[str, set[str]] = field(default_factory=dict)

    async def extract(self) -> None:
        """Find the names of the question (step 1)."""
        self._extracted = await extract_candidates(self.ctx, self.question, NameTagger(self.tagger))

    def add_support(self, answer: Answer) -> Answer:
        """Return the answer of the text with the passages that hold it."""
        return replace(answer, support=supporting_ids(answer.text, self.read)) if answer.known else answer

    def context(self) -> str:
        return self._show(())

    async def look_up(
        self, doubt: UncertainSentence, draft: Draft, written: Draft
    ) -> LookupResult | Literal["spent"] | None:
        self._step += 1
        self._text = written.followed_by(draft.until(doubt.start)).text
        sentence = draft.text[doubt.start : doubt.end]
        hits = tuple((start - doubt.start, end - doubt.start) for start, end in doubt.hits)
        sought = sought_words(sentence, hits, self.tagger)
        if known := self._from_memory(sentence, sought, hits):
            return known
        if self.searches_left <= 0:
            return "spent"
        kept = await self._choose(sentence, written.followed_by(draft.until(doubt.end)))  # step 4
        passages = await self._search(sentence, [candidate.name for candidate in kept], sought)  # step 5
        if passages is None:
            return None
        await self._remember(passages, [candidate.name for candidate in kept if candidate.kind == "entity"])
        return LookupResult(self._show(passages))

    async def _choose(self, sentence: str, text: Draft) -> tuple[Candidate, ...]:
        """Return the names worth searching for; record what each filter dropped."""
        candidates = self._score(text)
        if self.scores_question and (self.cut is not None or len(candidates) > self.top_k):
            # Only now may a name be dropped, so that the question's names need scores.
            self.scores_question, self._question_tokens = False, await self._read_question()
            candidates = self._score(text)
        dropped: dict[Candidate, str] = {}
        if "cot" in self.filters:
            unused = await dropped_by_reasoning(self.ctx, self.question, self._text, sentence, candidates)
            dropped |= dict.fromkeys(unused, "cot")
        if "confidence" in self.filters:
            left = [candidate for candidate in candidates if candidate not in dropped]
            dropped |= dict.fromkeys(dropped_by_confidence(left, top_k=self.top_k, least=self.cut), "confidence")
        kept = tuple(candidate for candidate in candidates if candidate not in dropped)
        rows = [[c.name, c.kind, c.origin, round(c.confidence, 4), dropped.get(c)] for c in candidates]
        self.ctx.emit(EntitiesFiltered(value=[c.name for c in kept], filters=self.filters, candidates=rows))
        return kept

    def _score(self, text: Draft) -> tuple[Candidate, ...]:
        """Return all names of the question and of a text, with confidence."""
        named = {fold(candidate.name): candidate for candidate in self._extracted}
        for name in capitalised_names(text.text, NameTagger(self.tagger))[:_MAX_TEXT_NAMES]:
            if not any(find_mentions(name, candidate.name) for candidate in self._extracted):  # Hobbit, The Hobbit
                named.setdefault(fold(name), Candidate(name, origin="reasoning"))
        return tuple(replace(item, confidence=self._confidence(item.name, text)) for item in named.values())

    def _confidence(self, name: str, text: Draft) -> float:
        """Return Equation 4 for a name in the generated text, else in the question."""
        weights = {"gamma": self.gamma, "delta": self.delta}
        for written, tokens in ((text.text, text.tokens), (self.question, self._question_tokens)):
            confidence = entity_confidence(name, written, tokens, **weights, scaled=self.scaled)
            if confidence is not None:
                return confidence
        return NEUTRAL_CONFIDENCE

    async def _read_question(self) -> tuple[Token, ...]:
        capabilities = self.ctx.model_for("answer").capabilities
        if "prefix" not in capabilities:
            return ()
        prompt = prompt_for(self.ctx.method, "restate").fill()
        signals: set[Signal] = {"entropy", "attention"} if "attention" in capabilities else {"entropy"}
        reply = await self.ctx.generate(
            "restate", prompt, max_tokens=0, prefix=self.question, signals=frozenset(signals)
        )
        return reply.choices[0].tokens

    async def _search(self, sentence: str, names: list[str], sought: Sequence[str]) -> tuple[Passage, ...] | None:
        """Search with the kept names; None if they give no query."""
        query = sub_query(names, sought, limit=self.words)
        if query and self.by_question:
            query = await self._write_question(sentence, names) or query
        self.ctx.emit(SubQuery(value=query, sentence=sentence, kept=names, sought=list(sought), again=False))
        if not query:
            return None
        self.searches_left -= 1
        return await self.ctx.search(query, k=self.k)

    async def _write_question(self, sentence: str, names: Sequence[str]) -> str:
        """Ask for the next question to look up (3.4); "" if the reply has none."""
        prompt = prompt_for(self.ctx.method, "sub_query").fill(
            question=self.question, text=self._text or "(nothing yet)", sentence=sentence, names=", ".join(names)
        )
        reply = await self.ctx.generate("sub_query", prompt, max_tokens=_QUESTION_TOKENS)
        questions = read_questions(reply.text)
        note_reply(self.ctx, "sub_query", "" if questions else "no question")
        return questions[0] if questions else ""

    async def _remember(self, passages: Sequence[Passage], names: Sequence[str]) -> None:
        """Read passages for facts, again only for new names."""
        read = {passage.id for passage in self.read}
        self.read += [passage for passage in passages if passage.id not in read]
        if self.memory is None:
            return
        asked = {fold(name) for name in names}
        new = [passage for passage in passages if asked - self._learned.setdefault(passage.id, set())]
        for passage in new:
            self._learned[passage.id] |= asked
        await learn(self.ctx, self.memory, self.question, names, new, step=self._step)
        conflicts = self.memory.conflicts()
        self.ctx.emit(MemoryShown(value=self._facts().splitlines(), facts=len(self.memory), conflicts=conflicts))

    def _from_memory(self, sentence: str, sought: Sequence[str], hits: Sequence[Span]) -> LookupResult | None:
        """Return the fact in memory that settles the sentence, with its passage, or None."""
        relation = relation_key(" ".join(sought))
        known = self.memory.answers(sentence, relation, hits=hits) if self.memory else None
        if known is None:
            return None
        fact, confidence = [*known.triple], round(known.fact.confidence, 4)
        passage_id = known.fact.passage_id
        self.ctx.emit(AnsweredByMemory(sentence=sentence, fact=fact, confidence=confidence, passage=passage_id))
        return LookupResult(self._show([passage for passage in self.read if passage.id == passage_id], first=known))

    def _show(self, passages: Sequence[Passage], *, first: RememberedFact | None = None) -> str:
        return show_context(self.ctx, passages, titles=self.titles, facts=self._facts(first))

    def _facts(self, first: RememberedFact | None = None) -> str:
        if self.memory is None:
            return ""
        return self.memory.render(self.rendered, first=first, about=f"{self.question} {self._text}")
