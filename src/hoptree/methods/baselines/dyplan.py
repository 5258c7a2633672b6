"""DyPlan: choose a strategy by the question alone, and another if it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, decision
from hoptree.engine.prompts import Filled, break_control_tokens, number_lines, prompt_for, show_texts
from hoptree.engine.registry import method
from hoptree.methods.baselines.self_ask import self_ask
from hoptree.methods.steps.answer import direct_answer, note_reply, supporting_ids
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think
from hoptree.methods.steps.route import YesNoJudged, ask_yes_no, choose_strategy, list_strategies, load_strategies
from hoptree.models.model import Message
from hoptree.text.parse_method_replies import FINAL, read_final, split_final

_REASONING_TOKENS, _ANSWER_TOKENS = 300, 20
_TRAINED_NAMES = {"Direct": "Direct", "Plan": "Plan", "Reason": "CoT", "Retrieval": "RAG"}


@decision("verify", shown_as="verify")
class AnswerVerified(YesNoJudged):
    """Whether the model says that its answer is right; not `read` if unclear."""


@method(
    "dyplan",
    title="Dynamic strategy planning",
    paper="DyPlan",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    dynamic=True,
    strategy="Strategy chosen from the question",
    query="The question itself",
    roles=("answer", "route"),
    trained=True,
    other_wording=True,
    shared_prompts=("direct", "follow_up", "read", *REASONING_PROMPTS),
)
async def dyplan(
    question: Question,
    ctx: Context,
    *,
    checkpoint: bool = False,
    verify: bool = True,
    k: int = 3,
    shots: int = 6,
    draw: int = 0,
    titles: bool = False,
) -> Answer:
    """Choose to answer directly, by a plan (Self-Ask without search), by reasoning, or by reasoning over documents.

    The model then says whether the answer is right, and if it does not say Yes, another strategy is chosen and its
    answer taken: DyPlan-verify, which other papers compare with; `verify=off` is DyPlan. A name that is not a strategy
    counts as the most expensive one left. With `checkpoint` all of this is one conversation, as the paper trains a
    model for it, with its names (Direct, Plan, CoT, RAG) and `Final answer: "…"`; no weights of it were found, and the
    instructions are in other words. If the second strategy finds no answer, the first one's stays.
    """
    ctx.require_corpus()
    form = _Conversation if checkpoint else _Prompts
    run = form(ctx, question, k, {"shots": shots, "draw": draw, "titles": titles})
    chosen = await run.choose("route")
    answer = await run.use(chosen)
    ctx.propose(answer, order=2)
    if not verify or await run.looks_right(answer):
        return answer
    again = await run.use(await run.choose("route_again", used=chosen, answer=answer.text or "(none)"))
    return again if again.known else answer


class _Prompts:
    """Asks any model for each decision in a prompt of its own."""

    def __init__(self, ctx: Context, question: Question, k: int, shown: dict[str, Any]) -> None:
        self._ctx, self._question, self._k, self._shown = ctx, question, k, shown

    async def choose(self, step: str, *, used: str = "", answer: str = "") -> str:
        left = [strategy for strategy in load_strategies(self._ctx.method) if strategy.name != used]
        names = " or ".join(strategy.name for strategy in left)
        prompt = prompt_for(self._ctx.method, step).fill(
            ways=list_strategies(left), names=names, question=self._question.text, used=used, answer=answer
        )
        return await choose_strategy(self._ctx, prompt, left, step=step)

    async def use(self, strategy: str) -> Answer:
        if strategy == "Direct":
            return await direct_answer(self._ctx, self._question.text)
        if strategy == "Plan":
            return await self_ask(self._question, self._ctx, search=False)
        passages = await self._ctx.search(self._question.text, k=self._k) if strategy == "Retrieval" else ()
        (answer,) = await think(self._ctx, self._question.text, passages=passages, **self._shown)
        return answer

    async def looks_right(self, answer: Answer) -> bool:
        """Ask whether an answer is right; an unknown answer is not."""
        prompt = prompt_for(self._ctx.method, "verify").fill(
            question=self._question.text, reasoning=answer.raw, answer=answer.text
        )
        return answer.known and await ask_yes_no(self._ctx, prompt, AnswerVerified, default=False, role="answer")


class _Conversation(_Prompts):
    """Asks a model trained for DyPlan for all decisions in one conversation."""

    _talk = Filled((), "")

    def _say(self, reply: str, step: str, *, ways: str = "", question: str = "", context: str = "") -> Filled:
        """Add the model's reply and the next turn; the template is that of the last turn."""
        then = prompt_for(self._ctx.method, step).fill(ways=ways, question=question, context=context)
        turn = Message("assistant", break_control_tokens(reply) or "…")  # chat templates do not accept empty turns
        before = (*self._talk.messages, turn) if self._talk.messages else ()
        self._talk = Filled((*before, *then.messages), then.template)
        return self._talk

    async def choose(self, step: str, *, used: str = "", answer: str = "") -> str:
        renamed = [replace(known, name=_TRAINED_NAMES[known.name]) for known in load_strategies(self._ctx.method)]
        left = [strategy for strategy in renamed if strategy.name != used]
        question = "" if used else self._question.text
        prompt = self._say("No", f"trained_{step}", ways=list_strategies(left), question=question)
        return await choose_strategy(self._ctx, prompt, left, step=step, role="answer")

    async def use(self, strategy: str) -> Answer:
        ctx, passages = self._ctx, tuple[Passage, ...]()
        if strategy == _TRAINED_NAMES["Retrieval"]:
            passages = await ctx.search(self._question.text, k=self._k)
        texts = [text.strip() for text in show_texts(ctx, passages, titles=self._shown["titles"])]
        context = f"\nContext:\n{number_lines(texts)}" if texts else ""
        use = self._say(strategy, "trained_use", context=context)
        text = (await ctx.generate("use", use, max_tokens=_REASONING_TOKENS)).text
        before, final = split_final(text)
        repairs = []
        if not final and "prefix" in ctx.model_for("answer").capabilities:
            text = f"{before} {FINAL}".lstrip()
            text += (await ctx.generate("conclude", use, max_tokens=_ANSWER_TOKENS, prefix=text, part=True)).text
            repairs = ["last words"]
        note_reply(ctx, "use", "" if split_final(text)[1] else "no final answer", repairs)
        ctx.emit(ChainWritten(text=text))
        answer = read_final(text)
        support = supporting_ids(answer.text, passages) if answer.known else ()
        return replace(answer, source="external" if passages else "internal", support=support)

    async def looks_right(self, answer: Answer) -> bool:
        prompt = self._say(answer.raw, "trained_verify")
        return await ask_yes_no(self._ctx, prompt, AnswerVerified, default=False, role="answer")
