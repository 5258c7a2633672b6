"""Iter-RetGen: what was written is searched with, and what was found is written from, in turn."""

from __future__ import annotations

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.chain_of_thought import think
from hoptree.methods.steps.choose import answer_key


@method(
    "iter_retgen",
    title="Iterative retrieval and generation",
    paper="Iter-RetGen",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="A fixed number of rounds",
    query="The question and the whole text of the round before",
    beyond=("early_stop",),
)
async def iter_retgen(
    question: Question,
    ctx: Context,
    *,
    rounds: int = 3,
    k: int = 5,
    early_stop: bool = False,
    shots: int = 6,
    draw: int = 0,
    max_tokens: int = 256,
    titles: bool = False,
) -> Answer:
    """Search with the question, think, search with question and thoughts, think anew, and so on.

    Each round's passages take the place of those before, and the answer is that of the last round. `early_stop` goes
    beyond the paper: rounds end where the same answer comes from the same passages again.
    """
    ctx.require_corpus()
    if rounds < 1:
        raise ConfigError(f"{rounds} rounds give no answer.", "Set rounds to 1 or more: --set rounds=3.")
    answer, found = Answer("", status="unknown"), frozenset[str]()
    for number in range(1, rounds + 1):
        passages = await ctx.search(f"{question.text} {answer.raw}".strip(), k=k)
        before, seen = answer, found
        (answer,) = await think(
            ctx, question.text, passages=passages, shots=shots, draw=draw, max_tokens=max_tokens, titles=titles
        )
        found = _ids(passages)
        ctx.decide("round", number, answer=answer.text, new=len(found - seen))
        if early_stop and number < rounds and found == seen and _same(answer, before):
            ctx.decide("ended", "repeated", round=number)
            break
    return answer


def _ids(passages: tuple[Passage, ...]) -> frozenset[str]:
    return frozenset(passage.id for passage in passages)


def _same(one: Answer, other: Answer) -> bool:
    return one.known and other.known and answer_key(one.text) == answer_key(other.text)
