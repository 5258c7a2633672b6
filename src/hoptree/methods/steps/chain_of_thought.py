"""Answering a question step by step: a rationale in words, and what it concludes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import holding, mean_probability
from hoptree.methods.steps.choose import votes
from hoptree.methods.steps.conclusion import gives_answer, last_words, led_to_answer, read_conclusion, to_answer
from hoptree.methods.steps.continuation import Draft, Pen, show_context
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.methods.steps.worked_examples import draw_documented


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
    """One answer for each sample, with the whole rationale as `raw`; a rationale without an answer is asked for it.

    Where there are passages, the worked examples have theirs, too. The confidence is the mean probability of the
    rationale's tokens (the geometric one), where the model tells. What is thought is about the whole question, and
    proposed as its answer. Samples that an endpoint did not give at once are asked for one by one.
    """
    if samples < 1:
        raise ConfigError(f"{samples} samples give no answer.", "Set samples to 1 or more: --set samples=10.")
    at_once = samples if "n_samples" in ctx.model_for("answer").capabilities else 1
    thinker = _Thinker(
        Pen(ctx, question, draw_documented(shots, draw, titles=titles), telling=None),
        ctx,
        passages,
        show_context(ctx, passages, titles=titles),
    )

    async def asked_for(count: int, seeds: range) -> list[Answer]:
        several = await together(thinker.answers(count, seed, temperature, max_tokens) for seed in seeds)
        return [answer for answers in several for answer in answers]

    first = await asked_for(at_once, range(-(-samples // at_once)))
    # Some endpoints give one reply, whatever is asked for.
    return first + await asked_for(1, range(len(first), samples))


@dataclass(frozen=True, slots=True)
class _Thinker:
    pen: Pen
    ctx: Context
    passages: Sequence[Passage]
    context: str

    async def answers(self, count: int, seed: int, temperature: float, max_tokens: int) -> list[Answer]:
        """What comes of one call."""
        drafts = [
            to_answer(draft)
            for draft in await self.pen.drafts(
                count, step="think", max_tokens=max_tokens, temperature=temperature, seed=seed, context=self.context
            )
        ]
        self._propose([self._read(draft.text, draft) for draft in drafts])
        answers = await together(self._concluded(draft) for draft in drafts)
        self._propose(answers)
        return answers

    async def _concluded(self, draft: Draft) -> Answer:
        text, repairs, said = draft.text, [], True
        if not gives_answer(text):
            self.ctx.decide("no_answer_phrase", True, text=text)
            repairs = ["last words"]
            whole = await last_words(self.pen, text, context=self.context)
            said = whole != led_to_answer(text)
            text = whole if said else text
        note_reply(self.ctx, "think", "" if said else "no answer", repairs)
        if text:
            self.ctx.trace.add("chain", text=text)
        return self._read(text, draft)

    def _read(self, text: str, draft: Draft) -> Answer:
        answer = read_conclusion(text, self.pen.question)
        return replace(
            answer,
            source="external" if self.passages else "internal",
            support=holding(answer.text, self.passages) if answer.known else (),
            confidence=mean_probability([token for token in draft.tokens if token.text.strip()]),
        )

    def _propose(self, answers: Sequence[Answer]) -> None:
        if best := votes(answers):
            self.ctx.propose(best[0][0], order=0)
