"""Prompt files: plain text with `{variables}`, checked when loaded, known by the hash of their text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from hoptree.core.errors import ConfigError
from hoptree.core.lazy import lazy_re
from hoptree.models.model import FOLLOW_UP, Message

_VARIABLE = lazy_re(r"\{([a-z_]+)\}")
_SECTION = lazy_re(r"^--- (system|user|assistant)\n", re.MULTILINE)
# What chat templates use to tell turns apart; in a text from outside it must not look like a turn.
_CONTROL = lazy_re(r"<(?=\|)|(?<=\|)>|<(?=/?(?:s|start_of_turn|end_of_turn|bos|eos)>)|\[(?=/?INST\])", re.IGNORECASE)


Shot = tuple[Mapping[str, str], str]
"""A worked example: the values of the last turn, and the reply."""


@dataclass(frozen=True, slots=True)
class Filled:
    """A prompt ready to be sent, the template it came from, and the beginning that is always the same."""

    messages: tuple[Message, ...]
    template: str
    opening: tuple[Message, ...] = ()

    def follow_up(self, reply: str, correction: str) -> Filled:
        """The same conversation after a reply that could not be used, and what was wrong with it."""
        turns = (Message("assistant", plain(reply)), Message("user", plain(correction)))
        return Filled(self.messages + turns, self.template + FOLLOW_UP, self.opening)


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt file: a section a turn, instructions first and what changes last, for the sake of prefix caches."""

    name: str
    digest: str
    sections: tuple[Message, ...]
    variables: frozenset[str]

    @property
    def template(self) -> str:
        """How calls, training rows and adapters name it; changes with its text."""
        return f"{self.name}@{self.digest}"

    def fill(self, *, shots: Sequence[Shot] = (), **values: str) -> Filled:
        """Put the values in, all in one pass: text inside a value is never taken for a variable or a turn.

        `shots` are worked examples: the last turn filled with their values, and the reply it should get.
        """
        *before, last = self.sections
        turns = [self._turn(part, values) for part in before]
        for given, reply in shots:
            turns += (self._turn(last, given), Message("assistant", reply))
        turns.append(self._turn(last, values))
        return Filled(tuple(turns), self.template, _opening(before if shots else self.sections))

    def _turn(self, part: Message, values: Mapping[str, str]) -> Message:
        if not self.variables <= values.keys():
            raise ConfigError(f"Prompt {self.name} takes {sorted(self.variables)}, not {sorted(values)}.")
        if "{" not in part.content:
            return part
        return Message(part.role, _VARIABLE.sub(lambda match: plain(values[match[1]]), part.content))


def _opening(sections: Sequence[Message]) -> tuple[Message, ...]:
    """Return the sections up to the first variable."""
    fixed: list[Message] = []
    for section in sections:
        if variable := _VARIABLE.search(section.content):
            begun = section.content[: variable.start()]
            return (*fixed, Message(section.role, begun)) if begun.strip() else tuple(fixed)
        fixed.append(section)
    return tuple(fixed)


def plain(text: str) -> str:
    """The text with chat-template control tokens broken up."""
    if "<" not in text and "|>" not in text and "[" not in text:
        return text
    return _CONTROL.sub(lambda match: match[0] + " " if match[0] in "<[" else " " + match[0], text)


@cache
def prompt_for(method: str, step: str) -> Prompt:
    """The prompt a method uses for a step: `prompts/METHOD/STEP.txt` of the package, or the one all methods share."""
    for name in (f"{method}/{step}", f"shared/{step}"):
        path = files("hoptree") / "prompts" / f"{name}.txt"
        if path.is_file():
            return read_prompt(name, path.read_text(encoding="utf-8"))
    raise ConfigError(f"{method} has no prompt for its step '{step}'.", "Prompts are files under hoptree/prompts.")


def prompts_digest(method: str) -> str:
    """A digest of all files a method's prompts may be made from, its own and those all methods share."""
    folder = files("hoptree") / "prompts"
    found = hashlib.sha256()
    for part in (method, "shared"):
        if (folder / part).is_dir():
            for path in sorted((folder / part).iterdir(), key=lambda path: path.name):
                found.update(f"{part}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def read_prompt(name: str, text: str) -> Prompt:
    """Split a prompt text into its sections; a text without any is one user turn."""
    parts = _SECTION.split(text)
    if len(parts) == 1:
        parts = ["", "user", text]
    sections = tuple(
        Message(role, content.strip())  # type: ignore[arg-type]
        for role, content in zip(parts[1::2], parts[2::2], strict=True)
    )
    found = frozenset(name for section in sections for name in _VARIABLE.findall(section.content))
    return Prompt(name, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8], sections, found)
