"""Keeping evaluation questions out of training sets.

The sub-models published with RA-ISF were trained on the questions they were measured on, by its author's own account.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.metrics import normalise
from hoptree.evaluation.run_folder import RESULTS, RUN, read_rows, read_run
from hoptree.training.questions import (
    TRAIN,
    TrainingQuestion,
    is_evaluation,
    is_named_for_evaluation_alone,
    read_training_questions,
    split_told_by,
)

_COMPOSED = re.compile(r"\d+hop\d*__(\d+(?:_\d+)*)")
"""MuSiQue's ids: the kind of a question, and the numbers of those it is put together from (2hop__92051_827343)."""
_REFERENCE = re.compile(r"#\s?(\d{1,2})(?!\d)")
_ADDITION = re.compile(r"\s*\([^()]*\)\s*$")


def steps_within(question: TrainingQuestion) -> frozenset[tuple[str, ...]]:
    """The steps of a question by its own fields: its id, its facts and its sub-questions.

    A fact is known by its subject and property, whatever its value. A sub-question that refers to another has its
    answer in the place of the reference; where that is not known it says nothing alone, and does not count.
    """
    example = question.example
    found: set[tuple[str, ...]] = set()
    if composed := _COMPOSED.fullmatch(example.id):
        found.update(("single", number) for number in composed[1].split("_"))
    for subject, name, _ in question.facts:
        found.add(("fact", normalise(_ADDITION.sub("", subject)), normalise(name)))
    for text in example.decomposition:
        asked = _filled(text, example.decomposition_answers)
        if asked:
            found.add(("asked", asked))
    return frozenset(found)


def _filled(text: str, answers: tuple[str, ...]) -> str:
    """A sub-question in its normal form; "" where it rests on an answer that is not known."""
    numbers = [int(number) for number in _REFERENCE.findall(text)]
    if any(not 1 <= number <= len(answers) or not answers[number - 1].strip() for number in numbers):
        return ""
    return normalise(_REFERENCE.sub(lambda match: answers[int(match[1]) - 1], text))


OVERLAP = 0.8
"""Share of words that two questions have in common, of all words in either, from which they count as the same."""

_ROUNDING = 1e-9
_ALLOW = "--allow-evaluation-questions"


class Excluded:
    """The questions of evaluation files and runs: a training question is one of them by its id, or by its words.

    By its id: that of an evaluation question of the same data set. By its words: its normal form (lower case, no
    punctuation, no articles) is that of an evaluation question, or at least `OVERLAP` of the different words in either
    are in both. One that is none of them may share a step with one, and so an answer (see `steps_within`); of the
    questions of a run only the ids and words are known.
    """

    def __init__(
        self, paths: Iterable[Path] = (), others: Mapping[str, Iterable[TrainingQuestion]] | None = None
    ) -> None:
        """The questions of files and runs, and `others` under the names by which they are told."""
        self._digests: set[bytes] = set()
        self._entered: set[tuple[str, frozenset[str]]] = set()
        self._stepped: set[tuple[str, frozenset[str]]] = set()
        self._ids: dict[str, str] = {}
        self._steps: dict[tuple[str, ...], str] = {}
        self._parted: set[str] = set()
        self.datasets: set[str] = set()
        self._words: list[tuple[frozenset[str], str]] = []
        for path in paths:
            for file, questions in _measured_on(path):
                self._enter(questions, file.name)
                if file.is_file():
                    self._digests.add(_digest(file))
        for name, some in (others or {}).items():
            some = list(some)
            self._enter(some, name)
            self._parted.update(question.file for question in some)
        self._frequency = Counter(word for words, _ in self._words for word in words)
        self._by_word: dict[str, list[int]] = defaultdict(list)
        for place, (words, _) in enumerate(self._words):
            for word in self._telling(words):
                self._by_word[word].append(place)

    def _enter(self, questions: Iterable[TrainingQuestion], name: str) -> None:
        for question in questions:
            self.datasets.add(question.example.dataset)
            steps = steps_within(question)
            for step in steps:
                self._steps.setdefault(step, name)
            key, words = question.key, frozenset(normalise(question.example.question).split())
            if steps:
                self._stepped.add((key, words))
            if (key, words) not in self._entered:  # another run asked the same
                self._entered.add((key, words))
                self._ids.setdefault(key, name)
                self._words.append((words, name))

    def __len__(self) -> int:
        return len(self._words)

    @property
    def without_steps(self) -> int:
        """How many tell no step, by an id, facts or sub-questions: what shares one with them is not found."""
        return len(self._entered - self._stepped)

    def same_file(self, path: Path) -> bool:
        """Whether a file is one of those of evaluation questions, by another name or not."""
        return path.is_file() and _digest(path) in self._digests

    def parts(self, file: str) -> bool:
        """Whether it is known of a file itself which of its questions are measured on: those of its other half."""
        return file in self._parted

    def step_shared(self, question: TrainingQuestion) -> str:
        """Where an evaluation question has a step of this one; "" if none has."""
        places = sorted({self._steps[step] for step in steps_within(question) if step in self._steps})
        return f"step in {places[0]}" if places else ""

    def why(self, question: TrainingQuestion) -> str:
        """Where the question is an evaluation question, and by what; "" if it is none."""
        if question.key in self._ids:
            return f"id in {self._ids[question.key]}"
        words = frozenset(normalise(question.example.question).split())
        places = sorted({place for word in self._telling(words) for place in self._by_word.get(word, ())})
        for place in places:
            other, name = self._words[place]
            if len(words & other) >= OVERLAP * len(words | other) - _ROUNDING:
                return f"words in {name}"
        return ""

    def _telling(self, words: frozenset[str]) -> list[str]:
        """The rarest words of a set: two sets that overlap enough share one of these, so no others are looked up."""
        rarest = sorted(words, key=lambda word: (self._frequency[word], word))
        return rarest[: len(words) - ceil(OVERLAP * len(words) - _ROUNDING) + 1]


@dataclass(frozen=True, slots=True)
class Admitted:
    """The questions a training set may be made from, and how many were left out for what.

    `evaluation` says by key of those that are evaluation questions, because that was allowed, by what they are.
    """

    questions: tuple[TrainingQuestion, ...]
    left_out: dict[str, int]
    evaluation: dict[str, str]


def admit(
    questions: Sequence[TrainingQuestion],
    excluded: Excluded,
    *,
    only_train: bool = False,
    any_split: bool = False,
    allow: bool = False,
) -> Admitted:
    """Choose the questions that may be trained on; refuse those that say they are evaluation questions.

    So are those of a file that is named for evaluation, whatever its rows say, unless some of them are among the
    excluded ones: then it is known what is measured on. With `only_train`, questions of no train split are left out
    instead. With `any_split`, a split decides nothing, where it is known by excluded ones of the same data set what is
    measured on; a file that is called after a split of evaluation alone is refused all the same, unless its other half
    is what is measured on. With `allow`, all are taken and marked. One that shares a step with an excluded one is left
    out as well. One that comes again, under the same id of its data set or in the same words, is taken once.
    """
    if any_split and not len(excluded):
        raise InputError(
            "Questions of any split can be trained on only where it is known which are measured on.",
            "Name those with --exclude, as a file or by the folder of a run.",
        )
    if not allow:
        _refuse_files({question.file for question in questions}, excluded)
        if any_split:
            _refuse_unknown(questions, excluded)
    if only_train:
        chosen = [question for question in questions if question.split == TRAIN]
        left_out = Counter({"of no train split": len(questions) - len(chosen)})
    else:
        chosen, left_out = list(questions), Counter()
    if not allow and not any_split:
        _refuse_splits(chosen)
    found = [(question, excluded.why(question)) for question in chosen]
    doubtful = _named_for_evaluation(found)
    found = [(question, why or excluded.step_shared(question)) for question, why in found]
    if not allow:
        if not any_split:
            _refuse_names(doubtful, excluded)
        left_out.update(_reason(why) for _, why in found if why)
        found = [(question, why) for question, why in found if not why]
    admitted, evaluation = _once_each(found, doubtful)
    left_out["of the same id or words as one before"] = len(found) - len(admitted)
    if not admitted:
        raise InputError("No question is left to train on.", f"Left out: {_told(+left_out) or 'all'}.")
    return Admitted(tuple(admitted), dict(+left_out), {} if any_split and not allow else evaluation)


def _once_each(
    found: Sequence[tuple[TrainingQuestion, str]], doubtful: Mapping[str, str]
) -> tuple[list[TrainingQuestion], dict[str, str]]:
    """The questions that repeat none before them, and by key, also for what repeats them, which are of evaluation."""
    admitted: list[TrainingQuestion] = []
    evaluation: dict[str, str] = {}
    for (question, why), first in zip(found, _firsts([question for question, _ in found]), strict=True):
        split = question.split if is_evaluation(question.split) else doubtful.get(question.file, "")
        if why or split:
            evaluation.setdefault(first.key, why or f"split {split}")
        if first is question:
            admitted.append(question)
    return admitted, evaluation


def _firsts(questions: Iterable[TrainingQuestion]) -> list[TrainingQuestion]:
    """For each question the one that it repeats, or itself."""
    known: dict[str, TrainingQuestion] = {}
    found = []
    for question in questions:
        names = (question.key, normalise(question.example.question) or question.key)
        first = next((known[name] for name in names if name in known), question)
        known |= {name: first for name in names if name not in known}
        found.append(first)
    return found


def _named_for_evaluation(found: Sequence[tuple[TrainingQuestion, str]]) -> dict[str, str]:
    """The split of evaluation that the names of files tell, those with rows of train, none of which is excluded."""
    known = {question.file for question, why in found if why}
    files = dict.fromkeys(question.file for question, _ in found if question.split == TRAIN)
    told = {file: split_told_by(Path(file)) for file in files if file not in known}
    return {file: split for file, split in told.items() if is_evaluation(split)}


def _reason(why: str) -> str:
    by = why.partition(" ")[0]
    return "shares a step with an evaluation question" if by == "step" else f"evaluation question by {by}"


def _measured_on(path: Path) -> Iterator[tuple[Path, Sequence[TrainingQuestion]]]:
    """The questions of a file, of a folder in BEIR's form, or of the runs in a folder, with the files they are from."""
    runs = sorted(file.parent for file in path.rglob(RUN)) if path.is_dir() else []
    for run in runs:
        data = str(read_run(run).get("data_name", ""))
        examples = [Example(str(row.id), str(row.question), dataset=data) for row in read_rows(run)]
        yield run / RESULTS, [TrainingQuestion(example, str(run / RESULTS)) for example in examples]
    if not runs or (path / "qrels").is_dir():
        yield path, read_training_questions([path])


def _refuse_files(files: Iterable[str], excluded: Excluded) -> None:
    for file in sorted(files):
        if excluded.same_file(Path(file)):
            raise InputError(
                f"{file} is among the excluded files: its questions are for evaluation.",
                f"Give a file of train questions; {_ALLOW} builds from it all the same, and says so in the file.",
            )


def _refuse_unknown(questions: Sequence[TrainingQuestion], excluded: Excluded) -> None:
    """Refuse files of which it is not known what is measured on, and those that are by their names measured on."""
    known = {question.file for question in questions if excluded.why(question)}
    for file, dataset in sorted({(question.file, question.example.dataset) for question in questions}):
        if is_named_for_evaluation_alone(Path(file)) and not excluded.parts(file):
            raise InputError(
                f"{file} is by its name what is measured on, and --any-split does not take it.",
                "Give a file of other questions, or --half first to train on one half and measure on the other; "
                f"{_ALLOW} takes it, and says so in the file.",
            )
        if dataset not in excluded.datasets and file not in known:
            raise InputError(
                f"{file} has questions of '{dataset}', and none of the excluded questions is of that data set.",
                f"Name the questions of '{dataset}' that you measure on with --exclude, as a file or by the folder of "
                'a run; rows say with a field "dataset" of which data set they are.',
            )


def _refuse_names(doubtful: Mapping[str, str], excluded: Excluded) -> None:
    for file, split in doubtful.items():
        none = ", and none of its questions is among the excluded ones" if len(excluded) else ""
        raise InputError(
            f"{file} is by its name for evaluation ('{split}'), though its rows say {TRAIN}{none}.",
            "What is trained on must not be measured on: name the questions that you measure on with --exclude, as a "
            f"file or by the folder of a run, and they are left out; {_ALLOW} takes all, and says so in the file.",
        )


def _refuse_splits(questions: Sequence[TrainingQuestion]) -> None:
    found = [question for question in questions if is_evaluation(question.split)]
    if found:
        first = found[0]
        raise InputError(
            f"{len(found):,} of {len(questions):,} questions are evaluation questions: the first, '{first.example.id}' "
            f"in {first.file}, is of the split '{first.split}'.",
            "--only-train leaves them out; --any-split takes those that --exclude does not name; "
            f"{_ALLOW} takes them, and says so in the file.",
        )


def _told(left_out: Counter[str]) -> str:
    return ", ".join(f"{count:,} {why}" for why, count in left_out.items())


def _digest(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.", "Give a file that can.") from error
