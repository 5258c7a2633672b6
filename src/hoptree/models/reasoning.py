"""Separating what a reasoning model thought from what it said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hoptree.models.model import Choice, Token

__all__ = ["read_choice"]

_OPEN = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(think|thinking|thought|reasoning)>", re.IGNORECASE)


def read_choice(
    raw: str,
    *,
    reasoning: str = "",
    finish: Literal["stop", "length", "other"] = "stop",
    tokens: Sequence[Token] = (),
) -> Choice:
    """Build a choice whose text and tokens hold only what was said.

    `reasoning` is what the server itself kept apart. Thought inside the text counts up to the last closing tag, since
    some chat templates open the tag in the prompt; after a tag that is never closed everything was thought.
    """
    said_from = 0
    for closing in _CLOSE.finditer(raw):
        said_from = closing.end()
    said_to = len(raw)
    if opening := _OPEN.search(raw, said_from):
        said_to = opening.start()
    said = raw[said_from:said_to]
    if said_from == 0 and said_to == len(raw):
        return Choice(raw.strip(), reasoning.strip(), finish, tuple(tokens))
    thought = "\n".join(part for part in (reasoning, raw[:said_from], raw[said_to:]) if part)
    thought = _CLOSE.sub("", _OPEN.sub("", thought)).strip()
    return Choice(said.strip(), thought, finish, _tokens_between(tokens, said_from, said_to))


def _tokens_between(tokens: Sequence[Token], start: int, end: int) -> tuple[Token, ...]:
    kept, position = [], 0
    for token in tokens:
        if position >= start and position + len(token.text) <= end:
            kept.append(token)
        position += len(token.text)
    return tuple(kept)
