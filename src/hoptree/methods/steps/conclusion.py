"""Bring a model to conclude what it wrote step by step."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import ClassVar

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision
from hoptree.engine.generation_view import GenerationView
from hoptree.methods.steps.continuation import Draft, Generator
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.conclusions import answer_sentence, before_answer, gives_answer, led_to_answer, read_conclusion

CONCLUSION_TOKENS = 20
_NEXT_QUESTION = re.compile(r"\s(?:Question|Context):")


@dataclass(frozen=True, slots=True, kw_only=True)
class NoAnswerPhrase(Decision):
    """A text ended without an answer, and the model is asked for one."""

    kind: ClassVar[str] = "no_answer_phrase"
    value: bool = True
    text: str = ""

    def add_to(self, view: GenerationView) -> None:
        view.asked_for_answer = True


async def conclude(ctx: Context, generator: Generator, written: Draft, *, context: str = "") -> Answer:
    """Return the answer that a text ends in; where it gives none, the model is asked for it."""
    text = written.text
    if not gives_answer(text):
        ctx.emit(NoAnswerPhrase(text=text))
        text = await add_conclusion(generator, written.text, context=context)
        answered = text != led_to_answer(written.text)
        note_reply(ctx, "conclude", "" if answered else "no answer", ["last words"])
    ctx.emit(ChainWritten(text=text))
    return read_conclusion(text, generator.question)


async def add_conclusion(generator: Generator, text: str, *, context: str = "") -> str:
    """Return a text with the answer that the model gives when it is made to, in place of the one it had."""
    lead = led_to_answer(text)
    draft = await generator.write(lead, step="conclude", max_tokens=CONCLUSION_TOKENS, context=context)
    before = before_answer(text) if gives_answer(draft.text) else lead
    return f"{before} {draft.text}".strip()


def cut_at_answer(draft: Draft) -> Draft:
    """Cut a draft behind the last sentence that gives an answer, and before the next question the model asks."""
    if following := _NEXT_QUESTION.search(draft.text):
        draft = replace(draft.until(following.start()), ended=True)
    span = answer_sentence(draft.text)
    return draft.until(span[1]) if span else draft
