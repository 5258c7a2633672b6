"""Exploring a graph from the entities of a question: which edges to follow, and which of their ends to go on from."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import both, plant, together
from hoptree.graph.facts import Entity, Fact, Term
from hoptree.methods.steps.evidence_box import EvidenceBox
from hoptree.methods.steps.mentions import MentionLinker, graph_names
from hoptree.methods.steps.relations import Edge, edges_in
from hoptree.text.comparison import read_yes_no
from hoptree.text.names import fold
from hoptree.text.parse import question_key
from hoptree.text.parse_relevance import read_numbers
from hoptree.text.question_tree import Node

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


_SHOWN = 60
"""Edges that one prompt shows."""
_MANY = 20
"""From so many ends of an edge on, some are drawn."""


@dataclass(frozen=True, slots=True)
class Hop:
    """A fact that was followed from one of its sides, what stands at the other, and how promising that is."""

    fact: Fact
    end: Term
    score: float


async def edges_around(ctx: Context, entities: Sequence[Entity], *, known: Collection[Fact]) -> tuple[Edge, ...]:
    """The edges of all these entities, without the facts by which they were come to."""
    return edges_in(await together(ctx.facts(entity) for entity in entities), known=frozenset(known))


async def choose_edges(
    ctx: Context, question: str, edges: Sequence[Edge], *, keep: int, temperature: float = 0.0
) -> list[tuple[Edge, float]]:
    """The edges that the model scores highest for a question, in one call, not knowing where they lead.

    An edge that is alone is followed, and not asked about.
    """
    if len(edges) == 1:
        return [(edges[0], 1.0)]
    shown = edges[:_SHOWN]
    lines = [edge.open_line for edge in shown]
    names = [(edge.open_line, edge.relation) for edge in shown]
    scored = await score_lines(ctx, "score_relations", question, lines, names=names, keep=keep, temperature=temperature)
    return [(shown[place], score) for place, score in scored]


async def choose_ends(
    ctx: Context, question: str, edge: Edge, score: float, *, draw: int, temperature: float = 0.0
) -> list[Hop]:
    """The ends of an edge with the scores that the model gives them, each times that of the edge.

    An end that is alone has that of the edge, and is not asked about.
    """
    hops = draw_hops(edge, score, question, draw=draw)
    if len(hops) < 2:
        return hops
    lines = [hop.fact.text for hop in hops]
    names = [(hop.fact.text, hop.end.text) for hop in hops]
    scored = await score_lines(
        ctx, "score_entities", question, lines, names=names, keep=len(lines), temperature=temperature
    )
    return [Hop(hops[place].fact, hops[place].end, score * given) for place, given in scored]


def draw_hops(edge: Edge, score: float, question: str, *, draw: int) -> list[Hop]:
    """The ends of an edge; where there are many, `draw` of them by chance, the same ones for the same question."""
    hops = [Hop(fact, end, score) for fact, end in zip(edge.facts, edge.ends, strict=True)]
    return random.Random(f"{question} {edge.open_line}").sample(hops, draw) if len(hops) >= _MANY > draw else hops


async def hops_from(
    ctx: Context,
    question: str,
    entity: Entity,
    *,
    known: Collection[Fact],
    keep: int,
    draw: int,
    temperature: float = 0.0,
) -> list[Hop]:
    """The ends of the best edges of one entity, `keep` edges at most, with their scores."""
    edges = await edges_around(ctx, [entity], known=known)
    chosen = await choose_edges(ctx, question, edges, keep=keep, temperature=temperature)
    ends = await together(
        choose_ends(ctx, question, edge, score, draw=draw, temperature=temperature) for edge, score in chosen
    )
    return [hop for some in ends for hop in some]


def go_along(ctx: Context, hops: Sequence[Hop], *, width: int, level: int) -> tuple[list[Hop], list[Entity]]:
    """The best hops, `width` at most, and the entities that they lead to; dates and numbers lead nowhere."""
    kept = sorted(hops, key=lambda hop: -hop.score)[:width]
    ctx.decide(
        "hops",
        [hop.fact.text for hop in kept],
        level=level,
        scores=[round(hop.score, 4) for hop in kept],
        candidates=len(hops),
    )
    ends = {hop.end.id: Entity(hop.end.id, hop.end.text) for hop in kept if hop.end.id}
    return kept, list(ends.values())


async def find_topics(ctx: Context, question: str, *, keep: int) -> tuple[Entity, ...]:
    """Those that the question names in full, then those that the model chooses, `keep` at most.

    Small models choose the word of the relation that is asked for ("designer"), and leave out whom the question names.
    """
    names = graph_names(ctx)
    found, chosen = await both(names(ctx, None).of_text(question), MentionLinker(names).link(ctx, question, keep=keep))
    named = (one.entity for one in found if _stands_in(question, one.entity.label))
    topics = {entity.id or entity.label: entity for entity in (*named, *chosen)}
    ctx.decide("topics", [entity.label for entity in list(topics.values())[:keep]])
    return tuple(topics.values())[:keep]


def _stands_in(question: str, name: str) -> bool:
    """Whether a question has a name as a whole; one of small letters alone is a word like others."""
    return not name.islower() and f" {question_key(fold(name))} " in f" {question_key(fold(question))} "


def begin_path(ctx: Context, question: str) -> Node:
    """The question as a node that is being worked on."""
    root = plant(ctx, question)
    ctx.begin_node(root, question)
    return root


def end_path(ctx: Context, root: Node, answer: Answer, found: EvidenceBox) -> Answer:
    """The answer with what it was found by: all facts on the way, and the passages that hold it.

    One that stands in none of them is a guess; yes and no stand nowhere, and follow from all. Where nothing was found,
    the answer is as it comes.
    """
    if not found or not answer.known:
        ctx.end_node(root, answer)
        return answer
    held = found.supporting(answer.text)
    if not held and read_yes_no(answer.text) is None:
        answer = replace(answer, source="fallback", support=())
        ctx.end_node(root, answer, why="nothing on the way holds it")
        return answer
    passages = dict.fromkeys(passage.id for passage in found.passages if passage.id in held)
    answer = replace(answer, source="external", support=tuple(passages))
    ctx.end_node(root, answer, facts=[list(fact.triple) for fact in found.facts])
    return answer
