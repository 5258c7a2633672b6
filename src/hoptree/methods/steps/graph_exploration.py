"""Explore a knowledge graph until the evidence suffices to answer."""

from __future__ import annotations

import random
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import number_lines, prompt_for
from hoptree.engine.schedule import both
from hoptree.graph.facts import Entity, Fact, Term
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.evidence_box import NOTHING, EvidenceBox
from hoptree.methods.steps.link import Edge
from hoptree.methods.steps.mentions import MentionLinker, graph_names
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.names import fold
from hoptree.text.parse import clean_answer, extract_conclusion, looks_unanswered, question_key, read_yes_no
from hoptree.text.parse_labels import read_scores
from hoptree.text.question_tree import Node

_BASE_TOKENS, _TOKENS_PER_LINE = 32, 24
_MAX_EDGES_SHOWN = 60
_MANY_ENDS = 20  # from this many ends of an edge on, some are sampled


@decision("hops")
class HopsKept(Decision):
    """The facts followed on a level, of `candidates` in all."""

    value: list[str]
    level: int
    scores: list[float] = field(default_factory=list)
    candidates: int = 0


@decision("topics")
class TopicsFound(Decision):
    """The entities of the question to start from."""

    value: list[str]


@decision("ended", shown_as="ended")
class ExplorationEnded(Decision):
    """Why the exploration of a graph ended, and on which level."""

    value: str
    level: int


@dataclass(frozen=True, slots=True)
class Hop:
    """A fact followed from one side, with its other end and score."""

    fact: Fact
    end: Term
    score: float


async def choose_edges(
    ctx: Context, question: str, edges: Sequence[Edge], *, keep: int, temperature: float = 0.0
) -> list[tuple[Edge, float]]:
    """Return the edges that the model scores highest, in one call."""
    if len(edges) == 1:
        return [(edges[0], 1.0)]
    shown = edges[:_MAX_EDGES_SHOWN]
    lines = [edge.open_line for edge in shown]
    names = [(edge.open_line, edge.relation) for edge in shown]
    scored = await _score_lines(ctx, "score_relations", question, lines, names, keep=keep, temperature=temperature)
    return [(shown[place], score) for place, score in scored]


async def choose_ends(
    ctx: Context, question: str, edge: Edge, score: float, *, sampled: int, temperature: float = 0.0
) -> list[Hop]:
    """Return the ends of an edge, scored by the model and the edge."""
    hops = sample_hops(edge, score, question, sampled=sampled)
    if len(hops) < 2:
        return hops
    lines = [hop.fact.text for hop in hops]
    names = [(hop.fact.text, hop.end.text) for hop in hops]
    scored = await _score_lines(ctx, "score_entities", question, lines, names, keep=len(lines), temperature=temperature)
    return [Hop(hops[place].fact, hops[place].end, score * given) for place, given in scored]


async def _score_lines(
    ctx: Context,
    step: str,
    question: str,
    lines: Sequence[str],
    names: Sequence[Sequence[str]],
    *,
    keep: int,
    temperature: float,
) -> list[tuple[int, float]]:
    """Return the `keep` lines that the model scores highest, with scores."""
    if not lines:
        return []
    numbered = number_lines(" ".join(line.split()) for line in lines)
    count = min(keep, len(lines))
    prompt = prompt_for(ctx.method, step).fill(candidates=numbered, question=question, keep=str(count))
    tokens = _BASE_TOKENS + _TOKENS_PER_LINE * count
    reply = await ctx.generate(step, prompt, role="link", max_tokens=tokens, temperature=temperature, part=True)
    read = read_scores(reply.text, names)
    note_reply(ctx, step, read.error, read.repairs)
    scores = read.by_place if not read.error else dict.fromkeys(range(count), 1 / max(1, count))
    positive = ((place, score) for place, score in scores.items() if score > 0)
    return sorted(positive, key=lambda pair: (-pair[1], pair[0]))[:keep]


def sample_hops(edge: Edge, score: float, question: str, *, sampled: int) -> list[Hop]:
    """Return the ends of an edge, `sampled` ones of many."""
    hops = [Hop(fact, end, score) for fact, end in zip(edge.facts, edge.ends, strict=True)]
    if len(hops) < _MANY_ENDS or sampled >= _MANY_ENDS:
        return hops
    return random.Random(f"{question} {edge.open_line}").sample(hops, sampled)


def keep_best_hops(ctx: Context, hops: Sequence[Hop], *, width: int, level: int) -> tuple[list[Hop], list[Entity]]:
    """Return the `width` best hops, and the entities they lead to."""
    kept = sorted(hops, key=lambda hop: -hop.score)[:width]
    scores = [round(hop.score, 4) for hop in kept]
    ctx.emit(HopsKept(value=[hop.fact.text for hop in kept], level=level, scores=scores, candidates=len(hops)))
    ends = {hop.end.id: Entity(hop.end.id, hop.end.text) for hop in kept if hop.end.id}
    return kept, list(ends.values())


async def find_topics(ctx: Context, question: str, *, keep: int) -> tuple[Entity, ...]:
    """Return up to `keep` entities: those named in full, then the model's choice.

    Small models choose the word of the relation ("designer") and leave out the person whom the question names.
    """
    names = graph_names(ctx)
    candidates, chosen = await both(
        names(ctx, None).of_text(question), MentionLinker(names).link(ctx, question, keep=keep)
    )
    asked = f" {question_key(fold(question))} "
    labels = ((candidate.entity, candidate.entity.label) for candidate in candidates)
    named = (entity for entity, name in labels if not name.islower() and f" {question_key(fold(name))} " in asked)
    topics = {entity.id or entity.label: entity for entity in (*named, *chosen)}
    kept = tuple(topics.values())[:keep]
    ctx.emit(TopicsFound(value=[entity.label for entity in kept]))
    return kept


def end_exploration(ctx: Context, root: Node, answer: Answer, box: EvidenceBox) -> Answer:
    """Return the answer with its evidence, or as a guess if no evidence holds it."""
    if not box or not answer.known:
        ctx.end_node(root, answer)
        return answer
    supporting = box.supporting(answer.text)
    if not supporting and read_yes_no(answer.text) is None:
        answer = replace(answer, source="fallback", support=())
        ctx.end_node(root, answer, why="nothing on the way holds it")
        return answer
    passages = dict.fromkeys(passage.id for passage in box.passages if passage.id in supporting)
    answer = replace(answer, source="external", support=tuple(passages))
    ctx.end_node(root, answer, facts=[list(fact.triple) for fact in box.facts])
    return answer


_VERDICT_TOKENS = 128
_MAX_CLUE_CHARS = 300
_BRACED = re.compile(r"\{\s*(yes|no)\s*\}", re.IGNORECASE)
_LABELLED = re.compile(r"\b(?:enough|sufficient)\b[\"'*_\s:=-]{1,9}(yes|no|true|false)\b", re.IGNORECASE)
_FIRST_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_NEXT_QUESTION = re.compile(r"\n\W{0,4}(?:question|facts|texts)\s{0,4}:", re.IGNORECASE)
_NEXT_VERDICT = re.compile(r"\benough\s{0,4}:", re.IGNORECASE)
_BRACES = re.compile(r"\{([^{}\n]{1,300})\}")
_CLUE = re.compile(r"\bclue\b[\"'*_\s]{0,3}[:=][^\S\n]{0,4}([^\n]*)", re.IGNORECASE)
_NO_CLUE = re.compile(r"\W*(?:none|no|n/a|nothing|null)?\W*", re.IGNORECASE)


@decision("enough")
class EvidenceJudged(Decision):
    """Whether the evidence suffices for the model; `clue` is what it lacks."""

    value: bool
    answer: str = ""
    clue: str = ""
    facts: int = 0
    texts: int = 0


@dataclass(frozen=True, slots=True)
class Enough:
    """A judgement read from a reply; `understood` is False if there was none."""

    enough: bool
    answer: str = ""
    clue: str = ""
    understood: bool = True

    @property
    def as_answer(self) -> Answer:
        """The answer from all evidence; unknown if there is none."""
        return Answer(self.answer, self.answer, "answered" if self.answer else "unknown", "synthesis")


def read_enough(reply: str) -> Enough:
    """Read "Enough: {Yes}", then "Answer: …" or "Clue: …"."""
    text = _NEXT_QUESTION.split(reply[:MAX_REPLY_CHARS].strip(), 1)[0]
    verdicts = [match for form in (_BRACED, _LABELLED) if (match := form.search(text))]
    verdict = min(verdicts, key=lambda match: match.start()) if verdicts else _FIRST_WORD.match(text)
    if verdict is None:
        return Enough(False, understood=False)
    statement = _NEXT_VERDICT.split(text[verdict.end() :], 1)[0]
    clue = _CLUE.search(statement)
    hint = clue[1].strip(" \"'*{}")[:_MAX_CLUE_CHARS] if clue else ""
    return Enough(
        verdict[1].casefold() in ("yes", "true"),
        _read_answer(statement[: clue.start()] if clue else statement),
        "" if _NO_CLUE.fullmatch(hint) else hint,
    )


def _read_answer(text: str) -> str:
    conclusion = extract_conclusion(text)
    if conclusion == text.strip():  # no "Answer:" in it
        groups = _BRACES.findall(text)
        conclusion = groups[-1] if groups else ""
    answer = clean_answer(clean_answer(conclusion).strip("{} "))
    return "" if looks_unanswered(answer) else answer


async def judge_enough(ctx: Context, question: str, box: EvidenceBox, *, clue: str = "") -> Enough:
    """Ask whether texts and facts suffice to answer; propose its answer."""
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "enough").fill(texts=texts, facts=facts, clue=clue or NOTHING, question=question)
    reply = await ctx.generate("enough", prompt, role="verify", max_tokens=_VERDICT_TOKENS)
    verdict = read_enough(reply.text)
    note_reply(ctx, "enough", "" if verdict.understood else "neither yes nor no")
    if verdict.answer:
        ctx.propose(Answer(verdict.answer, reply.text, source="synthesis"), order=2)
    sizes = {"facts": len(box.facts), "texts": len(box.passages)}
    ctx.emit(EvidenceJudged(value=verdict.enough, answer=verdict.answer, clue=verdict.clue, **sizes))
    return verdict


GoFurther = Callable[[int, str], Awaitable[EvidenceBox | None]]  # takes the level and the last clue


async def explore(
    ctx: Context,
    question: str,
    box: EvidenceBox,
    go_further: GoFurther,
    *,
    depth: int,
    clues: bool = False,
    nothing: str = "no candidates",
) -> tuple[EvidenceBox, Enough, str]:
    """Explore level by level until the model can answer; `clues` guide it."""
    verdict, reason, clue, level = Enough(False), "depth", "", 0
    for level in range(1, depth + 1):
        further = await go_further(level, clue)
        if further is None:
            reason = nothing if level == 1 else "no candidates"
            break
        box, verdict = further, await judge_enough(ctx, question, further, clue=clue)
        if verdict.enough:
            reason = "enough"
            break
        clue = (verdict.clue or clue) if clues else ""
    ctx.emit(ExplorationEnded(value=reason, level=level))
    return box, verdict, reason
