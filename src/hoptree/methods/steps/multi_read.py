"""Read what a question itself finds: several readings of the same passages, or with the chains of a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_from, synthesise
from hoptree.methods.steps.choose import surest
from hoptree.methods.steps.evidence import show_passages
from hoptree.text.grounding import guess_unless_supported

READINGS = ("the two best passages", "the three best passages", "all passages found")
"""What each of the readings is of."""
MAX_CITED_PASSAGES = 2
"""Passages that an answer to a part brings to the last reading."""
MAX_FURTHER_PASSAGES = 3
"""Passages that the last reading sees beyond those the question itself finds."""
_WHOLE_QUESTION_ORDER = 1000  # such an answer counts more than one to any part of the question


async def read_several_ways(ctx: Context, question: str, passages: Sequence[Passage]) -> list[Answer]:
    """Read the passages in three ways that err differently; the surest answer is proposed in case the budget ends.

    The readings are of the best two, of the best three with the question before them too, and of all with the best one
    last, next to the question.
    """
    logprobs = "logprobs" in ctx.model_for("answer").capabilities
    ways = ((passages[:2], "read"), (passages[:3], "read_asked_first"), (passages[::-1], "read"))

    async def read(place: int, shown: Sequence[Passage], prompt: str) -> Answer:
        answer = await answer_from(ctx, question, shown, prompt=prompt, titles=True, logprobs=logprobs)
        ctx.propose(guess_unless_supported(answer, shown), order=_WHOLE_QUESTION_ORDER - len(ways) + place)
        return answer

    answers = await together(read(place, shown, prompt) for place, (shown, prompt) in enumerate(ways))
    best = surest(ctx, answers, when="own", named=READINGS)
    ctx.propose(guess_unless_supported(best, passages), order=_WHOLE_QUESTION_ORDER)
    return answers


async def read_with_chains(
    ctx: Context,
    question: str,
    chains: Sequence[str],
    *,
    cited: Iterable[str],
    own: Iterable[Passage],
    seen: Mapping[str, Passage],
    k: int,
    logprobs: bool,
) -> tuple[Answer, list[Passage]]:
    """Answer from the chains, the `k` passages first `cited` and the question's `own`; return what was shown, too."""
    names = dict.fromkeys([*list(dict.fromkeys(cited))[:k], *(passage.id for passage in own)])
    passages = [seen[name] for name in list(names)[: k + MAX_FURTHER_PASSAGES]]
    documents = show_passages(ctx, passages, titles=True)
    return await synthesise(ctx, question, [*chains, documents], logprobs=logprobs), passages
