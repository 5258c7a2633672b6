"""Questions for things that fulfil several conditions: split into the conditions, with candidates for each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from hoptree.core.lazy import lazy_re
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.conditions import ASKING_WORD, Span, may_list, named, named_spans
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.logic_tree import text_of
from hoptree.methods.steps.mentions import read_mentions
from hoptree.text.loose_json import read_json
from hoptree.text.parse import question_key
from hoptree.text.quantities import date_spans
from hoptree.text.question_tree import Node

_WORD = lazy_re(r"[\w'’-]+")
_FUNCTION_WORD = lazy_re(
    r"in|of|on|at|to|for|with|by|from|into|the|an?|that|those|this|these|his|her|its|their|ones?|both|and|or|also|as"
    r"|well|again|still|later|did|do|does|have|has|had|is|are|was|were|who|which|some|same|too|where|whom|can|vs?",
    re.IGNORECASE,
)
"""Words that say nothing by themselves of what is asked of a name."""
_LEADING_JOINTS = lazy_re(
    r"^(?:\W*\b(?:and|or|also|again|still|later|as well as|as well|did|do|does|have|has|had|is|are|was|were|who|that"
    r"|which|some|the same)\b)*\W*",
    re.IGNORECASE,
)
_BOTH = lazy_re(r"\s*\b(?:both|in common|as well(?! as)|also|too)\b", re.IGNORECASE)
_PREPOSITION = lazy_re(r"^(?:of|in|on|at|from|by|with|for)\b", re.IGNORECASE)
_ENDS_INVERTED = lazy_re(r"\b(?:did|do|does|have|has|had|where|whom)\W*$", re.IGNORECASE)
"""Before a name of which the question says behind it what is asked: "films did Ann Low direct"."""
_KIND_PHRASE = lazy_re(r"(?:the|his|her|its|their|an?)(?:\s+[a-z-]+){1,2}", re.IGNORECASE)
"""Before a name, what kind of thing it is: the pitcher, his brother."""
_COUNT_PHRASE = lazy_re(r"\b(?:two|three|four|five|six)\s+(?:[\w'’-]+\s+){0,3}[\w'’-]+\s*[,:]\s*$", re.IGNORECASE)
"""What names behind it are counted by: "roles in two films of 1932, A and B"."""


def _is_bare_name(text: str) -> bool:
    """Return whether a text is a name and nothing more."""
    before, behind = f"It {text}", ""
    for start, end in reversed(named_spans(before)):
        behind, before = f"{before[end:]} {behind}", before[:start]
    return before.strip().casefold() in ("it", "it the", "it a") and not _says_something(behind)


def _with_attribute(question: str, name: str, left: Iterable[str]) -> str:
    """Return a name with one of those `left` before it that says which it is: the 2011 comedy Night Train."""
    at = _find(question, name)
    for start, end in named_spans(question):
        if at is None:
            break
        between = question[end : at[0]].split()
        if (
            question_key(question[start:end]) in left
            and end < at[0]
            and len(between) < 3
            and _are_common_nouns(between)
        ):
            return question[start : at[1]]
    return name


def _with_words_asked(question: str, name: str, names: Iterable[str], asked: str) -> str:
    """A bare name with the words of the question that say what is asked of it; itself where there are none.

    They stand before it, or before the names that it is listed with, or behind these. `names` are those of all
    conditions, in whatever order.
    """
    if _find(question, f"{name} {asked}"):
        return f"{name} {asked}"
    places = sorted(place for one in names if (place := _find(question, one)))
    lead, kind = "", ""
    for number, (start, end) in enumerate(places):
        gap = question[places[number - 1][1] if number else _end_of_asked(question, asked) : start]
        before = _before(gap)
        kind = f"{before} " if (is_kind := bool(_KIND_PHRASE.fullmatch(before))) else ""
        if _ENDS_INVERTED.search(_BOTH.sub("", gap)) or (is_kind and _ENDS_INVERTED.search(gap[: gap.rfind(before)])):
            lead = ""
        elif not is_kind and (_says_something(before) or (before and not number)):
            lead = f"{asked} {before}" if not number and _PREPOSITION.match(before) else before
        if question[start:end].casefold() == name.casefold():
            behind = "" if lead else _behind(question, places[number:])
            return " ".join(f"{lead} {kind}{name} {behind}".split())
    return name


def _before(gap: str) -> str:
    """Return what the words before a name say of it."""
    return _BOTH.sub("", _LEADING_JOINTS.sub("", _COUNT_PHRASE.sub("", gap))).strip(" ,:;")


def _behind(question: str, places: list[Span]) -> str:
    """Return what is said behind a name, or behind those that are listed with it."""
    for (_, end), other in zip_longest(places, places[1:]):
        words = question[end : other[0]] if other else question[end:]
        words = _ENDS_INVERTED.sub("", _BOTH.sub("", words)).strip(" ,:;.?!")
        if (other and not _says_something(_before(words))) or _KIND_PHRASE.fullmatch(_before(words)):
            continue
        return words if _says_something(words) and not ASKING_WORD.search(words) else ""
    return ""


def _end_of_asked(question: str, asked: str) -> int:
    """Return where the words begin that come behind what is asked for, or behind the word that asks."""
    found = _find(question, asked)
    asks = ASKING_WORD.search(question)
    return found[1] if found else asks.end() if asks else 0


def _says_something(words: str) -> bool:
    return any(not _FUNCTION_WORD.fullmatch(word) for word in _WORD.findall(words))


def _are_common_nouns(words: Iterable[str]) -> bool:
    """Return whether words may stand between an attribute and its name: comedy, thriller, bands."""
    return all(word.isalpha() and word.islower() and not _FUNCTION_WORD.fullmatch(word) for word in words)


def _find(question: str, words: str) -> Span | None:
    found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", question, re.IGNORECASE)
    return found.span() if found else None


_CONDITION_TOKENS, _CANDIDATE_TOKENS = 160, 256
_MAX_CONDITIONS = 4
_MAX_NAMES = 20
_JOINT_WORDS = lazy_re(r"\b(?:and|or|that|which)\b|\b(?:of|in|from|by|on|at|with|for|to)$", re.IGNORECASE)
"""In the words around a name, what says that they are not about it alone, or not all of what is said."""
_ENDS_WITH_PREPOSITION = lazy_re(r"\b(?:for|by|of|in|with|to)\W*$", re.IGNORECASE)
_OF = lazy_re(r"\s+(?:of|in|from|by|on|at|with)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Listing:
    """What is asked for, its conditions, the names that each is about, and all names of the question.

    None of the names of the question is what is asked for.
    """

    asked: str
    conditions: tuple[str, ...]
    about: tuple[str, ...]
    named: frozenset[str] = frozenset()


@decision("conditions")
class ConditionsSplit(Decision):
    """The conditions of a question, none where it has no such conditions, and what is asked for."""

    value: list[str]
    asked: str


def read_conditions(reply: str, question: str) -> Listing | None:
    """Read the conditions in a reply; None where they are not two that each name something else of the question.

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
    question_words = f" {question_key(question)} "
    kept: dict[frozenset[str], str] = {}
    as_written: dict[str, str] = {}
    for written in texts:
        text = _strip_added_words(question_words, written)
        as_written.setdefault(text, written)
        names = named(f"It {text}")
        if not all(f" {name} " in question_words for name in names):
            return None
        if names:
            kept.setdefault(names, text)
    counted = _counting_dates(question)
    kept = {names: text for names, text in kept.items() if not names <= counted}
    asked, kept = _split_asked(_with_missing_name(question, asked, kept), kept)
    about = tuple(kept.values())
    worded = tuple(_word(question, text, as_written.get(text, text), about, asked) for text in about)
    if not all(worded):
        return None
    known = counted.union(named(f"It {asked}"), *(named(f"It {text}") for text in worded))
    if any(not any(name in one for one in known) for name in named(question)):
        return None
    return Listing(asked, worded, about, named(question)) if 2 <= len(kept) <= _MAX_CONDITIONS else None


def _with_missing_name(question: str, asked: str, kept: Mapping[frozenset[str], str]) -> str:
    """Add to what is asked for a name right beside it that no condition has: Canadian provinces, towns in Aland."""
    names = [name for text in kept.values() for name in _names_as_written(text)]
    dates = date_spans(question)
    for name in (question[start:end] for start, end in named_spans(question) if (start, end) not in dates):
        key = question_key(name)
        mentioned = any(key in one for about in kept for one in about)
        if mentioned or any(_with_attribute(question, one, [key]) != one for one in names):
            continue
        before, behind = re.escape(name), rf"(?:of|in|from)\s+(?:the\s+)?{re.escape(name)}"
        if found := re.search(rf"{before}\s+{re.escape(asked)}\b|\b{re.escape(asked)}\s+{behind}", question):
            return found[0]
    return asked


def _split_asked(asked: str, kept: dict[frozenset[str], str]) -> tuple[str, dict[frozenset[str], str]]:
    """Turn names in what is asked for into a condition: members of a band are members, and of the band."""
    of = _OF.search(asked)
    names = named(f"It {asked[of.start() :]}") if of else frozenset()
    if not of or not names:
        return asked, kept
    joined = " ".join(names)
    others = {about: text for about, text in kept.items() if not all(name in joined for name in about)}
    return asked[: of.start()], {names: asked, **others}


def _counting_dates(question: str) -> frozenset[str]:
    """Return the dates that only say which names follow them: "two films of 1932, A and B"."""
    dates = set(date_spans(question))
    return frozenset(
        question_key(question[one[0] : one[1]])
        for one, other in pairwise(named_spans(question))
        if one in dates and question[one[1] : other[0]].strip() in (",", ":")
    )


def _names_as_written(text: str) -> list[str]:
    """Return the names of a condition as they are written."""
    sentence = f"It {text}"
    return [sentence[start:end] for start, end in named_spans(sentence)]


def _word(question: str, text: str, written: str, others: Sequence[str], asked: str) -> str:
    """Put a condition that is but a name into the words of the question, with what says which thing that is.

    Where these join several things ("did A write and B sing"), it stays as in the reply; "" if that is but the name.
    """
    names = [name for one in others for name in ([one] if _is_bare_name(one) else _names_as_written(one))]
    if _is_bare_name(text):
        worded = _with_words_asked(question, text, names, asked)
        around = worded.replace(text, "…")
        garbled = _JOINT_WORDS.search(around)
        if (garbled or _ENDS_WITH_PREPOSITION.search(around)) and not _is_bare_name(written):
            return written
        if garbled:
            return ""
        return f"connected with {worded}" if _is_bare_name(worded) else worded
    left = named(question).difference(*(map(question_key, _names_as_written(one)) for one in others))
    for name in _names_as_written(text):
        text = text.replace(name, _with_attribute(question, name, left))
    return text


def _strip_added_words(question: str, condition: str) -> str:
    """Remove words in front that the question does not have: models put in verbs of their own."""
    words = condition.split()
    while words and f" {question_key(words[0])} " not in question:
        words = words[1:]
    return " ".join(words)


async def split_conditions(ctx: Context, question: str) -> Listing | None:
    """Ask for the conditions of a question that asks for what fulfils all of them; None for any other question."""
    if not may_list(question):
        return None
    prompt = prompt_for(ctx.method, "conditions").fill(question=question)
    reply = await ctx.generate("conditions", prompt, role="decompose", max_tokens=_CONDITION_TOKENS)
    found = read_conditions(reply.text, question)
    note_reply(ctx, "conditions", "" if isinstance(read_json(reply.text).value, Mapping) else "no object")
    ctx.emit(ConditionsSplit(value=list(found.conditions) if found else [], asked=found.asked if found else ""))
    return found


async def find_candidates(
    ctx: Context, listing: Listing, number: int, box: EvidenceBox, *, node: Node
) -> tuple[str, ...]:
    """Ask for the names that evidence gives for a condition; each must stand there together with a name of it.

    What the question names is what the conditions are about, and fulfils none.
    """
    if not box:
        return ()
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "candidates").fill(
        asked=listing.asked, condition=listing.conditions[number], texts=texts, facts=facts
    )
    reply = await ctx.generate("candidates", prompt, role="verify", max_tokens=_CANDIDATE_TOKENS, node=node)
    names = read_mentions(reply.text, most=_MAX_NAMES)
    note_reply(ctx, "candidates", "" if names or read_json(reply.text).ok else "no name")
    others = (name for name in names if not {question_key(name), question_key(f"{name}'s")} & listing.named)
    return tuple(name for name in others if box.supporting(name, f"It {listing.about[number]}"))
