"""Prompt files, known by the hash of their text, and passages shown in them."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import ConfigError
from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.events import PassageTruncated, TextQuarantined
from hoptree.models.model import FOLLOW_UP, Message

if TYPE_CHECKING:
    import ahocorasick_rs

    from hoptree.engine.context import Context

_PROMPTS = Path(__file__).parent.parent / "prompts"  # importlib.resources is slow to import
_VARIABLE = lazy_re(r"\{([a-z_]+)\}")
_SECTION = lazy_re(r"^--- (system|user|assistant)\n", re.MULTILINE)
SECTIONS_HINT = "Write --- system, --- user and --- assistant on lines of their own; the last one is --- user."
# What chat templates use to tell turns apart; in a text from outside it must not look like a turn.
# Every branch begins with a letter of its own, which lets `re` skip the text between them.
_CONTROL = lazy_re(r"<(?=\||/?(?:s|start_of_turn|end_of_turn|bos|eos)>)|>(?<=\|>)|\[(?=/?INST\])", re.IGNORECASE)


Shot = tuple[Mapping[str, str], str]  # a worked example: the values of the last turn, and the reply
Filler = Callable[[Message, tuple[tuple[str, str], ...]], Message]


def _filled(part: Message, items: tuple[tuple[str, str], ...]) -> Message:
    values = dict(items)
    return Message(part.role, _VARIABLE.sub(lambda match: plain(values[match[1]]), part.content))


_filled_again = lru_cache(maxsize=256)(_filled)  # fills in worked examples, which are the same for every question


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
            turns += (self._turn(last, given, _filled_again), Message("assistant", reply))
        turns.append(self._turn(last, values))
        return Filled(tuple(turns), self.template, _opening(before if shots else self.sections))

    def _turn(self, part: Message, values: Mapping[str, str], fill: Filler = _filled) -> Message:
        if not self.variables <= values.keys():
            raise ConfigError(f"Prompt {self.name} takes {sorted(self.variables)}, not {sorted(values)}.")
        return fill(part, tuple(values.items())) if "{" in part.content else part


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


_in_use: ContextVar[tuple[str, Mapping[str, str]]] = ContextVar("prompts", default=("", {}))
"""The method at work, and the texts that stand in for the package's by file name."""


@contextmanager
def using_prompts(texts: Mapping[str, str], method: str) -> Iterator[None]:
    """Have a method's prompts and demonstrations read from these texts first, in this task and those it starts."""
    token = _in_use.set((method, texts))
    try:
        yield
    finally:
        _in_use.reset(token)


def prompt_for(method: str, step: str) -> Prompt:
    """Return a method's prompt for a step, or the one that all methods share."""
    for name in (f"{method}/{step}", f"shared/{step}"):
        if (text := prompt_text(f"{name}.txt")) is not None:
            return read_prompt(name, text)
    cause = f"{method} has no prompt for its step '{step}'."
    remedy = f"Add {method}/{step}.txt under hoptree/prompts, or call read_prompt(NAME, TEXT) in place of prompt_for."
    raise ConfigError(cause, remedy)


def read_demonstrations(name: str, method: str = "") -> str:
    """Return the text of a file of demonstrations, of the method at work if it has its own, or of all methods."""
    for folder in (method or _in_use.get()[0], "shared"):
        if (text := prompt_text(f"{folder}/{name}")) is not None:
            return text
    folder = method or _in_use.get()[0] or "shared"
    raise ConfigError(f"There are no demonstrations {name}.", f"Add {folder}/{name} under hoptree/prompts.")


def split_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines of a file of demonstrations with their numbers, without empty ones.

    Only a line feed ends a line: JSON texts may hold the other characters at which `splitlines` splits.
    """
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def read_rows(text: str) -> list[Any]:
    """Return the rows of a file of demonstrations."""
    return [json.loads(line) for _, line in split_lines(text)]


def prompt_text(name: str) -> str | None:
    """Return the text of a file as under `hoptree/prompts`; None where there is no such file."""
    _, texts = _in_use.get()
    return texts[name] if name in texts else packaged_text(name)


@cache
def packaged_text(name: str) -> str | None:
    """Return the text of a file of the package; None where there is no such file."""
    path = _PROMPTS / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def packaged_names() -> tuple[str, ...]:
    """Return the names of all prompts and demonstrations of the package, as METHOD/FILE."""
    folders = (folder for folder in _PROMPTS.iterdir() if folder.is_dir())
    return tuple(sorted(f"{folder.name}/{file.name}" for folder in folders for file in folder.iterdir()))


def prompts_digest(method: str) -> str:
    """Return a digest of a method's own prompt files and the shared ones."""
    digest = hashlib.sha256()
    for part in (method, "shared"):
        if (_PROMPTS / part).is_dir():
            for path in sorted((_PROMPTS / part).iterdir(), key=lambda path: path.name):
                digest.update(f"{part}/{path.name}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@lru_cache(maxsize=512)
def read_prompt(name: str, text: str) -> Prompt:
    """Split a prompt text into its sections; a text without any is one user turn."""
    parts = _SECTION.split(text)
    if len(parts) == 1:
        parts = ["", "user", text]
    if parts[0].strip():
        raise ConfigError(f"{name} has text before its first section and does not begin with one.", SECTIONS_HINT)
    sections = tuple(
        Message(role, content.strip())  # type: ignore[arg-type]
        for role, content in zip(parts[1::2], parts[2::2], strict=True)
    )
    variables = frozenset(name for section in sections for name in _VARIABLE.findall(section.content))
    return Prompt(name, hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8], sections, variables)


MAX_WORDS = 350  # words of a passage that a prompt shows, as in IRCoT
_MAX_ID_WORDS = 8  # titles and names of files have few
_SENTENCE = lazy_re(r"(?<=[.!?])\s+")
_ADDRESSES_MODEL = lazy_re(
    r"rag[\s\\_-]*required"
    # Orders to a reader: in the imperative, or about the instructions it was given; not "they ignored the rules".
    r"|(?:^|[,;:]\s?)\W{0,3}(?:please\s+|now\s+|and\s+|just\s+)*(?:ignore|disregard|forget)\b.{0,60}"
    r"\b(?:instructions?|prompts?|rules?|above|previous|guidelines|question)\b"
    r"|(?:^|[,;:]\s?)\W{0,3}(?:please\s+|now\s+|and\s+|just\s+)*(?:ignore|disregard|forget)\b.{0,20}"
    r"\b(?:all|everything|anything|what(?:ever)?)\b.{0,40}\b(?:told|said)\b"
    r"|\b(?:ignore|disregard|forget)\s+(?:(?:all|any|the|your|these|those|previous|prior|above|earlier|other)\s+)*"
    r"(?:instructions?|prompts?)\b"
    r"|^\W*(?:please\s+|now\s+)*(?:output|respond|reply|answer|print|say|write)\s+"
    r"(?:only|with|just|exactly|nothing\s+(?:but|else)|the\s+(?:word|text|phrase|string)\b)"
    r"|\byou\s+should\s+(?:now\s+)?(?:answer|output|respond|reply|say)\s*(?:with|only|exactly|:)"
    r"|\byou\s+(?:must|are\s+to|will)\s+(?:now\s+)?(?:answer|output|respond|reply|say|ignore|disregard)\b"
    r"|\bsystem\s+prompt\b|\bas\s+an?\s+(?:(?:ai|large)\s+)?(?:ai|language)\s+(?:assistant|model)\b",
    re.IGNORECASE,
)
_LOOKALIKES = str.maketrans(
    "аеіјоорсѕухԁһԛԝАВЕІЈКМНОРСЅТУХαιορνΑΒΕΗΙΚΜΝΟΡΤΥΧΖıİ", "aeijoopcsyxdhqwABEIJKMHOPCSTYXaiopvABEHIKMNOPTYXZiI"
)
"""Cyrillic, Greek and Turkish letters that look like Latin ones, with which an order may be disguised."""
_LOOKALIKE = lazy_re(f"[{''.join(map(chr, _LOOKALIKES))}]")
_SAYING = ("answer", "output", "respond", "reply", "print", "say", "write")
_ORDER_WORDS = (
    *("required", "ignore", "disregard", "forget", "system prompt", "you must ", "you are to ", "you will "),
    *(f"{ai} {name}" for ai in ("ai", "language") for name in ("assistant", "model")),
    *(f"{verb} {word}" for verb in _SAYING for word in ("only", "with", "just", "exactly", "nothing", "the ", ":")),
    *(f"{verb}{word}" for verb in _SAYING for word in ("only", "with", "exactly", ":")),
)
"""Whatever `_ADDRESSES_MODEL` matches holds one of these, in small letters and with single spaces."""
_NON_WORDS = lazy_re(r"[\W_]+")


def show_passages(ctx: Context | None, passages: Sequence[Passage], *, titles: bool) -> str:
    """Return passages as lines of a prompt."""
    return "\n".join(f"passage: {text}" for text in show_texts(ctx, passages, titles=titles))


def show_texts(ctx: Context | None, passages: Sequence[Passage], *, titles: bool) -> list[str]:
    """Return the text of each passage as a prompt shows it, with its title where there is one.

    Retrieved text is untrusted: sentences that give orders to the model are left out, with a warning unless there is
    no context to warn in.
    """
    shown = []
    for passage in passages:
        body, words, text_orders = _body(passage.text)
        title, title_orders = _without_orders(passage.title)
        if (orders := [*text_orders, *title_orders]) and ctx:
            ctx.emit(TextQuarantined(passage=passage.id, sentences=orders))
            message = f"{_name(passage)} holds text that gives orders to the model; those sentences were not read."
            ctx.warn("quarantine", message)
        if words > MAX_WORDS and ctx:
            ctx.emit(PassageTruncated(passage=passage.id, words=words, kept=MAX_WORDS))
            ctx.warn("truncated", f"{_name(passage)} is long; only its first {MAX_WORDS} words were read.")
        shown.append(f"{title}: {body}" if titles and title else body)
    return shown


def number_lines(texts: Iterable[str]) -> str:
    """Return texts as the numbered lines of a prompt."""
    return "\n".join(f"[{number}] {text}" for number, text in enumerate(texts, 1))


def show_line(ctx: Context, line: str, *, what: str) -> str:
    """Return a line of a list from outside without what gives orders, as `show_passages` does."""
    text, orders = _without_orders(line)
    if orders:
        ctx.emit(TextQuarantined(passage=what, sentences=list(orders)))
        ctx.warn("quarantine", f"The {what} hold text that gives orders to the model; it was not shown.")
    return text


def _name(passage: Passage) -> str:
    return f"Passage {passage.id}" if is_readable_id(passage.id) else "A passage"


def is_readable_id(text: str) -> bool:
    """Whether a model may read the id of a passage: whoever wrote the document may have put an order into it."""
    spaced = _NON_WORDS.sub(" ", text)  # names of files have other signs in the place of spaces
    orders = any(_ADDRESSES_MODEL.search(_as_read(form)) for form in (text, spaced))
    return not orders and len(text.split()) <= _MAX_ID_WORDS


@lru_cache(maxsize=4096)
def _body(text: str) -> tuple[str, int, tuple[str, ...]]:
    """Return the words of a passage that are shown, how many it has, and its sentences that address a model."""
    text, orders = _without_orders(text)
    words = text.count(" ") + 1 if text else 0
    return text if words <= MAX_WORDS else " ".join(text.split(" ", MAX_WORDS)[:MAX_WORDS]), words, orders


@lru_cache(maxsize=4096)
def _without_orders(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without its sentences that address a model, and those; cached, since passages come again."""
    text = _on_one_line(text)  # an order broken over two lines is one
    plain = text.lower() if text.isascii() else _on_one_line(_as_read(text)).lower()
    if not _order_finder().find_matches_as_indexes(plain):
        return text, ()
    sentences = _SENTENCE.split(text)
    orders = tuple(sentence for sentence in sentences if _ADDRESSES_MODEL.search(_as_read(sentence)))
    if not orders:
        return text, ()
    left_out = set(orders)
    return " ".join(sentence for sentence in sentences if sentence not in left_out), orders


def _on_one_line(text: str) -> str:
    """Return the words of a text with a space between them."""
    # Splitting takes three times as long as this check, and most passages pass it: of white space, only the space is
    # printable.
    is_one_line = text.isprintable() and "  " not in text and text.strip() == text
    return text if is_one_line else " ".join(text.split())


@cache
def _order_finder() -> ahocorasick_rs.AhoCorasick:
    """Return a finder of the words of orders, ten times as fast as the pattern on text that has none."""
    import ahocorasick_rs

    return ahocorasick_rs.AhoCorasick(_ORDER_WORDS)


def _as_read(text: str) -> str:
    """Return the text as a model reads it: no invisible characters, plain letters for wide or styled ones."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    if _LOOKALIKE.search(plain):  # most have none, and are not translated character by character
        plain = plain.translate(_LOOKALIKES)
    if plain.isprintable():
        return plain
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")
