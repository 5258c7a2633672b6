"""MIND's candidate entities, their confidence, and the paper's filters."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.generation_view import GenerationView, Name
from hoptree.engine.prompts import prompt_for
from hoptree.engine.sentence_view import number
from hoptree.methods.steps.answer import note_reply
from hoptree.text.loose_json import read_json
from hoptree.text.names import Tagger, capitalised_names, fold
from hoptree.text.parse_labels import read_numbers
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, find_mentions
from hoptree.text.tokens import word_spans

Filter = Literal["none", "cot", "confidence", "cot+confidence"]
_MAX_TOKENS = 128
_MAX_NAMES, _MAX_NAME_CHARS = 16, 120
MAX_TEXT_NAMES = 64  # names of a question or a draft that are candidates; each is held against all others


@dataclass(frozen=True, slots=True)
class Candidate:
    """A name or relation, where it first came from, and how sure the model was of it."""

    name: str
    kind: Literal["entity", "relation"] = "entity"
    origin: Literal["question", "reasoning"] = "question"
    confidence: float = NEUTRAL_CONFIDENCE


@decision("extracted")
class EntitiesExtracted(Decision):
    """The candidates of the question: pairs of name and kind."""

    value: list[list[str]]

    def add_to(self, view: GenerationView) -> None:
        view.extracted = tuple(name for name, _ in self.value)


@decision("filtered")
class EntitiesFiltered(Decision):
    """The names kept for a search, and all `candidates` with what dropped them."""

    value: list[str]
    filters: str
    in_doubt: list[str] = field(default_factory=list)  # this and the next as in stored traces
    safe: list[str] = field(default_factory=list)
    candidates: list[list[Any]] = field(default_factory=list)

    def add_to(self, view: GenerationView) -> None:
        view.part.names = tuple(
            Name(str(name), str(kind), str(origin), number(confidence), str(dropped_by or ""))
            for name, kind, origin, confidence, dropped_by in self.candidates
        )


async def extract_candidates(ctx: Context, question: str, tagger: Tagger) -> tuple[Candidate, ...]:
    """Ask for the names and relations of a question; add its capitalised names.

    Small models call relations entities: what has neither a capital nor a figure is a name only if nothing else is.
    """
    prompt = prompt_for(ctx.method, "extract").fill(question=question)
    reading = read_json((await ctx.generate("extract", prompt, role="extract", max_tokens=_MAX_TOKENS)).text)
    value = reading.value if isinstance(reading.value, dict) else {"entities": reading.value}
    entities, relations = _texts(value.get("entities")), _texts(value.get("relations"))
    readable = bool(entities or relations)
    note_reply(ctx, "extract", "" if readable else reading.error or "no name", reading.repairs)
    names = list(filter(_is_name, entities))
    names += [
        name
        for name in capitalised_names(question, tagger)[:MAX_TEXT_NAMES]
        if not any(find_mentions(name, other) for other in names)
    ]
    common = [name for name in entities if not _is_name(name)]
    if not names:
        names, common = common, []
    candidates: dict[str, Candidate] = {}
    for candidate in (*map(Candidate, names), *(Candidate(name, "relation") for name in (*common, *relations))):
        candidates.setdefault(fold(candidate.name), candidate)
    ctx.emit(EntitiesExtracted(value=[[candidate.name, candidate.kind] for candidate in candidates.values()]))
    return tuple(candidates.values())


def _texts(value: Any) -> list[str]:
    listed = value if isinstance(value, list) else [value]
    texts = (" ".join(text.split()) for text in listed if isinstance(text, str))
    return [text for text in texts if word_spans(text) and len(text) <= _MAX_NAME_CHARS][:_MAX_NAMES]


def _is_name(text: str) -> bool:
    """Return whether a text has a digit or a letter that is not lower case."""
    return any(sign.isdigit() or (sign.isalpha() and not sign.islower()) for sign in text)


async def dropped_by_reasoning(
    ctx: Context, question: str, text: str, sentence: str, candidates: Sequence[Candidate]
) -> list[Candidate]:
    """Return the names that the CoT filter drops; none where its reply names none that the next step needs.

    Relations stay: a model that is shown them among names keeps them and leaves nothing to search for.
    """
    names = [candidate for candidate in candidates if candidate.kind == "entity"]
    if not names:
        return []
    listed = "\n".join(f"{number}. {candidate.name}" for number, candidate in enumerate(names, 1))
    prompt = prompt_for(ctx.method, "filter").fill(
        question=question, text=text or "(nothing yet)", sentence=sentence, candidates=listed
    )
    reply = await ctx.generate("filter", prompt, role="filter", max_tokens=_MAX_TOKENS)
    needed, value = reply.text, read_json(reply.text).value
    if isinstance(value, dict):
        needed = json.dumps(next((listed for listed in value.values() if isinstance(listed, list)), []))
    numbers = read_numbers(needed.replace('"', ""), len(names))
    note_reply(ctx, "filter", "" if numbers else "no number of a name")
    return [candidate for number, candidate in enumerate(names, 1) if numbers and number not in numbers]


def dropped_by_confidence(
    candidates: Sequence[Candidate], *, top_k: int, least: float | None = None
) -> list[Candidate]:
    """Return what the confidence filter drops: all but `top_k`, or below `least`, where the surest one stays."""
    ranked = sorted(candidates, key=lambda candidate: -candidate.confidence)
    count = top_k if least is None else max(1, sum(candidate.confidence >= least for candidate in ranked))
    return ranked[count:]
