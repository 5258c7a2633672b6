"""hop's lists: the names that passages state, and what code combines from several lists."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for, show_passages
from hoptree.engine.schedule import together
from hoptree.methods.hop.candidates import Operator, echoes, mean_the_same
from hoptree.methods.hop.reading import parse_reading, shorten_for
from hoptree.methods.steps.answer import note_reply
from hoptree.retrieval.retriever import TITLE
from hoptree.text.comparison_questions import named, named_spans
from hoptree.text.grounding import grounded, share_of_names
from hoptree.text.names import sentence_spans
from hoptree.text.parse import find_refusal, question_key
from hoptree.text.quantities import countries
from hoptree.text.question_tree import Node
from hoptree.text.tokens import strip_marks

Items = tuple[Answer, ...]  # names, each with the passages that state it
_LIST_TOKENS, _MAX_ITEMS = 256, 40
_MAX_BATCHES = 3  # readings of one question, each of as many passages as one prompt holds
_MAX_NAMED_PAGES, _MAX_CHECKED_NAMES, _MAX_BESIDE = 3, 12, 2  # of a question; of other lists; passages for each name
_MAX_COMMON_NOUN_WORDS = 3
_KEPT = {"intersect": "are in every list", "difference": "are in the first alone", "count": "are counted"}
_AROUND = " \t.,;\"'“”`[]{}*"
_TITLE_END = lazy_re(r"\s*[,(]")
_MARK = lazy_re(r"^\s*(?:[-*•]\s+|\d{1,2}[.)]\s+)")
_SEPARATOR = lazy_re(r"(?:[;\n]|,(?!\s*(?:Jr|Sr|I{1,3})\b))(?:[^\S\n]*and(?=\s))?|(?<=\s)and(?=\s)")


@decision("combined")
class ListsCombined(Decision):
    """The names that code kept from the lists of several questions."""

    value: list[str]
    answer: str
    how: str
    of: list[list[str]]
    asked: list[str]

    def reason(self) -> str:
        """Return the lists and the number of kept names, in words."""
        lists = ", ".join(f'{len(names)} to "{asked}"' for asked, names in zip(self.asked, self.of, strict=True))
        return f"of the names listed ({lists}), {len(self.value)} {_KEPT.get(self.how, 'are given')}"

    def decides_alone(self) -> bool:
        return bool(self.value)


class ListReader:
    """Reads all stated answers from passages; `seen` is every passage that was found."""

    def __init__(self, ctx: Context, seen: dict[str, Passage], *, k: int, forced: bool) -> None:
        """Create a reader; code checks the names of a `forced` one, which cannot refuse."""
        self._ctx, self._seen, self._k, self._forced = ctx, seen, k, forced

    async def list_all(
        self, asked: str, about: str, known: Sequence[Passage] = (), among: Sequence[str] = (), node: Node | None = None
    ) -> Items:
        """Read all stated answers, or those `among` given ones, which `about` leaves out."""
        pages: list[Passage] = []
        for start, end in named_spans(about)[:_MAX_NAMED_PAGES]:
            pages += await self._ctx.search(asked, k=2, where={TITLE: about[start:end]}, node=node)
        pages += await self._ctx.search(asked, k=_MAX_BATCHES * self._k, node=node)
        for name in among[:_MAX_CHECKED_NAMES]:
            pages += await self._ctx.search(f"{asked} {name}", k=1, where={TITLE: name}, node=node)
        passages = list({passage.id: passage for passage in (*pages, *known)}.values())
        further = [passage for passage in passages[self._k :] if _is_about(passage, about)]
        return await self._read(asked, about, [*passages[: self._k], *further], among, node)

    async def complete(self, lists: Mapping[str, Items]) -> dict[str, Items]:
        """Ask for each list if names of others belong to it, given a passage with both."""
        completed = {}
        for asked, items in lists.items():
            others = frozenset[str]().union(*(named(other) for other in lists if other != asked))
            own = named(asked) - others or named(asked)
            missing = (item.text for other in lists.values() for item in other if not holds(items, item.text))
            beside: dict[str, list[Passage]] = {}
            for name in list(dict.fromkeys(missing))[:_MAX_CHECKED_NAMES]:
                titled = await self._ctx.search(f"{asked} {name}", k=1, where={TITLE: name})
                self._seen |= {passage.id: passage for passage in titled}
                beside[name] = self._beside(name, own)
            passages = {passage.id: passage for pages in beside.values() for passage in pages}
            among = [name for name, pages in beside.items() if pages]
            completed[asked] = (*items, *await self._read(asked, asked, list(passages.values()), among, None))
        return completed

    def _beside(self, name: str, own: Collection[str]) -> list[Passage]:
        """Return passages with a sentence that has a name and one of a list's `own`."""

        def has_both(page: Passage) -> bool:
            sentences = (page.text[start:end] for start, end in sentence_spans(page.text))
            keys = (f" {question_key(f'{page.title}. {sentence}')} " for sentence in sentences)
            return any(f" {question_key(name)} " in key and any(f" {word} " in key for word in own) for key in keys)

        return list(filter(has_both, self._seen.values()))[:_MAX_BESIDE]

    async def _read(
        self, asked: str, about: str, passages: Sequence[Passage], among: Sequence[str], node: Node | None
    ) -> Items:
        """Read passages in batches, and unite the lists."""
        passages = passages[: _MAX_BATCHES * self._k]
        self._seen |= {passage.id: passage for passage in passages}
        prompt = prompt_for(
            self._ctx.method, "list_among" if among else "list" if self._forced else "list_or_not_found"
        )
        shown = {"question": asked, **({"names": ", ".join(among)} if among else {})}
        batches = [passages[at : at + self._k] for at in range(0, len(passages), self._k)]
        batches = [[shorten_for(self._ctx, about, passage) for passage in batch] for batch in batches]
        filled = [prompt.fill(shots=(), documents=show_passages(self._ctx, b, titles=True), **shown) for b in batches]
        replies = await together(self._ctx.generate("list", f, max_tokens=_LIST_TOKENS, node=node) for f in filled)
        items: list[Answer] = []
        for batch, reply in zip(batches, replies, strict=True):
            stated = _stated(reply.text, [page for page in batch if not self._forced or _is_about(page, about)])
            note_reply(self._ctx, "list", "" if stated or find_refusal(reply.text) else "no name")
            if among:
                called = ((name, item) for item in stated for name in among if mean_the_same(name, item.text))
                stated = [replace(item, text=name) for name, item in called]
            items = _unite(items, [item for item in stated if not echoes(about, item.text)])
        return tuple(items[:_MAX_ITEMS])


def _is_about(passage: Passage, question: str) -> bool:
    """Return whether a passage has a name of a question, or the question its title.

    Of a title such as "Lund, Sweden" the question only needs "Lund".
    """
    head = question_key(_TITLE_END.split(passage.title)[0])
    named_by_title = bool(head) and f" {head} " in f" {question_key(question)} "
    return named_by_title or share_of_names(question, f"{passage.title}. {passage.text}") > 0


def _unite(first: Sequence[Answer], second: Sequence[Answer]) -> list[Answer]:
    """Return the items of two lists, merging those with the same meaning."""
    united = list(first)
    for item in second:
        place = next((place for place, other in enumerate(first) if mean_the_same(other.text, item.text)), None)
        if place is None:
            united.append(item)
        else:
            support = dict.fromkeys((*united[place].support, *item.support))
            united[place] = replace(united[place], support=tuple(support))
    return united


def _stated(reply: str, passages: Sequence[Passage]) -> list[Answer]:
    """Return the first items of a reply that passages hold.

    A line with commas is one item if passages have it as such and there are other lines, or if it is a title: "Tom,
    Dick and Hairy".
    """
    text, *_ = parse_reading(reply)
    if not text or find_refusal(text):
        return []
    lines = [strip_marks(_MARK.sub("", line), _AROUND) for line in text.splitlines()[:_MAX_ITEMS]]
    unsplit = {*map(question_key, lines if len(lines) > 1 else [passage.title for passage in passages])}
    items: dict[str, Answer] = {}
    for line in lines:
        for name in (*([line] if question_key(line) in unsplit else []), *split_list(line.rpartition(": ")[2])):
            item = grounded(Answer(name, line, source="external"), "", passages)
            if item.known:
                items.setdefault(question_key(item.text), item)
                if len(items) == _MAX_ITEMS:
                    return list(items.values())
                if name == line:
                    break
    return list(items.values())


def split_list(text: str) -> list[str]:
    """Split a list into its names, each once."""
    names = [strip_marks(" ".join(name.split()), _AROUND) for name in _SEPARATOR.split(text)[:_MAX_ITEMS]]
    return list(dict.fromkeys(name for name in names if name))


def holds(items: Items, name: str) -> bool:
    """Return whether a list has a name."""
    return any(mean_the_same(item.text, name) for item in items)


def intersect(lists: Sequence[Items]) -> list[Answer]:
    """Return the items that all lists have, in the words of the first."""
    first, *others = lists
    return [item for item in first if all(holds(items, item.text) for items in others)]


def combine(ctx: Context, operator: Operator, lists: Mapping[str, Items]) -> Answer | None:
    """Combine the lists of several questions; None if nothing is left or countable."""
    first, *others = lists.values()
    if operator == "union":
        kept = list(first)
        for items in others:
            kept = _unite(kept, items)
    elif operator == "difference":
        kept = [item for item in first if not any(holds(items, item.text) for items in others)]
    else:
        kept = intersect(list(lists.values()))
    names, *of = ([item.text for item in items] for items in (kept, *lists.values()))
    text = str(len(names)) if operator == "count" else ", ".join(names)
    ctx.emit(ListsCombined(value=names, answer=text, how=operator, of=of, asked=list(lists)))
    if not names or (operator == "count" and not _are_names(names)):
        return None
    stated = [item for name in names for items in lists.values() for item in items if mean_the_same(item.text, name)]
    support = dict.fromkeys(passage_id for item in stated for passage_id in item.support[:1])
    return Answer(text, "; ".join(names), source="synthesis", support=tuple(support))


def _are_names(names: Sequence[str]) -> bool:
    """Return whether items are names that can be counted, not pieces of sentences."""
    if len(names) < 2 or any(map(str.isdigit, "".join(names))):
        return False
    are_countries = [name.casefold() in countries().by_name for name in names]
    if any(are_countries) and not all(are_countries):
        return False
    proper = [not name[0].islower() for name in names]
    return all(proper) or (not any(proper) and all(len(name.split()) <= _MAX_COMMON_NOUN_WORDS for name in names))
