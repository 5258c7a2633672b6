"""CompAct: summarise documents batch by batch until the summary suffices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import ChainWritten, Decision, decision
from hoptree.engine.prompts import Filled, prompt_for, show_passages, show_texts
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from, note_reply, supporting_ids, synthesise
from hoptree.text.parse_method_replies import Compression, read_compression

_SUMMARY_TOKENS = 900  # a summary of 200 words and its evaluation, as in the released script


@decision("compacted")
class Compacted(Decision):
    """Whether the summary calls itself complete, and what it lacks."""

    value: bool
    summary: str
    evaluation: str


@decision("ended", shown_as="ended")
class CompressionEnded(Decision):
    """Why summarising ended, and how many of the found documents were `read`."""

    value: str
    read: int
    of: int


@method(
    "compact",
    title="Active compression of documents",
    paper="CompAct",
    needs=("corpus",),
    iterative=True,
    query="The question itself",
    roles=("answer", "compress"),
    trained=True,
    other_wording=True,
    bounds={"segment": (1, math.inf), "segments": (1, math.inf)},
    shared_prompts=("read",),
)
async def compact(
    question: Question,
    ctx: Context,
    *,
    segment: int = 5,
    segments: int = 6,
    max_tokens: int = _SUMMARY_TOKENS,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Summarise the documents in batches until the summary calls itself complete, and answer from it alone.

    One search finds `segment` times `segments` documents. Each turn sees the question, the summary so far, its
    evaluation without the verdict, and the next segment. With `checkpoint`, the role `compress` is CompAct-7b: it is
    asked in one turn with the sections of its training, but in other words, and always sees titles; the role `answer`
    is any reader. A reply without an evaluation counts as incomplete, one without a summary leaves the last one as it
    is. Where no reply had a summary, the first segment itself is read.
    """
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=segment * segments)
    summary, read = Compression(), 0
    while read < len(passages) and not summary.complete:
        batch = passages[read : read + segment]
        if checkpoint:
            prompt = _trained_prompt(ctx, question.text, batch, summary)
        else:
            prompt = _prompt(ctx, question.text, batch, summary, titles=titles)
        summary = await _compress(ctx, prompt, summary, max_tokens)
        read += len(batch)
    ctx.emit(CompressionEnded(value="complete" if summary.complete else "documents", read=read, of=len(passages)))
    if not summary.summary:
        return await answer_from(ctx, question.text, passages[:segment], titles=titles)
    answer = await synthesise(ctx, question.text, [summary.summary])
    # Even without an answer, the evidence is the documents read, not all that were found.
    return replace(answer, support=supporting_ids(answer.text if answer.known else "", passages[:read]))


def _prompt(ctx: Context, question: str, passages: Sequence[Passage], before: Compression, *, titles: bool) -> Filled:
    """Return the prompt by which any model adds passages to the summary."""
    so_far = f"Summary so far:\n{before.summary}\n\nWhat it lacked:\n{before.evaluation}\n\n" if before.summary else ""
    documents = show_passages(ctx, passages, titles=titles)
    return prompt_for(ctx.method, "compress").fill(question=question, before=so_far, documents=documents)


def _trained_prompt(ctx: Context, question: str, passages: Sequence[Passage], before: Compression) -> Filled:
    """Return the prompt in the form of the trained model, always with titles."""
    texts = zip(passages, show_texts(ctx, passages, titles=True), strict=True)
    documents = "\n".join(text.replace(f"{passage.title}: ", f"{passage.title} ", 1) for passage, text in texts)
    template = prompt_for(ctx.method, "trained_next" if before.summary else "trained")
    return template.fill(question=question, summary=before.summary, evaluation=before.evaluation, documents=documents)


async def _compress(ctx: Context, prompt: Filled, before: Compression, max_tokens: int) -> Compression:
    reply = await ctx.generate("compress", prompt, role="compress", max_tokens=max_tokens)
    new, lacking = read_compression(reply.text)
    unreadable = not new.summary or "evaluation" in lacking
    note_reply(ctx, "compress", f"no {' and no '.join(lacking)}" if unreadable else "", lacking)
    if not new.summary:
        new = Compression(before.summary, new.evaluation or before.evaluation)
    ctx.emit(Compacted(value=new.complete, summary=new.summary, evaluation=new.evaluation))
    ctx.emit(ChainWritten(text=new.line))
    return new
