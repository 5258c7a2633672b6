"""Find uncertain sentences, and rewrite them with evidence."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.events import OMIT, Decision, decision, typed_event
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.schedule import both
from hoptree.engine.sentence_view import SentenceView, number
from hoptree.methods.steps.answer import note_written
from hoptree.methods.steps.chain_of_thought import Draft, Generator, adds_text, cut_at_answer
from hoptree.models.model import LearnsCapabilities, SignalNotGiven
from hoptree.retrieval.encoder import Encoder, check_encoder, shared_encoder
from hoptree.text import uncertainty
from hoptree.text.names import Tagger, sentence_spans
from hoptree.text.parse import gives_answer, read_conclusion
from hoptree.text.retrieval_triggers import FixedThreshold, JudgedSentence, Threshold, judge_sentences
from hoptree.text.tokens import Span, token_spans, word_spans
from hoptree.text.uncertainty import ScoredWord, answer_lead_spans


@decision("stop")
class Stopped(Decision):
    """Why a text that was written step by step ended, and the text."""

    value: str
    tokens: int | None = field(default=None, metadata=OMIT)
    text: str = ""

    def add_to(self, view: GenerationView) -> None:
        view.stopped, view.final_text = self.value, self.text


@decision("sub_query")
class SubQuery(Decision):
    """The query for a sentence; `repeated` if it was searched for before."""

    value: str
    sentence: str
    beta: float | None = field(default=None, metadata=OMIT)
    repeated: bool | None = field(default=None, metadata=OMIT)
    new: list[str] | None = field(default=None, metadata=OMIT)
    kept: list[str] | None = field(default=None, metadata=OMIT)
    sought: list[str] | None = field(default=None, metadata=OMIT)
    again: bool | None = field(default=None, metadata=OMIT)  # as in stored traces

    def add_to(self, view: GenerationView) -> None:
        view.ask(self.value, self.sought or (), repeated=self.repeated is True)
        view.mask(self.beta)

    def log_line(self) -> str:
        return f"searched: {self.value}" if self.value else "nothing to search with"


@dataclass(frozen=True, slots=True)
class UncertainSentence:
    """An uncertain sentence of a draft, and its uncertain words."""

    start: int
    end: int
    hits: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class LookupResult:
    """The context of the prompt by which a sentence is rewritten."""

    context: str


class Judge(Protocol):
    """Decides how much of a draft is kept, and which sentence is in doubt."""

    async def judge(self, draft: Draft, written: Draft) -> tuple[int, UncertainSentence | None]: ...

    def record_rewritten(self, sentence: Draft) -> None:
        """Record the replacement of the last sentence that was in doubt."""


class Helper(Protocol):
    """Provides the context of drafts, and looks up doubts."""

    def context(self) -> str:
        """Return the context of the prompt for a draft."""

    async def look_up(
        self, doubt: UncertainSentence, draft: Draft, written: Draft
    ) -> LookupResult | Literal["spent"] | None:
        """Return help for a doubt in `draft`, which follows the text `written`.

        None means that the sentence stays, `spent` that no more searches are allowed. A doubt does not include "So the
        answer is" at the beginning of its sentence.
        """


async def write_with_help(
    ctx: Context, generator: Generator, judge: Judge, helper: Helper, *, draft_tokens: int, total_tokens: int
) -> Draft:
    """Generate a text, and rewrite each uncertain sentence with help."""

    async def write(step: str, context: str) -> Draft:
        draft = await generator.write(written.text, step=step, max_tokens=draft_tokens, context=context)
        draft = cut_at_answer(draft)
        note_written(ctx, step, draft.text, written.text)
        # Proposed in case the budget ends.
        ctx.propose(read_conclusion(written.followed_by(draft).text, generator.question), order=0)
        return draft

    written = Draft()
    while True:
        before = written
        draft = await write("draft", helper.context())
        keep, doubt = await judge.judge(draft, written) if draft.text else (0, None)
        result = await helper.look_up(_behind_lead(doubt, draft), draft, written) if doubt else None
        if doubt is None:
            written = written.followed_by(draft.until(keep))
        elif result == "spent":
            return _stop(ctx, written.followed_by(draft.until(doubt.start)), "retrievals")
        elif result:
            written = written.followed_by(draft.until(doubt.start))
            rewritten = replace((await write("rewrite", result.context)).first_sentence(), ended=False)
            judge.record_rewritten(rewritten)
            written = written.followed_by(rewritten)
        else:
            written = written.followed_by(draft.until(doubt.end))
        if reason := _why_stop(written, before, total_tokens):
            return _stop(ctx, before if reason == "no growth" else written, reason)


def _behind_lead(doubt: UncertainSentence, draft: Draft) -> UncertainSentence:
    """Return a doubt without a leading "So the answer is"."""
    for first, last in answer_lead_spans(draft.text):
        if first < doubt.end and last > doubt.start and not draft.text[doubt.start : first].strip():
            return UncertainSentence(
                min(last, doubt.end), doubt.end, tuple(hit for hit in doubt.hits if hit[0] >= last)
            )
    return doubt


def _why_stop(written: Draft, before: Draft, total_tokens: int) -> str:
    if gives_answer(written.text) and not written.cut:
        return "answer"
    if not adds_text(written.text[len(before.text) :], before.text):
        return "no growth"
    if written.ended:
        return "end"
    return "length" if written.size >= total_tokens else ""


def _stop(ctx: Context, written: Draft, reason: str) -> Draft:
    ctx.emit(Stopped(value=reason, tokens=written.size, text=written.text))
    return written


_SAMPLES = 5
_TOP_P, _TOP_K = 0.9, 50  # of samples whose spread is measured, at temperature 1


@typed_event
class SentenceJudged(Decision):
    """Whether a sentence, or a step, is in doubt."""

    value: bool
    text: str

    def log_line(self) -> str:
        return f"in doubt: {self.text}" if self.value else ""


@decision("sentence")
class WordsJudged(SentenceJudged):
    """Whether a sentence is in doubt by its words, with their scores."""

    words: list[list[Any]]
    theta: float | None
    highest: float | None
    hits: list[int]
    rewritten: bool

    def add_to(self, view: GenerationView) -> None:
        sentence = SentenceView.by_scores(self.text, self.words, self.hits, self.value, self.highest, self.theta)
        view.write(sentence, rewritten=self.rewritten)


@decision("sentence")
class SamplesJudged(SentenceJudged):
    """Whether a sentence is in doubt by samples; `hits` are uncertain words."""

    samples: list[str] | None = field(default=None, metadata=OMIT)
    theta: float | None = field(default=None, metadata=OMIT)
    highest: float | None = field(default=None, metadata=OMIT)
    hits: list[str] | None = field(default=None, metadata=OMIT)
    rewritten: bool = False

    def add_to(self, view: GenerationView) -> None:
        sentence = SentenceView.by_tokens(self.text, (), self.value, None if self.rewritten else self.theta)
        if self.samples is not None:
            sentence = SentenceView.by_samples(
                self.text, self.samples, self.hits or (), self.value, self.highest, self.theta
            )
        view.write(sentence, rewritten=self.rewritten)


class Unsure:
    """Doubts the first sentence with a word above a threshold (DRAGIN, MIND).

    `weigh` replaces the attention of a draft's tokens. An endpoint whose tokens have no alternatives gives no entropy:
    it loses the capability, and the method starts again.
    """

    def __init__(
        self,
        ctx: Context,
        tagger: Tagger,
        threshold: Threshold,
        *,
        weigh: Callable[[Context, Draft], Awaitable[Draft]] | None = None,
    ) -> None:
        self._ctx, self._tagger, self._threshold, self._weigh = ctx, tagger, threshold, weigh
        self._before: list[ScoredWord] = []
        self._doubted: JudgedSentence | None = None
        self._entropy_given = False

    async def judge(self, draft: Draft, written: Draft) -> tuple[int, UncertainSentence | None]:
        if self._doubted is not None:  # the last doubted sentence stayed, since there was no query for it
            self._keep(self._doubted.words)
        self._check_entropy(draft)
        draft = await self._weigh(self._ctx, draft) if self._weigh else draft
        for sentence in judge_sentences(draft.text, draft.tokens, self._tagger, self._threshold, before=self._before):
            self._record(draft, sentence, rewritten=False)
            if sentence.triggers:
                self._doubted = sentence
                hits = tuple((hit.word.start, hit.word.end) for hit in sentence.hit_words)
                return sentence.start, UncertainSentence(sentence.start, sentence.end, hits)
            self._keep(sentence.words)
        return len(draft.text), None

    def record_rewritten(self, sentence: Draft) -> None:
        judged = judge_sentences(sentence.text, sentence.tokens, self._tagger, FixedThreshold(math.inf))
        for part in judged:
            self._record(sentence, part, rewritten=True)
        self._keep([word for part in judged for word in part.words])

    def _check_entropy(self, draft: Draft) -> None:
        model = self._ctx.model_for("answer")
        given = any(token.entropy is not None for token in draft.tokens)
        if draft.tokens and not given and not self._entropy_given and isinstance(model, LearnsCapabilities):
            model.drop_capability("logprobs")
            raise SignalNotGiven(
                f"{model.name} gives no log-probabilities but those of what it wrote.", "Choose another model."
            )
        self._entropy_given = self._entropy_given or given

    def _keep(self, words: Sequence[ScoredWord]) -> None:
        """Add words to the text that stays."""
        self._before += words
        self._doubted = None

    def _record(self, draft: Draft, sentence: JudgedSentence, *, rewritten: bool) -> None:
        words = [
            [word.word.text, _rounded(word.entropy), _rounded(word.attention), _rounded(word.score), word.content]
            for word in sentence.words
        ]
        self._ctx.emit(
            WordsJudged(
                value=sentence.triggers,
                text=draft.text[sentence.start : sentence.end],
                words=words,
                theta=None if rewritten else _rounded(sentence.theta),
                highest=_rounded(sentence.highest),
                hits=list(sentence.hits),
                rewritten=rewritten,
            )
        )


class Disagreeing:
    """Doubts the next sentence if samples of it differ in their content words."""

    def __init__(
        self,
        ctx: Context,
        generator: Generator,
        tagger: Tagger,
        *,
        theta: float,
        max_tokens: int,
        context: Callable[[], str],
    ) -> None:
        self._ctx, self._generator, self._tagger = ctx, generator, tagger
        self._theta, self._max_tokens, self._context = theta, max_tokens, context

    async def judge(self, draft: Draft, written: Draft) -> tuple[int, UncertainSentence | None]:
        start, end = sentence_spans(draft.text)[0]
        texts = await self._generator.sample(
            written.text, _SAMPLES, max_tokens=self._max_tokens, context=self._context()
        )
        samples = [Draft(text).first_sentence().text for text in texts]
        score = uncertainty.disagreement(samples, self._tagger)
        doubted = score > self._theta
        hits = self._rare_words(draft.text, end, samples) if doubted else ()
        self._ctx.emit(
            SamplesJudged(
                value=doubted,
                text=draft.text[start:end],
                samples=samples,
                theta=self._theta,
                highest=_rounded(score),
                hits=[draft.text[first:last] for first, last in hits],
            )
        )
        return end, UncertainSentence(start, end, hits) if doubted else None

    def record_rewritten(self, sentence: Draft) -> None:
        self._ctx.emit(SamplesJudged(value=False, text=sentence.text, rewritten=True))

    def _rare_words(self, text: str, end: int, samples: list[str]) -> tuple[tuple[int, int], ...]:
        spans = [span for span in word_spans(text) if span[1] <= end]
        bags = [{sample[first:last].casefold() for first, last in word_spans(sample)} for sample in samples]
        return tuple(
            (first, last)
            for (first, last), carries in zip(spans, self._tagger.content(text, spans), strict=True)
            if carries and 2 * sum(text[first:last].casefold() in bag for bag in bags) < len(bags)
        )


@decision("step")
class StepJudged(SentenceJudged):
    """Whether a step is in doubt by the `spread` of its samples."""

    tokens: list[list[Any]] = field(default_factory=list)
    spread: float | None
    theta: float

    def add_to(self, view: GenerationView) -> None:
        view.write(SentenceView.by_spread(self.text, self.tokens, self.spread, self.value, self.theta))


@decision("document")
class DocumentChosen(Decision):
    """The passage that leaves the least doubt, and the spread with each one `tried`."""

    value: str
    text: str
    tokens: list[list[Any]] = field(default_factory=list)
    tried: list[list[Any]]

    def add_to(self, view: GenerationView) -> None:
        view.part.tried = tuple((str(name), number(spread)) for name, spread in self.tried)
        if self.text:
            view.part.again = SentenceView.by_spread(self.text, self.tokens, dict(view.part.tried).get(self.value))


@dataclass(frozen=True, slots=True)
class Measured:
    """The next step, the text behind it, and the spread of samples."""

    draft: Draft
    text: str
    spread: float | None

    @property
    def uncertainty(self) -> float:
        return math.inf if self.spread is None or not self.draft.text else self.spread


class Spread:
    """Doubts a step if samples of it lie further apart than theta (SeaKR)."""

    def __init__(self, ctx: Context, generator: Generator, *, samples: int, encoder: str, theta: float) -> None:
        check_encoder(encoder)
        self._ctx, self._generator, self._count, self._theta = ctx, generator, samples, theta
        self._theta_checked = False
        has_states = "hidden_states" in ctx.model_for("answer").capabilities
        self._spec = "" if has_states else encoder
        self._encoder: Encoder | None = None

    async def open(self) -> None:
        """Open the encoder, where the model gives no states."""
        self._encoder = await asyncio.to_thread(shared_encoder, self._spec) if self._spec else None

    async def write(self, text: str, step: str, max_tokens: int, context: str) -> Measured:
        """Continue a text, and measure the spread of samples of the continuation."""
        draft, spread = await both(
            self._generator.write(text, step=step, max_tokens=max_tokens, context=context),
            self._measure(text, context, max_tokens),
        )
        return Measured(draft, draft.text, spread)

    def doubts(self, step: Measured) -> bool:
        """Record whether a step is in doubt."""
        doubted, tokens = step.uncertainty > self._theta, token_probabilities(step.draft)
        judged = StepJudged(value=doubted, text=step.draft.text, tokens=tokens, spread=step.spread, theta=self._theta)
        self._ctx.emit(judged)
        return doubted

    def least(self, passages: Sequence[Passage], steps: Sequence[Measured]) -> int:
        """Return the place of the passage that leaves the least doubt, and record it."""
        best = min(range(len(steps)), key=lambda place: steps[place].uncertainty)
        draft, tried = steps[best].draft, [[p.id, step.spread] for p, step in zip(passages, steps, strict=True)]
        tokens = token_probabilities(draft)
        self._ctx.emit(DocumentChosen(value=passages[best].id, text=draft.text, tokens=tokens, tried=tried))
        return best

    async def _measure(self, text: str, context: str, max_tokens: int) -> float | None:
        samples = await self._generator.sample_states(
            text, self._count, max_tokens=max_tokens, context=context, top_p=_TOP_P, top_k=_TOP_K
        )
        states: Sequence[Sequence[float]] = [state for _, state in samples]
        if samples and self._encoder:
            states = (await self._encoder.encode([sample for sample, _ in samples], role="passage")).tolist()
        self._check_theta(states)
        return uncertainty.state_spread(states)

    def _check_theta(self, states: Sequence[Sequence[float]]) -> None:
        if self._theta_checked or (square := uncertainty.smallest_square(states)) is None:
            return
        self._theta_checked = True
        if self._theta < (least := uncertainty.least_spread(self._count, square=square)):
            self._ctx.warn(
                "theta",
                f"Even if all agree, {self._count} samples of this model have a U of {least:.2f}, so that "
                f"theta={self._theta:g} doubts every step. "
                "Tune it (hoptree eval tune --vary theta=…), or set it higher.",
            )


def token_probabilities(draft: Draft) -> list[list[str | float | None]]:
    """Return the visible tokens of a draft with their probabilities."""
    places = token_spans(draft.text, [token.text for token in draft.tokens])
    return [
        [token.text, _rounded(uncertainty.token_probability(token))]
        for token, place in zip(draft.tokens, places, strict=True)
        if place
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
