"""From passages to facts in memory: what they state about names that matter, as surely as the model wrote it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.core.values import Fact, Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.mind.memory import KINDS, FactMemory, Held, is_of, joined, relation_key, tells_of
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.fact_extraction import StatedFact, ground_triples
from hoptree.models.model import Choice
from hoptree.text.names import fold
from hoptree.text.parse_triples import Triple, read_triples
from hoptree.text.retrieval_triggers import NEUTRAL_CONFIDENCE, find_mentions
from hoptree.text.sentences import sentences
from hoptree.text.tokens import token_spans, word_spans
from hoptree.text.uncertainty import token_probability
from hoptree.text.word_classes import word_set

_LIFE = word_set("birth death")
"""What brackets tell without a word for it: "Jean (7 May 1859 Paris – 1 June 1934)"."""
_WORK_BY = "(a work) by"
_BY = re.compile(rf"\b(?:{'|'.join(sorted(KINDS))})\s+by\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Told:
    """Words of relations that a sentence hardly tells without one of the words it tells them by, or their stems."""

    relations: frozenset[str]
    by: frozenset[str]


_NEAR = word_set("father mother parent son daughter child")
_STEP = frozenset(f"step{one}" for one in _NEAR)
_GRAND = frozenset(f"grand{one}" for one in _NEAR)
_GREAT = frozenset(f"great{one}" for one in _GRAND)
_SIBLINGS = word_set("brother sister sibling")
_HALF = frozenset(f"half{one}" for one in _SIBLINGS)
_IN_LAW = frozenset(f"{one}inlaw" for one in _NEAR | _SIBLINGS)
_OTHERS = {"father": "mother", "son": "daughter", "brother": "sister"}
_OTHERS |= {other: one for one, other in _OTHERS.items()}
_OTHER = re.compile("|".join(_OTHERS))
_MARRIED = word_set("spouse wives weddi widow conso bride")
_TOLD = (
    _Told(word_set("birth"), word_set("birth native nee")),
    _Told(word_set("death"), word_set("death dead kille murde execu assas suici peris")),
    _Told(word_set("burial"), word_set("burial tomb cemet")),
    _Told(word_set("spouse"), _MARRIED),
    _Told(_NEAR, _NEAR | _STEP | {"birth"}),
    _Told(_STEP, _STEP | _MARRIED),
    _Told(_GRAND, _GRAND),
    _Told(_GREAT, _GREAT),
    _Told(_SIBLINGS | _HALF, _SIBLINGS | _HALF | {"twin"}),
    _Told(_IN_LAW, _IN_LAW | _MARRIED),
    _Told(word_set("uncle aunt nephew niece"), word_set("uncle aunt nephew niece") | _SIBLINGS),
    _Told(word_set("director"), word_set("direc") | {_WORK_BY}),
    _Told(word_set("producer"), word_set("producer produ") | {_WORK_BY}),
    _Told(word_set("composer"), word_set("compo author music") | {_WORK_BY}),
    _Told(word_set("author"), word_set("author") | {_WORK_BY}),
    _Told(word_set("performer"), word_set("performer") | {_WORK_BY}),
)


def states(relation: str, said: str, sentence: str) -> bool:
    """Whether a sentence has a word for a relation, or is one that needs none.

    Words are asked for where sentences have them: kin, marriage, birth, death and who made a work. "A French painter"
    tells a nationality without any. "The father of Jean" does not tell that Jean is a father's name, and no mother is
    told by a word for a father.
    """
    if tells_of(said, relation, sentence) is (not is_of(relation)):
        return False
    meant, told = _words(relation), _words(sentence)
    told -= {_OTHER.sub(_other, one) for one in meant} - meant
    if _BY.search(sentence):
        told |= {_WORK_BY}
    if all(one.by & told for one in _TOLD if one.relations & meant):
        return True
    return bool(_LIFE & meant) and any(_in_brackets(sentence, start) for start, _ in find_mentions(said, sentence))


def _other(word: re.Match[str]) -> str:
    return _OTHERS[word[0]]


def _words(text: str) -> frozenset[str]:
    """The words of a text as they are, and what they tell of a relation; "co-directed" is two words."""
    text = joined(text).replace("-", " ")
    return relation_key(text) | {fold(text[start:end]).removesuffix("'s") for start, end in word_spans(text)}


def _in_brackets(sentence: str, at: int) -> bool:
    return sentence.count("(", 0, at) > sentence.count(")", 0, at)


MAX_TOKENS = 256
_MOST = 8
"""Facts that are asked for, and taken."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """A passage without what gives orders to a model."""

    passage: Passage
    title: str
    text: str


async def learn(
    ctx: Context,
    memory: FactMemory,
    question: str,
    names: Sequence[str],
    passages: Sequence[Passage],
    *,
    step: int,
    quoted: bool = False,
) -> None:
    """Add to a memory what passages state about these names, each fact with the passage that states it.

    What is stated about names that entered with a fact before it counts too: that is how one hop leads to the next. A
    fact whose names do not stand in a passage does not enter, and neither does one that the model was unsure of: its
    confidence is the probability of the least likely token of its object, 0.5 where that is not told. With `quoted`,
    one sentence must name both its subject and its object, or stand under the subject's title, and tell the relation.
    """
    shown = [
        _Shown(passage, _clean(ctx, passage.title, passage.id), _clean(ctx, passage.text, passage.id))
        for passage in passages
    ]
    if not shown or not names:
        return
    listed = "\n".join(f"[{number}] {one.title}: {one.text}" for number, one in enumerate(shown, 1))
    prompt = prompt_for(ctx.method, "facts").fill(
        passages=listed, names=", ".join(names), question=question, most=str(_MOST)
    )
    told = 1 if "logprobs" in ctx.model_for("extract").capabilities else 0
    reply = await ctx.generate("facts", prompt, role="extract", max_tokens=MAX_TOKENS, top_logprobs=told, part=True)
    read = read_triples(reply.text, cut=reply.finish == "length")
    ctx.trace.add("parse", step="facts", ok=read.understood, repairs=[], error="" if read.understood else "no fact")
    near = [*names]
    for triple, sure in _once_each(read.triples, _confidences(reply.choices[0], read.triples))[:_MOST]:
        held = _stated(triple, near, shown, sure, step, quoted=quoted)
        outcome = "not stated" if held is None else memory.add(held)
        if held is not None and outcome != "unsure":
            near += (held.fact.subject, held.fact.object)
        subject, relation, said = triple if held is None else (held.fact.subject, held.fact.relation, held.fact.object)
        ctx.trace.add(
            "memory",
            op=outcome,
            step=step,
            fact=[subject, relation, said],
            confidence=round(sure, 4),
            passage=held.fact.passage_id if held else None,
            sentence=held.sentence if held else "",
        )


def _stated(
    triple: Triple, names: Sequence[str], shown: Sequence[_Shown], sure: float, step: int, *, quoted: bool
) -> Held | None:
    """The fact as the first passage states it that does, if it is about one of the names."""
    about = f"{triple[0]} . {triple[2]}"
    if not any(
        find_mentions(name, about) or find_mentions(triple[0], name) or find_mentions(triple[2], name) for name in names
    ):
        return None
    for one in shown:
        facts, _ = ground_triples([triple], one.title, one.text)
        for stated in facts:
            sentence = _quote(stated, one) if quoted else stated.sentence
            if sentence or not quoted:
                fact = Fact(stated.subject, stated.relation, stated.object, sure, one.passage.id)
                return Held(fact, sentence, one.title, step)
    return None


def _quote(stated: StatedFact, shown: _Shown) -> str:
    """The sentence that tells a fact, the one that has most of its words before the others; "" if none does."""
    return next(
        (
            sentence
            for sentence in (stated.sentence, *sentences(shown.text))
            if (find_mentions(stated.subject, sentence) or find_mentions(stated.subject, shown.title))
            and find_mentions(stated.object, sentence)
            and states(stated.relation, stated.object, sentence)
        ),
        "",
    )


def _once_each(triples: Sequence[Triple], sure: Sequence[float]) -> list[tuple[Triple, float]]:
    """Each triple as it was written first: later ones copy it and are sure of themselves."""
    found: dict[tuple[str, ...], tuple[Triple, float]] = {}
    for triple, confidence in zip(triples, sure, strict=True):
        found.setdefault(tuple(map(fold, triple)), (triple, confidence))
    return [*found.values()]


def _confidences(choice: Choice, triples: Sequence[Triple]) -> list[float]:
    """How sure each triple's object is, where the reply has it behind the triples before."""
    places = token_spans(choice.text, [token.text for token in choice.tokens])
    found: list[float] = []
    at = 0
    for triple in triples:
        start = end = -1
        for part in triple:  # the object behind its subject and relation, since it may be a part of the subject too
            if (start := choice.text.find(part, at)) >= 0:
                at = end = start + len(part)
        inside = [
            token_probability(token)
            for token, place in zip(choice.tokens, places, strict=True)
            if start >= 0 and place and place[0] < end and place[1] > start
        ]
        found.append(min(inside, default=NEUTRAL_CONFIDENCE))
    return found


def _clean(ctx: Context, text: str, name: str) -> str:
    return show_passages(ctx, [Passage(name, "", text)], titles=False).removeprefix("passage:").strip()
