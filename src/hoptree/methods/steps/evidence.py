"""Passages as a prompt shows them: short, numbered by nobody, and without sentences that talk to the model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from hoptree.core.values import Passage
from hoptree.engine.context import Context

MAX_WORDS = 350
"""Words of a passage a prompt shows, as IRCoT caps them."""

_ID_WORDS = 8
"""Words of an id that a model may read: titles and names of files have few."""
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ADDRESSES_MODEL = re.compile(
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
_LOOKS_LIKE = str.maketrans(
    "аеіјоорсѕухԁһԛԝАВЕІЈКМНОРСЅТУХαιορνΑΒΕΗΙΚΜΝΟΡΤΥΧΖ", "aeijoopcsyxdhqwABEIJKMHOPCSTYXaiopvABEHIKMNOPTYXZ"
)
"""Cyrillic and Greek letters that look like Latin ones: an order may be written with some of them."""
_BETWEEN = re.compile(r"[\W_]+")


def show_passages(ctx: Context, passages: Sequence[Passage], *, titles: bool) -> str:
    """The passages as lines of a prompt.

    Retrieved text is untrusted: a sentence that gives orders to its reader is left out, and the answer says so.
    """
    shown = []
    for passage in passages:
        text, dropped = _without_orders(passage.text)
        title, title_dropped = _without_orders(passage.title)
        if dropped or title_dropped:
            ctx.trace.add("quarantine", passage=passage.id, sentences=[*dropped, *title_dropped])
            ctx.warn(
                "quarantine",
                f"{_named(passage)} holds text that gives orders to the model; those sentences were not read.",
            )
        words = text.split()
        if len(words) > MAX_WORDS:
            ctx.trace.add("truncated", passage=passage.id, words=len(words), kept=MAX_WORDS)
            ctx.warn("truncated", f"{_named(passage)} is long; only its first {MAX_WORDS} words were read.")
        body = " ".join(words[:MAX_WORDS])
        shown.append(f"passage: {title}: {body}" if titles and title else f"passage: {body}")
    return "\n".join(shown)


def is_readable_id(text: str) -> bool:
    """Whether a model may read the id of a passage: whoever wrote the document may have put an order into it."""
    spaced = _BETWEEN.sub(" ", text)  # names of files have other signs in the place of spaces
    orders = any(_ADDRESSES_MODEL.search(_as_read(said)) for said in (text, spaced))
    return not orders and len(text.split()) <= _ID_WORDS


def show_line(ctx: Context, line: str, *, what: str) -> str:
    """A line of a list that comes from outside, as `show_passages` would show it: without what gives orders."""
    text, dropped = _without_orders(line)
    if dropped:
        ctx.trace.add("quarantine", passage=what, sentences=list(dropped))
        ctx.warn("quarantine", f"The {what} hold text that gives orders to the model; it was not shown.")
    return text


def _named(passage: Passage) -> str:
    return f"Passage {passage.id}" if is_readable_id(passage.id) else "A passage"


@lru_cache(maxsize=4096)
def _without_orders(text: str) -> tuple[str, tuple[str, ...]]:
    """The text without its sentences that address a model, and those; remembered, since passages come again."""
    text = " ".join(text.split())  # an order broken over two lines is one
    sentences = _SENTENCE.split(text)
    orders = tuple(sentence for sentence in sentences if _ADDRESSES_MODEL.search(_as_read(sentence)))
    if not orders:
        return text, ()
    return " ".join(sentence for sentence in sentences if sentence not in orders), orders


def _as_read(text: str) -> str:
    """The text as a model reads it: without invisible letters, and with plain ones in place of wide or styled ones."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text).translate(_LOOKS_LIKE)
    return "".join(one for one in plain if unicodedata.category(one) != "Cf")
