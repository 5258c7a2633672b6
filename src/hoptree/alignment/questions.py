"""The questions a training set is made from: with their split, and the facts from which steps can be put into words."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.errors import InputError
from hoptree.evaluation.datasets import Example, read_examples
from hoptree.evaluation.datasets.rows import read_question_rows

__all__ = ["TRAIN", "Fact", "TrainingQuestion", "is_evaluation", "read_training_questions", "split_told_by"]

TRAIN = "train"
_EVALUATION = frozenset(("dev", "development", "val", "valid", "validation", "test", "eval", "evaluation", "heldout"))
_WORD = re.compile(r"[a-z]+")
_IDS = ("id", "_id", "ID", "qid")
_FACTS = ("evidence_triples", "evidences")

Fact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """An example of a file that may be trained on.

    `split` is what the row says of itself (`source_split` or `split`), or else what the name of its file says; ""
    where neither says anything. `facts` are its gold facts, each a subject, a property and a value.
    """

    example: Example
    file: str
    split: str = ""
    facts: tuple[Fact, ...] = ()

    @property
    def key(self) -> str:
        """What tells it from the questions of all data sets."""
        return f"{self.example.dataset}/{self.example.id}"


def read_training_questions(paths: Iterable[Path]) -> list[TrainingQuestion]:
    """All questions of all files, in their order; an id that two files share is an error."""
    found: list[TrainingQuestion] = []
    files: dict[str, str] = {}
    for path in paths:
        for question in _read(path):
            if question.key in files:
                cause = f"The question '{question.example.id}' is in {files[question.key]} and in {path}."
                raise InputError(cause, "Give each question once.")
            files[question.key] = str(path)
            found.append(question)
    return found


def is_evaluation(split: str) -> bool:
    """Whether a split is one that models are measured on."""
    return split in _EVALUATION


def split_told_by(name: str) -> str:
    """The split that the name of a file tells ("hotpot_dev_distractor_v1.json" is of dev); "" if it tells none."""
    words = [word for word in _WORD.findall(name.casefold()) if word in _EVALUATION or word == TRAIN]
    return words[0] if words else ""


def _read(path: Path) -> list[TrainingQuestion]:
    told: dict[str, tuple[str, tuple[Fact, ...]]] = {}
    data = read_examples(path)
    if not path.is_dir():
        for _, row in read_question_rows(path):
            if isinstance(row, dict):
                told[_id(row)] = (_split(row), _facts(row))
    by_name = split_told_by(path.name)
    questions = []
    for example in data.examples:
        split, facts = told.get(example.id, ("", ()))
        questions.append(TrainingQuestion(example, str(path), split or by_name, facts))
    return questions


def _id(row: dict[str, Any]) -> str:
    return next((str(row[name]).strip() for name in _IDS if row.get(name)), str(row.get("question") or "").strip())


def _split(row: dict[str, Any]) -> str:
    said = row.get("source_split") or row.get("split")
    return said.strip().casefold() if isinstance(said, str) else ""


def _facts(row: dict[str, Any]) -> tuple[Fact, ...]:
    """The facts that are three texts each; a list of anything else tells nothing."""
    given = next((row[name] for name in _FACTS if row.get(name)), ())
    if not isinstance(given, list) or not all(isinstance(fact, list) and len(fact) == 3 for fact in given):
        return ()
    if not all(isinstance(part, str) for fact in given for part in fact):
        return ()
    return tuple((fact[0].strip(), fact[1].strip(), fact[2].strip()) for fact in given)
