"""hop's readings of passages: for one answer, or for the names of a list."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from hoptree.core.lazy import lazy_re
from hoptree.core.values import Answer, Passage, Source
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, PassageTruncated, decision
from hoptree.engine.prompts import MAX_WORDS, is_readable_id, prompt_for, show_passages
from hoptree.engine.schedule import together
from hoptree.methods.hop.candidates import Operator, mean_the_same
from hoptree.methods.hop.chooser import echoes
from hoptree.methods.steps.answer import Answered, note_answer, note_reply, supporting_ids
from hoptree.models.model import LearnsCapabilities, Model, Reply, trained_on
from hoptree.retrieval.retriever import TITLE
from hoptree.text.comparison_questions import named, named_spans
from hoptree.text.grounding import grounded, share_of_names, stems
from hoptree.text.names import sentence_spans, sentences
from hoptree.text.parse import clean_answer, find_refusal, question_key
from hoptree.text.quantities import countries
from hoptree.text.question_tree import Node

WhereTrained = Literal["auto", "on", "off"]  # auto: if the model was trained on hop's short prompts
_MAX_TOKENS = 128
_WHOLE_PASSAGES = 2  # the first passages keep all sentences
_CUT_MARGIN = 0.7  # a sentence stays if it scores no further below the best one of its passage
_MAX_PIECE_WORDS = 60
_BEGINNING_WORDS = 250  # words at the beginning of a long passage that always stay
_ANSWER_LABEL = lazy_re(r"answer:\s*", re.IGNORECASE)
_SENTENCE_LABEL = lazy_re(r"^[ \t]*sentence:", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Reading:
    """A reader's answer, and the sentence that it copied, or ""."""

    answer: Answer
    copied: str = ""


def asks_trained(model: Model, prompt: str, trained: WhereTrained) -> bool:
    """Return whether to use a short prompt, for models that were trained on it."""
    return trained == "on" or (trained == "auto" and prompt_for("hop", prompt).template in trained_on(model))


async def read_passages(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    prompt: str,
    chains: Sequence[str] = (),
    node: Node | None = None,
    cut: bool = False,
) -> Reading:
    """Read passages, after the `chains` of answered parts; `cut` leaves out sentences."""
    step = "final" if chains else "read"
    source: Source = "synthesis" if chains else "external"
    if not passages and not chains:
        ctx.emit(Answered(value=False, step=step, continuation_hit="no passages"), node=node)
        return Reading(Answer("", "", "unknown", source))
    wanted = " ".join([question, *chains])
    shown = await cut_passages(ctx, wanted, passages) if cut else passages
    shown = [shorten_for(ctx, wanted, passage) for passage in shown]
    documents = "\n".join([*chains, show_passages(ctx, shown, titles=True)])
    filled = prompt_for(ctx.method, prompt).fill(documents=documents, question=question)
    model = ctx.model_for("answer")
    top = int("logprobs" in model.capabilities)
    reply = await ctx.generate(step, filled, max_tokens=_MAX_TOKENS, node=node, top_logprobs=top)
    if top and not reply.choices[0].tokens and isinstance(model, LearnsCapabilities):
        model.drop_capability("logprobs")
    text, copied, begin = parse_reading(reply.text)
    refusal = "no answer" if not text else find_refusal(text)
    note_answer(ctx, step, text, clean_answer(text))
    ctx.emit(Answered(value=not refusal, step=step, continuation_hit=refusal or None, raw=reply.text), node=node)
    if refusal:
        return Reading(Answer("", reply.text, "unknown", source))
    confidence = _least_probability(reply, begin, begin + len(text))
    answer = Answer(clean_answer(text), reply.text, "answered", source, confidence=confidence)
    return Reading(replace(answer, support=supporting_ids(answer.text, passages)), copied)


async def cut_passages(ctx: Context, question: str, passages: Sequence[Passage]) -> list[Passage]:
    """Leave out sentences that the retriever scores well below the best."""
    scores = await ctx.sentence_scores(question, passages)
    if scores is None:
        return list(passages)
    shown = list(passages[:_WHOLE_PASSAGES])
    for passage, row in list(zip(passages, scores, strict=True))[_WHOLE_PASSAGES:]:
        least = max(row, default=0.0) - _CUT_MARGIN
        kept = [text for place, text in enumerate(sentences(passage.text)) if place == 0 or row[place] >= least]
        shown.append(replace(passage, text=" ".join(kept)))
    return shown


def shorten_for(ctx: Context, question: str, passage: Passage) -> Passage:
    """Shorten a long passage, with a warning."""
    shown = shorten(question, passage)
    if shown is not passage:
        words, kept = len(passage.text.split()), len(shown.text.split())
        ctx.emit(PassageTruncated(passage=passage.id, words=words, kept=kept))
        name = f"Passage {passage.id}" if is_readable_id(passage.id) else "A passage"
        ctx.warn("truncated", f"{name} is long; {kept} of its {words} words were read, those nearest to the question.")
    return shown


def shorten(question: str, passage: Passage) -> Passage:
    """Cut a long passage to its beginning, its end, and what is nearest to a question.

    The beginning alone lacks what comes late on a page, such as a marriage or a death.
    """
    if len(passage.text) < 2 * MAX_WORDS or len(passage.text.split()) <= MAX_WORDS:
        return passage
    pieces = (
        words[at : at + _MAX_PIECE_WORDS]
        for words in map(str.split, sentences(passage.text))
        for at in range(0, len(words), _MAX_PIECE_WORDS)
    )
    text = [(" ".join(piece), stems(" ".join(piece)), len(piece)) for piece in pieces]
    counts = Counter(word for _, words, _ in text for word in words)
    rarity = {word: math.log(1 + len(text) / (1 + counts[word])) for word in stems(question)}
    title = stems(passage.title)
    begins = list(itertools.accumulate(size for *_, size in text))
    beginning = [place for place, words in enumerate(begins) if words <= _BEGINNING_WORDS] or [0]

    def shared(place: int) -> float:
        """Return the weight of the question's words in a piece and the title."""
        words = text[place][1]
        if not rarity.keys() & (words - title):
            return 0.0
        return sum(rarity[word] for word in rarity.keys() & (words | title))

    nearest = sorted(range(len(text)), key=lambda place: -shared(place))
    kept, left = set[int](), MAX_WORDS
    for place in (*beginning, len(text) - 1, len(text) - 2, *nearest):
        if place not in kept and text[place][2] <= left:
            kept.add(place)
            left -= text[place][2]
    return replace(passage, text=" ".join(text[place][0] for place in sorted(kept)))


def parse_reading(reply: str) -> tuple[str, str, int]:
    """Return the answer, the copied sentence, and where the answer begins."""
    label = _SENTENCE_LABEL.search(reply)
    text = reply[: label.start()] if label else reply
    begin = len(text) - len(text.lstrip())
    if answer := _ANSWER_LABEL.match(text, begin):
        begin = answer.end()
    copied = reply[label.end() :].strip(" \t\r\n\"'“”") if label else ""
    return text[begin:].strip(), copied, begin


def _least_probability(reply: Reply, begin: int, end: int) -> float | None:
    """Return the probability of the least likely token in a span, or None."""
    tokens = reply.choices[0].tokens
    spelled = "".join(token.text for token in tokens)
    least, at = None, len(spelled.lstrip()) - len(spelled)  # the text of a reply begins with its first word
    for token in tokens:
        starts, at = at, at + len(token.text)
        if at > begin and starts < end and token.text.strip():
            least = token.logprob if least is None else min(least, token.logprob)
    return None if least is None else math.exp(least)


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
    """Return the items of a reply that passages hold.

    A line with commas is one item if passages have it as such and there are other lines, or if it is a title: "Tom,
    Dick and Hairy".
    """
    text, *_ = parse_reading(reply)
    if not text or find_refusal(text):
        return []
    lines = [_MARK.sub("", line).strip(_AROUND) for line in text.splitlines()[:_MAX_ITEMS]]
    unsplit = {*map(question_key, lines if len(lines) > 1 else [passage.title for passage in passages])}
    items: dict[str, Answer] = {}
    for line in lines:
        for name in (*([line] if question_key(line) in unsplit else []), *split_list(line.rpartition(": ")[2])):
            item = grounded(Answer(name, line, source="external"), "", passages)
            if item.known:
                items.setdefault(question_key(item.text), item)
                if name == line:
                    break
    return list(items.values())


def split_list(text: str) -> list[str]:
    """Split a list into its names, each once."""
    names = [" ".join(name.split()).strip(_AROUND) for name in _SEPARATOR.split(text)[:_MAX_ITEMS]]
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
