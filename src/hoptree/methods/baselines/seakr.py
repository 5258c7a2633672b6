"""SeaKR: look up a step where samples of it end in states that lie far apart."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from operator import mul
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.engine.schedule import both, together
from hoptree.methods.steps.answer import holding
from hoptree.methods.steps.conclusion import LAST_TOKENS, gives_answer, last_words, led_to_answer, read_conclusion
from hoptree.methods.steps.continuation import Draft, Pen, note_fidelity, show_context
from hoptree.methods.steps.reply_notes import note_reply, note_written
from hoptree.methods.steps.rewrite_loop import adds
from hoptree.methods.steps.uncertain_sentences import told_tokens
from hoptree.methods.steps.worked_examples import draw_worked
from hoptree.retrieval.encoder import Encoder
from hoptree.retrieval.open_encoder import check_encoder, open_encoder
from hoptree.text.retrieval_triggers import sure_query
from hoptree.text.word_classes import open_tagger

_LARGEST = 1e100
"""More than any number of a state; the sum of squares is still a number."""


def spread(states: Sequence[Sequence[float]], *, alpha: float = 1e-3) -> float | None:
    """U = (1/k) logdet(Z J Z^T + alpha I) for k samples, whose states of d numbers are the rows of Z.

    J = I - (1/d) 1 1^T takes from each state the mean of its own numbers, as in INSIDE's EigenScore (Chen et al. 2024),
    which SeaKR takes over. Empty states (those of empty samples) and states with NaN are left out; None if none
    remain.
    """
    states = _known(states)
    if not states:
        return None
    if len({len(state) for state in states}) > 1:
        raise ValueError("The states of samples must come from one layer of one model.")
    try:
        numpy = importlib.import_module("numpy")
    except ImportError:
        return _log_determinant(_products(states, alpha)) / len(states)
    return _by_numpy(numpy, states, alpha)


def least_spread(count: int, *, square: float, alpha: float = 1e-3) -> float:
    """U of so many samples that end in one state, which is the least they can have; `square` is its squared length.

    It falls with the number of samples, so a threshold is of that number. States of a model are long, vectors of an
    encoder have a length of 1.
    """
    return ((count - 1) * math.log(alpha) + math.log(alpha + count * square)) / count


def shortest(states: Sequence[Sequence[float]]) -> float | None:
    """The least squared length of states, each without the mean of its own numbers; None if there are none."""
    return min((math.fsum(number**2 for number in row) for row in _centred(_known(states))), default=None)


def _known(states: Sequence[Sequence[float]]) -> list[Sequence[float]]:
    return [state for state in states if len(state) and all(abs(number) < _LARGEST for number in state)]


def _centred(states: Sequence[Sequence[float]]) -> list[list[float]]:
    middles = [math.fsum(state) / len(state) for state in states]
    return [[number - middle for number in state] for state, middle in zip(states, middles, strict=True)]


def _by_numpy(numpy: Any, states: Sequence[Sequence[float]], alpha: float) -> float:
    rows = numpy.asarray(states, dtype=numpy.float64)
    rows = rows - rows.mean(axis=1, keepdims=True)  # J is symmetric and J J = J
    _, determinant = numpy.linalg.slogdet(rows @ rows.T + alpha * numpy.eye(len(rows)))
    return float(determinant) / len(rows)


def _products(states: Sequence[Sequence[float]], alpha: float) -> list[list[float]]:
    rows = _centred(states)
    return [
        [math.fsum(map(mul, left, right)) + (alpha if at == place else 0.0) for place, right in enumerate(rows)]
        for at, left in enumerate(rows)
    ]


def _log_determinant(matrix: list[list[float]]) -> float:
    """By Cholesky's decomposition, whose diagonal rounding may not bring to 0."""
    lower: list[list[float]] = []
    total = 0.0
    for row in matrix:
        found: list[float] = []
        for above in lower:
            found.append((row[len(found)] - math.fsum(map(mul, found, above))) / above[len(found)])
        left = row[len(found)] - math.fsum(map(mul, found, found))
        found.append(math.sqrt(max(left, 5e-324)))
        lower.append(found)
        total += 2 * math.log(found[-1])
    return total


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
                f"theta={self.theta:g} doubts every step. "
                "Tune it (hoptree eval tune --vary theta=…), or set it higher.",
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
    bounds={"samples": (2, math.inf), "max_docs": (1, math.inf)},  # one sample has nothing to be apart from
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

    `samples` are drawn of each step; U is the mean log-determinant of their states. A step with U above `theta` is
    searched for by its content words that question or last step have, or that are sure but for `doubt`. It is written
    again with each of the `k` passages that are new, and the one that leaves the least U stays in view. The answer is
    the surer of those from the steps and from the passages. A model that does not tell its states has its samples
    turned into vectors by `encoder`. `theta` wants tuning for each model, encoder and number of samples; where U is
    above it even if all samples agree, as SmolLM2's is above the authors' -6, that is warned of.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    missing = [name for name in _SIGNALS if name not in ctx.model_for("answer").capabilities]
    note_fidelity(ctx, missing)
    pen = Pen(ctx, question.text, draw_worked(shots, draw), telling=None, judged=True)
    steps = Steps(ctx, pen, Sampler(ctx, pen, samples, encoder, theta), theta, doubt, k, max_docs, titles)
    await steps.write(max_steps)
    return await steps.answer()
