"""Prompt files: plain text with `{variables}`, checked when loaded, known by the hash of their text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
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


@dataclass(frozen=True, slots=True)
class _InUse:
    """The texts that stand in for the package's by file name, and the method that asks for demonstrations."""

    method: str = ""
    texts: Mapping[str, str] | None = None


_PACKAGED = _InUse()
_in_use: ContextVar[_InUse] = ContextVar("prompts", default=_PACKAGED)


@contextmanager
def using_prompts(texts: Mapping[str, str], method: str) -> Iterator[None]:
    """Have a method's prompts and demonstrations read from these texts first, in this task and those it starts."""
    token = _in_use.set(_InUse(method, texts or None))
    try:
        yield
    finally:
        _in_use.reset(token)


def prompt_for(method: str, step: str) -> Prompt:
    """The prompt a method uses for a step: `prompts/METHOD/STEP.txt`, or the one all methods share.

    Texts that `using_prompts` names stand in for those of the package.
    """
    for name in (f"{method}/{step}", f"shared/{step}"):
        if (text := prompt_text(f"{name}.txt")) is not None:
            return read_prompt(name, text)
    raise ConfigError(f"{method} has no prompt for its step '{step}'.", "Prompts are files under hoptree/prompts.")


def demonstrations(name: str, method: str = "") -> str:
    """Return the text of a file of demonstrations, of the method at work if it has its own, or of all methods."""
    for folder in (method or _in_use.get().method, "shared"):
        if (text := prompt_text(f"{folder}/{name}")) is not None:
            return text
    raise ConfigError(f"There are no demonstrations {name}.", "They are files under hoptree/prompts.")


def prompt_text(name: str) -> str | None:
    """Return the text of a file as under `hoptree/prompts`; None where there is no such file."""
    texts = _in_use.get().texts
    return packaged_text(name) if texts is None or name not in texts else texts[name]


@cache
def packaged_text(name: str) -> str | None:
    """Return the text of a file of the package; None where there is no such file."""
    path = files("hoptree") / "prompts" / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def packaged_names() -> tuple[str, ...]:
    """Return the names of all prompts and demonstrations of the package, as METHOD/FILE."""
    folders = (folder for folder in (files("hoptree") / "prompts").iterdir() if folder.is_dir())
    return tuple(sorted(f"{folder.name}/{file.name}" for folder in folders for file in folder.iterdir()))


def prompts_digest(method: str) -> str:
    """A digest of all files a method's prompts may be made from, its own and those all methods share."""
    folder = files("hoptree") / "prompts"
    found = hashlib.sha256()
    for part in (method, "shared"):
        if (folder / part).is_dir():
            for path in sorted((folder / part).iterdir(), key=lambda path: path.name):
                found.update(f"{part}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


@lru_cache(maxsize=512)
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
