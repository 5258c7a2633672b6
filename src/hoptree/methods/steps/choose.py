"""Choosing between answers to one question, by how sure the model was of each or by how many say the same."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


def surest(
    ctx: Context, answers: Sequence[Answer], *, when: str, node: Node | None = None, named: Sequence[str] = ()
) -> Answer:
    """The answer whose least likely token is likeliest; the most frequent where a model does not tell.

    Of equals the last one is taken, so the answer that saw most comes last. The last is given too where none of them is
    known. `named` says what each of them is, for those who look at the decision.
    """
    known = [number for number, answer in enumerate(answers) if answer.known]
    if len(known) < 2:
        return answers[known[0] if known else -1]
    if all(answers[number].confidence is None for number in known):
        said = Counter(question_key(answers[number].text) for number in known)
        weights = {number: float(said[question_key(answers[number].text)]) for number in known}
    else:
        weights = {number: answers[number].confidence or 0.0 for number in known}
    place = max(known, key=lambda number: (weights[number], number))
    ctx.decide(
        "surest",
        place,
        node=node,
        when=when,
        answers=[answer.text if answer.known else "" for answer in answers],
        confidence=[answer.confidence for answer in answers],
        named=list(named),
    )
    return answers[place]


def majority(ctx: Context, answers: Sequence[Answer], *, when: str) -> tuple[Answer, float]:
    """The answer that is given most often, in its normal form, and its share of all.

    Of equals the one with the surest voter is taken, else the first. What is unknown does not vote, but counts among
    all; where nothing is known the first comes back, with a share of nothing.
    """
    counted = votes(answers)
    taken = counted[0][0] if counted else next(iter(answers), Answer("", status="unknown"))
    share = len(counted[0]) / len(answers) if counted else 0.0
    ctx.decide(
        "majority",
        round(share, 4),
        when=when,
        answer=taken.text if counted else "",
        votes=[[group[0].text, len(group)] for group in counted],
        unknown=sum(not answer.known for answer in answers),
    )
    return taken, share


def votes(answers: Sequence[Answer]) -> list[list[Answer]]:
    """The known answers, those that say the same together: most frequent first, in each the surest first."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.known:
            groups.setdefault(answer_key(answer.text), []).append(answer)
    for group in groups.values():
        group.sort(key=lambda answer: -(answer.confidence or 0.0))
    return sorted(groups.values(), key=lambda group: (-len(group), -(group[0].confidence or 0.0)))


def answer_key(answer: str) -> str:
    """What two spellings of one answer share: its words, without case, punctuation and articles."""
    words = question_key(answer)
    return " ".join(_ARTICLES.sub(" ", words).split()) or words or " ".join(answer.casefold().split())


_ROUNDING = 1e-9


def agreement_gate(ctx: Context, chains: Sequence[Answer], *, least: float) -> tuple[Answer, bool]:
    """The answer of most chains, and whether at least this share of them gives it.

    The decision is recorded for every question: how often it passes, and how often it is right then, explains much of
    the score of a method that begins with it. The answer is proposed for the case that the budget ends.
    """
    answer, share = majority(ctx, chains, when="gate")
    passed = answer.known and share + _ROUNDING >= least
    ctx.decide("agreement", passed, share=round(share, 4), least=least, chains=len(chains), answer=answer.text)
    ctx.propose(answer, order=1)
    return answer, passed
