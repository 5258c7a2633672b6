"""Having a model give scores to the lines of a list, and reading them in whatever form it writes them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.reading.parse import question_key, read_numbers

__all__ = ["Scores", "read_scores", "score_lines"]

_TOKENS_EACH, _TOKENS = 24, 32
_LABELLED = re.compile(r"\bscore[^\w.]{0,5}(\d{1,3}(?:\.\d{1,9})?|\.\d{1,9})", re.IGNORECASE)
_AT_THE_END = re.compile(r"[\]):=|–—-]\s{0,3}\(?(\d{1,2}(?:\.\d{1,9})?|\.\d{1,9})[\W_]*\Z")
_BARE_LIST = re.compile(r"[^\d.]{0,40}([\d.,;\s]{1,400})\W{0,9}")
_TAG = re.compile(r"\[(\d{1,4})\]")
_PIECE = re.compile(r"\n|(?=\[\d{1,4}\])")
_PIECES = 100
"""Lines of a reply, or parts of one that begin with a number, that are looked at."""
_NONE = re.compile(r"\W*(?:no|none|0)\b", re.IGNORECASE)
_LONGEST = 10_000
"""Characters of a reply that are looked at."""
_FAR = 400
"""Characters before a score in which what it belongs to is looked for."""


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores from 0 to 1 by the places of lines, and what it took to read them; `error` says why there are none.

    A reply that says that no line deserves any is understood, and has none.
    """

    by_place: Mapping[int, float]
    repairs: tuple[str, ...] = ()
    error: str = ""


def read_scores(reply: str, names: Sequence[Sequence[str]]) -> Scores:
    """The scores in a reply to lines that each go by several names.

    "{name (Score: 0.6)}" and "[2] 0.6" are read, on lines of their own or in a row, as far as a name or a number in
    brackets stands before the score; so is a score for every line in their order. Where lines are only named, all of
    these count alike. Scores above 1 are taken for marks up to 10 or 100.
    """
    text = reply[:_LONGEST]
    keys = [[question_key(name) for name in several if question_key(name)] for several in names]
    found: dict[int, float] = {}
    for said, score in _scored(text):
        place = _meant(said, keys)
        if place is not None:
            found.setdefault(place, score)
    if found:
        return Scores(_to_one(found))
    bare = _BARE_LIST.fullmatch(text)
    listed = re.findall(r"\d{0,3}\.\d{1,9}|\d{1,3}", bare[1]) if bare else []
    if len(listed) == len(names) > 1 and any("." in score for score in listed):
        return Scores(_to_one({place: float(score) for place, score in enumerate(listed)}), ("in order",))
    if chosen := _chosen(text, keys):
        return Scores(dict.fromkeys(chosen, 1 / len(chosen)), ("no scores",))
    return Scores({}) if _NONE.match(text) else Scores({}, error="no score" if text.strip() else "the reply is empty")


def _chosen(text: str, keys: Sequence[Sequence[str]]) -> list[int]:
    """The lines that a reply names, or gives the numbers of where it names none, each once."""
    pieces = _PIECE.split(text)[:_PIECES]
    if any(_named(piece, keys) is not None for piece in pieces):
        return list(dict.fromkeys(place for piece in pieces if (place := _meant(piece, keys)) is not None))
    return [number - 1 for number in read_numbers(text, len(keys))]


def _scored(text: str) -> Iterator[tuple[str, float]]:
    """What stands before each score, up to the one before it, and the score."""
    end = 0
    for match in _LABELLED.finditer(text):
        yield text[max(end, match.start() - _FAR) : match.start()].rpartition("\n")[2], float(match[1])
        end = match.end()
    if not end:
        for line in text.splitlines()[:100]:
            if ending := _AT_THE_END.search(line[-_FAR:]):
                yield line[-_FAR:][: ending.start() + 1], float(ending[1])


def _meant(said: str, keys: Sequence[Sequence[str]]) -> int | None:
    """The line that a text names, or else the one of its number: what is named is what was meant."""
    place = _named(said, keys)
    tags = [int(tag) for tag in _TAG.findall(said)]
    return place if place is not None or not tags or not 0 < tags[-1] <= len(keys) else tags[-1] - 1


def _named(said: str, keys: Sequence[Sequence[str]]) -> int | None:
    """The line whose name stands last in a text, the longest of those that end there."""
    words = f" {question_key(said)} "
    best: tuple[int, int] = (0, 0)
    place: int | None = None
    for number, several in enumerate(keys):
        for key in several:
            start = words.rfind(f" {key} ")
            if start >= 0 and (start + len(key), len(key)) > best:
                best, place = (start + len(key), len(key)), number
    return place


def _to_one(scores: Mapping[int, float]) -> dict[int, float]:
    most = max(scores.values())
    whole = 1.0 if most <= 1 else 10.0 if most <= 10 else 100.0 if most <= 100 else most
    return {place: score / whole for place, score in scores.items()}


async def score_lines(
    ctx: Context,
    step: str,
    question: str,
    lines: Sequence[str],
    *,
    names: Sequence[Sequence[str]],
    keep: int,
    temperature: float = 0.0,
) -> list[tuple[int, float]]:
    """The places of the lines that the model scores highest, `keep` at most, with their scores; none of 0.

    Of a reply that cannot be read, the first lines are kept and count alike.
    """
    if not lines:
        return []
    numbered = "\n".join(f"[{number}] {' '.join(line.split())}" for number, line in enumerate(lines, 1))
    few = min(keep, len(lines))
    prompt = prompt_for(ctx.method, step).fill(candidates=numbered, question=question, keep=str(few))
    tokens = _TOKENS + _TOKENS_EACH * few
    reply = await ctx.generate(step, prompt, role="link", max_tokens=tokens, temperature=temperature, part=True)
    read = read_scores(reply.text, names)
    ctx.trace.add("parse", step=step, ok=not read.error, repairs=list(read.repairs), error=read.error)
    scores = read.by_place if not read.error else dict.fromkeys(range(few), 1 / max(1, few))
    ranked = sorted(((place, score) for place, score in scores.items() if score > 0), key=lambda one: (-one[1], one[0]))
    return ranked[:keep]
