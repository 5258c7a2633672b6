"""Choose answers by agreement and confidence; read passages several ways."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import field
from typing import Any

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.explain import shorten
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_from
from hoptree.text.grounding import guess_unless_supported
from hoptree.text.parse import question_key

_MAX_QUOTE_CHARS = 60
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ROUNDING = 1e-9


@decision("surest")
class SurestChosen(Decision):
    """The answer that was taken, and how sure each was."""

    value: int
    when: str
    answers: list[str] = field(default_factory=list)
    confidence: list[float | None] = field(default_factory=list)
    named: list[str] = field(default_factory=list)

    def weighed(self) -> str:
        """List the answers with confidence, the chosen one first."""
        pairs = list(zip(self.answers, self.confidence, strict=True))
        text, confidence = pairs.pop(self.value)
        taken = "" if confidence is not None else f"“{shorten(text, _MAX_QUOTE_CHARS)}”"
        others = [f"“{shorten(other, _MAX_QUOTE_CHARS)}”{_format_confidence(sure)}" for other, sure in pairs if other]
        return f"{taken}{_format_confidence(confidence)}".strip() + f" against {', '.join(others)}"

    def reason(self) -> str:
        if self.when != "final":
            return ""
        readings = [" ".join(answer.casefold().split()) for answer in self.answers if answer]
        if len(set(readings)) == 1:
            return f"all {len(readings)} readings agree"
        of = f", that of {self.named[self.value]}" if self.named else ""
        rated = any(confidence is not None for confidence in self.confidence)
        return f"{'surest' if rated else 'taken'} of {len(readings)} readings{of}: {self.weighed()}"


@decision("majority")
class MajorityCounted(Decision):
    """The share of the most frequent answer; `votes` are answers with counts."""

    value: float
    when: str
    answer: str = ""
    votes: list[list[Any]] = field(default_factory=list)
    unknown: int = 0


@decision("agreement")
class AgreementChecked(Decision):
    """Whether at least the share `least` of all chains gives the same answer."""

    value: bool
    share: float
    least: float
    chains: int
    answer: str


def surest(ctx: Context, answers: Sequence[Answer], *, when: str, named: Sequence[str] = ()) -> Answer:
    """Return the answer with the highest confidence, or the most frequent one; of equals the last."""
    known = [place for place, answer in enumerate(answers) if answer.known]
    if len(known) < 2:
        return answers[known[0] if known else -1]
    if all(answers[place].confidence is None for place in known):
        counts = Counter(question_key(answers[place].text) for place in known)
        weights = {place: float(counts[question_key(answers[place].text)]) for place in known}
    else:
        weights = {place: answers[place].confidence or 0.0 for place in known}
    best = max(known, key=lambda place: (weights[place], place))
    texts = [answer.text if answer.known else "" for answer in answers]
    confidence = [answer.confidence for answer in answers]
    ctx.emit(SurestChosen(value=best, when=when, answers=texts, confidence=confidence, named=list(named)))
    return answers[best]


def _format_confidence(confidence: float | None) -> str:
    return "" if confidence is None else f" {confidence:.2f}"


def majority(ctx: Context, answers: Sequence[Answer], *, when: str) -> tuple[Answer, float]:
    """Return the most frequent answer and its share of all; of equals the one with the surest voter."""
    groups = votes(answers)
    answer = groups[0][0] if groups else next(iter(answers), Answer("", status="unknown"))
    share = len(groups[0]) / len(answers) if groups else 0.0
    ctx.emit(
        MajorityCounted(
            value=round(share, 4),
            when=when,
            answer=answer.text if groups else "",
            votes=[[group[0].text, len(group)] for group in groups],
            unknown=sum(not answer.known for answer in answers),
        )
    )
    return answer, share


def votes(answers: Sequence[Answer]) -> list[list[Answer]]:
    """Group equal answers: the most frequent group first, surest first inside."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.known:
            groups.setdefault(answer_key(answer.text), []).append(answer)
    for group in groups.values():
        group.sort(key=lambda answer: -(answer.confidence or 0.0))
    return sorted(groups.values(), key=lambda group: (-len(group), -(group[0].confidence or 0.0)))


def answer_key(answer: str) -> str:
    """Return an answer without case, punctuation and articles, for comparing."""
    words = question_key(answer)
    return " ".join(_ARTICLES.sub(" ", words).split()) or words or " ".join(answer.casefold().split())


def agreement_gate(ctx: Context, chains: Sequence[Answer], *, least: float) -> tuple[Answer, bool]:
    """Return the answer of most chains, and whether enough agree."""
    answer, share = majority(ctx, chains, when="gate")
    passed = answer.known and share + _ROUNDING >= least
    share = round(share, 4)
    ctx.emit(AgreementChecked(value=passed, share=share, least=least, chains=len(chains), answer=answer.text))
    ctx.propose(answer, order=1)
    return answer, passed


READINGS = ("the two best passages", "the three best passages", "all passages found")  # what each of the readings is of
_WHOLE_QUESTION_ORDER = 1000  # such an answer counts more than one to any part of the question


async def read_several_ways(ctx: Context, question: str, passages: Sequence[Passage]) -> list[Answer]:
    """Read the best two, the best three and all passages in ways that err differently; propose the surest."""
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
