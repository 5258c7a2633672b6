"""Whether what was found is enough to answer a question, and the answer or else what to look for next."""

from __future__ import annotations

import re
from dataclasses import dataclass

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.evidence_box import NOTHING, EvidenceBox
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import clean_answer, extract_conclusion, looks_unanswered

_MAX_TOKENS = 128
_LONGEST_CLUE = 300
_BRACED = re.compile(r"\{\s*(yes|no)\s*\}", re.IGNORECASE)
_LABELLED = re.compile(r"\b(?:enough|sufficient)\b[\"'*_\s:=-]{1,9}(yes|no|true|false)\b", re.IGNORECASE)
_FIRST = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_NEXT_QUESTION = re.compile(r"\n\W{0,4}(?:question|facts|texts)\s{0,4}:", re.IGNORECASE)
_NEXT = re.compile(r"\benough\s{0,4}:", re.IGNORECASE)
_GROUP = re.compile(r"\{([^{}\n]{1,300})\}")
_CLUE = re.compile(r"\bclue\b[\"'*_\s]{0,3}[:=][^\S\n]{0,4}([^\n]*)", re.IGNORECASE)
_NO_CLUE = re.compile(r"\W*(?:none|no|n/a|nothing|null)?\W*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Enough:
    """The judgement of a reply; `understood` is False where it holds none, which never means yes."""

    enough: bool
    answer: str = ""
    clue: str = ""
    understood: bool = True

    @property
    def as_answer(self) -> Answer:
        """What is answered from all that was found; unknown where nothing is."""
        return Answer(self.answer, self.answer, "answered" if self.answer else "unknown", "synthesis")


def read_enough(reply: str) -> Enough:
    """The first judgement in a reply, with its answer and clue: "Enough: {Yes}", then "Answer: …" or "Clue: …".

    The answer may stand in braces too; one that says that there is none is none.
    """
    text = _NEXT_QUESTION.split(reply[:MAX_REPLY_CHARS].strip(), 1)[0]
    verdicts = [found for form in (_BRACED, _LABELLED) if (found := form.search(text))]
    said = min(verdicts, key=lambda found: found.start()) if verdicts else _FIRST.match(text)
    if said is None:
        return Enough(False, understood=False)
    told = _NEXT.split(text[said.end() :], 1)[0]
    clue = _CLUE.search(told)
    hint = clue[1].strip(" \"'*{}")[:_LONGEST_CLUE] if clue else ""
    return Enough(
        said[1].casefold() in ("yes", "true"),
        _answer(told[: clue.start()] if clue else told),
        "" if _NO_CLUE.fullmatch(hint) else hint,
    )


def _answer(told: str) -> str:
    said = extract_conclusion(told)
    if said == told.strip():  # no "Answer:" in it
        groups = _GROUP.findall(told)
        said = groups[-1] if groups else ""
    answer = clean_answer(clean_answer(said).strip("{} "))
    return "" if looks_unanswered(answer) else answer


async def judge_enough(ctx: Context, question: str, box: EvidenceBox, *, clue: str = "") -> Enough:
    """Whether the model can answer from texts and facts with what it knows; `clue` is what was looked for last.

    The answer that it gives is proposed for the case that the budget ends, enough or not.
    """
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "enough").fill(texts=texts, facts=facts, clue=clue or NOTHING, question=question)
    reply = await ctx.generate("enough", prompt, role="verify", max_tokens=_MAX_TOKENS)
    read = read_enough(reply.text)
    note_reply(ctx, "enough", "" if read.understood else "neither yes nor no")
    if read.answer:
        ctx.propose(Answer(read.answer, reply.text, source="synthesis"), order=2)
    ctx.decide("enough", read.enough, answer=read.answer, clue=read.clue, facts=len(box.facts), texts=len(box.passages))
    return read
