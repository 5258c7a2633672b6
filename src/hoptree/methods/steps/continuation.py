"""Writing a reply stretch by stretch: the next words of a text that is there already, with what the model tells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.values import Attended, Passage, Token
from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled, plain, prompt_for
from hoptree.engine.schedule import together
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.worked_examples import Worked, as_context
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice, LearnsCapabilities, Reply, Signal, SignalNotGiven
from hoptree.text.sentences import sentence_spans
from hoptree.text.tokens import Span, token_spans, word_spans
from hoptree.text.uncertainty import token_entropy

_ENDS = (".", "!", "?", "…", '"', "”", ")", "。", "！", "？")
_STOP = ("\nQuestion:", "\nContext:")
"""Where a model without turns goes on with a question of its own."""

Telling = Literal["entropy", "likeliest", "samples"]
"""What tells a model's doubts: its entropy, the likeliest tokens of each step, or nothing but several samples."""


def telling_of(ctx: Context, *, attention: bool = False, beyond: bool = False) -> Telling:
    """What the model that answers can tell of its doubts; what is missing is recorded with the fidelity it leaves.

    `beyond` says that the options leave the paper, whatever the model tells.
    """
    can = ctx.model_for("answer").capabilities
    telling: Telling = "entropy" if "entropy" in can else "likeliest" if "logprobs" in can else "samples"
    wanted = ("entropy", *(("attention",) if attention else ()), "prefix")
    missing = [signal for signal in wanted if signal not in can]
    if telling == "samples":
        missing.append("logprobs")
        name = ctx.model_for("answer").name
        ctx.warn("no_logprobs", f"{name} gives no log-probabilities; how far samples agree tells what is in doubt.")
    note_fidelity(ctx, missing, telling, beyond=beyond)
    return telling


def note_fidelity(
    ctx: Context, missing: Sequence[str], telling: Telling | None = None, *, beyond: bool = False
) -> None:
    """Record whether the model gives all signals that a method's paper uses, and nothing goes beyond that."""
    ctx.decide("fidelity", "approx" if missing or beyond else "exact", missing=list(missing), telling=telling)


@dataclass(frozen=True, slots=True)
class Draft:
    """A part of a reply with its tokens, of which there are `size`, also where they are not told.

    `ended` says that the model had no more to say, `cut` that it had to stop in the middle of the last sentence.
    """

    text: str = ""
    tokens: tuple[Token, ...] = ()
    ended: bool = False
    cut: bool = False
    size: int = 0

    def until(self, end: int) -> Draft:
        """What stands before a place; it has ended only if that is all."""
        if end >= len(self.text):
            return self
        places = token_spans(self.text, [token.text for token in self.tokens])
        tokens = [token for token, place in zip(self.tokens, places, strict=True) if place and place[0] < end]
        size = -(-self.size * end // max(1, len(self.text)))  # rounded up: what has characters has tokens
        return Draft(self.text[:end].rstrip(), tuple(tokens), size=size)

    def first_sentence(self) -> Draft:
        spans = sentence_spans(self.text)
        return self.until(spans[0][1]) if spans else self

    def followed_by(self, other: Draft) -> Draft:
        if not other.text:
            return replace(self, ended=other.ended)
        text = f"{self.text} {other.text}" if self.text else other.text
        return Draft(text, self.tokens + other.tokens, other.ended, other.cut, self.size + other.size)


@dataclass(frozen=True, slots=True)
class _Asked:
    """How the next words are asked for."""

    step: str
    max_tokens: int
    context: str
    n: int = 1
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    top_logprobs: int = 0
    signals: frozenset[Signal] = frozenset()


class Pen:
    """One question's reply, as far as it is written elsewhere; it only writes what comes next.

    Models that cannot continue a text are shown it and asked to go on. What `shots` have as context is shown where the
    question has one, too. With a `telling`, or where a draft is `judged` by its tokens, an endpoint is found out that
    gives none: it loses the capability, and the method is begun again.
    """

    def __init__(
        self,
        ctx: Context,
        question: str,
        shots: Sequence[Worked],
        *,
        telling: Telling | None,
        attention: bool = False,
        judged: bool = False,
    ) -> None:
        can = ctx.model_for("answer").capabilities
        self._ctx, self.question, self._shots = ctx, question, shots
        self._prefix = "prefix" in can
        self._awaits_tokens = judged or telling in ("entropy", "likeliest")
        self._likeliest = telling == "likeliest"
        told: set[Signal] = {"entropy"} if telling == "entropy" else set()
        if attention and told and "attention" in can:
            told.add("attention")
        self._signals = frozenset(told)
        self._top = MAX_TOP_LOGPROBS if telling == "likeliest" else 1 if telling is None and "logprobs" in can else 0

    async def write(self, text: str, *, step: str, max_tokens: int, context: str = "") -> Draft:
        """What the model writes next; what it did not get to the end of is left out, as far as there is more."""
        asked = _Asked(step, max_tokens, context, top_logprobs=self._top, signals=self._signals)
        reply = await self._ask(text, asked)
        draft = _read(reply.choices[0], self._shown(text), reply.usage.completion)
        if draft.text and self._awaits_tokens:
            self._awaits_tokens = False  # who tells once can tell: what thought hides later is no reason to begin again
            self._heard(draft)
        return draft

    def _heard(self, draft: Draft) -> None:
        model = self._ctx.model_for("answer")
        if not draft.tokens and isinstance(model, LearnsCapabilities):
            model.lacks("logprobs")
            raise SignalNotGiven(
                f"{model.name} gives no log-probabilities.", "Choose another model, or another method."
            )
        told = max((len(token.top) for token in draft.tokens), default=0)
        if self._likeliest and 0 < told < MAX_TOP_LOGPROBS:  # with none, samples tell
            self._ctx.warn(
                "few_logprobs",
                f"{model.name} tells {told} likeliest tokens where {MAX_TOP_LOGPROBS} are asked for: entropy is "
                "estimated lower, and thresholds want tuning for that.",
            )

    async def drafts(
        self, count: int, *, step: str, max_tokens: int, temperature: float, seed: int = 0, context: str = ""
    ) -> tuple[Draft, ...]:
        """Whole replies, drawn at a temperature in one call; some endpoints give fewer than are asked for."""
        top = self._top
        asked = _Asked(step, max_tokens, context, n=count, temperature=temperature, seed=seed, top_logprobs=top)
        reply = await self._ask("", asked)
        return tuple(_read(choice, "", reply.usage.completion) for choice in reply.choices)

    async def sample(self, text: str, count: int, *, step: str, max_tokens: int, context: str = "") -> tuple[str, ...]:
        """The next words, chosen by chance several times."""
        replies = await self._draw(text, count, _Asked(step, max_tokens, context, temperature=1.0))
        return tuple(_read(choice, self._shown(text), 0).text for reply in replies for choice in reply.choices)

    async def states(
        self,
        text: str,
        count: int,
        *,
        step: str,
        max_tokens: int,
        context: str = "",
        top_p: float = 1.0,
        top_k: int = 0,
    ) -> tuple[tuple[str, tuple[float, ...]], ...]:
        """Samples that say something, each with the state of the model behind its last token, where it tells."""
        can = self._ctx.model_for("answer").capabilities
        signals: frozenset[Signal] = frozenset(("hidden",) if "hidden_states" in can else ())
        asked = _Asked(step, max_tokens, context, temperature=1.0, top_p=top_p, top_k=top_k, signals=signals)
        replies = await self._draw(text, count, asked)
        choices = (choice for reply in replies for choice in reply.choices)
        return tuple(
            (_read(choice, self._shown(text), 0).text, choice.hidden) for choice in choices if choice.text.strip()
        )

    async def look_back(self, text: str, spans: Sequence[Span], *, context: str = "") -> Attended | None:
        """What these places of the text look back at, where the model tells."""
        if not self._prefix or "attention" not in self._signals:
            return None
        reply = await self._ctx.generate(
            "look_back",
            self._prompt(text, context),
            max_tokens=0,
            prefix=text,
            attention_of=tuple(spans),
        )
        return reply.choices[0].attended

    async def _draw(self, text: str, count: int, asked: _Asked) -> list[Reply]:
        if "n_samples" not in self._ctx.model_for("answer").capabilities:
            return await together(self._ask(text, replace(asked, seed=seed)) for seed in range(count))
        first = await self._ask(text, replace(asked, n=count))
        # Some endpoints give one reply, whatever is asked for.
        more = await together(self._ask(text, replace(asked, seed=seed)) for seed in range(len(first.choices), count))
        return [first, *more]

    async def _ask(self, text: str, asked: _Asked) -> Reply:
        return await self._ctx.generate(
            asked.step,
            self._prompt(text, asked.context),
            max_tokens=max(1, asked.max_tokens),
            prefix=text if self._prefix else "",
            stop=_STOP,
            top_logprobs=asked.top_logprobs,
            signals=asked.signals,
            n=asked.n,
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_k=asked.top_k,
            seed=asked.seed,
            part=True,
        )

    def _shown(self, text: str) -> str:
        """What a model that was asked to go on may begin again with."""
        return "" if self._prefix else text

    def _prompt(self, text: str, context: str) -> Filled:
        shots = [
            ({"context": shot.context if context else "", "question": shot.question, "text": ""}, shot.answer)
            for shot in self._shots
        ]
        name = "go_on" if text and not self._prefix else "step_by_step"
        return prompt_for(self._ctx.method, name).fill(shots=shots, context=context, question=self.question, text=text)


def show_context(ctx: Context, passages: Sequence[Passage], *, titles: bool, facts: str = "") -> str:
    """Passages, numbered, and known facts as they stand before the question; "" of neither."""
    shown = [show_passages(ctx, [one], titles=titles).removeprefix("passage:").strip() for one in passages]
    return as_context(shown, facts=facts)


def _read(choice: Choice, before: str, size: int) -> Draft:
    """What a choice adds to the text it was shown, in whole words, and in whole sentences if it has one.

    White space is one space.
    """
    said = " ".join(plain(choice.text).split())
    said = said.removeprefix(before).strip()
    tokens = tuple(map(_with_entropy, choice.tokens))
    draft = Draft(said, tokens, choice.finish != "length", size=size)
    if choice.finish != "length" or said.endswith(_ENDS):
        return draft
    sentences, words = sentence_spans(said), word_spans(said)
    if len(sentences) > 1:
        return draft.until(sentences[-2][1])
    return replace(draft.until(words[-1][0]) if len(words) > 1 else draft, cut=True)


def _with_entropy(token: Token) -> Token:
    """A token with the entropy of its likeliest rivals, where the model tells these and not the entropy itself."""
    told = token_entropy(token) if token.entropy is None else None
    return token if told is None else replace(token, entropy=told)
