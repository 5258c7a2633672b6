"""FLARE: draft one sentence ahead, and look it up if a token was improbable."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.registry import method
from hoptree.engine.sentence_view import SentenceView
from hoptree.methods.steps.answer import supporting_ids
from hoptree.methods.steps.chain_of_thought import (
    REASONING_PROMPTS,
    Draft,
    Generator,
    conclude,
    draw_examples,
    note_fidelity,
    show_context,
)
from hoptree.methods.steps.uncertain_sentences import (
    LookupResult,
    SubQuery,
    UncertainSentence,
    token_probabilities,
    write_with_help,
)
from hoptree.text.names import sentence_spans
from hoptree.text.retrieval_triggers import improbable_sentence, masked_query


@decision("sentence")
class TokensJudged(Decision):
    """Whether a sentence has a token below theta; `tokens` have probabilities."""

    value: bool
    text: str
    tokens: list[list[Any]] = field(default_factory=list)
    theta: float
    rewritten: bool

    def add_to(self, view: GenerationView) -> None:
        theta = None if self.rewritten else self.theta
        view.write(SentenceView.by_tokens(self.text, self.tokens, self.value, theta), rewritten=self.rewritten)

    def log_line(self) -> str:
        return f"in doubt: {self.text}" if self.value else ""


@method(
    "flare",
    title="Forward-looking active retrieval",
    paper="FLARE",
    needs=("corpus", "logprobs"),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Token probability",
    query="The next sentence without its improbable tokens",
    bounds={"theta": (0, 1), "beta": (0, 1)},
    shared_prompts=REASONING_PROMPTS,
)
async def flare(
    question: Question,
    ctx: Context,
    *,
    theta: float = 0.8,
    beta: float = 0.4,
    k: int = 2,
    look_ahead: int = 64,
    max_tokens: int = 256,
    shots: int = 8,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Draft the next sentence, and write it again with documents if one of its tokens is improbable.

    A sentence with a token less probable than `theta` is searched for, without tokens below `beta`; if nothing is left
    of it, the question is. The first sentence is drafted with what the question itself finds in view, later drafts
    without documents. `shots` worked examples are shown; another `draw` than 0 shows others.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    note_fidelity(ctx, [] if "prefix" in ctx.model_for("answer").capabilities else ["prefix"])
    generator = Generator(ctx, question.text, draw_examples(shots, draw), judged=True)
    helper = _Helper(ctx, question.text, k, beta, titles)
    await helper.search(question.text)
    judge = _Improbable(ctx, theta)
    written = await write_with_help(ctx, generator, judge, helper, draft_tokens=look_ahead, total_tokens=max_tokens)
    answer = await conclude(ctx, generator, written, context=helper.latest)
    return replace(answer, support=supporting_ids(answer.text, helper.read)) if answer.known else answer


@dataclass(frozen=True, slots=True)
class _Improbable:
    """Doubts the next sentence, and only that, if it has a token below theta."""

    ctx: Context
    theta: float

    async def judge(self, draft: Draft, written: Draft) -> tuple[int, UncertainSentence | None]:
        start, end = sentence_spans(draft.text)[0]
        first = draft.until(end)
        doubted = improbable_sentence(first.text, first.tokens, theta=self.theta) is not None
        self._record(first, doubted, rewritten=False)
        return end, UncertainSentence(start, end) if doubted else None

    def record_rewritten(self, sentence: Draft) -> None:
        self._record(sentence, False, rewritten=True)

    def _record(self, sentence: Draft, doubted: bool, *, rewritten: bool) -> None:
        tokens = token_probabilities(sentence)
        decision = TokensJudged(value=doubted, text=sentence.text, tokens=tokens, theta=self.theta, rewritten=rewritten)
        self.ctx.emit(decision)


@dataclass(slots=True)
class _Helper:
    ctx: Context
    question: str
    k: int
    beta: float
    titles: bool
    latest: str = ""
    read: list[Passage] = field(default_factory=list)
    _drafted: bool = False

    def context(self) -> str:
        drafted, self._drafted = self._drafted, True
        return "" if drafted else self.latest

    async def look_up(self, doubt: UncertainSentence, draft: Draft, written: Draft) -> LookupResult | None:
        span = (doubt.start, doubt.end)
        query = masked_query(draft.text, draft.tokens, self.question, beta=self.beta, span=span)
        self.ctx.emit(SubQuery(value=query, sentence=draft.text[doubt.start : doubt.end], beta=self.beta))
        await self.search(query)
        return LookupResult(self.latest)

    async def search(self, query: str) -> None:
        passages = await self.ctx.search(query, k=self.k)
        self.latest = show_context(self.ctx, passages, titles=self.titles)
        self.read += passages
