"""The questions a training set is made from: with their split, and the facts from which steps can be put into words."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.evaluation.datasets.examples import DataSet, Example
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.datasets.rows import Aliases, Fields, read_question_rows
from hoptree.evaluation.datasets.single_hop import find_beir

TRAIN = "train"
_EVALUATION = r"dev|development|devtest|val|valid|validation|test|eval|evaluation|held[-_ ]?out"
_EVALUATION_WORD, _TRAIN_WORD = (
    re.compile(rf"(?<![a-z])({names})(?:set)?(?![a-z])") for names in (_EVALUATION, "train|training")
)
_FACTS = ("evidence_triples", "evidences")

Fact = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class TrainingQuestion:
    """An example of a file that may be trained on.

    `split` is what the row says of itself (`source_split` or `split`), or else what the name of its file or folder
    says: train, or a word for evaluation; "" where nothing tells. `facts` are its gold facts, each a subject, a
    property and a value, or all its values where there are several.
    """

    example: Example
    file: str
    split: str = ""
    facts: tuple[Fact, ...] = ()

    @property
    def key(self) -> str:
        """What tells it from the questions of all data sets."""
        return f"{self.example.dataset}/{self.example.id}"


@dataclass(frozen=True, slots=True)
class TrainingFiles:
    """The questions of files, and how many of theirs were left out for what: such as nothing could be scored of."""

    questions: tuple[TrainingQuestion, ...]
    left_out: dict[str, int]


def read_training_files(paths: Iterable[Path]) -> TrainingFiles:
    """All questions of all files that have an answer, in their order."""
    questions: list[TrainingQuestion] = []
    left_out: Counter[str] = Counter()
    for path in paths:
        data = read_examples(path)
        questions += _read(path, data)
        left_out.update({why: len(keys) for why, keys in data.reasons.items()})
    return TrainingFiles(tuple(questions), dict(left_out))


def read_training_questions(paths: Iterable[Path]) -> list[TrainingQuestion]:
    """All questions of all files, in their order."""
    return list(read_training_files(paths).questions)


def is_evaluation(split: str) -> bool:
    """Whether a split is one that models are measured on."""
    return split not in ("", TRAIN)


def split_told_by(path: Path) -> str:
    """The split that the name of a file tells ("hotpot_dev_distractor_v1.json" is of dev); "" if it tells none.

    The name of its folder tells it where that says nothing else ("dev/questions.jsonl").
    """
    folder = path.absolute().parent.name.casefold()
    told_by_folder = _TRAIN_WORD.fullmatch(folder) or _EVALUATION_WORD.fullmatch(folder)
    return _split_in(path.name) or (_split_in(folder) if told_by_folder else "")


def is_named_for_evaluation_alone(path: Path) -> bool:
    """Whether a file is called after a split of evaluation and nothing else: dev.jsonl is, dev_open.jsonl is not."""
    said = path.name.casefold().partition(".")[0]
    by_folder = not _split_in(path.name) and is_evaluation(split_told_by(path))
    return bool(_EVALUATION_WORD.fullmatch(said)) or by_folder


def _split_in(text: str) -> str:
    """Where a text speaks of both, it is of evaluation."""
    text = text.casefold()
    if found := _EVALUATION_WORD.search(text):
        return found[1]
    return TRAIN if _TRAIN_WORD.search(text) else ""


def _read(path: Path, data: DataSet) -> list[TrainingQuestion]:
    beir = find_beir(path)
    told = _told(beir.queries if beir else path, data.form)
    by_name = split_told_by(beir.judgements if beir else path)
    questions = []
    for example in data.examples:
        split, facts = told.get(example.id, ("", ()))
        questions.append(TrainingQuestion(example, str(path), split or by_name, facts))
    return questions


def _told(path: Path, form: str) -> dict[str, tuple[str, tuple[Fact, ...]]]:
    """What rows say beyond their examples, by the ids of these, which each form gives in its own way."""
    told = {}
    for position, (line, row) in enumerate(read_question_rows(path)):
        fields = Fields(row, f"Line {line} of {path.name}", form)
        for example in FORMS[form].read(fields, position, Aliases()):
            told[example.id] = (_split(fields.row), _facts(fields.row))
    return told


def _split(row: dict[str, Any]) -> str:
    said = [row.get("source_split"), row.get("split")]
    texts = [text for one in said for text in (one if isinstance(one, list) else [one]) if isinstance(text, str)]
    return _split_in(" ".join(texts))


def _facts(row: dict[str, Any]) -> tuple[Fact, ...]:
    """The facts that are three texts each; a list of anything else tells nothing."""
    given = next((row[name] for name in _FACTS if row.get(name)), ())
    if not isinstance(given, list) or not all(isinstance(fact, list) and len(fact) == 3 for fact in given):
        return ()
    if not all(isinstance(part, str) for fact in given for part in fact):
        return ()
    values: dict[tuple[str, str], dict[str, None]] = {}
    for subject, name, value in given:
        values.setdefault((subject.strip(), name.strip()), {})[value.strip()] = None
    return tuple((subject, name, _listed(list(found))) for (subject, name), found in values.items())


def _listed(values: list[str]) -> str:
    """Several values of one property as one answer: whoever asks for it once is told all of them."""
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} and {values[-1]}"
