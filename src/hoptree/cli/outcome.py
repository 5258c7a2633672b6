"""What a question came to, as it is told of: the result, and what the method decided about the question on its way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.engine.events import Event
from hoptree.engine.result import Result, with_grounds

_KINDS = frozenset(
    (
        "route",
        "need",
        "retrieve",
        "verify",
        "agreement",
        "share",
        "action",
        "repeated_search",
        "critique",
        "heaviest",
        "ended",
    )
)
"""Decisions that tell how a question was answered; others are parts of a tree or of a text, and drawn with these."""
_NAMES = {"route": "way", "repeated_search": "searched before"}
_OF_EVENT = ("event", "run", "t")
_NOT_TOLD = ("kind", "value", "raw", "step", "labels", "encoder", "answer")
_LETTERS = 80
_ITEMS = 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result as it is told of: without what is no evidence, and with the decisions about the question itself."""

    result: Result
    decisions: tuple[dict[str, Any], ...] = ()

    @classmethod
    def of(cls, result: Result, events: Sequence[Event]) -> Outcome:
        made = (event for event in events if event["event"] == "decision")
        own = (one for one in made if one.get("kind") in _KINDS and "node" not in one)
        return cls(
            with_grounds(result),
            tuple({name: said for name, said in one.items() if name not in _OF_EVENT} for one in own),
        )

    def as_dict(self) -> dict[str, Any]:
        """The object that `--json` prints."""
        return {**self.result.as_dict(), "decisions": list(self.decisions)}

    @property
    def lines(self) -> list[str]:
        return list(map(told_of, self.decisions))


def told_of(decision: Mapping[str, Any]) -> str:
    """A decision in one line: "way: Retrieval (of Direct, Plan, Reason, Retrieval)"."""
    kind = str(decision["kind"])
    grounds = [said for name, value in decision.items() if name not in _NOT_TOLD and (said := _ground(name, value))]
    behind = f" ({', '.join(grounds)})" if grounds else ""
    return f"{_NAMES.get(kind, kind)}: {_value(decision.get('value'))}{behind}"


def _ground(name: str, value: Any) -> str:
    """What a decision rests on; "" of what takes more than a few words, and of what goes without saying."""
    if isinstance(value, bool):
        return "" if value else f"not {name}"
    if isinstance(value, Mapping):
        value = [f"{_value(key)} {_value(one)}" for key, one in value.items() if _is_short(one)]
    said = _value(value) if _is_short(value) or isinstance(value, list) else ""
    return f"{name} {said}" if said else ""


def _value(value: Any) -> str:
    if isinstance(value, list):
        items = [_value(one) for one in value if _is_short(one)]
        more = f" and {len(items) - _ITEMS} more" if len(items) > _ITEMS else ""
        return ", ".join(items[:_ITEMS]) + more
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = "none" if value is None else " ".join(str(value).split())
    return text if len(text) <= _LETTERS else f"{text[:_LETTERS]}…"


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float)
