"""The forms in which questions come, and how the first row of a file tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hoptree.evaluation.datasets.aliases import Aliases
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.fields import Fields
from hoptree.evaluation.datasets.graph_sets import qald10, simplequestions, webqsp
from hoptree.evaluation.datasets.hotpot import advhotpotqa, hotpotqa, two_wiki
from hoptree.evaluation.datasets.open_domain import bamboogle, nq, popqa, triviaqa, webquestions
from hoptree.evaluation.datasets.plain import beir, flashrag, own
from hoptree.evaluation.datasets.steps import iirc, musique, strategyqa

__all__ = ["FORMS", "Form", "form_of"]

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Form:
    """How rows are read (`read` gets the row, its number and known aliases), and which rows are taken for its own.

    `may_lack_answers`: the data set has questions without an answer beside others. `aliased`: a file of aliases adds
    to the answers.
    """

    read: Callable[[Fields, int, Aliases], Iterator[Example]]
    fits: Callable[[Row], bool]
    may_lack_answers: bool = False
    aliased: bool = False


def _has(*names: str) -> Callable[[Row], bool]:
    return lambda row: all(name in row for name in names)


def _is_nq(row: Row) -> bool:
    answer = row.get("answer")
    return "question" in row and (isinstance(answer, list) or (isinstance(answer, str) and answer[:1] == "["))


FORMS: dict[str, Form] = {
    "qald10": Form(qald10, lambda row: isinstance(row.get("question"), list), may_lack_answers=True, aliased=True),
    "own": Form(own, _has("question", "answers")),
    "flashrag": Form(flashrag, _has("question", "golden_answers")),
    "webqsp": Form(webqsp, _has("RawQuestion"), may_lack_answers=True, aliased=True),
    "triviaqa": Form(triviaqa, lambda row: "Question" in row and isinstance(row.get("Answer"), dict)),
    "bamboogle": Form(bamboogle, _has("Question", "Answer")),
    "webquestions": Form(webquestions, _has("utterance", "targetValue")),
    "iirc": Form(iirc, _has("questions", "text"), may_lack_answers=True),
    "popqa": Form(popqa, _has("question", "possible_answers")),
    "advhotpotqa": Form(advhotpotqa, _has("qas_id", "paragraphs"), aliased=True),
    "musique": Form(musique, _has("question", "paragraphs")),
    "2wikimultihopqa": Form(two_wiki, _has("question", "evidences"), aliased=True),
    "hotpotqa": Form(
        hotpotqa, lambda row: "question" in row and "context" in row and ("_id" in row or "supporting_facts" in row)
    ),
    "strategyqa": Form(
        strategyqa, lambda row: "question" in row and "qid" in row and ("term" in row or "facts" in row)
    ),
    "simplequestions": Form(simplequestions, _has("subject", "relation", "object", "question"), aliased=True),
    "nq": Form(nq, _is_nq),
    "beir": Form(beir, lambda row: "_id" in row and "text" in row and "question" not in row),
}
"""By name, the more telling ones first."""


def form_of(row: object) -> str:
    """The name of the form a row is of; `own` if it is of no other."""
    if not isinstance(row, dict):
        return "own"
    return next((name for name, form in FORMS.items() if form.fits(row)), "own")
