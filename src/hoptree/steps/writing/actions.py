"""Actions that a model writes in tags: what it wants to search for, or its answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hoptree.steps.reading.loose_json import MAX_REPLY

__all__ = ["Action", "break_tags", "read_action"]

MAX_SAID = 500
"""Characters of what is searched for or answered that are kept."""
_TAG = re.compile(r"<\s*+(?P<close>/?)\s*+(?P<name>search|answer|information)\s*+>", re.IGNORECASE)
_ANY = re.compile(r"<(?=\s*+/?\s*+(?:search|answer|information|think)\s*+>)", re.IGNORECASE)
_THOUGHT = "</think>"
_PLACEHOLDERS = {"search": "query", "answer": "answer"}
"""What stands for the text of an action where its form is told."""


@dataclass(frozen=True, slots=True)
class Action:
    """What a model does next, and where that ends in what it wrote: what follows is not its own to write.

    It is not `closed` where the model was stopped, or forgot to.
    """

    kind: Literal["search", "answer", "none"] = "none"
    text: str = ""
    end: int = 0
    closed: bool = True

    def within(self, said: str) -> str:
        """What a model said up to the end of its action, with the tag that closes it."""
        return said[: self.end].rstrip() + ("" if self.closed else f"</{self.kind}>")


def read_action(text: str) -> Action:
    """The first action in what a model wrote; of several answers in a row the last.

    Behind its thoughts, or within them where there is none behind. A tag that is not closed reaches to the next one, or
    to the end of its line. One that is opened again begins there. Other tags inside an action are dropped, and what is
    empty is no action, nor is the form copied as it was told: <search> query </search>.
    """
    text = text[:MAX_REPLY]
    behind = text.rfind(_THOUGHT)
    action = _first(text, behind + len(_THOUGHT)) if behind >= 0 else Action()
    return action if action.kind != "none" else _first(text, 0)


def _first(text: str, at: int) -> Action:
    taken = Action(end=len(text))
    while found := _TAG.search(text, at):
        at = found.end()
        name = found["name"].casefold()
        if name == "information":  # nobody gave it that: it writes the rest of the dialogue by itself
            return taken if taken.text else Action(end=found.start())
        if found["close"]:
            continue
        action = _inside(text, name, at)
        at = action.end
        if not action.text:
            continue
        if name == "search":
            return taken if taken.text else action
        taken = action
    return taken


def _inside(text: str, name: str, start: int) -> Action:
    """What stands between an opening tag and its close, or what ends it in place of one."""
    inner = 0
    for tag in _TAG.finditer(text, start):
        if tag["name"].casefold() == "information":
            break
        same = tag["name"].casefold() == name
        if same and not tag["close"]:  # begun again
            start, inner = tag.end(), 0
        elif not tag["close"]:
            inner += 1
        elif same:
            return _action(name, text[start : tag.start()], tag.end(), closed=True)
        elif not inner:
            break
    following = _TAG.search(text, start)
    inside = text[start : following.start() if following else len(text)]
    end = start + len(inside) - len(inside.lstrip())
    line = text[end : start + len(inside)].split("\n", 1)[0]
    return _action(name, line, end + len(line), closed=False)


def _action(name: str, inside: str, end: int, *, closed: bool) -> Action:
    said = " ".join(_TAG.sub(" ", inside).split())[:MAX_SAID].strip()
    if said.rstrip(".").casefold() == _PLACEHOLDERS[name]:
        said = ""
    return Action("search" if name == "search" else "answer", said, end, closed)


def break_tags(text: str) -> str:
    """A text from outside, in which no tag counts."""
    return _ANY.sub("‹", text)
