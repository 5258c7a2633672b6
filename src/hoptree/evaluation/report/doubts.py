"""What the page shows of a text that was written with doubts: its words, and what was done about those in doubt."""

from __future__ import annotations

from typing import Any

from hoptree.runtime.said import LEVELS, Said, SaidWord
from hoptree.runtime.writing import Part, ReadFact, SubQuery, Writing

__all__ = ["shown_writing"]

_PARTS, _WORDS, _LISTED = 80, 500, 20
"""Sentences of a text, words of a sentence, and facts, names or samples of one of them."""
_LETTERS = 300

Piece = str | list[str | int | float | None]


def shown_writing(writing: Writing) -> dict[str, Any]:
    """The writing as the page's script reads it; what is empty is left out.

    A word is a list: its text, its level of doubt, 1 if it is in doubt or 2 if it does not count (else 0), and then
    entropy, share of attention and score, or else its probability alone. What stands between words is a plain text.
    """
    return _filled(
        {
            "levels": list(LEVELS) if writing.told_by else [],
            "toldBy": writing.told_by,
            "explained": writing.explained,
            "names": [_cut(name) for name in writing.extracted[:_LISTED]],
            "first": [_query(query) for query in writing.first],
            "parts": [_part(part) for part in writing.parts[:_PARTS]],
            "more": max(0, len(writing.parts) - _PARTS),
            "facts": [_fact(fact) for fact in writing.facts[:_LISTED]],
            "conflicts": [[[_cut(text) for text in fact] for fact in group] for group in writing.conflicts[:_LISTED]],
            "missing": [_cut(name, 40) for name in writing.missing],
            "stopped": _cut(writing.stopped, 40),
            "asked": writing.asked_for_answer,
            "answers": [[_cut(way, 40), _cut(text), _rounded(left)] for way, text, left in writing.answers],
            "taken": _cut(writing.taken, 40),
        }
    )


def _part(part: Part) -> dict[str, Any]:
    said = part.said
    return _filled(
        {
            "said": _pieces(said),
            "compared": said.compared,
            "doubted": said.triggered,
            "samples": [_cut(sample) for sample in said.samples[:_LISTED]] if said.triggered else [],
            "names": [
                [_cut(one.name), _cut(one.kind, 40), _rounded(one.confidence), _cut(one.dropped_by, 40)]
                for one in part.names[: 2 * _LISTED]
            ],
            "sought": [_cut(name) for name in part.in_doubt[:_LISTED]],
            "queries": [_query(query) for query in part.queries],
            "skipped": _fact(part.skipped) if part.skipped is not None else {},
            "facts": [_fact(fact) for fact in part.facts[:_LISTED]],
            "shown": [_cut(line) for line in part.shown[:_LISTED]],
            "tried": [[_cut(name), _rounded(left)] for name, left in part.tried[:_LISTED]],
            "leftOut": [_cut(word) for word in part.left_out[:_LISTED]],
            "again": _pieces(part.again) if part.again is not None else [],
            "againCompared": part.again.compared if part.again is not None else "",
            "replaced": part.replaced,
            "lost": part.kept is False,
            "outcome": part.outcome,
        }
    )


def _pieces(said: Said) -> list[Piece]:
    found: list[Piece] = []
    for text, word in said.pieces:
        if len(found) >= _WORDS:
            return [*found, " …"]
        found.append(_cut(text) if word is None else _word(text, word))
    return found


def _word(text: str, word: SaidWord) -> list[str | int | float | None]:
    mark = 1 if word.hit else 0 if word.content else 2
    if word.entropy is not None:
        numbers = [_rounded(word.entropy), _rounded(word.attention), _rounded(word.score)]
    else:
        numbers = [] if word.probability is None else [_rounded(word.probability)]
    return [_cut(text), word.level, mark, *numbers]


def _query(query: SubQuery) -> dict[str, Any]:
    """`search` is the place of the search among those of the trace; without it, nothing was searched for."""
    told = {"again": query.again, "repeated": query.repeated}
    place = {} if query.search is None else {"search": query.search}
    return {"query": _cut(query.query), **_filled(told), **place}


def _fact(fact: ReadFact) -> dict[str, Any]:
    return _filled(
        {
            "fact": [_cut(text) for text in fact.fact],
            "confidence": _rounded(fact.confidence),
            "passage": _cut(fact.passage),
            "title": _cut(fact.title),
            "sentence": _cut(fact.sentence),
            "outcome": _cut(fact.outcome, 40),
            "turn": fact.turn,
        }
    )


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", [], {}, None, False)}


def _cut(text: str, letters: int = _LETTERS) -> str:
    return text if len(text) <= letters else f"{text[:letters]}…"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
