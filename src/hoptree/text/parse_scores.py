"""Read the scores that a reply gives to lines of a list."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hoptree.text.parse import question_key
from hoptree.text.parse_relevance import read_numbers

_MAX_REPLY_CHARS = 10_000
_MAX_NAME_CHARS = 400  # before a score, in which what it belongs to is looked for
_MAX_PIECES = 100
_LABELLED = re.compile(r"\bscore[^\w.]{0,5}(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})", re.IGNORECASE)
_AT_LINE_END = re.compile(r"[\]):=|–—-]\s{0,3}\(?(\d{1,2}(?:\.\d{1,9})?|\.\d{1,9})[\W_]*\Z")
_BARE_LIST = re.compile(r"[^\d.]{0,40}([\d.,;\s]{1,400})\W{0,9}")
_NUMBER_TAG = re.compile(r"\[(\d{1,4})\]")
_PIECE_START = re.compile(r"\n|(?=\[\d{1,4}\])")
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores from 0 to 1 by the places of lines, and what it took to read them; `error` says why there are none.

    A reply that says that no line deserves any is understood, and has none.
    """

    by_place: Mapping[int, float]
    repairs: tuple[str, ...] = ()
    error: str = ""


def read_scores(reply: str, names: Sequence[Sequence[str]]) -> Scores:
    """Read the scores of lines that each go by several names.

    "{name (Score: 0.6)}" and "[2] 0.6" are read, on lines of their own or in a row, as far as a name or a number in
    brackets stands before the score; so is a score for every line in their order. Where lines are only named, all of
    these count alike. Scores above 1 are taken for marks up to 10 or 100.
    """
    text = reply[:_MAX_REPLY_CHARS]
    keys = [[key for name in synonyms if (key := question_key(name))] for synonyms in names]
    scores: dict[int, float] = {}
    for before, score in _scored(text):
        if (place := _place_of(before, keys)) is not None:
            scores.setdefault(place, score)
    if scores:
        return Scores(_to_unit(scores))
    bare = _BARE_LIST.fullmatch(text)
    listed = re.findall(r"\d{0,3}\.\d{1,9}|\d{1,3}", bare[1]) if bare else []
    if len(listed) == len(names) > 1 and any("." in score for score in listed):
        return Scores(_to_unit({place: float(score) for place, score in enumerate(listed)}), ("in order",))
    if chosen := _chosen(text, keys):
        return Scores(dict.fromkeys(chosen, 1 / len(chosen)), ("no scores",))
    return Scores({}) if _NONE.match(text) else Scores({}, error="no score" if text.strip() else "the reply is empty")


def _scored(text: str) -> Iterator[tuple[str, float]]:
    """Yield what stands before each score, up to the one before it, and the score."""
    end = 0
    for match in _LABELLED.finditer(text):
        yield text[max(end, match.start() - _MAX_NAME_CHARS) : match.start()].rpartition("\n")[2], float(match[1])
        end = match.end()
    if not end:
        for line in text.splitlines()[:_MAX_PIECES]:
            tail = line[-_MAX_NAME_CHARS:]
            if ending := _AT_LINE_END.search(tail):
                yield tail[: ending.start() + 1], float(ending[1])


def _chosen(text: str, keys: Sequence[Sequence[str]]) -> list[int]:
    """Return the lines that a reply names, or gives the numbers of where it names none, each once."""
    pieces = _PIECE_START.split(text)[:_MAX_PIECES]
    if any(_named(piece, keys) is not None for piece in pieces):
        return list(dict.fromkeys(place for piece in pieces if (place := _place_of(piece, keys)) is not None))
    return [number - 1 for number in read_numbers(text, len(keys))]


def _place_of(text: str, keys: Sequence[Sequence[str]]) -> int | None:
    """Return the line that a text names, or else the one of its last number."""
    place = _named(text, keys)
    tags = [int(tag) for tag in _NUMBER_TAG.findall(text)]
    return place if place is not None or not tags or not 0 < tags[-1] <= len(keys) else tags[-1] - 1


def _named(text: str, keys: Sequence[Sequence[str]]) -> int | None:
    """Return the line whose name stands last in a text, the longest of those that end there."""
    words = f" {question_key(text)} "
    best: tuple[int, int] = (0, 0)
    place: int | None = None
    for number, synonyms in enumerate(keys):
        for key in synonyms:
            start = words.rfind(f" {key} ")
            if start >= 0 and (start + len(key), len(key)) > best:
                best, place = (start + len(key), len(key)), number
    return place


def _to_unit(scores: Mapping[int, float]) -> dict[int, float]:
    highest = max(scores.values())
    scale = 1.0 if highest <= 1 else 10.0 if highest <= 10 else 100.0 if highest <= 100 else highest
    return {place: score / scale for place, score in scores.items()}
