"""Self-Ask: follow-up questions, one at a time, each looked up."""

from __future__ import annotations

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import answer_from, direct_answer
from hoptree.steps.dialogues.follow_ups import final_answer, go_on
from hoptree.steps.dialogues.in_turn import InTurn
from hoptree.steps.reading.dialogue import Said, read_answer
from hoptree.tree import Node
from hoptree.values import Answer, Question

__all__ = ["self_ask"]


@method(
    "self_ask",
    title="Self-Ask with search",
    paper="Self-Ask",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="Every follow-up question",
    query="Follow-up questions",
)
async def self_ask(
    question: Question,
    ctx: Context,
    *,
    search: bool = True,
    k: int = 5,
    max_follow_ups: int = 5,
    titles: bool = False,
) -> Answer:
    """Ask follow-up questions one at a time, answer each from what it finds, and then the question itself.

    A follow-up whose `k` passages hold no answer is answered from memory, as the paper does where its search engine has
    none. Without `search` the model writes the whole dialogue by itself. A model that does so unasked has all behind
    its first new follow-up thrown away. After `max_follow_ups`, or where a reply is neither a new follow-up nor a final
    answer, the final answer is asked for.
    """
    if search:
        ctx.require_corpus()
    turns = InTurn(ctx, question.text)
    final = ""
    while len(turns.pairs) < max_follow_ups:
        said = await go_on(ctx, question.text, turns.pairs, alone=not search)
        ctx.propose(read_answer(said.final), order=1)
        follow_up, final = said.first, said.final
        if not search:
            _take(turns, said, max_follow_ups)
            follow_up = "" if final or len(turns.pairs) == max_follow_ups else said.open
        if not follow_up:
            break
        node = turns.begin(follow_up)
        turns.end(node, await _answer(ctx, node, search, k, titles))
        final = ""
    final = final or await final_answer(ctx, question.text, turns.pairs)
    return turns.conclude(read_answer(final))


def _take(turns: InTurn, said: Said, limit: int) -> None:
    """Take down the follow-ups that the model answered by itself."""
    for asked, answered in said.pairs[: limit - len(turns.pairs)]:
        turns.end(turns.begin(asked), read_answer(answered))


async def _answer(ctx: Context, node: Node, search: bool, k: int, titles: bool) -> Answer:
    if search:
        found = await ctx.search(node.question, k=k, node=node)
        answer = await answer_from(ctx, node.question, found, node=node, titles=titles)
        if answer.known:
            return answer
    return await direct_answer(ctx, node.question, node=node)
