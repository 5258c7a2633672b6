"""What TreeQA asks in `treeqa_latency.py`: a model, a graph and a corpus that follow from a seed, and the trees."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from hoptree.core.values import Passage
from hoptree.graph.facts import Direction, Entity, Fact, Neighbourhood, Property, Stats, Table, Term
from hoptree.methods.steps.logic_tree import Claim
from hoptree.methods.treeqa.speculative import propagate_correction
from hoptree.models.model import Capability, Choice, Reply, Request, TokenUsage

__all__ = ["ONE_TOP", "TREES", "Names", "Player", "Shelf", "World", "grown"]

LATENCY = 0.1
TREES = 320
ONE_TOP = 246
"""Of 320; the others have two."""
BELOW_TOP, BELOW_THAT = (0.10, 0.65, 0.20, 0.05), (0.47, 0.45, 0.08)
"""How many nodes hang below one of the first and of the second level: so many times none, one, two, three."""
_SYLLABLES = ("ba", "do", "fen", "gar", "hil", "ka", "lor", "mi", "nu", "pel", "ra", "sto", "tav", "ur", "wen", "zi")
_WORDS = ("river", "old", "north", "first", "built", "later", "known", "small", "after", "music", "year", "house")
_ROLES = ("author", "founder", "teacher", "capital", "successor", "partner", "owner", "composer")
_ASKED = re.compile(r"Question: (.*)\n(?:Answer to check|Hypothesis|Answer): (.*)")
_NAMED = re.compile(r"[A-Z]\w+ [A-Z]\w+")
_CASE = re.compile(r"Case (\d+)")


def _dice(*told: object) -> random.Random:
    return random.Random(hashlib.sha256(repr(told).encode()).digest())


def _name(dice: random.Random) -> str:
    return " ".join("".join(dice.choices(_SYLLABLES, k=3)).capitalize() for _ in range(2))


@dataclass(frozen=True, slots=True)
class World:
    """What the scripted model goes by: shares of nodes and queries, and a seed."""

    seed: int
    refuted: float
    unknown: float
    foreseen: float
    carried: float


class Player:
    """The model: each reply takes 100 ms and follows from the request alone."""

    name = identity = endpoint = "scripted/treeqa"
    slots = 4096
    capabilities: frozenset[Capability] = frozenset()

    def __init__(self, world: World) -> None:
        self._world = world

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        said: str = getattr(self, step.removeprefix("treeqa/"))(text)
        await asyncio.sleep(LATENCY)
        words = sum(len(message.content.split()) for message in request.messages)
        return Reply((Choice(said),), TokenUsage(words, 0, len(said.split())))

    async def aclose(self) -> None:
        return None

    def build(self, text: str) -> str:
        case = _CASE.search(text)
        assert case is not None
        tops = [claim.as_dict() for claim in grown(self._world.seed, int(case[1]))]
        return json.dumps({"logic_tree": {"children": tops}, "answer": "a draft"})

    def mentions(self, text: str) -> str:
        query = text.partition("Query: ")[2]
        names = _NAMED.findall(query)
        if self._roll("mentions", query) >= self._world.foreseen:
            names[-1] = " ".join(reversed(names[-1].split()))  # as an encyclopedia may title it: other entities
        return json.dumps(names)

    def entities(self, text: str) -> str:
        return "[1][2][3]"

    relations = entities

    def validate(self, text: str) -> str:
        question, hypothesis = _asked(text)
        roll, world = self._roll("validate", question, hypothesis), self._world
        if roll < world.unknown:
            return json.dumps({"isTrue": "unknown", "fact_sufficient": False, "ref": "No Information provided."})
        right = _name(_dice("right", question, hypothesis))
        wrong = world.unknown <= roll < world.unknown + world.refuted
        reason = f"The texts and the facts say that the answer to this question is {right if wrong else hypothesis}."
        said = {"reason": reason, "correct_answer": right if wrong else hypothesis, "isTrue": not wrong}
        return json.dumps(said | {"fact_sufficient": True, "ref": {"wikipedia": ["T1"], "Wikidata": ["F1"]}})

    def clue(self, text: str) -> str:
        dice = _dice("clue", *_asked(text))
        return json.dumps({"new_clue": f"clue of {_name(dice)} and {_name(dice)}"})

    def rebuild(self, text: str) -> str:
        old = _claim(json.loads(text.partition("The old part:\n")[2].partition("\n\nWhy it is wrong")[0]))
        right = text.rpartition("Correct answer: ")[2].strip()
        below = propagate_correction(old, right) if old.children else ()
        if below is None or self._roll("rebuild", old.question, right) >= self._world.carried:
            below = tuple(_regrown(child, right) for child in old.children)
        return json.dumps(Claim(old.question, right, below).as_dict())

    def final(self, text: str) -> str:
        return _name(_dice("final", text))

    def _roll(self, *told: object) -> float:
        return _dice(self._world.seed, *told).random()


def _asked(text: str) -> tuple[str, str]:
    found = _ASKED.search(text)
    assert found is not None, text
    return found[1], found[2]


def _claim(row: Mapping[str, Any]) -> Claim:
    return Claim(row["sub_question"], row["hypothesis_answer"], tuple(map(_claim, row.get("children", ()))))


def _regrown(old: Claim, above: str) -> Claim:
    """A node of the same shape that asks something else about what is right."""
    dice = _dice("regrown", old.question, above)
    hypothesis = _name(dice)
    question = f"Which {dice.choice(_ROLES)} does {above} have?"
    return Claim(question, hypothesis, tuple(_regrown(child, hypothesis) for child in old.children))


def grown(seed: int, number: int) -> tuple[Claim, ...]:
    """The tree of a question: one top node or two, and chains, mostly, below."""
    dice = _dice(seed, "tree", number)
    tops = 2 - ((number + 1) * ONE_TOP // TREES - number * ONE_TOP // TREES)
    return tuple(_grown(dice, _name(dice), (BELOW_TOP, BELOW_THAT)) for _ in range(tops))


def _grown(dice: random.Random, about: str, below: Sequence[Sequence[float]]) -> Claim:
    hypothesis = _name(dice)
    count = dice.choices(range(len(below[0])), below[0])[0] if below else 0
    children = tuple(_grown(dice, hypothesis, below[1:]) for _ in range(count))
    return Claim(f"Who or what is the {dice.choice(_ROLES)} of {about}?", hypothesis, children)


@cache
def _values(entity: str) -> tuple[str, ...]:
    dice = _dice("facts", entity)
    return tuple(_name(dice) for _ in range(12))


class Names:
    """The graph: each name has three namesakes, and each of them twelve relations."""

    kind = "scripted"
    identity = "scripted graph"
    remote = False

    async def entities(self, name: str, *, limit: int = 10) -> tuple[Entity, ...]:
        if len(name.split()) != 2:
            return ()
        about = [f"{_ROLES[n]} from {_name(_dice('place', name, n))}" for n in range(3)]
        return tuple(Entity(f"{name}/{n}", name, description=told) for n, told in enumerate(about))[:limit]

    async def facts(
        self, entity: str, *, direction: Direction = "both", relation: str = "", limit: int = 200, seconds: float = 10
    ) -> Neighbourhood:
        name, _, number = entity.partition("/")
        facts = [
            Fact(Term(entity, name), Term(f"P{n}", f"{_WORDS[n]} {_ROLES[n % 8]}"), Term("", value))
            for n, value in enumerate(_values(entity))
        ]
        return Neighbourhood(Entity(entity, f"{name} {'I' * (1 + int(number))}"), tuple(facts[:limit]), True)

    async def entity(self, identifier: str) -> Entity | None:
        return None

    async def label(self, identifier: str) -> str:
        return identifier

    async def properties(self) -> tuple[Property, ...]:
        return ()

    async def query(self, sparql: str, *, limit: int = 1_000, seconds: float = 10) -> Table:
        return Table((), ())

    async def stats(self) -> Stats:
        return Stats(0, 0, 0)

    async def aclose(self) -> None:
        return None


@cache
def _text(title: str, number: int) -> str:
    return " ".join(_dice("text", title, number).choices(_WORDS, k=225))


class Shelf:
    """The corpus: of every name one page with three passages of 225 words, about 300 tokens, as in the paper."""

    kind = identity = "scripted corpus"
    remote = False

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        title = (where or {}).get("title", "")
        return tuple(Passage(f"{title}_0_{n}", title, _text(title, n), 1.0) for n in range(3 if title else 0))[:k]

    async def aclose(self) -> None:
        return None
