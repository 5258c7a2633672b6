"""What a trace tells of a reply: whether the step that asked for it could read it, and what was mended for that."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.engine.context import Context
from hoptree.text.parse import question_key


def note_reply(ctx: Context, step: str, error: str = "", repairs: Sequence[str] = ()) -> None:
    """Record that a reply could be read, or why it could not; `repairs` are what it took, or what was made up for."""
    ctx.trace.add("parse", step=step, ok=not error, repairs=list(repairs), error=error)


def note_answer(ctx: Context, step: str, raw: str, answer: str) -> None:
    """Record what became of a reply that was to be nothing but an answer: its other words were left out, or all of it.

    A reply that says that it has no answer is one that could be read.
    """
    spared = answer and answer != raw and question_key(answer) != question_key(raw)
    note_reply(ctx, step, "" if answer else "no answer", ["other words left out"] if spared else [])


def note_written(ctx: Context, step: str, said: str, before: str) -> None:
    """Record what became of a reply that was to go on with a text: one that has no more to say ends it."""
    note_reply(ctx, step, "" if said or before else "no sentence", [] if said or not before else ["ended"])
