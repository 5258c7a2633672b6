"""What MIND does with a doubt: look into memory, else search with filtered names, and remember what is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from hoptree.core.values import Passage
from hoptree.engine.context import Context
from hoptree.methods.mind.learning import learn
from hoptree.methods.mind.memory import FactMemory, Held, relation_key
from hoptree.methods.mind.names import Candidate, Doubted, Filtered, Names
from hoptree.methods.steps.continuation import Draft, show_context
from hoptree.methods.steps.rewrite_loop import Doubt, Help
from hoptree.text.names import fold, is_ordinary_start, name_spans
from hoptree.text.tokens import Span, word_spans
from hoptree.text.uncertainty import answer_lead_spans
from hoptree.text.word_classes import Tagger


def sought_words(sentence: str, hits: Sequence[Span], tagger: Tagger) -> tuple[str, ...]:
    """The content words of a sentence that belong to no name and are not in doubt: they name the relation sought."""
    spans = word_spans(sentence)
    names, left_out = name_spans(sentence), (*hits, *answer_lead_spans(sentence))
    return tuple(
        sentence[start:end].removesuffix("'s").removesuffix("’s")
        for (start, end), carries in zip(spans, tagger.content(sentence, spans), strict=True)
        if carries
        and not _is_possessive(sentence, (start, end))
        and not _meets((start, end), left_out)
        and (is_ordinary_start(sentence, (start, end)) or not _meets((start, end), names))
    )


def sub_query(names: Sequence[str], sought: Sequence[str], *, limit: int) -> str:
    """The names and the words that are not in them, each once, up to so many words."""
    parts: list[str] = []
    said: set[str] = set()
    for part in (*names, *sought):
        words = {fold(part[start:end]) for start, end in word_spans(part)}
        if not words <= said:
            parts.append(part)
            said |= words
    return " ".join(" ".join(parts).split()[:limit])


def _is_possessive(sentence: str, word: Span) -> bool:
    """Whether a word is the "s" behind a bracket or a quotation mark, which no word hangs on to."""
    start, end = word
    return sentence[start:end].casefold() == "s" and sentence[start - 1 : start] in ("'", "’")


def _meets(word: Span, places: Sequence[Span]) -> bool:
    return any(first < word[1] and word[0] < last for first, last in places)


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much there is to be of everything: `k` passages a search, `words` a query, `rendered` facts, `searches`."""

    k: int
    words: int
    rendered: int
    titles: bool
    searches: int


@dataclass(frozen=True, slots=True)
class Found:
    """Passages, and the names they were searched with."""

    passages: tuple[Passage, ...]
    names: tuple[Candidate, ...]


class LookUp:
    """Sub-queries, what they found, and the memory of one question; `left` is how many searches there may still be."""

    quoted = False
    """Whether one sentence must state a fact that enters memory."""

    def __init__(
        self, ctx: Context, question: str, tagger: Tagger, names: Names, memory: FactMemory | None, wanted: Wanted
    ) -> None:
        self._ctx, self._question, self._tagger, self._names = ctx, question, tagger, names
        self._memory, self._wanted = memory, wanted
        self.left = wanted.searches
        self.read: list[Passage] = []
        self._step = 0
        self._text = ""
        self._latest: tuple[Passage, ...] = ()
        self._told: dict[str, set[str]] = {}

    def context(self) -> str:
        return self._show(())

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | Literal["spent"] | None:
        self._step += 1
        doubted = Doubted.of(doubt, draft, written)
        sought = sought_words(doubted.sentence, doubted.hits, self._tagger)
        self._text = doubted.before
        if known := self._remembered(doubted, sought):
            return known
        if self.left <= 0:
            return "spent"
        chosen = await self._names.chosen(doubted, self._latest)
        found = await self._found(doubted, chosen, sought)
        if found is None:
            return None
        about = [one.name for one in found.names if one.kind == "entity"]
        await self._remember(found.passages, about or [one.name for one in chosen.kept if one.kind == "entity"])
        self._latest = found.passages
        return Help(self._show(found.passages))

    async def _found(self, doubted: Doubted, chosen: Filtered, sought: Sequence[str]) -> Found | None:
        """What is found for the names that were kept; None where there is nothing to search with."""
        passages = await self._search(doubted, chosen.kept, sought)
        return None if passages is None else Found(passages, chosen.kept)

    async def _search(
        self, doubted: Doubted, kept: Sequence[Candidate], sought: Sequence[str], *, again: bool = False
    ) -> tuple[Passage, ...] | None:
        """What is found for names and what is sought of them; None where there is nothing to search with."""
        used, wanted = (kept, sought) if again else self._narrowed(doubted, kept, sought)
        query = sub_query([one.name for one in used], wanted, limit=self._wanted.words)
        names = [one.name for one in kept]
        self._ctx.decide("sub_query", query, sentence=doubted.sentence, kept=names, sought=list(wanted), again=again)
        return await self._find(query, self._wanted.k) if query else None

    def _narrowed(
        self, doubted: Doubted, kept: Sequence[Candidate], sought: Sequence[str]
    ) -> tuple[Sequence[Candidate], Sequence[str]]:
        """The names to search with, of those that were kept, and what is sought of them."""
        return kept, sought

    async def _find(self, query: str, k: int) -> tuple[Passage, ...]:
        self.left -= 1
        return await self._ctx.search(query, k=k)

    def _unread(self, passages: Sequence[Passage]) -> list[Passage]:
        read = {passage.id for passage in self.read}
        return [passage for passage in passages if passage.id not in read]

    async def _remember(self, passages: Sequence[Passage], names: Sequence[str]) -> None:
        """Read passages for facts; one that comes again has told its own already, but for names that are new."""
        self.read += self._unread(passages)
        if self._memory is None:
            return
        asked = {fold(name) for name in names}
        untold = [passage for passage in passages if asked - self._told.setdefault(passage.id, set())]
        for passage in untold:
            self._told[passage.id] |= asked
        await learn(self._ctx, self._memory, self._question, names, untold, step=self._step, quoted=self.quoted)
        self._ctx.decide(
            "memory", self._facts().splitlines(), facts=len(self._memory), conflicts=_listed(self._memory.conflicts())
        )

    def _remembered(self, doubted: Doubted, sought: Sequence[str]) -> Help | None:
        """What memory has of just what a sentence in doubt says: it is not searched for again."""
        if self._memory is None:
            return None
        held = self._memory.answers(doubted.sentence, relation_key(" ".join(sought)), hits=doubted.hits)
        if held is None:
            return None
        fact = held.fact
        self._ctx.decide(
            "skipped",
            True,
            sentence=doubted.sentence,
            fact=[fact.subject, fact.relation, fact.object],
            confidence=round(fact.confidence, 4),
            passage=fact.passage_id,
        )
        source = [passage for passage in self.read if passage.id == fact.passage_id]
        return Help(self._show(source, first=held))

    def _show(self, passages: Sequence[Passage], *, first: Held | None = None) -> str:
        facts = self._facts(first)
        return show_context(self._ctx, passages, titles=self._wanted.titles, facts=facts)

    def _facts(self, first: Held | None = None) -> str:
        if self._memory is None:
            return ""
        return self._memory.render(self._wanted.rendered, first=first, about=f"{self._question} {self._text}")


def _listed(conflicts: Sequence[Sequence[Held]]) -> list[list[list[str]]]:
    return [
        [[one.fact.subject, one.fact.relation, one.fact.object, one.fact.passage_id] for one in group]
        for group in conflicts
    ]
