"""What the passages that a question itself finds say, before any of its parts is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_from, synthesise
from hoptree.methods.steps.choose import surest
from hoptree.methods.steps.evidence import show_passages
from hoptree.text.grounding import guess_unless_supported

GLANCES = ("the two best passages", "the three best passages", "all passages found")
"""What each of the readings is of."""

_BEST, _FEW = 2, 3
"""Passages of the readings that little distracts."""
_WHOLE = 1000
"""The order of an answer to the question itself, which counts more than one to any part of it."""


async def glances(ctx: Context, question: str, passages: Sequence[Passage]) -> list[Answer]:
    """Three readings that err in different ways; the surest is proposed for the end.

    They are of the best two, of the best three with the question before them too, and of all with the best one last,
    next to the question.
    """
    sure = "logprobs" in ctx.model_for("answer").capabilities
    shown = ((passages[:_BEST], "read"), (passages[:_FEW], "read_asked_first"), (passages[::-1], "read"))

    async def read(place: int, some: Sequence[Passage], prompt: str) -> Answer:
        answer = await answer_from(ctx, question, some, prompt=prompt, titles=True, logprobs=sure)
        # A budget may end before the others are read.
        ctx.propose(guess_unless_supported(answer, some), order=_WHOLE - len(shown) + place)
        return answer

    answers = await together(read(place, some, prompt) for place, (some, prompt) in enumerate(shown))
    ctx.propose(guess_unless_supported(surest(ctx, answers, when="own", named=GLANCES), passages), order=_WHOLE)
    return answers


CITED = 2
"""Passages that an answer to a part brings to the last reading."""
FURTHER = 3
"""Passages that the last reading sees beyond those the question itself finds."""


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
    """The answer in the chains, in the `k` passages first `cited`, and in the question's `own`; with what was shown."""
    names = dict.fromkeys([*list(dict.fromkeys(cited))[:k], *(passage.id for passage in own)])
    passages = [seen[name] for name in list(names)[: k + FURTHER]]
    documents = show_passages(ctx, passages, titles=True)
    return await synthesise(ctx, question, [*chains, documents], logprobs=logprobs), passages
