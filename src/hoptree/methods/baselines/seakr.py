"""SeaKR: look up a step if the hidden states behind samples of it lie far apart."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, decision
from hoptree.engine.generation_view import GenerationView
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.engine.sentence_view import number
from hoptree.methods.steps import chain_of_thought as chain
from hoptree.methods.steps.answer import note_reply, note_written, supporting_ids
from hoptree.methods.steps.chain_of_thought import Generator
from hoptree.methods.steps.uncertain_sentences import Measured, Spread, Stopped, SubQuery
from hoptree.text.names import open_tagger
from hoptree.text.parse import gives_answer, led_to_answer, read_conclusion
from hoptree.text.retrieval_triggers import sure_query

_SIGNALS, _STEP_TOKENS = ("hidden_states", "prefix", "top_p", "top_k"), 100


@decision("answers")
class AnswersCompared(Decision):
    """Which of the `answers`, from steps and from documents, was taken."""

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
    shared_prompts=chain.REASONING_PROMPTS,
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
    turned into vectors by `encoder`. `theta` wants tuning for each model; a warning says if U is always above it.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    chain.note_fidelity(ctx, [name for name in _SIGNALS if name not in ctx.model_for("answer").capabilities])
    generator = Generator(ctx, question.text, chain.draw_examples(shots, draw), judged=True)
    run = _Run(ctx, question.text, Spread(ctx, generator, samples=samples, encoder=encoder, theta=theta), titles)
    await run.spread.open()
    reason = "steps"
    for _ in range(max_steps):
        step = await run.write_step(run.docs)
        run.propose(step)
        if run.spread.doubts(step):
            step = await run.look_up(step, doubt=doubt, k=k)
            run.propose(step)
        if not chain.adds_text(step.draft.text, run.text):
            reason = "no growth"
            break
        run.last, run.text = step.draft.text, f"{run.text} {step.draft.text}".strip()
        if gives_answer(run.text) or step.draft.ended or len(run.docs) >= max_docs:
            reason = "answer" if gives_answer(run.text) else "end" if step.draft.ended else "documents"
            break
    ctx.emit(Stopped(value=reason, text=run.text))
    return await run.answer()


class _Run:
    """The text so far, its last step, and the passages in view."""

    def __init__(self, ctx: Context, question: str, spread: Spread, titles: bool) -> None:
        self._ctx, self._question, self.spread, self._titles = ctx, question, spread, titles
        self.text, self.last, self.docs, self._queries = "", "", list[Passage](), set[str]()

    async def write_step(self, docs: list[Passage]) -> Measured:
        step = await self.spread.write(
            self.text, "draft", _STEP_TOKENS, chain.show_context(self._ctx, docs, titles=self._titles)
        )
        note_written(self._ctx, "draft", step.text, self.text)
        return replace(step, draft=step.draft.first_sentence())

    def propose(self, step: Measured) -> None:
        """Propose the answer of the text so far, in case the budget ends."""
        self._ctx.propose(read_conclusion(f"{self.text} {step.text}".strip(), self._question), order=0)

    async def look_up(self, step: Measured, *, doubt: float, k: int) -> Measured:
        """Return the step rewritten with the passage that leaves least doubt, or as is."""
        ctx, draft, known = self._ctx, step.draft, f"{self._question} {self.last}"
        query = sure_query(draft.text, draft.tokens, known, open_tagger(), doubt=doubt) or self._question
        ctx.emit(SubQuery(value=query, sentence=draft.text, repeated=query in self._queries))
        passages = () if query in self._queries else await ctx.search(query, k=k)
        self._queries.add(query)
        new = [passage for passage in passages if passage.id not in {shown.id for shown in self.docs}]
        if not new:
            return step
        steps = await together(self.write_step([*self.docs, passage]) for passage in new)
        best = self.spread.least(new, steps)
        self.docs.append(new[best])
        return steps[best]

    async def answer(self) -> Answer:
        """Return the surer answer: that of the steps, or that of the documents alone."""
        documents = chain.show_context(self._ctx, self.docs, titles=self._titles)
        sources = {"steps": (self.text, ""), "documents": ("", documents)} if self.docs else {"steps": (self.text, "")}
        answers = dict(zip(sources, await together(self._conclude(*way) for way in sources.values()), strict=True))
        best = min((way for way in sources if answers[way][0].known), key=lambda way: answers[way][1], default="steps")
        rows = [[name, answer.text, u if math.isfinite(u) else None] for name, (answer, u) in answers.items()]
        self._ctx.emit(AnswersCompared(value=best, answers=rows))
        answer, _ = answers[best]
        self._ctx.emit(ChainWritten(text=answer.raw))
        return replace(answer, support=supporting_ids(answer.text, self.docs)) if answer.known else answer

    async def _conclude(self, text: str, context: str) -> tuple[Answer, float]:
        """Make the model answer; return the answer and the spread of samples of it."""
        lead = led_to_answer(text)
        step = await self.spread.write(lead, "conclude", chain.CONCLUSION_TOKENS, context)
        concluded = chain.join_conclusion(text, step.draft)
        note_reply(self._ctx, "conclude", "" if concluded != lead else "no answer")
        return read_conclusion(concluded, self._question), math.inf if step.spread is None else step.spread
