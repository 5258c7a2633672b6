"""Search-R1: a model reasons, searches when it wants to, and answers, all in one text."""

from __future__ import annotations

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.answering.answer import holding
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import clean_answer, looks_unanswered, question_key
from hoptree.steps.writing.actions import Action, read_action
from hoptree.steps.writing.rollout import Rollout, show_information
from hoptree.values import Answer, Passage, Question, Source

__all__ = ["search_r1"]

_STOP = ("</search>", "</answer>", "<information>")
_INVALID = "The previous action is invalid. It is either <search> query </search> or <answer> answer </answer>."
_MY_INVALID = "My previous action is invalid. It is either <search> query </search> or <answer> answer </answer>."
_REPEATED = "That was searched for before; what was found stands above. Search for what is still needed, or answer."
_NO_MORE = "There are no more searches. The answer has to be given now, between <answer> and </answer>."


@method(
    "search_r1",
    title="Reasoning with a search engine",
    paper="Search-R1",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    query="What the model writes between its tags",
    trained=True,
    reworded=True,
)
async def search_r1(
    question: Question,
    ctx: Context,
    *,
    turns: int = 4,
    k: int = 3,
    max_tokens: int = 500,
    information: int = 500,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Let the model think, search between tags and read what was found, until it gives its answer between tags.

    There are `turns` with a search each, and one last turn without; each of at most `max_tokens`, and what a search
    found is cut to about `information` tokens. What is neither a search nor an answer is told so, and costs a turn. A
    text that goes on by itself after a search, with information nobody gave, is cut there. Without `checkpoint`, any
    model is shown two examples and asked in the same loop, in turns of a chat that end with the question, and made to
    answer in the last one; a search that it repeats is not made again, but told so. That is ReAct more than Search-R1.
    With it, all is one text, in which the model thinks in its tags and sees titles; it is
    asked in other words than its training's, and may end without an answer. Always greedy, as the paper evaluates; the
    released demonstration samples.
    """
    ctx.require_corpus()
    prompt = prompt_for(ctx.method, "trained" if checkpoint else "rollout").fill(question=question.text)
    rollout = Rollout(ctx, prompt, one_text=checkpoint)
    read: dict[str, Passage] = {}
    searched: set[str] = set()
    for turn in range(turns + 1):
        last = turn == turns
        lead = "<answer>" if last and not checkpoint else ""
        said = await rollout.write(step="act", max_tokens=max_tokens, stop=_STOP, lead=lead)
        action = _note(ctx, said, turn)
        if last or action.kind == "answer":
            rollout.keep(action.within(said), "")
            break
        told = _MY_INVALID if checkpoint else _INVALID
        if action.kind == "search" and not checkpoint and question_key(action.text) in searched:
            ctx.decide("repeated_search", action.text, turn=turn)
            told = _REPEATED
        elif action.kind == "search":
            searched.add(question_key(action.text))
            found = await ctx.search(action.text, k=k)
            read |= {passage.id: passage for passage in found}
            told = show_information(ctx, found, titles=titles or checkpoint, tokens=information)
        if not checkpoint:
            told += f"\n\n{_NO_MORE}" if turn + 1 == turns else ""
            told += f"\n\nQuestion: {question.text}"
        rollout.keep(action.within(said), told)
    ctx.trace.add("chain", text=rollout.text)
    return _answer(action, rollout.text, list(read.values()))


def _note(ctx: Context, said: str, turn: int) -> Action:
    action = read_action(said)
    error = "neither a search nor an answer" if action.kind == "none" else ""
    note_reply(ctx, "act", error)
    ctx.decide("action", action.kind, turn=turn, text=action.text)
    return action


def _answer(action: Action, raw: str, read: list[Passage]) -> Answer:
    text = clean_answer(action.text) if action.kind == "answer" else ""
    source: Source = "external" if read else "internal"
    if not text or looks_unanswered(text):
        return Answer("", raw, "unknown", source)
    return Answer(text, raw, "answered", source, holding(text, read))
