"""Models for TreeQA that say and refute by chance, and always the same to the same request."""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import re
from typing import Any

from tests.methods.small_knowledge import Pages, SmallGraph
from tests.methods.treeqa_asked import (
    MOON,
    node,
    shape,
    tree,
    verdict,
)
from tests.traced import as_dicts

from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.engine.result import Result
from hoptree.methods.steps.logic_tree import Claim
from hoptree.methods.treeqa.speculative import propagate_correction
from hoptree.models.model import Choice, Reply, Request, TokenUsage

__all__ = ["APOLLO", "Fickle", "Foreseeable", "Generous", "asked", "final_tree", "settled"]


class Fickle:
    """A model whose replies depend on nothing but what it is asked, and whose haste depends on chance."""

    name = endpoint = "fickle"
    slots = 1024
    capabilities: frozenset[Any] = frozenset()

    def __init__(self, seed: int, haste: int, share: tuple[float, float]) -> None:
        self.identity = f"fickle {seed}"
        self._seed, self._haste, self._share = seed, random.Random(haste), share

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        dice = random.Random(hashlib.sha256(f"{self._seed} {step} {text}".encode()).digest())
        for _ in range(self._haste.randrange(6)):
            await asyncio.sleep(0)
        reply = self._say(step.removeprefix("treeqa/"), dice)
        return Reply((Choice(reply),), TokenUsage(len(text.split()), 0, len(reply.split())))

    def _say(self, step: str, dice: random.Random) -> str:
        if step == "build":
            return tree(*(_grown(dice, 4) for _ in range(dice.randint(1, 4))))
        if step == "validate":
            refuted, unknown = self._share
            roll = dice.random()
            if roll < refuted:
                return verdict(False, "T1", reason="It is wrong.", correct=f"c{dice.random()}")
            return verdict("unknown") if roll < refuted + unknown else verdict(True, "T1", "T2")
        if step == "rebuild":
            return json.dumps(_grown(dice, 3)) if dice.random() < 0.9 else "I cannot."
        return json.dumps({"new_clue": f"Apollo {dice.randint(1, 20)}"}) if step == "clue" else "The end"

    async def aclose(self) -> None:
        return None


class Generous(Fickle):
    """As `Fickle`, but what it rebuilds is large."""

    def _say(self, step: str, dice: random.Random) -> str:
        if step != "rebuild":
            return super()._say(step, dice)
        below = [_leaves(dice, _leaves(dice), _leaves(dice)) for _ in range(4)]
        return json.dumps(_leaves(dice, *below))


def _leaves(dice: random.Random, *below: dict[str, Any]) -> dict[str, Any]:
    return node(f"What of Apollo {dice.randint(1, 10**9)}?", f"Moon {dice.randint(1, 10**9)}", *below)


class Foreseeable(Fickle):
    """As `Fickle`, of a few names that a graph knows: what it reads, keeps and rebuilds can often be foreseen."""

    async def generate(self, request: Request, *, step: str) -> Reply:
        text = request.messages[-1].content
        if step == "treeqa/rebuild" and (below := _carried(text, random.Random(f"{self._seed} {text}"))):
            await asyncio.sleep(0)
            return Reply((Choice(json.dumps(below)),), TokenUsage(1, 0, 1))
        return await super().generate(request, step=step)

    def _say(self, step: str, dice: random.Random) -> str:
        if step == "build":
            return tree(*(_named(dice, 3, f"Apollo {dice.randint(1, 9)}") for _ in range(dice.randint(1, 3))))
        if step == "mentions":
            return json.dumps([f"Apollo {dice.randint(1, 9)}"]) if dice.random() < 0.5 else "[]"
        if step in ("entities", "relations"):
            return "".join(f"[{dice.randint(1, 6)}]" for _ in range(3))
        if step == "rebuild":
            return json.dumps(_named(dice, 2, f"Apollo {dice.randint(1, 9)}"))
        if step == "clue":
            return json.dumps({"new_clue": f"Apollo {dice.randint(1, 9)} and Moon"})
        reply = super()._say(step, dice)
        return re.sub(r"c0\.\d+", f"Apollo {dice.randint(1, 9)}", reply)


def _named(dice: random.Random, levels: int, about: str) -> dict[str, Any]:
    guess = f"Apollo {dice.randint(1, 9)}"
    below = [_named(dice, levels - 1, guess) for _ in range(dice.randint(0, 2))] if levels > 1 else []
    return node(f"What came {dice.choice(['before', 'after'])} {about}?", guess, *below)


def _carried(text: str, dice: random.Random) -> dict[str, Any] | None:
    """The old part with the right name put in, half of the times."""
    old = claim_of(json.loads(text.partition("The old part:\n")[2].partition("\n\nWhy it is wrong")[0]))
    right = text.rpartition("Correct answer: ")[2].strip()
    below = propagate_correction(old, right)
    return None if below is None or dice.random() < 0.5 else Claim(old.question, right, below).as_dict()


def claim_of(row: dict[str, Any]) -> Claim:
    return Claim(row["sub_question"], row["hypothesis_answer"], tuple(map(claim_of, row.get("children", ()))))


def _grown(dice: random.Random, levels: int) -> dict[str, Any]:
    below = [_grown(dice, levels - 1) for _ in range(dice.randint(0, 2))] if levels > 1 else []
    return node(f"What of Apollo {dice.randint(1, 10**9)}?", f"Moon {dice.randint(1, 10**9)}", *below)


APOLLO = SmallGraph(
    *(
        (f"Apollo {n}", f"{how} by", f"Apollo {n + by}")
        for n in range(1, 9)
        for how, by in (("followed", 1), ("met", 2))
    )
)


async def asked(model: Fickle, graph: SmallGraph | None = None, **options: Any) -> tuple[Result, list[Event]]:
    events: list[Event] = []
    pages = Pages(*(Passage(f"p{n}", "Apollo", f"Apollo {n} moon what of") for n in range(4)))
    async with Engine(
        method="treeqa", model=model, corpus=pages, graph=graph or SmallGraph(), options=options, cache=None
    ) as engine:
        result = await engine.ask(MOON, listeners=(events.append,))
    return result, events


def final_tree(result: Result) -> Any:
    assert result.error == "", result.error_message
    (root,) = result.tree
    return shape(root.children), result.answer


def settled(events: list[Event]) -> dict[str, Any]:
    (corrected,) = (e for e in as_dicts(events) if e["event"] == "decision" and e["kind"] == "corrected")
    return {name: corrected[name] for name in ("value", "validations", "nodes")}
