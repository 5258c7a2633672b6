"""SeaKR's loop: a step whose samples end in states that lie far apart is looked up, and written anew."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from hoptree.retrieval.encoders import Encoder, check_encoder, open_encoder
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import both, together
from hoptree.steps.answering.answer import holding
from hoptree.steps.answering.conclusion import LAST_TOKENS, gives_answer, last_words, led_to_answer, read_conclusion
from hoptree.steps.reading.noting import note_reply, note_written
from hoptree.steps.writing.doubts import told_tokens
from hoptree.steps.writing.rewriting import adds
from hoptree.steps.writing.stretch import Draft, Pen, show_context
from hoptree.uncertainty import least_spread, open_tagger, shortest, spread, sure_query
from hoptree.values import Answer, Passage

__all__ = ["Sampler", "Steps"]

_STEP_TOKENS = 100
# How samples are drawn, at temperature 1.
_TOP_P, _TOP_K = 0.9, 50
_FAR = float("inf")


@dataclass(slots=True)
class Sampler:
    """Samples of what comes next, and how far apart they are.

    A model that does not tell its states has its samples turned into vectors by `encoder`, which is refused before
    anything is asked if there is none of that name. The first samples tell how little they can be apart at all, and a
    `theta` below that is warned of.
    """

    ctx: Context
    pen: Pen
    count: int
    encoder: str
    theta: float
    _held: bool = False

    def __post_init__(self) -> None:
        check_encoder(self.encoder)
        if self._encodes:
            _opened(self.encoder)

    @property
    def _encodes(self) -> bool:
        return "hidden_states" not in self.ctx.model_for("answer").capabilities

    async def spread(self, text: str, *, context: str, max_tokens: int) -> float | None:
        """U; None where no sample says anything."""
        found = await self.pen.states(
            text,
            self.count,
            step="sample",
            max_tokens=max_tokens,
            context=context,
            top_p=_TOP_P,
            top_k=_TOP_K,
        )
        states: Sequence[Sequence[float]] = [state for _, state in found]
        if found and self._encodes:
            texts = [said for said, _ in found]
            states = (await _opened(self.encoder).encode(texts, role="passage")).tolist()
        self._hold(states)
        return spread(states)

    def _hold(self, states: Sequence[Sequence[float]]) -> None:
        """Hold theta against U of samples that agree in full: above it nothing can be sure."""
        if self._held or (square := shortest(states)) is None:
            return
        self._held = True
        if self.theta < (least := least_spread(self.count, square=square)):
            self.ctx.warn(
                "theta",
                f"Even if all agree, {self.count} samples of this model have a U of {least:.2f}, so that "
                f"theta={self.theta:g} doubts every step. Tune it (hoptree tune --vary theta=…), or set it higher.",
            )


@cache
def _opened(encoder: str) -> Encoder:
    return open_encoder(encoder)


@dataclass(frozen=True, slots=True)
class _Written:
    """A step, how far samples of it are apart, and all that the model wrote when asked for it."""

    draft: Draft
    spread: float | None
    whole: str = ""

    @property
    def rank(self) -> float:
        return _FAR if self.spread is None or not self.draft.text else self.spread


@dataclass(slots=True)
class Steps:
    """The steps of one question: one in doubt is looked up, and written again with the passage that leaves least doubt.

    The answer is the surer of what the steps lead to and what the passages say by themselves.
    """

    ctx: Context
    pen: Pen
    sampler: Sampler
    theta: float
    doubt: float
    k: int
    max_docs: int
    titles: bool
    text: str = ""
    last: str = ""
    docs: list[Passage] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)

    async def write(self, max_steps: int) -> None:
        """Step after step, until one gives an answer, nothing new comes, or there are as many as there may be."""
        why = "steps"
        for _ in range(max_steps):
            step = await self._step(self.docs)
            doubted = step.spread is None or not step.draft.text or step.spread > self.theta
            self.ctx.decide(
                "step",
                doubted,
                text=step.draft.text,
                tokens=told_tokens(step.draft),
                spread=step.spread,
                theta=self.theta,
            )
            self._propose(step)
            if doubted:
                step = await self._looked_up(step) or step
                self._propose(step)
            if not adds(step.draft.text, self.text):
                why = "no growth"
                break
            self.last = step.draft.text
            self.text = f"{self.text} {self.last}".strip()
            if gives_answer(self.text) or step.draft.ended or len(self.docs) >= self.max_docs:
                why = "answer" if gives_answer(self.text) else "end" if step.draft.ended else "documents"
                break
        self.ctx.decide("stop", why, text=self.text)

    def _propose(self, step: _Written) -> None:
        """Offer the answer that the text would come to if the budget ended here."""
        self.ctx.propose(read_conclusion(f"{self.text} {step.whole}".strip(), self.pen.question), order=0)

    async def answer(self) -> Answer:
        """The surer of two: what the steps lead to, and what the documents say by themselves."""
        ways = [("steps", self.text, "")]
        if self.docs:
            ways.append(("documents", "", self._show(self.docs)))
        found = await together(self._answer(text, context) for _, text, context in ways)
        known = [number for number, (answer, _) in enumerate(found) if answer.known]
        best = min(known, key=lambda number: found[number][1], default=0)
        self.ctx.decide(
            "answers",
            ways[best][0],
            answers=[
                [way, answer.text, sure if math.isfinite(sure) else None]
                for (way, _, _), (answer, sure) in zip(ways, found, strict=True)
            ],
        )
        answer = found[best][0]
        self.ctx.trace.add("chain", text=answer.raw)
        return replace(answer, support=holding(answer.text, self.docs)) if answer.known else answer

    async def _answer(self, text: str, context: str) -> tuple[Answer, float]:
        """An answer that the model is made to give, and how far samples of just this are apart."""
        said, apart = await both(
            last_words(self.pen, text, context=context),
            self.sampler.spread(led_to_answer(text), context=context, max_tokens=LAST_TOKENS),
        )
        answer = read_conclusion(said, self.pen.question)
        note_reply(self.ctx, "conclude", "" if said != led_to_answer(text) else "no answer")
        return answer, _FAR if apart is None else apart

    async def _step(self, docs: Sequence[Passage]) -> _Written:
        """The next step with these documents in view."""
        context = self._show(docs)
        draft, apart = await both(
            self.pen.write(self.text, step="draft", max_tokens=_STEP_TOKENS, context=context),
            self.sampler.spread(self.text, context=context, max_tokens=_STEP_TOKENS),
        )
        note_written(self.ctx, "draft", draft.text, self.text)
        return _Written(draft.first_sentence(), apart, draft.text)

    async def _looked_up(self, step: _Written) -> _Written | None:
        """The step with the passage that leaves least doubt; None where nothing new is found."""
        said = step.draft
        before = f"{self.pen.question} {self.last}"
        query = sure_query(said.text, said.tokens, before, open_tagger(), doubt=self.doubt) or self.pen.question
        self.ctx.decide("sub_query", query, sentence=said.text, repeated=query in self.asked)
        if query in self.asked:  # what it found is known; the question goes on
            return None
        self.asked.add(query)
        seen = {passage.id for passage in self.docs}
        new = [passage for passage in await self.ctx.search(query, k=self.k) if passage.id not in seen]
        if not new:
            return None
        tried = await together(self._step([*self.docs, passage]) for passage in new)
        best = min(range(len(new)), key=lambda number: tried[number].rank)
        self.ctx.decide(
            "document",
            new[best].id,
            text=tried[best].draft.text,
            tokens=told_tokens(tried[best].draft),
            tried=[[one.id, way.spread] for one, way in zip(new, tried, strict=True)],
        )
        self.docs.append(new[best])
        return tried[best]

    def _show(self, docs: Sequence[Passage]) -> str:
        return show_context(self.ctx, docs, titles=self.titles)
