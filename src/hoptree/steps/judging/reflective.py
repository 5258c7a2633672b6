"""Asking a model that was trained to write reflection tokens, in the form it knows."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hoptree.models.model import MOST_LOGPROBS, Choice
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.judging.reflection import (
    NO_RETRIEVE,
    RETRIEVE,
    Critique,
    needs_retrieval,
    read_critique,
    without_tokens,
)
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import clean_answer, looks_unanswered
from hoptree.steps.writing.stretch import note_fidelity
from hoptree.values import Answer, Passage, Source

__all__ = ["Reflective"]

_PARAGRAPH = "<paragraph>"
"""Where a model begins to write a document of its own."""


class Reflective:
    """One question, put to a Self-RAG model: instruction and response in one text, documents as paragraphs in it."""

    def __init__(self, ctx: Context, question: str, max_tokens: int) -> None:
        ctx.require("logprobs")
        self._ctx, self._question, self._max_tokens = ctx, question, max_tokens

    async def needs_documents(self) -> float | None:
        """P([Retrieval]) as the response begins; None if the model says neither that nor [No Retrieval]."""
        choice = await self._write("need", "")
        needed = needs_retrieval(choice)
        self._note("need", () if needed is not None else ("retrieval",))
        note_fidelity(self._ctx, ["reflection tokens"] if needed is None else [])
        if needed is None:
            name = self._ctx.model_for("answer").name
            self._ctx.warn(
                "no_reflection",
                f"{name} did not begin with a reflection token: it is no Self-RAG model, or its server puts a chat "
                "template around the question (hoptree methods show self_rag says how to serve one without).",
            )
        self._ctx.propose(_answer(choice, "internal"), order=0)
        return needed

    async def answer(self) -> Answer:
        return _answer(await self._write("direct", NO_RETRIEVE), "internal")

    async def answer_from(self, passage: Passage) -> tuple[Answer, Critique]:
        """The answer from one document, and what the model itself says of both."""
        shown = without_tokens(show_passages(self._ctx, [passage], titles=True).removeprefix("passage: "))
        title = " ".join(passage.title.split())
        text = f"{title}\n{shown.removeprefix(f'{title}: ')}" if shown.startswith(f"{title}: ") else shown
        choice = await self._write("read", f"{RETRIEVE}<paragraph>{text}</paragraph>")
        critique, lacking = read_critique(choice)
        # Of what is irrelevant support is not judged, and a text that was cut is not judged useful or not.
        self._note("read", tuple(name for name in lacking if name == "relevance"))
        answer = replace(_answer(choice, "external"), support=(passage.id,), confidence=critique.likely)
        self._ctx.propose(answer, order=1)
        return answer, critique

    async def _write(self, step: str, written: str) -> Choice:
        prompt = prompt_for(self._ctx.method, "trained").fill(question=self._question, written=written)
        reply = await self._ctx.generate(
            step, prompt, max_tokens=self._max_tokens, top_logprobs=MOST_LOGPROBS, stop=(_PARAGRAPH,), part=True
        )
        return reply.choices[0]

    def _note(self, step: str, lacking: tuple[str, ...]) -> None:
        error = f"no {' and no '.join(lacking)}" if lacking else ""
        note_reply(self._ctx, step, error)


def _answer(choice: Choice, source: Source) -> Answer:
    text = clean_answer(without_tokens(_written(choice)))
    known = bool(text) and not looks_unanswered(text)
    return Answer(text if known else "", choice.text, "answered" if known else "unknown", source)


def _written(choice: Choice) -> str:
    """What a model wrote before any document of its own; some servers tell where that begins only among the tokens."""
    before = list(itertools.takewhile(lambda token: token.text.strip() != _PARAGRAPH, choice.tokens))
    whole = len(before) == len(choice.tokens)
    return choice.text.partition(_PARAGRAPH)[0] if whole else "".join(token.text for token in before)
