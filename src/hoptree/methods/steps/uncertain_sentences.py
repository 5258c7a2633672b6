"""Which sentence of a draft is in doubt: by improbable tokens (FLARE), unsure words (DRAGIN, MIND), or samples."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from hoptree.engine.context import Context
from hoptree.methods.steps.continuation import Draft, Pen
from hoptree.methods.steps.rewrite_loop import Doubt, Verdict
from hoptree.models.model import LearnsCapabilities, SignalNotGiven
from hoptree.text.retrieval_triggers import (
    FixedThreshold,
    JudgedSentence,
    Threshold,
    improbable_sentence,
    judge_sentences,
)
from hoptree.text.sentences import sentence_spans
from hoptree.text.tokens import token_spans, word_spans
from hoptree.text.uncertainty import ScoredWord, disagreement, token_probability
from hoptree.text.word_classes import Tagger

_SAMPLES = 5


class Unsure:
    """MIND's and DRAGIN's: the first sentence with a word whose doubt and weight exceed a threshold.

    With `surer`, a sentence that was written again must be surer than the one it is to replace; none is not. `weigh`
    tells anew how much attention the tokens of a draft get, where that with which it was written does not count. An
    endpoint that gives tokens without their rivals tells no entropy: it loses the capability, and the method is begun
    again.
    """

    def __init__(
        self,
        ctx: Context,
        tagger: Tagger,
        threshold: Threshold,
        *,
        surer: bool = False,
        weigh: Callable[[Context, Draft], Awaitable[Draft]] | None = None,
    ) -> None:
        self._ctx, self._tagger, self._threshold, self._surer, self._weigh = ctx, tagger, threshold, surer, weigh
        self._before: list[ScoredWord] = []
        self._doubted: JudgedSentence | None = None
        self._heard = False

    async def judge(self, draft: Draft, written: Draft) -> Verdict:
        if self._doubted is not None:  # nothing was found to search with, and it stayed as it was
            self._keep(self._doubted.words)
        self._hear(draft)
        draft = await self._weigh(self._ctx, draft) if self._weigh else draft
        for sentence in judge_sentences(draft.text, draft.tokens, self._tagger, self._threshold, before=self._before):
            self._record(draft, sentence, rewritten=False)
            if sentence.triggers:
                self._doubted = sentence
                hits = tuple((hit.word.start, hit.word.end) for hit in sentence.hit_words)
                return Verdict(sentence.start, Doubt(sentence.start, sentence.end, hits))
            self._keep(sentence.words)
        return Verdict(len(draft.text))

    def accepts(self, sentence: Draft) -> bool:
        judged = judge_sentences(sentence.text, sentence.tokens, self._tagger, FixedThreshold(float("inf")))
        highest, doubted = _highest(judged), self._doubted
        taken = not (self._surer and doubted) or (highest is not None and highest < doubted.highest)
        for one in judged:
            self._record(sentence, one, rewritten=True)
        if self._surer and doubted:
            self._ctx.decide("accepted", taken, highest=_rounded(highest), before=_rounded(doubted.highest))
        self._keep([word for one in judged for word in one.words] if taken or not doubted else doubted.words)
        return taken

    def _hear(self, draft: Draft) -> None:
        model = self._ctx.model_for("answer")
        told = any(token.entropy is not None for token in draft.tokens)
        if draft.tokens and not told and not self._heard and isinstance(model, LearnsCapabilities):
            model.lacks("logprobs")
            raise SignalNotGiven(
                f"{model.name} gives no log-probabilities but those of what it wrote.", "Choose another model."
            )
        self._heard = self._heard or told

    def _keep(self, words: Sequence[ScoredWord]) -> None:
        """Count words of the text that stays, whatever was in doubt before."""
        self._before += words
        self._doubted = None

    def _record(self, draft: Draft, sentence: JudgedSentence, *, rewritten: bool) -> None:
        words = [
            [word.word.text, _rounded(word.entropy), _rounded(word.attention), _rounded(word.score), word.content]
            for word in sentence.words
        ]
        self._ctx.decide(
            "sentence",
            sentence.triggers,
            text=draft.text[sentence.start : sentence.end],
            words=words,
            theta=None if rewritten else _rounded(sentence.theta),
            highest=_rounded(sentence.highest),
            hits=list(sentence.hits),
            rewritten=rewritten,
        )


def _highest(sentences: Sequence[JudgedSentence]) -> float | None:
    """The highest score of content words; where none carries content ("So the answer is: yes."), of those there are.

    None where nothing is said, or no more than that an answer follows.
    """
    words = [word for one in sentences for word in one.words if not word.announces]
    weighed = [word for word in words if word.content] or [replace(word, content=True) for word in words]
    return max((word.score for word in weighed), default=None)


@dataclass(frozen=True, slots=True)
class Improbable:
    """FLARE's: the next sentence, if it has a token less probable than theta; only that sentence is judged and kept."""

    ctx: Context
    theta: float

    async def judge(self, draft: Draft, written: Draft) -> Verdict:
        start, end = sentence_spans(draft.text)[0]
        first = draft.until(end)
        doubted = improbable_sentence(first.text, first.tokens, theta=self.theta) is not None
        self._record(first, doubted, rewritten=False)
        return Verdict(end, Doubt(start, end) if doubted else None)

    def accepts(self, sentence: Draft) -> bool:
        self._record(sentence, False, rewritten=True)
        return True

    def _record(self, sentence: Draft, doubted: bool, *, rewritten: bool) -> None:
        self.ctx.decide(
            "sentence",
            doubted,
            text=sentence.text,
            tokens=told_tokens(sentence),
            theta=self.theta,
            rewritten=rewritten,
        )


class Disagreeing:
    """For models that tell nothing of their doubts: the next sentence, if several samples of it differ.

    S is 1 less the mean agreement of every two samples in their content words; in doubt are those that less than half
    of them have.
    """

    def __init__(
        self, ctx: Context, pen: Pen, tagger: Tagger, *, theta: float, stretch: int, context: Callable[[], str]
    ) -> None:
        self._ctx, self._pen, self._tagger = ctx, pen, tagger
        self._theta, self._stretch, self._context = theta, stretch, context

    async def judge(self, draft: Draft, written: Draft) -> Verdict:
        start, end = sentence_spans(draft.text)[0]
        said = await self._pen.sample(
            written.text, _SAMPLES, step="sample", max_tokens=self._stretch, context=self._context()
        )
        samples = [Draft(text).first_sentence().text for text in said]
        score = disagreement(samples, self._tagger)
        doubted = score > self._theta
        hits = self._rare(draft.text, end, samples) if doubted else ()
        self._ctx.decide(
            "sentence",
            doubted,
            text=draft.text[start:end],
            samples=samples,
            theta=self._theta,
            highest=_rounded(score),
            hits=[draft.text[first:last] for first, last in hits],
            rewritten=False,
        )
        return Verdict(end, Doubt(start, end, hits) if doubted else None)

    def accepts(self, sentence: Draft) -> bool:
        self._ctx.decide("sentence", False, text=sentence.text, rewritten=True)
        return True

    def _rare(self, text: str, end: int, samples: list[str]) -> tuple[tuple[int, int], ...]:
        spans = [span for span in word_spans(text) if span[1] <= end]
        bags = [{sample[first:last].casefold() for first, last in word_spans(sample)} for sample in samples]
        return tuple(
            (first, last)
            for (first, last), carries in zip(spans, self._tagger.content(text, spans), strict=True)
            if carries and 2 * sum(text[first:last].casefold() in bag for bag in bags) < len(bags)
        )


def told_tokens(draft: Draft) -> list[list[str | float | None]]:
    """The tokens of a draft that wrote something visible, each with its probability, as they are recorded."""
    places = token_spans(draft.text, [token.text for token in draft.tokens])
    return [
        [token.text, _rounded(token_probability(token))]
        for token, place in zip(draft.tokens, places, strict=True)
        if place
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
