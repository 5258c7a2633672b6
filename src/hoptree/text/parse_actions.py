"""Read what a model does next between the tags of Search-R1: a search or an answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from hoptree.text.loose_json import MAX_REPLY_CHARS

_MAX_ACTION_CHARS = 500
_TAG = re.compile(r"<\s*+(?P<close>/?)\s*+(?P<name>search|answer|information)\s*+>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<(?=\s*+/?\s*+(?:search|answer|information|think)\s*+>)", re.IGNORECASE)
_THOUGHT_END = "</think>"
_PLACEHOLDERS = {"search": "query", "answer": "answer"}  # what the instructions have for the text of an action


@dataclass(frozen=True, slots=True)
class Action:
    """What a model does next, and where that ends in its reply: what follows is not its own to write.

    It is not `closed` where the model was stopped, or forgot the closing tag.
    """

    kind: Literal["search", "answer", "none"] = "none"
    text: str = ""
    end: int = 0
    closed: bool = True

    def within(self, reply: str) -> str:
        """Return a reply up to the end of the action, with the tag that closes it."""
        return reply[: self.end].rstrip() + ("" if self.closed else f"</{self.kind}>")


def read_action(text: str) -> Action:
    """Return the first action in a reply; of several answers in a row the last.

    It is looked for behind the thoughts first, then within them. A tag that is not closed reaches to the next one, or
    to the end of its line. Other tags inside an action are dropped. Neither an empty action counts nor the form copied
    from the instructions: <search> query </search>.
    """
    text = text[:MAX_REPLY_CHARS]
    thought_end = text.rfind(_THOUGHT_END)
    action = _first_action(text, thought_end + len(_THOUGHT_END)) if thought_end >= 0 else Action()
    return action if action.kind != "none" else _first_action(text, 0)


def _first_action(text: str, place: int) -> Action:
    answer = Action(end=len(text))
    while tag := _TAG.search(text, place):
        place = tag.end()
        name = tag["name"].casefold()
        if name == "information":  # the model goes on with results that nobody gave it
            return answer if answer.text else Action(end=tag.start())
        if tag["close"]:
            continue
        action = _action_at(text, name, place)
        place = action.end
        if action.text and name == "search":
            return answer if answer.text else action
        answer = action if action.text else answer
    return answer


def _action_at(text: str, name: str, start: int) -> Action:
    """Return the action between an opening tag and its close, or what ends it in place of one."""
    nested = 0
    for tag in _TAG.finditer(text, start):
        if tag["name"].casefold() == "information":
            break
        same = tag["name"].casefold() == name
        if same and not tag["close"]:  # begun again
            start, nested = tag.end(), 0
        elif not tag["close"]:
            nested += 1
        elif same:
            return _make_action(name, text[start : tag.start()], tag.end(), closed=True)
        elif not nested:
            break
    following = _TAG.search(text, start)
    inside = text[start : following.start() if following else len(text)]
    line_start = start + len(inside) - len(inside.lstrip())
    line = text[line_start : start + len(inside)].split("\n", 1)[0]
    return _make_action(name, line, line_start + len(line), closed=False)


def _make_action(name: str, inside: str, end: int, *, closed: bool) -> Action:
    content = " ".join(_TAG.sub(" ", inside).split())[:_MAX_ACTION_CHARS].strip()
    if content.rstrip(".").casefold() == _PLACEHOLDERS[name]:
        content = ""
    return Action("search" if name == "search" else "answer", content, end, closed)


def break_tags(text: str) -> str:
    """Return a text from outside in which no tag counts."""
    return _ANY_TAG.sub("‹", text)
