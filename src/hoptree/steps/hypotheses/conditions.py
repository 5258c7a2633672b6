"""Questions for the things that fulfil several conditions: their conditions, and the candidates for each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hoptree.comparing import detect
from hoptree.comparing.dates import date_spans
from hoptree.names import name_spans
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.logic_tree import text_of
from hoptree.steps.linking.mentions import read_mentions
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import question_key, read_json
from hoptree.tree import Node

__all__ = ["Listing", "find_candidates", "may_list", "read_conditions", "split_conditions"]

_TOKENS, _LIST_TOKENS = 160, 256
_MOST_CONDITIONS = 4
_MOST_NAMES = 20
_OTHERWISE = re.compile(
    r"\b(?:not|never|no|none|neither|nor|or|except|without|unless|instead|how many|how much|same|other than"
    r"|most|least|more|less|first|last|only|[a-z]{3,}est"
    r"|(?:what|which|who)(?:\s+is|\s+was|\s+are|\s+were|['’]s)\s+the)\b|n['’]t\b",
    re.IGNORECASE,
)
_FIRST = re.compile(r"\W*\w+")
_ASKS = re.compile(r"\b(?:which|who|what|whom|list|name)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is asked for, and the conditions that each of it fulfils."""

    asked: str
    conditions: tuple[str, ...]


def may_list(question: str) -> bool:
    """Whether a question may ask for what fulfils several conditions: it asks which, and names two things or more.

    One that compares asks for neither's conditions; one that says not, or, most, how many, or "what is the … of" asks
    for something else than the things that fulfil them.
    """
    plain = _without_names(question)
    if not _ASKS.search(plain) or _OTHERWISE.search(plain):
        return False
    return len(_named(question)) > 1 and detect(question) is None


def _without_names(text: str) -> str:
    first = _FIRST.match(text)
    for start, end in reversed(name_spans(text, first.end() if first else 0)):
        text = text[:start] + "…" + text[end:]
    return text


def _named(text: str) -> frozenset[str]:
    """The names and dates in a text that begins with no name, folded."""
    first = _FIRST.match(text)
    spans = [*name_spans(text, first.end() if first else 0), *date_spans(text)]
    return frozenset(filter(None, (question_key(text[start:end]) for start, end in spans)))


def read_conditions(reply: str, question: str) -> Listing | None:
    """The conditions in a reply; None where they are not two that each name something else of the question.

    Together they have all of its names: one that none of them has is asked about in some other way.
    """
    value = read_json(reply).value
    if not isinstance(value, Mapping):
        return None
    listed = value.get("conditions")
    texts = [text_of(one) for one in listed] if isinstance(listed, list) else []
    asked = text_of(value.get("asked")) or "things"
    said = f" {question_key(question)} "
    kept: dict[frozenset[str], str] = {}
    for text in (_in_words_of(said, one) for one in texts):
        names = _named(f"It {text}")
        if not names or not all(f" {name} " in said for name in names):
            return None
        kept.setdefault(names, text)
    left = [name for name in _named(question) if not any(name in one for names in kept for one in names)]
    return Listing(asked, tuple(kept.values())) if 2 <= len(kept) <= _MOST_CONDITIONS and not left else None


def _in_words_of(question: str, condition: str) -> str:
    """The condition without words in front that the question does not have: models put in verbs of their own."""
    words = condition.split()
    while words and f" {question_key(words[0])} " not in question:
        words = words[1:]
    return " ".join(words)


async def split_conditions(ctx: Context, question: str) -> Listing | None:
    """The conditions of a question that asks for what fulfils all of them; None for any other question."""
    if not may_list(question):
        return None
    prompt = prompt_for(ctx.method, "conditions").fill(question=question)
    reply = await ctx.generate("conditions", prompt, role="decompose", max_tokens=_TOKENS)
    found = read_conditions(reply.text, question)
    note_reply(ctx, "conditions", "" if isinstance(read_json(reply.text).value, Mapping) else "no object")
    ctx.decide("conditions", list(found.conditions) if found else [], asked=found.asked if found else "")
    return found


async def find_candidates(
    ctx: Context, listing: Listing, condition: str, box: EvidenceBox, *, node: Node
) -> tuple[str, ...]:
    """The names that evidence gives for one condition, each of which stands there together with a name of it."""
    if not box:
        return ()
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "candidates").fill(
        asked=listing.asked, condition=condition, texts=texts, facts=facts
    )
    reply = await ctx.generate("candidates", prompt, role="verify", max_tokens=_LIST_TOKENS, node=node)
    names = read_mentions(reply.text, most=_MOST_NAMES)
    note_reply(ctx, "candidates", "" if names or read_json(reply.text).ok else "no name")
    return tuple(name for name in names if box.supporting(name, f"It {condition}"))
