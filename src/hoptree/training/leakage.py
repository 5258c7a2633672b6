"""Keep evaluation questions out of training sets.

The sub-models published with RA-ISF were trained on their evaluation questions, by its author's own account.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from hoptree.core.errors import InputError, file_errors
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import normalise
from hoptree.evaluation.run_folder import RESULTS, RUN, read_rows, read_run
from hoptree.training.questions import (
    TRAIN,
    TrainingQuestion,
    is_evaluation,
    is_named_for_evaluation_alone,
    read_training_questions,
    split_of_path,
)

_COMPOSED_ID = re.compile(r"\d+hop\d*__(\d+(?:_\d+)*)")
"""MuSiQue's ids: the kind of a question, and the numbers of its single-hop questions (2hop__92051_827343)."""
_REFERENCE = re.compile(r"#\s?(\d{1,2})(?!\d)")
_ADDITION = re.compile(r"\s*\([^()]*\)\s*$")


def steps_within(question: TrainingQuestion) -> set[tuple[str, ...]]:
    """Return keys of a question's steps, from its id, facts and sub-questions.

    The key of a fact is its subject and property, without the value. A reference in a sub-question is replaced by its
    answer; a sub-question that refers to an unknown answer is left out.
    """
    example = question.example
    steps: set[tuple[str, ...]] = set()
    if composed := _COMPOSED_ID.fullmatch(example.id):
        steps.update(("single", number) for number in composed[1].split("_"))
    for subject, name, _ in question.facts:
        steps.add(("fact", normalise(_ADDITION.sub("", subject)), normalise(name)))
    answers = {str(number): answer for number, answer in enumerate(example.decomposition_answers, 1) if answer.strip()}
    for text in example.decomposition:
        if all(number.lstrip("0") in answers for number in _REFERENCE.findall(text)):
            asked = normalise(_REFERENCE.sub(lambda match: answers[match[1].lstrip("0")], text))
            steps.update([("asked", asked)] if asked else [])
    return steps


OVERLAP = 0.8  # least Jaccard similarity of the words of two questions that count as the same

_EPSILON = 1e-9


class Excluded:
    """Evaluation questions, recognised by id or by words.

    Ids are compared within a data set. Words match if their normal forms overlap by at least `OVERLAP`. Another
    question may share a step, and so an answer, with an evaluation question (see `steps_within`); the steps of a run's
    questions are unknown.
    """

    def __init__(
        self, paths: Iterable[Path] = (), others: Mapping[str, Sequence[TrainingQuestion]] | None = None
    ) -> None:
        """Read the questions of files and runs, and take `others` by name.

        A path may end with a number, for the first questions of a file (`dev.jsonl:300`). It may also be a JSON file of
        ids by file, or a data set with a file of ids (`hotpotqa=ids.txt`).
        """
        self._digests: set[str] = set()
        self._known: set[tuple[str, frozenset[str]]] = set()
        self._with_steps: set[tuple[str, frozenset[str]]] = set()
        self._ids: dict[str, str] = {}
        self._steps: set[tuple[str, ...]] = set()
        self._halved_files: set[Path] = set()
        self._listed: list[ListedIds] = []
        self.datasets: set[str] = set()
        self._words: list[tuple[frozenset[str], str]] = []
        for path in paths:
            if listed := read_listed_ids(path):
                self._listed.append(listed)
                continue
            named, first = split_first(path)
            for file, questions in _evaluation_questions(named):
                self._add(questions[:first], file.name)
                if first is not None:
                    self._halved_files.add(file.resolve())
                elif file.is_file():
                    self._digests.add(file_digest(file))
        for name, questions in (others or {}).items():
            self._add(questions, name)
            self._halved_files.update(Path(question.file).resolve() for question in questions)
        self._frequency = Counter(word for words, _ in self._words for word in words)
        self._by_word: dict[str, list[int]] = defaultdict(list)
        for place, (words, _) in enumerate(self._words):
            for word in self._rarest(words):
                self._by_word[word].append(place)

    def _add(self, questions: Iterable[TrainingQuestion], name: str) -> None:
        for question in questions:
            self.datasets.add(question.example.dataset)
            steps = steps_within(question)
            self._steps |= steps
            key, words = question.key, frozenset(normalise(question.example.question).split())
            if steps:
                self._with_steps.add((key, words))
            if (key, words) not in self._known:  # several runs may have asked it
                self._known.add((key, words))
                self._ids.setdefault(key, name)
                self._words.append((words, name))

    def __len__(self) -> int:
        return len(self._words) + sum(map(len, self._listed))

    @property
    def without_steps(self) -> int:
        """The number of questions without known steps."""
        return len(self._known - self._with_steps)

    def same_file(self, path: Path) -> bool:
        """Return whether a file has the content of a file of evaluation questions."""
        return path.is_file() and file_digest(path) in self._digests

    def halves(self, file: str) -> bool:
        """Return whether only some of the file's questions are for evaluation."""
        return Path(file).resolve() in self._halved_files

    def shares_step(self, question: TrainingQuestion) -> bool:
        """Return whether an evaluation question shares a step with this one."""
        return not self._steps.isdisjoint(steps_within(question))

    def why(self, question: TrainingQuestion) -> str:
        """Return why it is an evaluation question ("id in FILE", "words in FILE"), or ""."""
        if question.key in self._ids:
            return f"id in {self._ids[question.key]}"
        for listed in self._listed:
            if listed.holds(question.file, question.example.dataset, question.example.id):
                return f"id in {listed.name}"
        words = frozenset(normalise(question.example.question).split())
        places = sorted({place for word in self._rarest(words) for place in self._by_word.get(word, ())})
        for place in places:
            other, name = self._words[place]
            if len(words & other) >= OVERLAP * len(words | other) - _EPSILON:
                return f"words in {name}"
        return ""

    def _rarest(self, words: frozenset[str]) -> list[str]:
        """Return the rarest words of a set, for the prefix filter."""
        by_frequency = sorted(words, key=lambda word: (self._frequency[word], word))
        return by_frequency[: len(words) - ceil(OVERLAP * len(words) - _EPSILON) + 1]


class Admitted(NamedTuple):
    """The questions for training, and the number of others by reason."""

    questions: tuple[TrainingQuestion, ...]
    left_out: dict[str, int]


def admit(questions: Sequence[TrainingQuestion], excluded: Excluded, *, any_split: bool = False) -> Admitted:
    """Select the questions for training; raise an error for evaluation questions.

    A question is for evaluation by its split, or by the name of its file, unless the excluded questions include some of
    that file. With `any_split`, splits are ignored if there are excluded questions of the same data set; a file named
    only for an evaluation split is still an error, unless its other half is excluded. Questions that share a step with
    an excluded one, and repeated ids or words, are left out.
    """
    if any_split and not len(excluded):
        cause = "Questions of any split can be trained on only where it is known which are measured on."
        raise InputError(cause, "Name those with --exclude, as a file or by the folder of a run.")
    for file in sorted({question.file for question in questions}):
        if excluded.same_file(Path(file)):
            cause = f"{file} is among the excluded files: its questions are for evaluation."
            raise InputError(cause, "Give a file of train questions.")
    reasons = [excluded.why(question) for question in questions]
    known_files = {question.file for question, why in zip(questions, reasons, strict=True) if why}
    if any_split:
        _refuse_unknown(questions, excluded, known_files)
    else:
        _refuse_splits(questions)
        _refuse_names([question for question in questions if question.file not in known_files], excluded)
    left_out: Counter[str] = Counter()
    admitted: list[TrainingQuestion] = []
    known: set[str] = set()
    for question, reason in zip(questions, reasons, strict=True):
        names = {question.key, normalise(question.example.question) or question.key}
        if reason:
            left_out[f"evaluation question by {reason.partition(' ')[0]}"] += 1
        elif excluded.shares_step(question):
            left_out["shares a step with an evaluation question"] += 1
        elif names & known:
            left_out["of the same id or words as one before"] += 1
            known |= names
        else:
            admitted.append(question)
            known |= names
    if not admitted:
        counts = ", ".join(f"{count:,} {why}" for why, count in left_out.items())
        raise InputError("No question is left to train on.", f"Left out: {counts or 'all'}.")
    return Admitted(tuple(admitted), dict(left_out))


def _evaluation_questions(path: Path) -> Iterator[tuple[Path, Sequence[TrainingQuestion]]]:
    """Yield the questions of a file, BEIR folder or folder of runs."""
    runs = sorted(file.parent for file in path.rglob(RUN)) if path.is_dir() else []
    for run in runs:
        data = str(read_run(run).get("data_name", ""))
        examples = [Example(str(row.id), str(row.question), dataset=data) for row in read_rows(run)]
        yield run / RESULTS, [TrainingQuestion(example, str(run / RESULTS)) for example in examples]
    if not runs or (path / "qrels").is_dir():
        yield path, read_training_questions([path])


def _refuse_unknown(questions: Sequence[TrainingQuestion], excluded: Excluded, known_files: set[str]) -> None:
    """Raise an error for files of unknown data sets, or named for evaluation."""
    for file, dataset in sorted({(question.file, question.example.dataset) for question in questions}):
        if is_named_for_evaluation_alone(Path(file)) and not excluded.halves(file):
            cause = f"{file} is by its name what is measured on."
            remedy = f"Give a file of other questions, or say which of its own you measure on: --exclude {file}:300."
            raise InputError(cause, remedy)
        if dataset not in excluded.datasets and file not in known_files:
            raise InputError(
                f"{file} has questions of '{dataset}', and none of the excluded questions is of that data set.",
                f"Name the questions of '{dataset}' that you measure on with --exclude, as a file or by the folder of "
                'a run; rows say with a field "dataset" of which data set they are.',
            )


def _refuse_splits(questions: Sequence[TrainingQuestion]) -> None:
    evaluation = [question for question in questions if is_evaluation(question.split)]
    if evaluation:
        first = evaluation[0]
        raise InputError(
            f"{len(evaluation):,} of {len(questions):,} questions are evaluation questions: the first, "
            f"'{first.example.id}' in {first.file}, is of the split '{first.split}'.",
            "Take them out; or --any-split takes those that --exclude does not name.",
        )


def _refuse_names(questions: Sequence[TrainingQuestion], excluded: Excluded) -> None:
    """Raise an error for files of train rows with the name of an evaluation split."""
    for file in dict.fromkeys(question.file for question in questions if question.split == TRAIN):
        split = split_of_path(Path(file))
        if is_evaluation(split):
            none = ", and none of its questions is among the excluded ones" if len(excluded) else ""
            raise InputError(
                f"{file} is by its name for evaluation ('{split}'), though its rows say {TRAIN}{none}.",
                "What is trained on must not be measured on: name the questions that you measure on with --exclude, as "
                "a file or by the folder of a run, and they are left out.",
            )


def file_digest(path: Path) -> str:
    with file_errors(path, "read", "Give a file that can."), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


_FIRST_ROWS = re.compile(r"(.+):(\d+)")


def split_first(path: Path) -> tuple[Path, int | None]:
    """Split `dev.jsonl:300` into the file and the count; None means all."""
    match = None if path.exists() else _FIRST_ROWS.fullmatch(str(path))
    if match is None:
        return path, None
    if not (count := int(match[2])):
        raise InputError(f"{path} excludes no question.", "Give a number from 1 on behind the colon.")
    return Path(match[1]), count


@dataclass(frozen=True, slots=True)
class ListedIds:
    """Ids of questions by the files that hold them, such as "musique/dev.jsonl"."""

    name: str
    by_file: Mapping[str, frozenset[str]]

    def __len__(self) -> int:
        return sum(map(len, self.by_file.values()))

    def holds(self, file: str, dataset: str, question_id: str) -> bool:
        """Return whether a question's id is listed for its file or data set."""
        parts = Path(file).absolute().parts
        for name, ids in self.by_file.items():
            listed = PurePosixPath(name).parts
            if question_id in ids and (parts[-len(listed) :] == listed or dataset in listed[:-1]):
                return True
        return False


_IDS_OF_SET = re.compile(r"([^/=]+)=(.+\.txt)")


def read_listed_ids(path: Path) -> ListedIds | None:
    """Read ids from `SET=FILE.txt`, or from a JSON object of lists by file."""
    if not path.exists() and (match := _IDS_OF_SET.fullmatch(str(path))):
        dataset, listed, remedy = match[1], Path(match[2]), "Give SET=FILE.txt with an id a line."
        try:
            with file_errors(listed, "read", remedy):
                lines = frozenset(listed.read_text(encoding="utf-8").split())
        except ValueError as error:
            raise InputError(f"{listed} cannot be read: {error}.", remedy) from error
        if not lines:
            raise InputError(f"{listed} lists no ids.", remedy)
        return ListedIds(listed.name, {f"{dataset}/{listed.name}": lines})
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read: {error}.", "Give a file that can.") from error
    lists = list(content.values()) if isinstance(content, dict) else []
    if not lists or not all(isinstance(ids, list) and all(isinstance(key, str) for key in ids) for ids in lists):
        return None
    return ListedIds(path.name, {name: frozenset(ids) for name, ids in content.items()})
