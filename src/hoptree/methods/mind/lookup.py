"""Settle an uncertain sentence: from memory, or by a search with kept names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Literal

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.prompts import prompt_for
from hoptree.methods.mind.entities import Candidate, EntityFilter, Setting, UncertainSentence
from hoptree.methods.mind.memory import FactMemory, Held, learn
from hoptree.methods.steps.answer import note_reply, supporting_ids
from hoptree.methods.steps.continuation import Draft, show_context
from hoptree.methods.steps.rewrite_loop import Doubt, Help
from hoptree.text.names import fold
from hoptree.text.parse import read_questions
from hoptree.text.relation_words import relation_key
from hoptree.text.retrieval_triggers import sought_words, sub_query
from hoptree.text.word_classes import Tagger

_QUESTION_TOKENS = 64


@decision("sub_query")
class SubQueryMade(Decision):
    """The query for an uncertain sentence, from `kept` names and `sought` words."""

    value: str
    sentence: str
    kept: list[str]
    sought: list[str]
    again: bool = False  # as in stored traces

    def add_to(self, view: GenerationView) -> None:
        view.ask(self.value, self.sought)

    def log_line(self) -> str:
        return f"searched: {self.value}" if self.value else "nothing to search with"


@decision("skipped")
class AnsweredByMemory(Decision):
    """A fact in memory settles a sentence: nothing is searched for."""

    value: bool = True
    sentence: str
    fact: list[str]
    confidence: float | None = None
    passage: str

    def add_to(self, view: GenerationView) -> None:
        view.use_fact(self.fact, self.confidence, self.passage, self.sentence)

    def log_line(self) -> str:
        return f"in memory: {' | '.join(self.fact)}"


@decision("memory")
class MemoryShown(Decision):
    """The facts that are shown, and those that contradict."""

    value: list[str]
    facts: int
    conflicts: list[list[list[str]]] = field(default_factory=list)

    def add_to(self, view: GenerationView) -> None:
        view.part.shown = tuple(self.value)
        view.conflicts = tuple(tuple(tuple(map(str, fact)) for fact in group) for group in self.conflicts)


class Lookup:
    """The searches and the memory of one question; `left` counts searches."""

    def __init__(
        self,
        ctx: Context,
        question: str,
        tagger: Tagger,
        entities: EntityFilter,
        memory: FactMemory | None,
        setting: Setting,
    ) -> None:
        self._ctx, self._question, self._tagger, self._entities = ctx, question, tagger, entities
        self._memory, self._setting = memory, setting
        self.left = setting.retrievals
        self.read: list[Passage] = []
        self._step = 0
        self._text = ""
        self._learned: dict[str, set[str]] = {}

    def end(self, answer: Answer) -> Answer:
        """Return the answer of the text with the passages that hold it."""
        return replace(answer, support=supporting_ids(answer.text, self.read)) if answer.known else answer

    def context(self) -> str:
        return self._show(())

    async def look_up(self, doubt: Doubt, draft: Draft, written: Draft) -> Help | Literal["spent"] | None:
        self._step += 1
        uncertain = UncertainSentence.of(doubt, draft, written)
        sought = sought_words(uncertain.sentence, uncertain.hits, self._tagger)
        self._text = uncertain.before
        if known := self._from_memory(uncertain, sought):
            return known
        if self.left <= 0:
            return "spent"
        kept = await self._entities.choose(uncertain)  # step 4
        passages = await self._search(uncertain, kept, sought)  # step 5
        if passages is None:
            return None
        await self._remember(passages, [candidate.name for candidate in kept if candidate.kind == "entity"])
        return Help(self._show(passages))

    async def _search(
        self, uncertain: UncertainSentence, kept: Sequence[Candidate], sought: Sequence[str]
    ) -> tuple[Passage, ...] | None:
        """Search with the kept names; None where that gives no query."""
        names = [candidate.name for candidate in kept]
        query = sub_query(names, sought, limit=self._setting.words)
        if query and self._setting.by_question:
            query = await self._write_question(uncertain, names) or query
        self._ctx.emit(SubQueryMade(value=query, sentence=uncertain.sentence, kept=names, sought=list(sought)))
        if not query:
            return None
        self.left -= 1
        return await self._ctx.search(query, k=self._setting.k)

    async def _write_question(self, uncertain: UncertainSentence, names: Sequence[str]) -> str:
        """Ask for the next question to look up (3.4); "" where the reply asks nothing."""
        prompt = prompt_for(self._ctx.method, "sub_query").fill(
            question=self._question,
            text=uncertain.before or "(nothing yet)",
            sentence=uncertain.sentence,
            names=", ".join(names),
        )
        reply = await self._ctx.generate("sub_query", prompt, max_tokens=_QUESTION_TOKENS)
        questions = read_questions(reply.text)
        note_reply(self._ctx, "sub_query", "" if questions else "no question")
        return questions[0] if questions else ""

    async def _remember(self, passages: Sequence[Passage], names: Sequence[str]) -> None:
        """Read passages for facts, again only for new names."""
        read = {passage.id for passage in self.read}
        self.read += [passage for passage in passages if passage.id not in read]
        if self._memory is None:
            return
        asked = {fold(name) for name in names}
        new = [passage for passage in passages if asked - self._learned.setdefault(passage.id, set())]
        for passage in new:
            self._learned[passage.id] |= asked
        await learn(self._ctx, self._memory, self._question, names, new, step=self._step)
        conflicts = self._memory.conflicts()
        self._ctx.emit(MemoryShown(value=self._facts().splitlines(), facts=len(self._memory), conflicts=conflicts))

    def _from_memory(self, uncertain: UncertainSentence, sought: Sequence[str]) -> Help | None:
        """Return what memory has of what the sentence says."""
        relation = relation_key(" ".join(sought))
        held = self._memory.answers(uncertain.sentence, relation, hits=uncertain.hits) if self._memory else None
        if held is None:
            return None
        self._ctx.emit(
            AnsweredByMemory(
                sentence=uncertain.sentence,
                fact=[*held.triple],
                confidence=round(held.fact.confidence, 4),
                passage=held.fact.passage_id,
            )
        )
        source = [passage for passage in self.read if passage.id == held.fact.passage_id]
        return Help(self._show(source, first=held))

    def _show(self, passages: Sequence[Passage], *, first: Held | None = None) -> str:
        return show_context(self._ctx, passages, titles=self._setting.titles, facts=self._facts(first))

    def _facts(self, first: Held | None = None) -> str:
        if self._memory is None:
            return ""
        return self._memory.render(self._setting.rendered, first=first, about=f"{self._question} {self._text}")
