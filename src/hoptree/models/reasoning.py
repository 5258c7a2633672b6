"""Separating what a reasoning model thought from what it said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from hoptree.models.model import Choice, Token

__all__ = ["close_thought", "opens_thought", "read_choice"]

_OPEN = re.compile(r"<(think|thinking|thought|reasoning)>", re.IGNORECASE)
_CLOSE = re.compile(r"</(think|thinking|thought|reasoning)>", re.IGNORECASE)
_OPENED = re.compile(rf"{_OPEN.pattern}\s*\Z", re.IGNORECASE)


def opens_thought(prompt: str) -> bool:
    """Whether a prompt ends in a tag that opens a thought, as some chat templates let it."""
    return _OPENED.search(prompt) is not None


def close_thought(prompt: str) -> str:
    """A prompt behind which words are said: a thought that it opens stays empty."""
    opened = _OPENED.search(prompt)
    return f"{prompt.rstrip()}\n\n</{opened[1]}>\n\n" if opened else prompt


def read_choice(
    raw: str,
    *,
    reasoning: str = "",
    finish: Literal["stop", "length", "other"] = "stop",
    tokens: Sequence[Token] = (),
    opened: bool = False,
) -> Choice:
    """Build a choice whose text and tokens hold only what was said.

    `reasoning` is what the server itself kept apart. Thought inside the text counts up to the last closing tag, since
    some chat templates open the tag in the prompt; after a tag that is never closed everything was thought, also where
    the prompt is known to have `opened` it.
    """
    if not (reasoning or opened or "<" in raw):
        return Choice(raw.strip(), "", finish, tuple(tokens))
    said_from = 0
    for closing in _CLOSE.finditer(raw):
        said_from = closing.end()
    said_to = 0 if opened and not said_from else len(raw)
    if opening := _OPEN.search(raw, said_from, said_to):
        said_to = opening.start()
    said = raw[said_from:said_to].strip()
    thought = "\n".join(part for part in (reasoning, raw[:said_from], raw[said_to:]) if part)
    thought = _CLOSE.sub("", _OPEN.sub("", thought)).strip()
    return Choice(said, thought, finish, _tokens_of(said, tokens) if thought else tuple(tokens))


def _tokens_of(said: str, tokens: Sequence[Token]) -> tuple[Token, ...]:
    """The last tokens that spell what was said: servers list those of the thought before them, or leave them out.

    None where no run of tokens spells it, since a signal from thought would be a false one.
    """
    for end in range(len(tokens), 0, -1):
        text = ""
        for start in range(end - 1, -1, -1):
            text = tokens[start].text + text
            if len(text.strip()) >= len(said):
                if text.strip() == said:
                    return tuple(tokens[start:end])
                break
    return ()
