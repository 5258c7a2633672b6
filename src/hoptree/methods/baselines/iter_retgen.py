"""Iter-RetGen: alternate generation, and retrieval with the generated text."""

from __future__ import annotations

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_key
from hoptree.methods.steps.chain_of_thought import REASONING_PROMPTS, think


@decision("round")
class RoundFinished(Decision):
    """The number of a round, its answer, and the number of its `new` passages."""

    value: int
    answer: str
    new: int


@decision("ended", shown_as="ended")
class EndedEarly(Decision):
    """Why the rounds ended early."""

    value: str
    round: int


@method(
    "iter_retgen",
    title="Iterative retrieval and generation",
    paper="Iter-RetGen",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="A fixed number of rounds",
    query="The question and the whole text of the round before",
    deviating_options={"early_stop": "an answer that comes again saves the rounds that are left"},
    shared_prompts=REASONING_PROMPTS,
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
    """Search with the question, think, search with question and thoughts, think again, and so on.

    Each round's passages replace those before, and the answer is that of the last round. `early_stop` goes beyond the
    paper: rounds end when the same passages give the same answer again.
    """
    ctx.require_corpus()
    if rounds < 1:
        raise ConfigError(f"{rounds} rounds give no answer.", "Set rounds to 1 or more: --set rounds=3.")
    answer, ids = Answer("", status="unknown"), set[str]()
    for number in range(1, rounds + 1):
        before, ids_before = answer, ids
        passages = await ctx.search(f"{question.text} {answer.raw}".strip(), k=k)
        ids = {passage.id for passage in passages}
        (answer,) = await think(
            ctx, question.text, passages=passages, shots=shots, draw=draw, max_tokens=max_tokens, titles=titles
        )
        ctx.emit(RoundFinished(value=number, answer=answer.text, new=len(ids - ids_before)))
        same = answer.known and before.known and answer_key(answer.text) == answer_key(before.text)
        if early_stop and number < rounds and ids == ids_before and same:
            ctx.emit(EndedEarly(value="repeated", round=number))
            break
    return answer
