"""SeaKR: look up a step where samples of it end in states that lie far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from hoptree.methods.registry import method
from hoptree.retrieval.encoders import Encoder, open_encoder
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import both, together
from hoptree.steps.answering.answer import holding
from hoptree.steps.answering.conclusion import LAST_TOKENS, gives_answer, last_words, led_to_answer, read_conclusion
from hoptree.steps.writing.doubts import told_tokens
from hoptree.steps.writing.rewriting import adds
from hoptree.steps.writing.stretch import Draft, Pen, note_fidelity, show_context
from hoptree.steps.writing.worked import draw_worked
from hoptree.uncertainty import open_tagger, spread, sure_query
from hoptree.values import Answer, Passage, Question

__all__ = ["seakr"]

_STEP_TOKENS = 100
# How samples are drawn, at temperature 1.
_TOP_P, _TOP_K = 0.9, 50
_SIGNALS = ("hidden_states", "prefix", "top_p", "top_k")


@method(
    "seakr",
    title="Self-aware knowledge retrieval",
    paper="SeaKR",
    needs=("corpus", "logprobs"),
    signals=_SIGNALS,
    iterative=True,
    dynamic=True,
    strategy="Spread of the model's states over samples",
    query="The sure words of the step in doubt",
    bounds={"samples": (2, math.inf)},  # one sample has nothing to be apart from
)
async def seakr(
    question: Question,
    ctx: Context,
    *,
    theta: float = -6.0,
    samples: int = 20,
    doubt: float = 0.1,
    k: int = 3,
    max_steps: int = 10,
    max_docs: int = 5,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
    encoder: str = "minilm",
) -> Answer:
    """Write step by step, and look a step up if the states behind samples of it lie further apart than theta.

    `samples` are drawn of each step; U is the mean log-determinant of their states. A step with U above `theta`, which
    wants tuning for each model, is searched for by its content words that question or last step have, or that are sure
    but for `doubt`. It is written again with each of the `k` passages that are new, and the one that leaves the least U
    stays in view. The answer is the surer of those from the steps and from the passages. A model that does not tell its
    states has its samples turned into vectors by `encoder`, for which theta has to be tuned, too.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    can = ctx.model_for("answer").capabilities
    inside = "hidden_states" in can
    note_fidelity(ctx, [name for name in _SIGNALS if name not in can])
    pen = Pen(ctx, question.text, draw_worked(shots, draw), telling=None, judged=True)
    sampler = _Sampler(pen, samples, None if inside else _opened(encoder))
    steps = _Steps(ctx, question.text, pen, sampler, theta, doubt, k, max_docs, titles)
    await steps.write(max_steps)
    return await steps.answer()


@cache
def _opened(encoder: str) -> Encoder:
    return open_encoder(encoder)


@dataclass(frozen=True, slots=True)
class _Sampler:
    """Samples of what comes next, and how far apart they are."""

    pen: Pen
    count: int
    encoder: Encoder | None

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
        if self.encoder is None:
            return spread([state for _, state in found])
        texts = [said for said, _ in found]
        return spread((await self.encoder.encode(texts, role="passage")).tolist()) if texts else None


@dataclass(frozen=True, slots=True)
class _Written:
    """A step, how far samples of it are apart, and all that the model wrote when asked for it."""

    draft: Draft
    spread: float | None
    whole: str = ""

    @property
    def rank(self) -> float:
        return float("inf") if self.spread is None or not self.draft.text else self.spread


@dataclass(slots=True)
class _Steps:
    """The steps and documents of one question."""

    ctx: Context
    question: str
    pen: Pen
    sampler: _Sampler
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
        self.ctx.propose(read_conclusion(f"{self.text} {step.whole}".strip(), self.question), order=0)

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
        return read_conclusion(said, self.question), float("inf") if apart is None else apart

    async def _step(self, docs: Sequence[Passage]) -> _Written:
        """The next step with these documents in view."""
        context = self._show(docs)
        draft, apart = await both(
            self.pen.write(self.text, step="draft", max_tokens=_STEP_TOKENS, context=context),
            self.sampler.spread(self.text, context=context, max_tokens=_STEP_TOKENS),
        )
        return _Written(draft.first_sentence(), apart, draft.text)

    async def _looked_up(self, step: _Written) -> _Written | None:
        """The step with the passage that leaves least doubt; None where nothing new is found."""
        said = step.draft
        before = f"{self.question} {self.last}"
        query = sure_query(said.text, said.tokens, before, open_tagger(), doubt=self.doubt) or self.question
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
