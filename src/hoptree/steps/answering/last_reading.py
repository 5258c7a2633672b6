"""The last reading: what the parts of a question came to, beside all that they were read from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import synthesise
from hoptree.steps.answering.evidence import show_passages
from hoptree.values import Answer, Passage

__all__ = ["CITED", "FURTHER", "read_with_chains"]

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
