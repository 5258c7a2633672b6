"""MIND's names and relations: which there are, how sure the model was of each, and which are worth searching for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hoptree.graph.naming import fold
from hoptree.names import name_spans
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.facts.calendar_words import tells_when
from hoptree.steps.reading.parse import read_json
from hoptree.uncertainty import Tagger, mentions, word_spans

__all__ = [
    "Candidate",
    "Filtered",
    "Kind",
    "choose_by_confidence",
    "choose_by_reasoning",
    "extract_candidates",
    "names_in",
]

Kind = Literal["entity", "relation"]
MAX_TOKENS = 128
_MOST, _LONGEST = 16, 120


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name or relation, where it first came from, and how sure the model was of it."""

    name: str
    kind: Kind = "entity"
    origin: Literal["question", "reasoning"] = "question"
    confidence: float = 0.5


@dataclass(frozen=True, slots=True)
class Filtered:
    """What a filter kept, and what not."""

    kept: tuple[Candidate, ...]
    dropped: tuple[Candidate, ...] = ()


async def extract_candidates(ctx: Context, question: str, tagger: Tagger) -> tuple[Candidate, ...]:
    """The names and relations that a model finds relevant to a question, and the names that the question has itself.

    Small models call relations entities: what has neither a capital nor a figure is a name only if nothing else is.
    """
    prompt = prompt_for(ctx.method, "extract").fill(question=question)
    reply = await ctx.generate("extract", prompt, role="extract", max_tokens=MAX_TOKENS)
    reading = read_json(reply.text)
    value = reading.value if isinstance(reading.value, dict) else {"entities": reading.value}
    entities, relations = _texts(value.get("entities")), _texts(value.get("relations"))
    readable = bool(entities or relations)
    error = "" if readable else reading.error or "no name"
    ctx.trace.add("parse", step="extract", ok=readable, repairs=list(reading.repairs), error=error)
    names = [one for one in entities if _is_name(one)]
    names += [one for one in names_in(question, tagger) if not any(mentions(one, name) for name in names)]
    common = [one for one in entities if not _is_name(one)]
    if not names:
        names, common = common, []
    found = [Candidate(name) for name in names] + [Candidate(name, "relation") for name in (*common, *relations)]
    once = _once_each(found)
    ctx.decide("extracted", [[one.name, one.kind] for one in once])
    return once


def _is_name(text: str) -> bool:
    """Whether a text has a figure, or a letter that is not small: scripts without capitals have no small ones."""
    return any(sign.isdigit() or (sign.isalpha() and not sign.islower()) for sign in text)


def names_in(text: str, tagger: Tagger) -> tuple[str, ...]:
    """The names in a text by their capitals; a word that only begins a sentence is none, unless it carries content.

    A month or a day of the week is none where it tells when something was.
    """
    found = []
    for start, end in name_spans(text):
        inside = [(first, last) for first, last in word_spans(text) if start <= first and last <= end]
        carrying = tagger.content(text, inside)
        while inside and not carrying[len(carrying) - len(inside)]:
            inside.pop(0)
        if inside and not tells_when(text, (inside[0][0], end)):
            found.append(text[inside[0][0] : end].removesuffix("'s").removesuffix("’s"))
    return tuple(dict.fromkeys(found))


async def choose_by_reasoning(
    ctx: Context, question: str, text: str, sentence: str, candidates: Sequence[Candidate]
) -> Filtered:
    """MIND's CoT filter: the names that a model needs for the next step; all of them if its reply names none.

    Relations stay: a model that is shown them among names keeps them and leaves nothing to search for.
    """
    names = [one for one in candidates if one.kind == "entity"]
    if not names:
        return Filtered(tuple(candidates))
    listed = "\n".join(f"{number}. {one.name}" for number, one in enumerate(names, 1))
    prompt = prompt_for(ctx.method, "filter").fill(
        question=question, text=text or "(nothing yet)", sentence=sentence, candidates=listed
    )
    reply = await ctx.generate("filter", prompt, role="filter", max_tokens=MAX_TOKENS)
    reading = read_json(reply.text)
    numbers = _numbers(reading.value, len(names))
    error = "" if numbers else reading.error or "no number of a name"
    ctx.trace.add("parse", step="filter", ok=bool(numbers), repairs=list(reading.repairs), error=error)
    if not numbers:
        return Filtered(tuple(candidates))
    left = [one for number, one in enumerate(names, 1) if number not in numbers]
    return _parted(candidates, [one for one in candidates if one not in left])


def choose_by_confidence(candidates: Sequence[Candidate], *, top_k: int, least: float | None = None) -> Filtered:
    """MIND's confidence filter: the surest `top_k`, or those that are at least this sure, but for the surest one.

    Names and relations are ranked together: what is kept may be relations alone.
    """
    ranked = sorted(candidates, key=lambda candidate: -candidate.confidence)
    if least is None:
        return _parted(candidates, ranked[:top_k])
    return _parted(candidates, [one for one in ranked if one.confidence >= least] or ranked[:1])


def _parted(candidates: Sequence[Candidate], kept: Sequence[Candidate]) -> Filtered:
    return Filtered(
        tuple(one for one in candidates if one in kept), tuple(one for one in candidates if one not in kept)
    )


def _numbers(value: Any, count: int) -> set[int]:
    if isinstance(value, dict):
        value = next((inner for inner in value.values() if isinstance(inner, list)), None)
    given = value if isinstance(value, list) else []
    return {n for one in given if isinstance(one, int | str) and (n := _number(one)) is not None and 0 < n <= count}


def _number(value: int | str) -> int | None:
    if isinstance(value, bool):
        return None
    text = str(value).strip(" .[]()")
    return int(text) if text.isdecimal() and len(text) < 4 else None


def _texts(value: Any) -> list[str]:
    given = value if isinstance(value, list) else [value]
    texts = (" ".join(one.split()) for one in given if isinstance(one, str))
    return [text for text in texts if word_spans(text) and len(text) <= _LONGEST][:_MOST]


def _once_each(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    found: dict[str, Candidate] = {}
    for candidate in candidates:
        found.setdefault(fold(candidate.name), candidate)
    return tuple(found.values())
