"""CompAct: documents are read five at a time into a summary, until that is enough to answer."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled, prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from, holding, synthesise
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.loose_json import MAX_REPLY_CHARS, read_json

MAX_TOKENS = 900
"""Room for a summary of 200 words and its evaluation, as the released script gives it."""

_LEAD = r"(?:part[ \t])?[ \t#*_\d.)–-]{0,20}"
_EVALUATES = r"evaluation(?:[ \t]of[ \t](?:the|this)[ \t]summary)?"
# A heading has a colon, a line of its own, or the tag behind it.
_HEADS = r"[ \t*_]*(?::[\s*_]*|(?=\n|\[|\Z))"
_HEADING = re.compile(
    rf"(?:\A|\n){_LEAD}(?:(?P<summary>summary)|question|(?:source )?documents|{_EVALUATES}){_HEADS}", re.IGNORECASE
)
_EVALUATION = re.compile(rf"\b{_EVALUATES}[\s*_]*:[\s*_]*|(?:\A|\n){_LEAD}{_EVALUATES}{_HEADS}", re.IGNORECASE)
_TAG = re.compile(r"\[\s*(?P<not>in|not )?complete\s*\]", re.IGNORECASE)
_EITHER = re.compile(r"[\s/|,]*(?:or\b)?\s*", re.IGNORECASE)
# Without its brackets a tag counts only where it stands alone, in capitals or of the summary: "does not give complete
# details" is none.
_BARE = (
    re.compile(r"\W*(?P<not>in|not )?complete\b(?=\s*(?:[.,:;!–—\n-]|\Z))", re.IGNORECASE),
    re.compile(r".*?\b(?P<not>IN|NOT |not )?COMPLETE\b", re.DOTALL),
    re.compile(r".*?\bsummary\s(?:is|seems|appears|looks)\s(?P<not>in|not )?complete\b", re.IGNORECASE | re.DOTALL),
)
_EDGES = "*_# \n\t"
_MARKS = " .,:;*_–—-"


@dataclass(frozen=True, slots=True)
class Compacted:
    """What was summarised so far, what a model says of it (without the tag), and whether it calls that complete."""

    summary: str = ""
    evaluation: str = ""
    complete: bool = False

    @property
    def shown(self) -> str:
        """All of it in one line, for whoever looks at what the model wrote."""
        tag = "[COMPLETE]" if self.complete else "[INCOMPLETE]"
        return f"Summary: {self.summary or '(none)'} Evaluation: {self.evaluation or '(no reason)'} {tag}"


async def compress(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    before: Compacted,
    *,
    titles: bool = False,
    max_tokens: int = MAX_TOKENS,
) -> Compacted:
    """The summary so far with what some more passages add, by any model."""
    so_far = f"Summary so far:\n{before.summary}\n\nWhat it lacked:\n{before.evaluation}\n\n" if before.summary else ""
    documents = show_passages(ctx, passages, titles=titles)
    prompt = prompt_for(ctx.method, "compress").fill(question=question, before=so_far, documents=documents)
    return await _ask(ctx, prompt, before, max_tokens)


async def compress_trained(
    ctx: Context, question: str, passages: Sequence[Passage], before: Compacted, *, max_tokens: int = MAX_TOKENS
) -> Compacted:
    """The same by a model that was trained for it, in the sections it knows; it is always shown titles."""
    lines = show_passages(ctx, passages, titles=True).splitlines()
    documents = "\n".join(line.removeprefix("passage: ") for line in lines)
    name = "trained_next" if before.summary else "trained"
    prompt = prompt_for(ctx.method, name).fill(
        question=question, summary=before.summary, evaluation=before.evaluation, documents=documents
    )
    return await _ask(ctx, prompt, before, max_tokens)


async def _ask(ctx: Context, prompt: Filled, before: Compacted, max_tokens: int) -> Compacted:
    reply = await ctx.generate("compress", prompt, role="compress", max_tokens=max_tokens)
    read, lacking = read_compacted(reply.text)
    error = "" if read.summary and "evaluation" not in lacking else f"no {' and no '.join(lacking)}"
    note_reply(ctx, "compress", error, lacking)
    compacted = read if read.summary else Compacted(before.summary, read.evaluation or before.evaluation)
    ctx.decide("compacted", compacted.complete, summary=compacted.summary, evaluation=compacted.evaluation)
    ctx.trace.add("chain", text=compacted.shown)
    return compacted


def read_compacted(text: str) -> tuple[Compacted, tuple[str, ...]]:
    """The summary and its evaluation in a reply, and what of "summary", "evaluation", "tag" and "reason" it lacks.

    What has no evaluation, or one without a verdict, is incomplete; so is what has no summary, since there is nothing
    to be complete. A reply that goes on with a turn of its own ends there.
    """
    text = _of_object(text[:MAX_REPLY_CHARS].strip())
    heading = _HEADING.search(text)
    if heading and heading["summary"] and not _TAG.search(text, 0, heading.start()):
        text = text[heading.end() :]
    split, tag = _EVALUATION.search(text), _TAG.search(text)
    ends = [found.start() for found in (split, tag) if found]
    summary = _until_next(text[: min(ends, default=len(text))]) or _headed(text)
    evaluation = _until_next(text[split.end() :] if split else text[tag.start() :] if tag else "")
    verdict = _verdict(evaluation)
    reason = " ".join(_TAG.sub(" ", evaluation).split()).lstrip(_MARKS)
    there = {
        "summary": bool(summary),
        "evaluation": bool(evaluation),
        "tag": verdict is not None,
        "reason": bool(reason),
    }
    compacted = Compacted(summary, reason, bool(verdict) and bool(summary))
    return compacted, tuple(name for name, found in there.items() if not found)


def _of_object(text: str) -> str:
    """The parts of a reply that has them in a JSON object; others as they are."""
    value = read_json(text).value if text.lstrip("`json \n").startswith("{") else None
    if not isinstance(value, dict):
        return text
    parts = {str(name).casefold(): said for name, said in value.items() if isinstance(said, str)}
    if "summary" not in parts:
        return text
    return f"Summary: {parts['summary']}\nEvaluation: {parts.get('evaluation', '')}"


def _verdict(evaluation: str) -> bool | None:
    """Whether an evaluation says that a summary is complete; None where it does not say, or repeats both tags."""
    tags = list(_TAG.finditer(evaluation))
    if len(tags) > 1 and _EITHER.fullmatch(evaluation, tags[0].end(), tags[1].start()):
        return None
    found = tags[0] if tags else next(filter(None, (bare.match(evaluation) for bare in _BARE)), None)
    return None if found is None else not found["not"]


def _headed(text: str) -> str:
    """The summary that stands under a heading somewhere behind."""
    found = next((one for one in _HEADING.finditer(text) if one["summary"]), None)
    return _until_next(text[found.end() :]) if found else ""


def _until_next(text: str) -> str:
    found = _HEADING.search(text, 1)
    return " ".join((text[: found.start()] if found else text).strip(_EDGES).split())


@method(
    "compact",
    title="Active compression of documents",
    paper="CompAct",
    needs=("corpus",),
    iterative=True,
    query="The question itself",
    roles=("answer", "compress"),
    trained=True,
    reworded=True,
    bounds={"segment": (1, math.inf), "segments": (1, math.inf)},
)
async def compact(
    question: Question,
    ctx: Context,
    *,
    segment: int = 5,
    segments: int = 6,
    max_tokens: int = MAX_TOKENS,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Summarise the documents some at a time until the summary calls itself complete, and answer from it alone.

    One search finds `segment` times `segments` documents. Each turn sees the question, the summary so far, its
    evaluation without the verdict, and the next segment. With `checkpoint`, the role `compress` is played by
    CompAct-7b: it is asked in one turn with the sections it knows, but in other words than its training's, and always
    sees titles; the role `answer` is a reader of any kind. A reply without an evaluation counts as incomplete, one
    without a summary leaves the last one as it is; where no reply had one, the first segment itself is read.
    """
    ctx.require_corpus()
    passages = await ctx.search(question.text, k=segment * segments)
    compacted, seen = Compacted(), 0
    while seen < len(passages) and not compacted.complete:
        some = passages[seen : seen + segment]
        if checkpoint:
            compacted = await compress_trained(ctx, question.text, some, compacted, max_tokens=max_tokens)
        else:
            compacted = await compress(ctx, question.text, some, compacted, titles=titles, max_tokens=max_tokens)
        seen += len(some)
    ctx.decide("ended", "complete" if compacted.complete else "documents", read=seen, of=len(passages))
    if not compacted.summary:
        return await answer_from(ctx, question.text, passages[:segment], titles=titles)
    answer = await synthesise(ctx, question.text, [compacted.summary])
    # Without an answer, too, what was read is what there is to see, not all that was found.
    return replace(answer, support=holding(answer.text if answer.known else "", passages[:seen]))
