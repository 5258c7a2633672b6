"""hop's lists: everything that passages state for a question, and what code makes of several lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.engine.prompts import prompt_for
from hoptree.methods.hop.candidates import mean_the_same
from hoptree.methods.hop.operators import LISTS, Operator
from hoptree.methods.hop.reading import parse_reading
from hoptree.methods.hop.signals import echoes
from hoptree.methods.steps.answer import note_reply
from hoptree.methods.steps.conditions import named, named_spans
from hoptree.methods.steps.evidence import show_passages
from hoptree.retrieval.retriever import TITLE
from hoptree.text.grounding import grounded, share_of_names
from hoptree.text.parse import find_refusal, question_key
from hoptree.text.quantities import countries
from hoptree.text.question_tree import Node

Items = tuple[Answer, ...]
"""Names, each with the passages that state it."""
_MAX_TOKENS = 256
_MAX_BATCHES = 3
"""Readings of one question: each is of as many passages as one prompt holds."""
_MAX_NAMED_PAGES = 3
MAX_CHECKED_NAMES = 12
_MAX_ITEMS = 40
_MAX_COMMON_NOUN_WORDS = 3
_MARK = lazy_re(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)")
_SEPARATOR = lazy_re(r"(?:[;\n]|,(?!\s*(?:Jr|Sr|I{1,3})\b))(?:[^\S\n]*and(?=\s))?|(?<=\s)and(?=\s)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListsCombined(Decision):
    """The names that code kept of several lists, and how: those of all of them, of any, or of the first alone."""

    kind: ClassVar[str] = "combined"
    value: list[str]
    how: str
    of: list[list[str]]
    asked: list[str]

    def reason(self) -> str:
        """Say what was put together."""
        lists = ", ".join(f'{len(names)} to "{asked}"' for asked, names in zip(self.asked, self.of, strict=True))
        kept = {
            "intersect": "stand in every list",
            "union": "stand in any list",
            "difference": "stand in the first alone",
        }
        return f"of the names listed ({lists}), {len(self.value)} {kept.get(self.how, 'were stated')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListCounted(Decision):
    """How many names a list has."""

    kind: ClassVar[str] = "counted"
    value: int
    of: str


async def gather(
    ctx: Context, asked: str, about: str, known: Sequence[Passage], names: Sequence[str], *, k: int, node: Node | None
) -> tuple[Passage, ...]:
    """Return what may state items of a list: pages of what the question names, what it finds, pages of `names`.

    Beyond the first `k`, only passages that hold a name of what it is `about`.
    """
    pages: list[Passage] = []
    for start, end in named_spans(about)[:_MAX_NAMED_PAGES]:
        pages += await ctx.search(asked, k=2, where={TITLE: about[start:end]}, node=node)
    found = await ctx.search(asked, k=(_MAX_BATCHES - 1) * k, node=node)
    for name in names[:MAX_CHECKED_NAMES]:
        pages += await ctx.search(f"{asked} {name}", k=1, where={TITLE: name}, node=node)
    passages = list({passage.id: passage for passage in (*pages, *found, *known)}.values())
    further = (p for p in passages[k:] if share_of_names(about, f"{p.title}. {p.text}") > 0)
    return (*passages[:k], *further)[: _MAX_BATCHES * k]


async def read_list(
    ctx: Context,
    question: str,
    about: str,
    passages: Sequence[Passage],
    *,
    k: int,
    prompt: str,
    among: Sequence[str] = (),
    node: Node | None = None,
) -> Items:
    """Read passages for all items that they state, `k` at a time, and unite what each reading lists.

    An item must stand in a passage beside a name of what the question is `about`, and be one of those `among` which
    are asked for, if there are any.
    """
    items: list[Answer] = []
    for at in range(0, min(len(passages), _MAX_BATCHES * k), k):
        batch = passages[at : at + k]
        shown = {"documents": show_passages(ctx, batch, titles=True), "question": question}
        if prompt == "list_among":
            shown["names"] = ", ".join(among)
        filled = prompt_for(ctx.method, prompt).fill(shots=(), **shown)
        reply = await ctx.generate("list", filled, max_tokens=_MAX_TOKENS, node=node)
        stated = _stated(reply.text, about, batch)
        note_reply(ctx, "list", "" if stated or find_refusal(reply.text) else "no name")
        for item in stated:
            texts = [name for name in among if mean_the_same(name, item.text)] if among else [item.text]
            if texts and not echoes(about if among else question, item.text):
                _unite(items, replace(item, text=texts[0]))
    return tuple(items[:_MAX_ITEMS])


def _unite(items: list[Answer], item: Answer) -> None:
    """Add an item, or its passages to the one that means the same."""
    for place, other in enumerate(items):
        if mean_the_same(other.text, item.text):
            items[place] = replace(other, support=tuple(dict.fromkeys((*other.support, *item.support))))
            return
    items.append(item)


def _stated(reply: str, about: str, passages: Sequence[Passage]) -> list[Answer]:
    """Return the items of a reply that passages hold; what a line has is one item where a passage writes it so."""
    _, text, _ = parse_reading(reply)
    if not text or find_refusal(text):
        return []
    items: list[Answer] = []
    for line in text.splitlines()[:_MAX_ITEMS]:
        written = _MARK.sub("", line).strip(" \t\"'“”`[]{}*.")
        for name in (written, *split_list(written)):
            item = grounded(Answer(name, line, source="external"), about, passages) if name else None
            if item and item.known:
                items.append(item)
                if name == written:
                    break
    return items


def split_list(text: str) -> list[str]:
    """Split a list into its names, each once."""
    names = [" ".join(name.split()).strip(" .\"“”'") for name in _SEPARATOR.split(text)[:_MAX_ITEMS]]
    return list(dict.fromkeys(name for name in names if name))


def open_names(items: Items, others: Sequence[Items]) -> list[str]:
    """Return the names of other lists that a list does not have."""
    names: list[Answer] = []
    for item in (item for other in others if other is not items for item in other):
        if not holds(items, item.text):
            _unite(names, item)
    return [item.text for item in names][:MAX_CHECKED_NAMES]


def holds(items: Items, name: str) -> bool:
    return any(mean_the_same(item.text, name) for item in items)


def passages_beside(name: str, asked: str, others: Sequence[str], passages: Sequence[Passage]) -> list[Passage]:
    """Return passages that hold a name beside one that a question has and the `others` do not."""
    own = named(asked) - frozenset().union(*map(named, others)) or named(asked)
    kept = []
    for passage in passages:
        text = f" {question_key(f'{passage.title}. {passage.text}')} "
        if f" {question_key(name)} " in text and any(f" {key} " in text for key in own):
            kept.append(passage)
    return kept


def combine(ctx: Context, operator: Operator, lists: Mapping[str, Items]) -> Answer | None:
    """Put the lists that questions gave together; None where nothing is left, or a list to be intersected is empty."""
    first, *others = lists.values()
    if operator not in LISTS or not first or (operator == "intersect" and not all(others)):
        return None
    kept = list(first)
    if operator == "union":
        for item in (item for items in others for item in items):
            _unite(kept, item)
    elif operator == "intersect":
        kept = [item for item in kept if all(holds(items, item.text) for items in others)]
    elif operator == "difference":
        kept = [item for item in kept if not any(holds(items, item.text) for items in others)]
    names = [item.text for item in kept]
    of = [[item.text for item in items] for items in lists.values()]
    ctx.emit(ListsCombined(value=names, how=operator, of=of, asked=list(lists)))
    if not names:
        return None
    support = [
        passage_id
        for item in kept
        for items in ((kept,) if operator == "difference" else lists.values())
        for other in items
        if mean_the_same(other.text, item.text)
        for passage_id in other.support[:1]
    ]
    return Answer(", ".join(names), "; ".join(names), source="synthesis", support=tuple(dict.fromkeys(support)))


def count_items(ctx: Context, items: Items) -> Answer | None:
    """Count the names of a list; None where there are fewer than two, or they are no names."""
    names = [item.text for item in items]
    if len(names) < 2 or any(map(str.isdigit, "".join(names))) or not _are_names(names):
        return None
    ctx.emit(ListCounted(value=len(names), of=", ".join(names)))
    support = dict.fromkeys(passage_id for item in items for passage_id in item.support)
    return Answer(str(len(names)), source="synthesis", support=tuple(support))


def _are_names(names: Sequence[str]) -> bool:
    """Return whether each is a name of its own: none says where another one is, and none is a piece of a sentence."""
    are_countries = [name.casefold() in countries().by_name for name in names]
    if any(are_countries) and not all(are_countries):
        return False
    proper = [not name[0].islower() for name in names]
    return all(proper) or (not any(proper) and all(len(name.split()) <= _MAX_COMMON_NOUN_WORDS for name in names))
