"""GenGround: the model answers the next simple question by itself, and documents correct it."""

from __future__ import annotations

from hoptree.errors import ConfigError
from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import direct_answer, synthesise
from hoptree.steps.dialogues.citing import narrow_down, revise
from hoptree.steps.dialogues.deducing import deduce
from hoptree.steps.dialogues.in_turn import InTurn
from hoptree.steps.reading.dialogue import read_answer
from hoptree.values import Answer, Question

__all__ = ["genground"]


@method(
    "genground",
    title="Generate, then ground",
    paper="GenGround",
    needs=("corpus",),
    iterative=True,
    strategy="Every sub-question",
    query="Sub-questions deduced one after another",
    roles=("decompose", "answer"),
)
async def genground(
    question: Question,
    ctx: Context,
    *,
    k: int = 9,
    batch: int = 3,
    max_turns: int = 7,
    tries: int = 3,
    titles: bool = False,
) -> Answer:
    """Deduce the next simple question with an answer from memory, and revise that by the passages a reader cites.

    Of `k` passages, read in batches of `batch`, those that an answer was cited from are kept, until one batch is left;
    by it the answer is revised, which is asked for `tries` times at most and else left as it was. A turn that is
    neither a new question nor FINISH ends the loop, as `max_turns` do; then the question is answered from the turns,
    where the released code gives up. Any model grounds; the paper can also distil a small one for it.
    """
    ctx.require_corpus()
    if batch < 2:
        raise ConfigError(
            "Of a batch of one passage nothing is ever left out, so reading would not end.", "Set batch to 2 or more."
        )
    turns = InTurn(ctx, question.text)
    answer = Answer("", status="unknown")
    for _ in range(max_turns):
        said = await deduce(ctx, question.text, turns.pairs)
        if not said.first or (said.final and not said.pairs):
            answer = read_answer(said.final)
            break
        ctx.propose(read_answer(said.final), order=1)
        node = turns.begin(said.first)
        found = await ctx.search(said.first, k=k, node=node)
        kept = await narrow_down(ctx, said.first, found, batch=batch, titles=titles, node=node)
        guess = read_answer(said.guess)
        turns.end(node, await revise(ctx, said.first, guess, kept, tries=tries, titles=titles, node=node))
    if not answer.known:
        answer = await _synthesise(ctx, turns)
    return turns.conclude(answer)


async def _synthesise(ctx: Context, turns: InTurn) -> Answer:
    """The answer that the turns come to; from memory where there are none."""
    known = [f"{asked} {answer.text}" for asked, answer in turns.pairs if answer.known]
    return await (synthesise(ctx, turns.question, known) if known else direct_answer(ctx, turns.question))
