"""SeaKR: look up a step where the hidden states behind samples of it lie far apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, ClassVar

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.registry import method
from hoptree.engine.schedule import both, together
from hoptree.engine.sentence_view import SentenceView, number
from hoptree.methods.steps.answer import note_reply, note_written, supporting_ids
from hoptree.methods.steps.chain_of_thought import CONCLUSION_TOKENS, add_conclusion
from hoptree.methods.steps.continuation import Draft, Generator, adds_text, note_fidelity, show_context
from hoptree.methods.steps.demonstrations import draw_examples
from hoptree.methods.steps.rewrite_loop import Stopped, SubQuery
from hoptree.methods.steps.uncertain_sentences import token_probabilities
from hoptree.retrieval.encoder import Encoder
from hoptree.retrieval.open_encoder import check_encoder, open_encoder
from hoptree.text.parse import gives_answer, led_to_answer, read_conclusion
from hoptree.text.retrieval_triggers import sure_query
from hoptree.text.uncertainty import least_spread, smallest_square, state_spread
from hoptree.text.word_classes import open_tagger

_SIGNALS = ("hidden_states", "prefix", "top_p", "top_k")
_STEP_TOKENS = 100
_TOP_P, _TOP_K = 0.9, 50  # of samples, at temperature 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepJudged(Decision):
    """Whether a step is in doubt: its samples have a `spread` above theta, or say nothing."""

    kind: ClassVar[str] = "step"
    value: bool
    text: str
    tokens: list[list[Any]] = field(default_factory=list)
    spread: float | None
    theta: float

    def add_to(self, view: GenerationView) -> None:
        view.write(SentenceView.by_spread(self.text, self.tokens, self.spread, self.value, self.theta))

    def log_line(self) -> str:
        return f"in doubt: {self.text}" if self.value else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentChosen(Decision):
    """The passage that leaves least doubt, the step written with it, and the spread with each passage `tried`."""

    kind: ClassVar[str] = "document"
    value: str
    text: str
    tokens: list[list[Any]] = field(default_factory=list)
    tried: list[list[Any]]

    def add_to(self, view: GenerationView) -> None:
        view.part.tried = tuple((str(name), number(spread)) for name, spread in self.tried)
        if self.text:
            view.part.again = SentenceView.by_spread(self.text, self.tokens, dict(view.part.tried).get(self.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersCompared(Decision):
    """Whether the answer is from the steps or from the documents; `answers` are both with their spreads."""

    kind: ClassVar[str] = "answers"
    value: str
    answers: list[list[Any]]

    def add_to(self, view: GenerationView) -> None:
        view.taken = self.value
        view.answers = tuple((str(way), str(text), number(spread)) for way, text, spread in self.answers)


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
    the surer of those from the steps and from the passages. A model that does not give its states has its samples
    turned into vectors by `encoder`. `theta` wants tuning for each model, encoder and number of samples; a warning says
    if U is above it even if all samples agree, as SmolLM2's is above the authors' -6.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    note_fidelity(ctx, [name for name in _SIGNALS if name not in ctx.model_for("answer").capabilities])
    generator = Generator(ctx, question.text, draw_examples(shots, draw), judged=True)
    run = _Run(ctx, generator, _Sampler(ctx, generator, samples, encoder, theta), theta, doubt, k, max_docs, titles)
    await run.write(max_steps)
    return await run.answer()


@dataclass(frozen=True, slots=True)
class _Step:
    """A step, the spread of samples of it, and all that the model wrote when asked for it."""

    draft: Draft
    spread: float | None
    text: str

    @property
    def uncertainty(self) -> float:
        return math.inf if self.spread is None or not self.draft.text else self.spread


@dataclass(slots=True)
class _Run:
    """The steps of one question so far, and the passages in view."""

    ctx: Context
    generator: Generator
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
        """Write steps until one gives an answer, nothing new comes, or a limit is reached."""
        reason = "steps"
        for _ in range(max_steps):
            step = await self._write_step(self.docs)
            doubted = step.uncertainty > self.theta
            tokens = token_probabilities(step.draft)
            self.ctx.emit(
                StepJudged(value=doubted, text=step.draft.text, tokens=tokens, spread=step.spread, theta=self.theta)
            )
            self._propose(step)
            if doubted:
                step = await self._look_up(step) or step
                self._propose(step)
            if not adds_text(step.draft.text, self.text):
                reason = "no growth"
                break
            self.last = step.draft.text
            self.text = f"{self.text} {self.last}".strip()
            if gives_answer(self.text) or step.draft.ended or len(self.docs) >= self.max_docs:
                reason = "answer" if gives_answer(self.text) else "end" if step.draft.ended else "documents"
                break
        self.ctx.emit(Stopped(value=reason, text=self.text))

    def _propose(self, step: _Step) -> None:
        """Propose the answer that the text would come to if the budget ended here."""
        self.ctx.propose(read_conclusion(f"{self.text} {step.text}".strip(), self.generator.question), order=0)

    async def _write_step(self, docs: Sequence[Passage]) -> _Step:
        context = show_context(self.ctx, docs, titles=self.titles)
        draft, spread = await both(
            self.generator.write(self.text, step="draft", max_tokens=_STEP_TOKENS, context=context),
            self.sampler.spread(self.text, context=context, max_tokens=_STEP_TOKENS),
        )
        note_written(self.ctx, "draft", draft.text, self.text)
        return _Step(draft.first_sentence(), spread, draft.text)

    async def _look_up(self, step: _Step) -> _Step | None:
        """Return the step written with the passage that leaves least doubt; None where nothing new is found."""
        question, draft = self.generator.question, step.draft
        known = f"{question} {self.last}"
        query = sure_query(draft.text, draft.tokens, known, open_tagger(), doubt=self.doubt) or question
        self.ctx.emit(SubQuery(value=query, sentence=draft.text, repeated=query in self.asked))
        if query in self.asked:
            return None
        self.asked.add(query)
        seen = {passage.id for passage in self.docs}
        new = [passage for passage in await self.ctx.search(query, k=self.k) if passage.id not in seen]
        if not new:
            return None
        steps = await together(self._write_step([*self.docs, passage]) for passage in new)
        best = min(range(len(new)), key=lambda place: steps[place].uncertainty)
        draft, tried = steps[best].draft, [[p.id, s.spread] for p, s in zip(new, steps, strict=True)]
        tokens = token_probabilities(draft)
        self.ctx.emit(DocumentChosen(value=new[best].id, text=draft.text, tokens=tokens, tried=tried))
        self.docs.append(new[best])
        return steps[best]

    async def answer(self) -> Answer:
        """Return the surer of two answers: of the steps, and of the documents by themselves."""
        sources = {"steps": (self.text, "")}
        if self.docs:
            sources["documents"] = ("", show_context(self.ctx, self.docs, titles=self.titles))
        concluded = await together(self._conclude(*source) for source in sources.values())
        answers = dict(zip(sources, concluded, strict=True))
        known = [name for name in sources if answers[name][0].known]
        best = min(known, key=lambda name: answers[name][1], default="steps")
        rows = [[name, answer.text, u if math.isfinite(u) else None] for name, (answer, u) in answers.items()]
        self.ctx.emit(AnswersCompared(value=best, answers=rows))
        answer = answers[best][0]
        self.ctx.emit(ChainWritten(text=answer.raw))
        return replace(answer, support=supporting_ids(answer.text, self.docs)) if answer.known else answer

    async def _conclude(self, text: str, context: str) -> tuple[Answer, float]:
        """Return the answer that the model is made to give, and the spread of samples of it."""
        lead = led_to_answer(text)
        concluded, spread = await both(
            add_conclusion(self.generator, text, context=context),
            self.sampler.spread(lead, context=context, max_tokens=CONCLUSION_TOKENS),
        )
        note_reply(self.ctx, "conclude", "" if concluded != lead else "no answer")
        return read_conclusion(concluded, self.generator.question), math.inf if spread is None else spread


class _Sampler:
    """Samples what comes next and measures how far apart the samples are, by states or by an encoder."""

    def __init__(self, ctx: Context, generator: Generator, count: int, encoder: str, theta: float) -> None:
        self._ctx, self._generator, self._count, self._theta = ctx, generator, count, theta
        self._theta_checked = False
        check_encoder(encoder)
        has_states = "hidden_states" in ctx.model_for("answer").capabilities
        self._encoder = None if has_states else _open_encoder(encoder)

    async def spread(self, text: str, *, context: str, max_tokens: int) -> float | None:
        """Return U; None where no sample says anything."""
        samples = await self._generator.sample_states(
            text, self._count, step="sample", max_tokens=max_tokens, context=context, top_p=_TOP_P, top_k=_TOP_K
        )
        states: Sequence[Sequence[float]] = [state for _, state in samples]
        if samples and self._encoder:
            states = (await self._encoder.encode([sample for sample, _ in samples], role="passage")).tolist()
        self._check_theta(states)
        return state_spread(states)

    def _check_theta(self, states: Sequence[Sequence[float]]) -> None:
        """Warn once if theta lies below U of samples that agree in full: then every step is in doubt."""
        if self._theta_checked or (square := smallest_square(states)) is None:
            return
        self._theta_checked = True
        if self._theta < (least := least_spread(self._count, square=square)):
            self._ctx.warn(
                "theta",
                f"Even if all agree, {self._count} samples of this model have a U of {least:.2f}, so that "
                f"theta={self._theta:g} doubts every step. "
                "Tune it (hoptree eval tune --vary theta=…), or set it higher.",
            )


@cache
def _open_encoder(name: str) -> Encoder:
    return open_encoder(name)
