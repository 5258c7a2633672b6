"""Record whether a step could read the reply it asked for."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.engine.context import Context
from hoptree.engine.events import ReplyParsed
from hoptree.text.parse import question_key


def note_reply(ctx: Context, step: str, error: str = "", repairs: Sequence[str] = ()) -> None:
    """Record that a reply could be read, or why not; `repairs` are what it took, or what was made up for."""
    ctx.emit(ReplyParsed(step=step, ok=not error, repairs=list(repairs), error=error))


def note_answer(ctx: Context, step: str, raw: str, answer: str) -> None:
    """Record whether a reply was a bare answer, or had other words that were left out.

    A reply that says that it has no answer is one that could be read.
    """
    shortened = answer and answer != raw and question_key(answer) != question_key(raw)
    note_reply(ctx, step, "" if answer else "no answer", ["other words left out"] if shortened else [])


def note_written(ctx: Context, step: str, new: str, text: str) -> None:
    """Record whether a reply added anything to the text it was to continue; one that did not has ended it."""
    note_reply(ctx, step, "" if new or text else "no sentence", [] if new or not text else ["ended"])
