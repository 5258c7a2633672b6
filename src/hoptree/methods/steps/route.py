"""Let a model choose a strategy, or say yes or no; read labelled questions."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision, typed_event
from hoptree.engine.prompts import Filled, read_demonstrations, read_rows
from hoptree.methods.steps.answer import note_reply
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice
from hoptree.text.parse_labels import label_shares, read_choice

_CHOICE_TOKENS, _LABEL_TOKENS = 32, 8
_NEEDS_NOT = re.compile(
    r"\b(?:do|does|did|would|should)(?:\s+not|n['’]t)\s+(?:\w+\s+)?(?:need|require)\b|\bneeds?\s+no\b|\bno\s+need\b"
    r"|\b(?:not|isn['’]t)\s+(?:needed|necessary|required)\b",
    re.IGNORECASE,
)


@decision("route", shown_as="way")
class Routed(Decision):
    """The chosen strategy; not `read` if it is the default for an unclear reply."""

    value: str
    step: str
    raw: str
    read: bool
    of: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to answer a question: its name for the model, and when it fits."""

    name: str
    when: str


def load_strategies(method: str) -> tuple[Strategy, ...]:
    """Load the strategies that a method chooses from, the cheapest first."""
    rows = read_rows(read_demonstrations("ways.jsonl", method))
    return tuple(Strategy(row["name"], row["when"]) for row in rows)


def list_strategies(strategies: Sequence[Strategy]) -> str:
    """Return the strategies as lines of a prompt."""
    return "\n".join(f"{strategy.name} - {strategy.when}" for strategy in strategies)


async def choose_strategy(
    ctx: Context, prompt: Filled, strategies: Sequence[Strategy], *, step: str = "route", role: str = "route"
) -> str:
    """Return the strategy that a model names, or the last one."""
    reply = await ctx.generate(step, prompt, role=role, max_tokens=_CHOICE_TOKENS, part=True)
    names = [strategy.name for strategy in strategies]
    return record_choice(ctx, step, read_choice(reply.text, names), reply.text, names)


def record_choice(ctx: Context, step: str, choice: str, raw: str, names: Sequence[str]) -> str:
    """Record a choice, and return it, or the last name if there is none."""
    note_reply(ctx, step, "" if choice else f"none of {', '.join(names)}")
    ctx.emit(Routed(value=choice or names[-1], step=step, raw=raw, read=bool(choice), of=list(names)))
    return choice or names[-1]


async def ask_for_label(ctx: Context, step: str, prompt: Filled, *, role: str, max_tokens: int) -> Choice:
    """Ask for a label, with probabilities if the model gives them."""
    top = MAX_TOP_LOGPROBS if "logprobs" in ctx.model_for(role).capabilities else 0
    reply = await ctx.generate(step, prompt, role=role, max_tokens=max_tokens, top_logprobs=top, part=True)
    return reply.choices[0]


async def ask_shares(ctx: Context, step: str, prompt: Filled, labels: Sequence[str]) -> dict[str, float]:
    """Ask the role `judge`; return each label's share of the probability."""
    choice = await ask_for_label(ctx, step, prompt, role="judge", max_tokens=_LABEL_TOKENS)
    shares = label_shares(choice.text, choice.tokens, labels)
    note_reply(ctx, step, "" if shares else f"none of {', '.join(labels)}")
    return shares


@typed_event
class YesNoJudged(Decision):
    """A yes-or-no verdict; not `read` if the reply is neither."""

    value: bool
    raw: str
    read: bool


async def ask_yes_no(ctx: Context, prompt: Filled, judged: type[YesNoJudged], *, default: bool, role: str) -> bool:
    """Ask a yes-or-no question, record the reply, and return it or `default`."""
    reply = await ctx.generate(judged.kind, prompt, role=role, max_tokens=_CHOICE_TOKENS, part=True)
    choice = read_choice(reply.text, ("Yes", "No")) or ("No" if _NEEDS_NOT.search(reply.text) else "")
    note_reply(ctx, judged.kind, "" if choice else "none of Yes, No")
    yes = choice == "Yes" if choice else default
    ctx.emit(judged(value=yes, raw=reply.text, read=bool(choice)))
    return yes


Label = Literal["better", "worse", "tie"]  # the effect of documents on the answer
_HOW = "Make the file from two runs over train questions: hoptree align skr RUN_WITHOUT RUN_WITH --out FILE"


@dataclass(frozen=True, slots=True)
class Labels:
    """Questions labelled by whether documents helped, and the number of ties."""

    questions: tuple[str, ...]
    better: tuple[bool, ...]
    ties: int
    digest: str = ""


def read_labels(path: str) -> Labels:
    """Read labelled questions: a JSON object a line, `question` and `label`."""
    if not path:
        raise ConfigError("skr with how=knn needs labelled questions: --set labels=FILE was not given.", _HOW)
    try:
        raw = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"The labels in {path} cannot be read: {error.strerror or error}.", _HOW) from error
    rows = [_read_row(path, number, line) for number, line in enumerate(raw.split(b"\n"), 1) if line.strip()]
    decisive = [(question, label == "better") for question, label in rows if label != "tie"]
    if not decisive:
        raise InputError(f"{path} holds no question for which documents made a difference.", "Label more questions.")
    questions, better = zip(*decisive, strict=True)
    return Labels(questions, better, len(rows) - len(decisive), hashlib.sha256(raw).hexdigest()[:12])


def _read_row(path: str, number: int, line: bytes) -> tuple[str, Label]:
    try:
        row: Any = json.loads(line)
        question, label = row["question"], row["label"]
        if not isinstance(question, str) or label not in get_args(Label):
            raise TypeError("its label is none of better, worse and tie")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(f"Line {number} of {path} is not a labelled question: {error}.", _HOW) from error
    return question, label
