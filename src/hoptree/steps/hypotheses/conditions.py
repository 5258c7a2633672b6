"""Questions for the things that fulfil several conditions: their conditions, and the candidates for each of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hoptree.comparing import detect
from hoptree.comparing.dates import date_spans
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.logic_tree import text_of
from hoptree.steps.hypotheses.names_asked import ASKS, asked_of, attributed, bare, named, named_spans, without_names
from hoptree.steps.linking.mentions import read_mentions
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import question_key, read_json
from hoptree.tree import Node

__all__ = ["Listing", "find_candidates", "may_list", "read_conditions", "split_conditions"]

_TOKENS, _LIST_TOKENS = 160, 256
_MOST_CONDITIONS = 4
_MOST_NAMES = 20
_OTHERWISE = re.compile(
    r"\b(?:not|never|no|none|neither|nor|or|except|without|unless|instead|how many|how much|other than"
    r"|most|least|more|less|only|[a-z]{3,}est"
    r"|(?:what|which|who)(?:\s+is|\s+was|\s+are|\s+were|['’]s)\s+the)\b|n['’]t\b",
    re.IGNORECASE,
)
_ELSE = re.compile(
    r"\b(?:besides|apart from|aside from|excluding|except(?:ing)?)\s|\b(?:what|which|who|whom)\s+(?:other|else)\b",
    re.IGNORECASE,
)
"""What is asked for beside what is named; a sentence may begin with these, so that they are taken for names."""
# "his first … film" says which film; what is told before it is asked, as in "… in the same year. Who was in both?",
# chooses nothing.
_CHOOSES = re.compile(r"\bsame\b|\b(?:first|last)\b(?!\s+…)", re.IGNORECASE)
_TOLD = re.compile(r"\A.*[.:;]\s+(?=(?:which|who|what|whom)\b)", re.IGNORECASE | re.DOTALL)
_JOINS = re.compile(r"\b(?:and|or|that|which)\b|\b(?:of|in|from|by|on|at|with|for|to)$", re.IGNORECASE)
"""In the words around a name, what says that they are not about it alone, or not all of what is said."""
_LEADS = re.compile(r"\b(?:for|by|of|in|with|to)\W*$", re.IGNORECASE)
_OF = re.compile(r"\s+(?:of|in|from|by|on|at|with)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is asked for, the conditions that each of it fulfils, the names that each of these is about, and all names
    of the question, none of which is asked for.
    """

    asked: str
    conditions: tuple[str, ...]
    about: tuple[str, ...]
    named: frozenset[str] = frozenset()


def may_list(question: str) -> bool:
    """Whether a question may ask for what fulfils several conditions: it asks which, and names two things or more.

    One that compares asks for neither's conditions; one that says not, or, most, besides, how many, or "what is the …
    of" asks for something else than the things that fulfil them.
    """
    plain = without_names(question)
    if not ASKS.search(plain) or _OTHERWISE.search(plain) or _ELSE.search(question):
        return False
    if _CHOOSES.search(_TOLD.sub("", plain)):
        return False
    return len(named(question)) > 1 and detect(question) is None


def read_conditions(reply: str, question: str) -> Listing | None:
    """The conditions in a reply; None where they are not two that each name something else of the question.

    Nor are they any where the words of the question cannot be parted between bare names. One that names nothing is left
    out: code could not check it. A bare name gets the words that the question has for it, and what is asked for is a
    condition itself where it names something: members of a band. Together they have all names of the question: one that
    none of them has is asked about in some other way, unless it only says which thing another is.
    """
    value = read_json(reply).value
    if not isinstance(value, Mapping):
        return None
    listed = value.get("conditions")
    texts = [text_of(one) for one in listed] if isinstance(listed, list) else []
    asked = text_of(value.get("asked")) or "things"
    said = f" {question_key(question)} "
    kept: dict[frozenset[str], str] = {}
    as_told: dict[str, str] = {}
    for told in texts:
        text = _in_words_of(said, told)
        as_told.setdefault(text, told)
        names = named(f"It {text}")
        if not all(f" {name} " in said for name in names):
            return None
        if names:
            kept.setdefault(names, text)
    counted = _counted(question)
    kept = {names: text for names, text in kept.items() if not names <= counted}
    asked, kept = _with_asked(_whole(question, asked, kept), kept)
    about = tuple(kept.values())
    worded = tuple(_worded(question, text, as_told.get(text, text), about, asked) for text in about)
    if not all(worded):
        return None
    known = counted.union(named(f"It {asked}"), *(named(f"It {text}") for text in worded))
    if any(not any(name in one for one in known) for name in named(question)):
        return None
    return Listing(asked, worded, about, named(question)) if 2 <= len(kept) <= _MOST_CONDITIONS else None


def _whole(question: str, asked: str, kept: Mapping[frozenset[str], str]) -> str:
    """What is asked for with a name right beside it that no condition has: Canadian provinces, towns in Aland."""
    names = [name for text in kept.values() for name in _spelled(text)]
    dates = date_spans(question)
    for name in (question[start:end] for start, end in named_spans(question) if (start, end) not in dates):
        key = question_key(name)
        said = any(key in one for about in kept for one in about)
        if said or any(attributed(question, one, [key]) != one for one in names):
            continue
        before, behind = re.escape(name), rf"(?:of|in|from)\s+(?:the\s+)?{re.escape(name)}"
        if found := re.search(rf"{before}\s+{re.escape(asked)}\b|\b{re.escape(asked)}\s+{behind}", question):
            return found[0]
    return asked


def _with_asked(asked: str, kept: dict[frozenset[str], str]) -> tuple[str, dict[frozenset[str], str]]:
    """What is asked for without its names, and these as a condition: members of a band are members, and of the band."""
    of = _OF.search(asked)
    names = named(f"It {asked[of.start() :]}") if of else frozenset()
    if not of or not names:
        return asked, kept
    said = " ".join(names)
    others = {about: text for about, text in kept.items() if not all(one in said for one in about)}
    return asked[: of.start()], {names: asked, **others}


def _counted(question: str) -> frozenset[str]:
    """The dates that only say which names follow them: "two films of 1932, A and B"."""
    dates = set(date_spans(question))
    return frozenset(
        question_key(question[one[0] : one[1]])
        for one, other in pairwise(named_spans(question))
        if one in dates and question[one[1] : other[0]].strip() in (",", ":")
    )


def _spelled(text: str) -> list[str]:
    """The names of a condition as they are written."""
    whole = f"It {text}"
    return [whole[start:end] for start, end in named_spans(whole)]


def _worded(question: str, text: str, told: str, others: Sequence[str], asked: str) -> str:
    """A condition in the words of the question, where it is but a name, and with what says which thing that is.

    Where these join several things ("did A write and B sing"), it stays as it was `told`; "" if that is but the name.
    """
    names = [name for one in others for name in ([one] if bare(one) else _spelled(one))]
    if bare(text):
        said = asked_of(question, text, names, asked)
        around = said.replace(text, "…")
        garbled = _JOINS.search(around)
        if (garbled or _LEADS.search(around)) and not bare(told):
            return told
        if garbled:
            return ""
        return f"connected with {said}" if bare(said) else said
    left = named(question).difference(*(map(question_key, _spelled(one)) for one in others))
    for name in _spelled(text):
        text = text.replace(name, attributed(question, name, left))
    return text


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
    ctx: Context, listing: Listing, number: int, box: EvidenceBox, *, node: Node
) -> tuple[str, ...]:
    """The names that evidence gives for one condition, each of which stands there together with a name of it.

    What the question names is what the conditions are about, and fulfils none.
    """
    if not box:
        return ()
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "candidates").fill(
        asked=listing.asked, condition=listing.conditions[number], texts=texts, facts=facts
    )
    reply = await ctx.generate("candidates", prompt, role="verify", max_tokens=_LIST_TOKENS, node=node)
    names = read_mentions(reply.text, most=_MOST_NAMES)
    note_reply(ctx, "candidates", "" if names or read_json(reply.text).ok else "no name")
    others = (name for name in names if not {question_key(name), question_key(f"{name}'s")} & listing.named)
    return tuple(name for name in others if box.supporting(name, f"It {listing.about[number]}"))
