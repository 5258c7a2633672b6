"""Reason step by step, and read the conclusion of a reasoning text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, decision
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import mean_probability, note_reply, supporting_ids
from hoptree.methods.steps.choose import votes
from hoptree.methods.steps.continuation import Draft, Generator, draw_examples_with_documents, show_context
from hoptree.text.parse import answer_sentence, before_answer, gives_answer, led_to_answer, read_conclusion

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
    """Return one answer for each sample, with its rationale as `raw`; propose that of most samples."""
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
            count, step="think", max_tokens=max_tokens, temperature=temperature, seed=seed, context=context
        )
        drafts = tuple(map(cut_at_answer, drafts))
        propose([read(draft.text, draft) for draft in drafts])
        answers = await together(map(conclude, drafts))
        propose(answers)
        return answers

    at_once = samples if "n_samples" in ctx.model_for("answer").capabilities else 1
    groups = await together(ask(at_once, seed) for seed in range(-(-samples // at_once)))
    given = sum(map(len, groups))
    groups += await together(ask(1, seed) for seed in range(given, samples))
    return [answer for group in groups for answer in group]
