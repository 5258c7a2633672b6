"""Judge whether what was found is enough to answer a question; if not, what to look for next."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.evidence_box import NOTHING, EvidenceBox
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import clean_answer, extract_conclusion, looks_unanswered

_VERDICT_TOKENS = 128
_MAX_CLUE_CHARS = 300
_BRACED = re.compile(r"\{\s*(yes|no)\s*\}", re.IGNORECASE)
_LABELLED = re.compile(r"\b(?:enough|sufficient)\b[\"'*_\s:=-]{1,9}(yes|no|true|false)\b", re.IGNORECASE)
_FIRST_WORD = re.compile(r"\W*(yes|no)\b", re.IGNORECASE)
_NEXT_QUESTION = re.compile(r"\n\W{0,4}(?:question|facts|texts)\s{0,4}:", re.IGNORECASE)
_NEXT_VERDICT = re.compile(r"\benough\s{0,4}:", re.IGNORECASE)
_BRACES = re.compile(r"\{([^{}\n]{1,300})\}")
_CLUE = re.compile(r"\bclue\b[\"'*_\s]{0,3}[:=][^\S\n]{0,4}([^\n]*)", re.IGNORECASE)
_NO_CLUE = re.compile(r"\W*(?:none|no|n/a|nothing|null)?\W*", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceJudged(Decision):
    """Whether the model can answer from so many `facts` and `texts`; `clue` is what it would look for next."""

    kind: ClassVar[str] = "enough"
    value: bool
    answer: str = ""
    clue: str = ""
    facts: int = 0
    texts: int = 0


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
    """Read the first judgement in a reply: "Enough: {Yes}", then "Answer: …" or "Clue: …".

    The answer may stand in braces too; one that says that there is none is none.
    """
    text = _NEXT_QUESTION.split(reply[:MAX_REPLY_CHARS].strip(), 1)[0]
    verdicts = [match for form in (_BRACED, _LABELLED) if (match := form.search(text))]
    verdict = min(verdicts, key=lambda match: match.start()) if verdicts else _FIRST_WORD.match(text)
    if verdict is None:
        return Enough(False, understood=False)
    rest = _NEXT_VERDICT.split(text[verdict.end() :], 1)[0]
    clue = _CLUE.search(rest)
    hint = clue[1].strip(" \"'*{}")[:_MAX_CLUE_CHARS] if clue else ""
    return Enough(
        verdict[1].casefold() in ("yes", "true"),
        _read_answer(rest[: clue.start()] if clue else rest),
        "" if _NO_CLUE.fullmatch(hint) else hint,
    )


def _read_answer(text: str) -> str:
    conclusion = extract_conclusion(text)
    if conclusion == text.strip():  # no "Answer:" in it
        groups = _BRACES.findall(text)
        conclusion = groups[-1] if groups else ""
    answer = clean_answer(clean_answer(conclusion).strip("{} "))
    return "" if looks_unanswered(answer) else answer


async def judge_enough(ctx: Context, question: str, box: EvidenceBox, *, clue: str = "") -> Enough:
    """Ask whether the model can answer from texts and facts with what it knows; `clue` is what was looked for last.

    The answer that it gives is proposed in case the budget ends, enough or not.
    """
    texts, facts = box.shown(ctx)
    prompt = prompt_for(ctx.method, "enough").fill(texts=texts, facts=facts, clue=clue or NOTHING, question=question)
    reply = await ctx.generate("enough", prompt, role="verify", max_tokens=_VERDICT_TOKENS)
    verdict = read_enough(reply.text)
    note_reply(ctx, "enough", "" if verdict.understood else "neither yes nor no")
    if verdict.answer:
        ctx.propose(Answer(verdict.answer, reply.text, source="synthesis"), order=2)
    sizes = {"facts": len(box.facts), "texts": len(box.passages)}
    ctx.emit(EvidenceJudged(value=verdict.enough, answer=verdict.answer, clue=verdict.clue, **sizes))
    return verdict
