"""Let a model choose one of a few named strategies for a question, or say yes or no."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import ClassVar

from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.engine.prompts import Filled
from hoptree.methods.steps.answer import note_reply
from hoptree.text.parse_labels import read_choice

_CHOICE_TOKENS = 32
_NEEDS_NOT = re.compile(
    r"\b(?:do|does|did|would|should)(?:\s+not|n['’]t)\s+(?:\w+\s+)?(?:need|require)\b|\bneeds?\s+no\b|\bno\s+need\b"
    r"|\b(?:not|isn['’]t)\s+(?:needed|necessary|required)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routed(Decision):
    """The strategy that was chosen; `read` is False if the reply named none of them, and the default was taken."""

    kind: ClassVar[str] = "route"
    value: str
    step: str
    raw: str
    read: bool
    of: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to answer a question: the name that a model is to give, and when it fits."""

    name: str
    when: str


@cache
def load_strategies(method: str) -> tuple[Strategy, ...]:
    """Load the strategies that a method chooses from, the cheapest first."""
    text = (files("hoptree") / "prompts" / method / "ways.jsonl").read_text(encoding="utf-8")
    return tuple(Strategy(row["name"], row["when"]) for row in map(json.loads, text.splitlines()))


def list_strategies(strategies: Sequence[Strategy]) -> str:
    """Return the strategies as lines of a prompt."""
    return "\n".join(f"{strategy.name} - {strategy.when}" for strategy in strategies)


async def choose_strategy(
    ctx: Context, prompt: Filled, names: Sequence[str], *, default: str, step: str = "route", role: str = "route"
) -> str:
    """Return the one of these names that a model gives; the `default` where it gives none or several."""
    reply = await ctx.generate(step, prompt, role=role, max_tokens=_CHOICE_TOKENS, part=True)
    return record_choice(ctx, step, read_choice(reply.text, names), reply.text, names, default)


def record_choice(ctx: Context, step: str, choice: str, raw: str, names: Sequence[str], default: str) -> str:
    """Record a choice, and return it or the `default`."""
    note_reply(ctx, step, "" if choice else f"none of {', '.join(names)}")
    ctx.emit(Routed(value=choice or default, step=step, raw=raw, read=bool(choice), of=list(names)))
    return choice or default


async def ask_yes_no(ctx: Context, prompt: Filled, *, step: str, role: str) -> tuple[bool | None, str]:
    """Return whether a model says yes (None if neither yes nor no), and its reply; "I do not need it" is a no."""
    reply = await ctx.generate(step, prompt, role=role, max_tokens=_CHOICE_TOKENS, part=True)
    choice = read_choice(reply.text, ("Yes", "No")) or ("No" if _NEEDS_NOT.search(reply.text) else "")
    note_reply(ctx, step, "" if choice else "none of Yes, No")
    return (choice == "Yes" if choice else None), reply.text
