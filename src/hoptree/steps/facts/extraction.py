"""Asking a model for the facts of one passage, and keeping those that the passage itself can vouch for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from hoptree.graph.naming import fold
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.facts.wording import Wording
from hoptree.steps.reading.triples import Triple, read_triples
from hoptree.values import Passage

__all__ = ["MAX_TOKENS", "Extracted", "LeftOut", "StatedFact", "extract_facts", "facts_template", "ground_triples"]

MAX_TOKENS = 512
"""About thirty facts; a small model that has begun to repeat itself goes on to the end."""
_PROMPTS, _STEP = "graph", "facts"

LeftOut = Literal["malformed", "not in the passage", "no name", "repeated"]
"""Why something that a model wrote as a fact is none."""

_NO_NAMES = frozenset(
    (
        *("he", "she", "it", "they", "him", "her", "them", "his", "hers", "its", "their", "theirs", "i", "we", "you"),
        *("me", "us", "who", "whom", "whose", "which", "that", "this", "these", "those", "there", "someone", "one"),
        *("somebody", "something", "himself", "herself", "itself", "themselves", "the", "a", "an", "none", "unknown"),
    )
)


@dataclass(frozen=True, slots=True)
class StatedFact:
    """A fact that a passage states; `sentence` is where, "" if nothing but its title holds both names."""

    subject: str
    relation: str
    object: str
    sentence: str = ""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came of one passage.

    `readable` is False for a reply that holds neither facts nor the word that there are none, `cut_off` says that it
    ended for its length; what it had said until then counts.
    """

    facts: tuple[StatedFact, ...] = ()
    left_out: Mapping[LeftOut, int] = field(default_factory=dict)
    readable: bool = True
    cut_off: bool = False


def facts_template() -> str:
    """The name and digest of the prompt."""
    prompt = prompt_for(_PROMPTS, _STEP)
    return f"{prompt.name}@{prompt.digest}"


async def extract_facts(ctx: Context, passage: Passage) -> Extracted:
    """The facts that a model finds in a passage, names as the passage spells them.

    Sentences of the passage that give orders to a model are neither shown nor taken for evidence.
    """
    title = _shown(ctx, Passage(passage.id, "", passage.title))
    text = _shown(ctx, replace(passage, title=""))
    if not text:
        return Extracted()
    prompt = prompt_for(_PROMPTS, _STEP).fill(title=title or "(none)", passage=text)
    reply = await ctx.generate(_STEP, prompt, role="extract", max_tokens=MAX_TOKENS)
    cut_off = reply.finish == "length"
    read = read_triples(reply.text, cut=cut_off)
    facts, left_out = ground_triples(read.triples, title, text)
    if read.malformed:
        left_out["malformed"] = read.malformed
    return Extracted(facts, left_out, read.understood, cut_off)


def ground_triples(
    triples: Sequence[Triple], title: str, text: str
) -> tuple[tuple[StatedFact, ...], dict[LeftOut, int]]:
    """The triples whose subject and object stand in a passage, each once with its sentence; and how many do not."""
    wording = Wording(title, text)
    facts: dict[tuple[str, ...], StatedFact] = {}
    left_out: Counter[LeftOut] = Counter()
    for subject, relation, said in triples:
        if _nameless(subject) or _nameless(said) or fold(subject) == fold(said):
            left_out["no name"] += 1
            continue
        of, about = wording.spelled(subject), wording.spelled(said)
        if not of or not about:
            left_out["not in the passage"] += 1
            continue
        between = _relation(relation)
        key = (fold(of), fold(between), fold(about))
        if key in facts:
            left_out["repeated"] += 1
        else:
            facts[key] = StatedFact(of, between, about, wording.sentence(of, between, about))
    return tuple(facts.values()), dict(left_out)


def _shown(ctx: Context, passage: Passage) -> str:
    return show_passages(ctx, [passage], titles=False).removeprefix("passage:").strip()


def _nameless(name: str) -> bool:
    return all(word in _NO_NAMES for word in fold(name).split())


def _relation(relation: str) -> str:
    """A relation in words: models write date_of_birth, too."""
    words = relation.replace("_", " ").rstrip(".:")
    return " ".join(words.split()) or relation
