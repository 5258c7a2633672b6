"""The questions of training sets, with split and facts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.evaluation.datasets.examples import DataSet, Example
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.reading import find_beir, read_examples
from hoptree.evaluation.datasets.rows import Fields, read_question_rows

TRAIN = "train"
_EVALUATION = r"dev|development|devtest|val|valid|validation|test|eval|evaluation|held[-_ ]?out"
_EVALUATION_WORD, _TRAIN_WORD = (
    re.compile(rf"(?<![a-z])({names})(?:set)?(?![a-z])") for names in (_EVALUATION, "train|training")
)
_FACT_FIELDS = ("evidence_triples", "evidences")

Fact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """An example with its file, split and facts."""

    example: Example
    file: str
    split: str = ""  # of the row, or else of its file or folder; "" if unknown
    facts: tuple[Fact, ...] = ()  # subject, property, and all values in one text

    @property
    def key(self) -> str:
        """Its id with its data set."""
        return f"{self.example.dataset}/{self.example.id}"


def read_training_questions(paths: Iterable[Path], left_out: Counter[str] | None = None) -> list[TrainingQuestion]:
    """Return all questions that can be scored; count the others in `left_out`."""
    questions: list[TrainingQuestion] = []
    for path in paths:
        data = read_examples(path)
        questions += _read(path, data)
        if left_out is not None:
            left_out.update({why: len(keys) for why, keys in data.reasons.items()})
    return questions


def is_evaluation(split: str) -> bool:
    """Return whether a split is for evaluation."""
    return split not in ("", TRAIN)


def split_of_path(path: Path) -> str:
    """Return the split in the name of a file or its folder ("dev/a.jsonl"), or ""."""
    folder = path.absolute().parent.name.casefold()
    is_split = _TRAIN_WORD.fullmatch(folder) or _EVALUATION_WORD.fullmatch(folder)
    return _split_in(path.name) or (_split_in(folder) if is_split else "")


def is_named_for_evaluation_alone(path: Path) -> bool:
    """Return whether a file has only the name of an evaluation split."""
    stem = path.name.casefold().partition(".")[0]
    by_folder = not _split_in(path.name) and is_evaluation(split_of_path(path))
    return bool(_EVALUATION_WORD.fullmatch(stem)) or by_folder


def _split_in(text: str) -> str:
    """Return the split that a text names, evaluation before train; "" if none."""
    text = text.casefold()
    if match := _EVALUATION_WORD.search(text):
        return match[1]
    return TRAIN if _TRAIN_WORD.search(text) else ""


def _read(path: Path, data: DataSet) -> list[TrainingQuestion]:
    beir = find_beir(path)
    file = beir.queries if beir else path
    rows: dict[str, dict[str, Any]] = {}
    for position, (line, row) in enumerate(read_question_rows(file)):
        fields = Fields(row, f"Line {line} of {file.name}", data.form)
        rows |= {example.id: fields.row for example in FORMS[data.form].read(fields, position)}
    by_name = split_of_path(beir.judgements if beir else path)
    questions = []
    for example in data.examples:
        row = rows.get(example.id, {})
        given = [row.get("source_split"), row.get("split")]
        texts = [text for value in given for text in (value if isinstance(value, list) else [value])]
        split = _split_in(" ".join(text for text in texts if isinstance(text, str)))
        questions.append(TrainingQuestion(example, str(path), split or by_name, _facts(row)))
    return questions


def _facts(row: dict[str, Any]) -> tuple[Fact, ...]:
    """Return the facts of a row; the values of a property are joined."""
    given = next((row[name] for name in _FACT_FIELDS if row.get(name)), ())
    if not isinstance(given, list) or not all(isinstance(fact, list) and len(fact) == 3 for fact in given):
        return ()
    if not all(isinstance(part, str) for fact in given for part in fact):
        return ()
    values: dict[tuple[str, str], dict[str, None]] = {}
    for subject, name, value in given:
        values.setdefault((subject.strip(), name.strip()), {})[value.strip()] = None
    facts = []
    for (subject, name), by_value in values.items():
        *others, last = by_value
        facts.append((subject, name, f"{', '.join(others)} and {last}" if others else last))
    return tuple(facts)
