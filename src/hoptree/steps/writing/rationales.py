"""The rationales of a chain of thought, and mending one by what was found about it."""

from __future__ import annotations

import re

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.sentences import sentence_spans
from hoptree.steps.answering.conclusion import gives_answer
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.reading.noting import note_reply
from hoptree.steps.reading.parse import looks_unanswered, question_key

__all__ = ["mend_rationale", "read_mended", "read_rationales"]

_MAX_TOKENS = 128
_READ = 10_000
"""Characters of a reply that are looked at."""
_LONGEST = 600
"""Characters of a rationale."""
_ADDED = 200
"""Characters that a mended rationale may have beyond twice those it had."""
_MARK = re.compile(
    r"\W{0,4}(?:(?:first|second|third|fourth|fifth|sixth|last|final)(?:ly)?|next|then)\s{0,3}[,:]\s*"
    r"|\W{0,4}(?:step|rationale)\s*\d{1,2}\s*[.:)]\s*|\W{0,4}\d{1,2}[.)]\s+(?=\D)",
    re.IGNORECASE,
)
_LABEL = re.compile(
    r"\W{0,4}(?:(?:the\s+)?(?:edited|corrected|revised|mended|new)\s+)?(?:sentence|rationale|statement)s?\W{0,4}:\s*",
    re.IGNORECASE,
)
_OF_THE_SOURCES = re.compile(
    r"\b(?:knowledge|information|texts?|facts?|documents?|passages?|sentence)\b", re.IGNORECASE
)
_AS_IT_IS = re.compile(
    r"\W*(?:(?:no|needs no|without)\s+(?:changes?|edits?|corrections?)\b.*|unchanged|same|correct|ok|none|n/a"
    r"|the (?:sentence|rationale|statement) (?:is|remains) (?:correct|unchanged|the same|right|accurate|true)\b.*)\W*",
    re.IGNORECASE | re.DOTALL,
)
_MARKS = ' \t"“”`*'
_ENDS = (".", "!", "?", "”", '"', ")")


def read_rationales(text: str) -> tuple[str, ...]:
    """The steps of a chain of thought, up to the one that gives the answer.

    A chain whose sentences are marked (First, Second, Step 3, 4.) has one rationale for each mark; else every sentence
    is one.
    """
    found: list[str] = []
    marked = False
    for start, end in sentence_spans(text[:_READ]):
        sentence = text[start:end]
        if gives_answer(sentence):
            break
        mark = _MARK.match(sentence)
        said = " ".join(sentence[mark.end() if mark else 0 :].split())
        if not question_key(said):
            continue
        if marked and not mark:
            found[-1] = f"{found[-1]} {said}"
        else:
            found.append(said)
        marked = marked or bool(mark)
    return tuple(rationale[:_LONGEST] for rationale in found)


def read_mended(reply: str, rationale: str, *, cut: bool = False) -> tuple[str, bool]:
    """The rationale as a reply has it, and whether the reply could be read.

    One that says that nothing is to be changed, or that the sources do not tell, leaves the rationale as it is; so does
    one that holds none, that says the same again, or that goes on and on. Of one that was `cut` off in its first line,
    whole sentences count.
    """
    label = _LABEL.match(reply[:_READ])
    body = reply[label.end() if label else 0 : _READ]
    lines = [one.strip() for one in body.splitlines() if question_key(one)]
    line = lines[0].strip(_MARKS) if lines else ""
    if _AS_IT_IS.fullmatch(line) or (looks_unanswered(line) and _OF_THE_SOURCES.search(line)):
        return rationale, bool(line)
    said = [line[start:end] for start, end in sentence_spans(line)]
    if cut and len(lines) == 1 and said and not said[-1].endswith(_ENDS):
        said = said[:-1]
    mended = " ".join(read_rationales(" ".join(said)))
    if not mended or len(set(said)) < len(said) or len(mended) > 2 * len(rationale) + _ADDED:
        return rationale, False
    return (mended if mended.endswith(_ENDS) else f"{mended}."), True


async def mend_rationale(ctx: Context, question: str, rationale: str, box: EvidenceBox) -> str:
    """The rationale, corrected by what was found about it; as it is, without asking, where that is nothing."""
    if not box:
        ctx.decide("mended", False, before=rationale, after=rationale, passages=[], facts=[])
        return rationale
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "mend").fill(texts=texts, facts=facts, question=question, rationale=rationale)
    reply = await ctx.generate("mend", prompt, max_tokens=_MAX_TOKENS)
    mended, read = read_mended(reply.text, rationale, cut=reply.finish == "length")
    note_reply(ctx, "mend", "" if read else "no rationale")
    ctx.decide(
        "mended",
        mended != rationale,
        before=rationale,
        after=mended,
        passages=[passage.id for passage in box.passages],
        facts=[fact.text for fact in box.facts],
    )
    return mended
