"""Prompt files, identified by a hash of their text, and passages in prompts."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
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
    from hoptree.engine.registry import Method

_PROMPTS = Path(__file__).parent.parent / "prompts"  # importlib.resources is slow to import
_VARIABLE = lazy_re(r"\{([a-z_]+)\}")
_SECTION = lazy_re(r"^--- (system|user|assistant)\n", re.MULTILINE)
SECTIONS_HINT = "Write --- system, --- user and --- assistant on lines of their own; the last one is --- user."
# The control tokens of chat templates, with which a text from outside could imitate a turn.
# Every branch begins with another character, which lets `re` skip the text between matches.
_CONTROL = lazy_re(r"<(?=\||/?(?:s|start_of_turn|end_of_turn|bos|eos)>)|>(?<=\|>)|\[(?=/?INST\])", re.IGNORECASE)


Shot = tuple[Mapping[str, str], str]  # a worked example: the values of the last turn, and the reply
Filler = Callable[[Message, tuple[tuple[str, str], ...]], Message]


def _filled(part: Message, items: tuple[tuple[str, str], ...]) -> Message:
    values = dict(items)
    return Message(part.role, _VARIABLE.sub(lambda match: break_control_tokens(values[match[1]]), part.content))


_filled_cached = lru_cache(maxsize=256)(_filled)  # for worked examples, which are the same for every question


@dataclass(frozen=True, slots=True)
class Filled:
    """A prompt ready to be sent, its template, and the beginning that never changes."""

    messages: tuple[Message, ...]
    template: str
    opening: tuple[Message, ...] = ()

    def follow_up(self, reply: str, correction: str) -> Filled:
        """Return the prompt for a second attempt, with the bad reply and a correction."""
        turns = (Message("assistant", break_control_tokens(reply)), Message("user", break_control_tokens(correction)))
        return Filled(self.messages + turns, self.template + FOLLOW_UP, self.opening)


@dataclass(frozen=True, slots=True)
class Prompt:
    """A prompt file: a section a turn, instructions first, as prefix caches need."""

    name: str
    digest: str
    sections: tuple[Message, ...]
    variables: frozenset[str]

    @property
    def template(self) -> str:
        """The name in calls, training rows and adapters, which changes with the text."""
        return f"{self.name}@{self.digest}"

    def fill(self, *, shots: Sequence[Shot] = (), **values: str) -> Filled:
        """Fill in the values in one pass: a value's text has no variables and no turns.

        `shots` are worked examples: values for the last turn, and the reply to it.
        """
        *before, last = self.sections
        turns = [self._turn(part, values) for part in before]
        for given, reply in shots:
            turns += (self._turn(last, given, _filled_cached), Message("assistant", reply))
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


def break_control_tokens(text: str) -> str:
    """Return the text with the control tokens of chat templates broken up."""
    if "<" not in text and "|>" not in text and "[" not in text:
        return text
    return _CONTROL.sub(lambda match: match[0] + " " if match[0] in "<[" else " " + match[0], text)


_in_use: ContextVar[tuple[str, Mapping[str, str]]] = ContextVar("prompts", default=("", {}))
"""The running method, and the texts that replace the package's by file name."""


@contextmanager
def using_prompts(texts: Mapping[str, str], method: str) -> Iterator[None]:
    """Prefer these texts to the package's, in this task and those it starts."""
    token = _in_use.set((method, texts))
    try:
        yield
    finally:
        _in_use.reset(token)


def prompt_for(method: str, step: str) -> Prompt:
    """Return a method's prompt for a step, or the shared one."""
    for name in (f"{method}/{step}", f"shared/{step}"):
        if (text := prompt_text(f"{name}.txt")) is not None:
            return read_prompt(name, text)
    cause = f"{method} has no prompt for its step '{step}'."
    remedy = f"Add {method}/{step}.txt under hoptree/prompts, or call read_prompt(NAME, TEXT) in place of prompt_for."
    raise ConfigError(cause, remedy)


def read_demonstrations(name: str, method: str = "") -> str:
    """Return demonstrations: those of `method` or the running one, else the shared."""
    for folder in (method or _in_use.get()[0], "shared"):
        if (text := prompt_text(f"{folder}/{name}")) is not None:
            return text
    folder = method or _in_use.get()[0] or "shared"
    raise ConfigError(f"There are no demonstrations {name}.", f"Add {folder}/{name} under hoptree/prompts.")


def split_lines(text: str) -> list[tuple[int, str]]:
    """Return the non-empty lines of a file of demonstrations with their numbers.

    Only a line feed ends a line: JSON texts may hold other characters at which `splitlines` splits.
    """
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def read_rows(text: str) -> list[Any]:
    """Return the rows of a file of demonstrations."""
    return [json.loads(line) for _, line in split_lines(text)]


def prompt_text(name: str) -> str | None:
    """Return the text of a file, the user's own or the package's; None without one."""
    _, texts = _in_use.get()
    return texts[name] if name in texts else packaged_text(name)


@cache
def packaged_text(name: str) -> str | None:
    """Return the text of a file under `hoptree/prompts`; None without such a file."""
    path = _PROMPTS / name
    return path.read_text(encoding="utf-8") if path.is_file() else None


@cache
def packaged_names() -> tuple[str, ...]:
    """Return all prompts and demonstrations of the package, as METHOD/FILE."""
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
    """Split a prompt text into its sections; a text without headers is one user turn."""
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
_MAX_ID_WORDS = 8  # titles and file names are shorter
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
"""Cyrillic, Greek and Turkish letters that look like Latin ones and may disguise an order."""
_LOOKALIKE = lazy_re(f"[{''.join(map(chr, _LOOKALIKES))}]")
_SAYING = ("answer", "output", "respond", "reply", "print", "say", "write")
_INSTRUCTION_WORDS = (
    *("required", "ignore", "disregard", "forget", "system prompt", "you must ", "you are to ", "you will "),
    *(f"{ai} {name}" for ai in ("ai", "language") for name in ("assistant", "model")),
    *(f"{verb} {word}" for verb in _SAYING for word in ("only", "with", "just", "exactly", "nothing", "the ", ":")),
    *(f"{verb}{word}" for verb in _SAYING for word in ("only", "with", "exactly", ":")),
)
"""Every match of `_ADDRESSES_MODEL` contains one of these, in lower case and with single spaces."""
_NON_WORDS = lazy_re(r"[\W_]+")


def show_passages(ctx: Context | None, passages: Sequence[Passage], *, titles: bool) -> str:
    """Return passages as lines of a prompt."""
    return "\n".join(f"passage: {text}" for text in show_texts(ctx, passages, titles=titles))


def show_texts(ctx: Context | None, passages: Sequence[Passage], *, titles: bool) -> list[str]:
    """Return the text of each passage for a prompt, with its title if it has one.

    Retrieved text is untrusted: instructions to the model (prompt injection) are left out sentence by sentence, with a
    warning if there is a context.
    """
    shown = []
    for passage in passages:
        body, words, in_text = _body(passage.text)
        title, in_title = _without_instructions(passage.title)
        if (instructions := [*in_text, *in_title]) and ctx:
            ctx.emit(TextQuarantined(passage=passage.id, sentences=instructions))
            message = (
                f"{_name(passage)} holds text that gives instructions to the model; those sentences were not read."
            )
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
    """Return a line of an untrusted list without instructions to the model."""
    text, instructions = _without_instructions(line)
    if instructions:
        ctx.emit(TextQuarantined(passage=what, sentences=list(instructions)))
        ctx.warn("quarantine", f"The {what} hold text that gives instructions to the model; it was not shown.")
    return text


def _name(passage: Passage) -> str:
    return f"Passage {passage.id}" if is_readable_id(passage.id) else "A passage"


def is_readable_id(text: str) -> bool:
    """Return whether a passage id is short and without instructions to a model."""
    spaced = _NON_WORDS.sub(" ", text)  # file names have other characters instead of spaces
    instructions = any(_ADDRESSES_MODEL.search(_as_read(form)) for form in (text, spaced))
    return not instructions and len(text.split()) <= _MAX_ID_WORDS


@lru_cache(maxsize=4096)
def _body(text: str) -> tuple[str, int, tuple[str, ...]]:
    """Return a passage's shown words, its number of words, and sentences left out."""
    text, instructions = _without_instructions(text)
    words = text.count(" ") + 1 if text else 0
    return text if words <= MAX_WORDS else " ".join(text.split(" ", MAX_WORDS)[:MAX_WORDS]), words, instructions


@lru_cache(maxsize=4096)
def _without_instructions(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without sentences that instruct a model, and these."""
    text = _on_one_line(text)  # so that an instruction on two lines is found
    folded = text.lower() if text.isascii() else _on_one_line(_as_read(text)).lower()
    if not _instruction_finder().find_matches_as_indexes(folded):
        return text, ()
    sentences = _SENTENCE.split(text)
    instructions = tuple(sentence for sentence in sentences if _ADDRESSES_MODEL.search(_as_read(sentence)))
    if not instructions:
        return text, ()
    left_out = set(instructions)
    return " ".join(sentence for sentence in sentences if sentence not in left_out), instructions


def _on_one_line(text: str) -> str:
    """Return the words of a text with a space between them."""
    # Most passages pass this check, which is three times as fast as splitting: the only printable white space is " ".
    is_one_line = text.isprintable() and "  " not in text and text.strip() == text
    return text if is_one_line else " ".join(text.split())


@cache
def _instruction_finder() -> ahocorasick_rs.AhoCorasick:
    """Return a finder of `_INSTRUCTION_WORDS`, ten times as fast as the pattern."""
    import ahocorasick_rs

    return ahocorasick_rs.AhoCorasick(_INSTRUCTION_WORDS)


def _as_read(text: str) -> str:
    """Return the text without invisible characters, and with plain letters for others."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text)
    if _LOOKALIKE.search(plain):  # most texts have none, and `translate` is slow
        plain = plain.translate(_LOOKALIKES)
    if plain.isprintable():
        return plain
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")


@dataclass(frozen=True, slots=True)
class OwnPrompts:
    """Texts by file name, as under `hoptree/prompts`, without those that equal ours.

    `shared/FILE` replaces a prompt that methods share, `METHOD/FILE` the prompt of one method, even if the method
    itself uses the shared one.
    """

    texts: Mapping[str, str] = field(default_factory=dict)

    def of(self, method: Method) -> dict[str, str]:
        """Return the digests, by file name, of the texts that a method may use."""
        if not self.texts:
            return {}
        from hoptree.engine.own_prompts import files_of
        from hoptree.engine.registry import load_method

        method = load_method(method.name) or method  # parts of a method run under the method's name
        names = {name for used in files_of(method) for name in (used, f"{method.name}/{used.partition('/')[2]}")}
        used = sorted(name for name in self.texts if name in names)
        return {name: hashlib.sha256(self.texts[name].encode("utf-8")).hexdigest()[:8] for name in used}
