"""Natural Questions, TriviaQA, PopQA, WebQuestions and Bamboogle as they are given out: questions with answers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hoptree.evaluation.datasets.aliases import Aliases
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.fields import Fields, distinct, spaced

__all__ = ["bamboogle", "nq", "popqa", "triviaqa", "webquestions"]

_DESCRIPTION = re.compile(r'\(description (?:"((?:[^"\\]|\\.)*)"|([^"()]+))\)')
_ESCAPED = re.compile(r"\\(.)")


def nq(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """Natural Questions in the open form: a question and a list of answers, as JSON Lines or a table."""
    yield Example(
        id=row.text("id", "_id") or f"nq-{position}",
        question=row.question("question"),
        answers=distinct(row.texts("answer")),
        hops=1,
        dataset="nq",
    )


def triviaqa(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """TriviaQA: the answer's `Value` first, then its aliases, as written and in TriviaQA's normal form."""
    answer = row.part("Answer")
    value = [answer.text("Value")]
    yield Example(
        id=row.text("QuestionId") or f"triviaqa-{position}",
        question=row.question("Question"),
        answers=distinct(value, answer.texts("Aliases"), answer.texts("NormalizedAliases")),
        hops=1,
        dataset="triviaqa",
    )


def popqa(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """PopQA: `possible_answers` is a list, in JSON within a text; the subject's page is the one to find."""
    accepted = row.texts("possible_answers")
    main = row.text("obj")
    yield Example(
        id=row.text("id") or f"popqa-{position}",
        question=row.question("question"),
        answers=distinct([main] if main in accepted else [], accepted),
        type=row.text("prop"),
        hops=1,
        dataset="popqa",
        supporting_titles=distinct([spaced(row.text("s_wiki_title"))]),
    )


def webquestions(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """WebQuestions: the answers stand in `targetValue` as (list (description "…") (description …))."""
    target = row.text("targetValue")
    found = [_ESCAPED.sub(r"\1", quoted) or plain for quoted, plain in _DESCRIPTION.findall(target)]
    if target and "".join(_DESCRIPTION.sub("", target).split()) != "(list)":
        raise row.wrong(': "targetValue" is no list of descriptions')
    yield Example(
        id=row.text("id") or f"webquestions-{position}",
        question=row.question("utterance"),
        answers=distinct(text.strip() for text in found),
        dataset="webquestions",
    )


def bamboogle(row: Fields, position: int, aliases: Aliases) -> Iterator[Example]:
    """Bamboogle: columns Question and Answer."""
    yield Example(
        id=row.text("id", "ID") or f"bamboogle-{position}",
        question=row.question("Question"),
        answers=distinct([row.text("Answer")]),
        hops=2,
        dataset="bamboogle",
    )
