"""Reason step by step after worked examples, and read the conclusion."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Attended, Passage, Token
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, decision
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.prompts import (
    Filled,
    break_control_tokens,
    number_lines,
    prompt_for,
    read_demonstrations,
    read_rows,
    show_texts,
)
from hoptree.engine.schedule import in_turns, together
from hoptree.methods.steps.answer import mean_probability, note_reply, supporting_ids, votes
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice, LearnsCapabilities, Reply, Signal, SignalNotGiven
from hoptree.text.names import sentence_spans
from hoptree.text.parse import answer_sentence, before_answer, gives_answer, led_to_answer, read_conclusion
from hoptree.text.tokens import Span, token_spans, word_spans
from hoptree.text.uncertainty import entropy_of_top

REASONING_PROMPTS = ("go_on", "step_by_step", "worked.jsonl")  # after worked examples
_SENTENCE_ENDS = (".", "!", "?", "…", '"', "”", ")", "。", "！", "？")
_STOP = ("\nQuestion:", "\nContext:")  # here a model without turns invents the next question

UncertaintySignal = Literal["entropy", "likeliest", "samples"]  # the source of doubt


@decision("fidelity")
class Fidelity(Decision):
    """Whether the model gives all signals of the paper; `telling` is the one used."""

    value: str
    missing: list[str] = field(default_factory=list)
    telling: UncertaintySignal | None = None

    def lowers_fidelity(self) -> bool:
        return self.value == "approx"

    def add_to(self, view: GenerationView) -> None:
        view.missing = tuple(self.missing)


def uncertainty_signal(ctx: Context, *, beyond: bool = False) -> UncertaintySignal:
    """Return the model's best uncertainty signal; record which it lacks."""
    model = ctx.model_for("answer")
    given = model.capabilities
    signal: UncertaintySignal = "entropy" if "entropy" in given else "likeliest" if "logprobs" in given else "samples"
    missing = [name for name in ("entropy", "attention", "prefix") if name not in given]
    if signal == "samples":
        missing.append("logprobs")
        message = f"{model.name} gives no log-probabilities; how far samples agree tells what is in doubt."
        ctx.warn("no_logprobs", message)
    note_fidelity(ctx, missing, signal, beyond=beyond)
    return signal


def note_fidelity(
    ctx: Context, missing: Sequence[str], signal: UncertaintySignal | None = None, *, beyond: bool = False
) -> None:
    """Record whether model and options keep to the method's paper."""
    ctx.emit(Fidelity(value="approx" if missing or beyond else "exact", missing=list(missing), telling=signal))


@dataclass(frozen=True, slots=True)
class Draft:
    """A part of a reply: `ended` by the model, or `cut` off in its last sentence."""

    text: str = ""
    tokens: tuple[Token, ...] = ()
    ended: bool = False
    cut: bool = False
    size: int = 0

    def until(self, end: int) -> Draft:
        """Return the draft up to `end`; it has ended only if that is all of it."""
        if end >= len(self.text):
            return self
        places = token_spans(self.text, [token.text for token in self.tokens]) if self.tokens else ()
        tokens = [token for token, place in zip(self.tokens, places, strict=True) if place and place[0] < end]
        size = -(-self.size * end // max(1, len(self.text)))  # rounded up, as some text has at least one token
        return Draft(self.text[:end].rstrip(), tuple(tokens), size=size)

    def first_sentence(self) -> Draft:
        """Return the draft up to the end of its first sentence."""
        spans = sentence_spans(self.text)
        return self.until(spans[0][1]) if spans else self

    def followed_by(self, other: Draft) -> Draft:
        if not other.text:
            return replace(self, ended=other.ended)
        text = f"{self.text} {other.text}" if self.text else other.text
        return Draft(text, self.tokens + other.tokens, other.ended, other.cut, self.size + other.size)


def adds_text(new: str, text: str) -> bool:
    """Return whether `new` is not empty and not in `text` already."""
    return bool(new.strip()) and new.strip() not in text


class Generator:
    """Writes the next words of the reply to one question; the caller keeps the text.

    A model that cannot continue a text gets it in the prompt and is asked to go on. The context of `shots` is shown
    only if the question has one too. With a `signal`, or if drafts are `judged` by their tokens, an endpoint whose
    replies have no tokens loses that capability, and the method starts again.
    """

    def __init__(
        self,
        ctx: Context,
        question: str,
        shots: Sequence[WorkedExample],
        *,
        signal: UncertaintySignal | None = None,
        attention: bool = False,
        judged: bool = False,
    ) -> None:
        given = ctx.model_for("answer").capabilities
        self._ctx, self.question, self._shots, self._signal = ctx, question, shots, signal
        self._prefix = "prefix" in given
        self._tokens_unchecked = judged or signal in ("entropy", "likeliest")
        signals: set[Signal] = {"entropy"} if signal == "entropy" else set()
        if attention and signals and "attention" in given:
            signals.add("attention")
        self._signals = frozenset(signals)
        self._top = MAX_TOP_LOGPROBS if signal == "likeliest" else 1 if signal is None and "logprobs" in given else 0

    async def write(self, text: str, *, step: str, max_tokens: int, context: str = "") -> Draft:
        """Return what the model writes next, without an unfinished last sentence."""
        reply = await self._ask(text, context, step, max_tokens, top_logprobs=self._top, signals=self._signals)
        draft = self._draft(reply.choices[0], text, reply.usage.completion)
        if draft.text and self._tokens_unchecked:
            self._check_tokens(draft)
        return draft

    def _check_tokens(self, draft: Draft) -> None:
        self._tokens_unchecked = False  # only the first draft counts: hidden reasoning may hide tokens later
        model = self._ctx.model_for("answer")
        if not draft.tokens and isinstance(model, LearnsCapabilities):
            model.drop_capability("logprobs")
            raise SignalNotGiven(
                f"{model.name} gives no log-probabilities.", "Choose another model, or another method."
            )
        given = max((len(token.top) for token in draft.tokens), default=0)
        if self._signal == "likeliest" and 0 < given < MAX_TOP_LOGPROBS:
            self._ctx.warn(
                "few_logprobs",
                f"{model.name} tells {given} likeliest tokens where {MAX_TOP_LOGPROBS} are asked for: entropy is "
                "estimated lower, and thresholds want tuning for that.",
            )

    async def sample_drafts(
        self, count: int, *, max_tokens: int, temperature: float, seed: int, context: str
    ) -> tuple[Draft, ...]:
        """Return whole replies sampled in one call."""
        options = {"n": count, "temperature": temperature, "seed": seed, "top_logprobs": self._top}
        reply = await self._ask("", context, "think", max_tokens, **options)
        return tuple(await in_turns(lambda choice: self._draft(choice, "", reply.usage.completion), reply.choices))

    async def sample(self, text: str, count: int, *, max_tokens: int, context: str) -> tuple[str, ...]:
        """Return the next words, sampled several times."""
        choices = await self._sample(text, count, context, max_tokens)
        return tuple(self._added_text(choice, text) for choice in choices)

    async def sample_states(
        self, text: str, count: int, *, max_tokens: int, context: str, top_p: float, top_k: int
    ) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """Return non-empty samples, each with its last hidden state if given."""
        has_states = "hidden_states" in self._ctx.model_for("answer").capabilities
        signals: frozenset[Signal] = frozenset(("hidden",) if has_states else ())
        choices = await self._sample(text, count, context, max_tokens, top_p=top_p, top_k=top_k, signals=signals)
        return tuple((self._added_text(choice, text), choice.hidden) for choice in choices if choice.text.strip())

    async def attended_from(self, text: str, spans: Sequence[Span]) -> Attended | None:
        """Return what these spans of the reply attend to; None if the model does not say."""
        if not self._prefix or "attention" not in self._signals:
            return None
        prompt = self._prompt(text, "")
        reply = await self._ctx.generate("look_back", prompt, max_tokens=0, prefix=text, attention_of=tuple(spans))
        return reply.choices[0].attended

    async def _sample(self, text: str, count: int, context: str, max_tokens: int, **options: Any) -> list[Choice]:
        async def ask(**more: int) -> Reply:
            return await self._ask(text, context, "sample", max_tokens, temperature=1.0, **options, **more)

        replies: list[Reply] = []
        if "n_samples" in self._ctx.model_for("answer").capabilities:
            replies.append(await ask(n=count))
        # Some endpoints give one reply even for n > 1.
        given = sum(len(reply.choices) for reply in replies)
        replies += await together(ask(seed=seed) for seed in range(given, count))
        return [choice for reply in replies for choice in reply.choices]

    async def _ask(self, text: str, context: str, step: str, max_tokens: int, **options: Any) -> Reply:
        prompt, prefix = self._prompt(text, context), text if self._prefix else ""
        return await self._ctx.generate(
            step, prompt, max_tokens=max(1, max_tokens), prefix=prefix, stop=_STOP, part=True, **options
        )

    def _prompt(self, text: str, context: str) -> Filled:
        shots = [
            ({"context": shot.context if context else "", "question": shot.question, "text": ""}, shot.answer)
            for shot in self._shots
        ]
        name = "go_on" if text and not self._prefix else "step_by_step"
        return prompt_for(self._ctx.method, name).fill(shots=shots, context=context, question=self.question, text=text)

    def _added_text(self, choice: Choice, text: str) -> str:
        """Return the text that a sample adds; its tokens are many, and not needed."""
        return self._draft(replace(choice, tokens=()), text, 0).text

    def _draft(self, choice: Choice, text: str, size: int) -> Draft:
        """Return what a choice adds to a text, even if it repeats the text."""
        return read_draft(choice, "" if self._prefix else text, size)


def show_context(ctx: Context, passages: Sequence[Passage], *, titles: bool, facts: str = "") -> str:
    """Return numbered passages and known facts as shown before the question."""
    return as_context([text.strip() for text in show_texts(ctx, passages, titles=titles)], facts=facts)


def read_draft(choice: Choice, before: str, size: int) -> Draft:
    """Return what a choice adds to the text `before`, in whole words or sentences."""
    text = " ".join(break_control_tokens(choice.text).split()).removeprefix(before).strip()
    cut = choice.finish == "length"
    # Missing entropy is estimated from the likeliest alternatives.
    tokens = tuple(
        replace(token, entropy=entropy_of_top(token)) if token.entropy is None and token.top else token
        for token in choice.tokens
    )
    draft = Draft(text, tokens, not cut, size=size)
    if not cut or text.endswith(_SENTENCE_ENDS):
        return draft
    sentences, words = sentence_spans(text), word_spans(text)
    if len(sentences) > 1:
        return draft.until(sentences[-2][1])
    return replace(draft.until(words[-1][0]) if len(words) > 1 else draft, cut=True)


@dataclass(frozen=True, slots=True)
class WorkedExample:
    """A question with its worked answer, and documents if shown."""

    question: str
    answer: str
    documents: tuple[Passage, ...] = ()
    context: str = ""


def load_worked_examples() -> tuple[WorkedExample, ...]:
    """Load all examples, in the order of the file."""
    return _read_worked_examples(read_demonstrations("worked.jsonl"))


@lru_cache(maxsize=32)
def _read_worked_examples(text: str) -> tuple[WorkedExample, ...]:
    return tuple(
        WorkedExample(
            row["question"], row["answer"], tuple(Passage("", doc["title"], doc["text"]) for doc in row["documents"])
        )
        for row in read_rows(text)
    )


def draw_examples(count: int, draw: int = 0) -> tuple[WorkedExample, ...]:
    """Return `count` examples; draws share none as long as there are others."""
    return _drawn_from(load_worked_examples(), count, draw)


def _drawn_from(bank: tuple[WorkedExample, ...], count: int, draw: int) -> tuple[WorkedExample, ...]:
    if count > len(bank):
        raise ConfigError(f"There are {len(bank)} worked examples, not {count}.", f"Set shots to {len(bank)} or less.")
    turn, place = divmod(draw, len(bank) // max(1, count))
    ordered = random.Random(turn).sample(bank, len(bank)) if turn else bank
    return tuple(ordered[place * count : (place + 1) * count])


def draw_examples_with_documents(count: int, draw: int = 0, *, titles: bool) -> tuple[WorkedExample, ...]:
    """Return the same examples, each after its documents, as in IRCoT.

    After examples without documents, a model answers from documents in one sentence instead of reasoning.
    """
    return _drawn_with_documents(read_demonstrations("worked.jsonl"), count, draw, titles)


@lru_cache(maxsize=32)
def _drawn_with_documents(text: str, count: int, draw: int, titles: bool) -> tuple[WorkedExample, ...]:
    return tuple(
        replace(
            shot, context=as_context([f"{doc.title}: {doc.text}" if titles else doc.text for doc in shot.documents])
        )
        for shot in _drawn_from(_read_worked_examples(text), count, draw)
    )


def as_context(texts: Sequence[str], *, facts: str = "") -> str:
    """Return numbered texts and facts as shown before a question."""
    blocks = []
    if texts:
        blocks.append("Context:\n" + number_lines(texts))
    if facts:
        blocks.append("Known facts:\n" + facts)
    return "\n\n".join((*blocks, "Answer in the same format as before.\n")) if blocks else ""


CONCLUSION_TOKENS = 20
_NEXT_QUESTION = re.compile(r"\s(?:Question|Context):")


@decision("no_answer_phrase")
class NoAnswerPhrase(Decision):
    """A text ended without an answer, and the model is asked for one."""

    value: bool = True
    text: str = ""

    def add_to(self, view: GenerationView) -> None:
        view.asked_for_answer = True


async def conclude(ctx: Context, generator: Generator, written: Draft, *, context: str = "") -> Answer:
    """Return the answer that a text ends in, asking if needed."""
    text = written.text
    if not gives_answer(text):
        ctx.emit(NoAnswerPhrase(text=text))
        text = await add_conclusion(generator, written.text, context=context)
        answered = text != led_to_answer(written.text)
        note_reply(ctx, "conclude", "" if answered else "no answer", ["last words"])
    ctx.emit(ChainWritten(text=text))
    return read_conclusion(text, generator.question)


async def add_conclusion(generator: Generator, text: str, *, context: str = "") -> str:
    """Replace a text's answer by the one the model gives when it must."""
    lead = led_to_answer(text)
    draft = await generator.write(lead, step="conclude", max_tokens=CONCLUSION_TOKENS, context=context)
    return join_conclusion(text, draft)


def join_conclusion(text: str, draft: Draft) -> str:
    """Replace a text's answer by what was written after its lead."""
    before = before_answer(text) if gives_answer(draft.text) else led_to_answer(text)
    return f"{before} {draft.text}".strip()


def cut_at_answer(draft: Draft) -> Draft:
    """Cut a draft after its last answer, and before the next question."""
    if following := _NEXT_QUESTION.search(draft.text):
        draft = replace(draft.until(following.start()), ended=True)
    span = answer_sentence(draft.text)
    return draft.until(span[1]) if span else draft


async def think(
    ctx: Context,
    question: str,
    *,
    passages: Sequence[Passage] = (),
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
    samples: int = 1,
    temperature: float = 0.0,
    max_tokens: int = 256,
) -> list[Answer]:
    """Return an answer for each sample, its rationale as `raw`; propose the voted one."""
    if samples < 1:
        raise ConfigError(f"{samples} samples give no answer.", "Set samples to 1 or more: --set samples=10.")
    generator = Generator(ctx, question, draw_examples_with_documents(shots, draw, titles=titles))
    context = show_context(ctx, passages, titles=titles)

    def read(text: str, draft: Draft) -> Answer:
        answer = read_conclusion(text, question)
        return replace(
            answer,
            source="external" if passages else "internal",
            support=supporting_ids(answer.text, passages) if answer.known else (),
            confidence=mean_probability([token for token in draft.tokens if token.text.strip()]),
        )

    async def conclude(draft: Draft) -> Answer:
        text, repairs, answered = draft.text, [], True
        if not gives_answer(text):
            ctx.emit(NoAnswerPhrase(text=text))
            repairs = ["last words"]
            concluded = await add_conclusion(generator, text, context=context)
            answered = concluded != led_to_answer(text)
            text = concluded if answered else text
        note_reply(ctx, "think", "" if answered else "no answer", repairs)
        if text:
            ctx.emit(ChainWritten(text=text))
        return read(text, draft)

    def propose(answers: Sequence[Answer]) -> None:
        if groups := votes(answers):
            ctx.propose(groups[0][0], order=0)

    async def ask(count: int, seed: int) -> list[Answer]:
        drafts = await generator.sample_drafts(
            count, max_tokens=max_tokens, temperature=temperature, seed=seed, context=context
        )
        drafts = tuple(await in_turns(cut_at_answer, drafts))
        propose(await in_turns(lambda draft: read(draft.text, draft), drafts))
        answers = await together(map(conclude, drafts))
        propose(answers)
        return answers

    at_once = samples if "n_samples" in ctx.model_for("answer").capabilities else 1
    groups = await together(ask(at_once, seed) for seed in range(-(-samples // at_once)))
    given = sum(map(len, groups))
    groups += await together(ask(1, seed) for seed in range(given, samples))
    return [answer for group in groups for answer in group]
