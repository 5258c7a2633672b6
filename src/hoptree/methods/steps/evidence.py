"""Show passages in a prompt: short, and without sentences that give orders to the model."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.engine.events import PassageTruncated, TextQuarantined

MAX_WORDS = 350
"""Words of a passage that a prompt shows, as in IRCoT."""
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
    "аеіјоорсѕухԁһԛԝАВЕІЈКМНОРСЅТУХαιορνΑΒΕΗΙΚΜΝΟΡΤΥΧΖ", "aeijoopcsyxdhqwABEIJKMHOPCSTYXaiopvABEHIKMNOPTYXZ"
)
"""Cyrillic and Greek letters that look like Latin ones, with which an order may be disguised."""
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
        text, text_orders = _without_orders(passage.text)
        title, title_orders = _without_orders(passage.title)
        if (orders := [*text_orders, *title_orders]) and ctx:
            ctx.emit(TextQuarantined(passage=passage.id, sentences=orders))
            message = f"{_name(passage)} holds text that gives orders to the model; those sentences were not read."
            ctx.warn("quarantine", message)
        words = text.split()
        if len(words) > MAX_WORDS and ctx:
            ctx.emit(PassageTruncated(passage=passage.id, words=len(words), kept=MAX_WORDS))
            ctx.warn("truncated", f"{_name(passage)} is long; only its first {MAX_WORDS} words were read.")
        body = " ".join(words[:MAX_WORDS])
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
def _without_orders(text: str) -> tuple[str, tuple[str, ...]]:
    """Return the text without its sentences that address a model, and those; cached, since passages come again."""
    text = " ".join(text.split())  # an order broken over two lines is one
    sentences = _SENTENCE.split(text)
    orders = tuple(sentence for sentence in sentences if _ADDRESSES_MODEL.search(_as_read(sentence)))
    if not orders:
        return text, ()
    return " ".join(sentence for sentence in sentences if sentence not in orders), orders


def _as_read(text: str) -> str:
    """Return the text as a model reads it: no invisible characters, plain letters for wide or styled ones."""
    if text.isascii():
        return text
    plain = unicodedata.normalize("NFKC", text).translate(_LOOKALIKES)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf")
