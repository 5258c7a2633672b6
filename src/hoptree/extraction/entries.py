"""What is kept of a passage that was read: its facts, what was left out, what it cost; and its facts as rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hoptree.graph.vocabulary import named
from hoptree.steps.facts.extraction import StatedFact

__all__ = ["Entry", "Spent", "Totals", "fact_rows"]

# What a table of facts takes for an id and not for a name: a car called Q5 is not Wikidata's Q5.
_LIKE_AN_ID = re.compile(r"[QP][1-9][0-9]*|<[^<>\s]+>")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a passage cost, as usage is counted everywhere: `price` if nothing were cached, `cost` what was paid."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float = 0.0
    cost: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A passage that was read; `key` stands for it and all it says.

    `readable` is False if the reply was no list of facts. `shortened` says that the model saw the beginning of the
    passage only, `orders` that sentences which give orders to a model were kept from it.
    """

    key: int
    passage: str
    document: str
    facts: tuple[StatedFact, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    readable: bool = True
    cut_off: bool = False
    shortened: bool = False
    orders: bool = False
    spent: Spent = field(default_factory=Spent)

    def as_dict(self) -> dict[str, Any]:
        """The entry as a line of the log."""
        data = asdict(self)
        data["facts"] = [[fact.subject, fact.relation, fact.object, fact.sentence] for fact in self.facts]
        return data

    @classmethod
    def read(cls, data: Any) -> Entry:
        """The entry of a line of the log; a TypeError, ValueError or KeyError if it is none."""
        facts = tuple(StatedFact(*map(_text, fact)) for fact in data["facts"])
        left_out = {_text(why): int(count) for why, count in data["left_out"].items()}
        plain = {name: bool(data[name]) for name in ("readable", "cut_off", "shortened", "orders")}
        return cls(
            int(data["key"]),
            _text(data["passage"]),
            _text(data["document"]),
            facts,
            left_out,
            **plain,
            spent=Spent(**{_text(name): _number(value) for name, value in data["spent"].items()}),  # type: ignore[arg-type]
        )


class Totals:
    """Sums over entries."""

    def __init__(self) -> None:
        self.passages = self.facts = self.without_facts = 0
        self.unreadable = self.cut_off = self.shortened = self.orders = 0
        self.left_out: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        self.passages += 1
        self.facts += len(entry.facts)
        self.without_facts += not entry.facts
        self.unreadable += not entry.readable
        self.cut_off += entry.cut_off
        self.shortened += entry.shortened
        self.orders += entry.orders
        self.left_out.update(entry.left_out)
        self.spent.update(asdict(entry.spent))

    def as_dict(self) -> dict[str, Any]:
        return {
            "finished": self.passages,
            "facts": self.facts,
            "left_out": dict(self.left_out.most_common()),
            "without_facts": self.without_facts,
            "unreadable_replies": self.unreadable,
            "replies_cut_off": self.cut_off,
            "shortened_passages": self.shortened,
            "passages_with_orders": self.orders,
            "spent": {name: round(value, 6) for name, value in self.spent.items()},
        }


def fact_rows(entry: Entry) -> Iterator[dict[str, Any]]:
    """The facts of a passage as hoptree graph load reads them, with the passage as their source."""
    for fact in entry.facts:
        places = {"s": fact.subject, "p": fact.relation, "o": fact.object}
        ids = {f"{place}_id": named(name) for place, name in places.items() if _LIKE_AN_ID.fullmatch(name)}
        yield {**places, **ids, "src": [entry.passage], "document": entry.document, "sentence": fact.sentence}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text belongs")
    return value


def _number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__} where a number belongs")
    return value
