"""The runs a report is about: found in their folders, read, checked, and put together by the questions they asked."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from hoptree.errors import InputError
from hoptree.evaluation.run_folder import RUN, Row, read_rows, read_run
from hoptree.values import Usage

__all__ = ["DataGroup", "Run", "find_runs", "read_groups"]

_USAGE = tuple(field.name for field in fields(Usage))
_ON = " on "


@dataclass(frozen=True, slots=True)
class Run:
    """A run with the outcomes it has so far; `label` is what tables call it, and `about` is its `run.json`."""

    folder: Path
    id: str
    label: str
    about: Mapping[str, Any]
    rows: tuple[Row, ...]
    total: int

    @property
    def finished(self) -> bool:
        return len(self.rows) == self.total

    @property
    def progress(self) -> str:
        """How many questions have an outcome, where that is not all of them."""
        return "" if self.finished else f"{len(self.rows):,} of {self.total:,}, not finished"

    @property
    def named(self) -> str:
        """Its label, which says if it is not finished."""
        return f"{self.label} ({self.progress})" if self.progress else self.label


@dataclass(frozen=True, slots=True)
class DataGroup:
    """Runs over the same questions of the same data set: those that can be compared."""

    name: str
    questions: int
    runs: tuple[Run, ...]


def find_runs(paths: Iterable[Path]) -> list[Path]:
    """The run folders among the paths and below them, each once."""
    found: dict[Path, Path] = {}
    for path in paths:
        here = [path] if (path / RUN).exists() else _below(path)
        if not here:
            raise InputError(f"{path} holds no run.", "Make one: hoptree run --data … --method … --out FOLDER")
        for folder in here:
            found.setdefault(folder.resolve(), folder)
    if not found:
        raise InputError("There is no run to report on.", "Name the folder of one or more.")
    return list(found.values())


def _below(folder: Path) -> list[Path]:
    """The runs below a folder, without repetitions: these are held against the runs they repeat, not against others."""
    found = sorted(file.parent for file in folder.rglob(RUN))
    return [run for run in found if not read_run(run).get("reproduces")]


def read_groups(paths: Iterable[Path]) -> list[DataGroup]:
    """All runs, data set by data set, in the order they were found."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for folder in find_runs(paths):
        about = _checked(read_run(folder), folder)
        try:
            rows = tuple(_checked_row(row, folder) for row in read_rows(folder))
        except OSError as error:
            raise InputError(f"The run in {folder} cannot be read: {error.strerror}.", "Make it readable.") from error
        run = Run(folder, about["id"], about["name"], about, rows, len(about["questions"]))
        rests_on = about["rests_on"]
        groups.setdefault((str(rests_on.get("data")), str(rests_on.get("questions"))), []).append(run)
    return _told_apart([_group(runs) for runs in groups.values()])


def _checked(about: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What a report needs of `run.json`; people edit such files, and disks break them."""
    texts = all(isinstance(about.get(name), str) for name in ("id", "name"))
    questions = about.get("questions")
    if not texts or not isinstance(questions, list) or not all(isinstance(one, str) for one in questions):
        raise InputError(f"The run in {folder} is damaged: {RUN} lacks its id, name or questions.", _AGAIN)
    if not isinstance(about.get("experiment"), dict):
        raise InputError(f"The run in {folder} is damaged: {RUN} does not say its experiment.", _AGAIN)
    return about


_AGAIN = "Run it again into another folder."


def _checked_row(row: Row, folder: Path) -> Row:
    texts = (row.id, row.question, row.answer, row.type, row.error, row.error_message, row.stopped_by, row.trace)
    good = (
        all(isinstance(text, str) for text in (*texts, *row.answers, *row.gold, *row.gold_titles))
        and isinstance(row.hops, int)
        and isinstance(row.scores, dict)
        and all(value is None or _number(value) for value in row.scores.values())
        and isinstance(row.usage, dict)
        and all(_number(row.usage.get(name)) for name in _USAGE)
        and isinstance(row.sources, dict)
        and all(_number(value) for value in row.sources.values())
    )
    if not good:
        raise InputError(f"The run in {folder} is damaged: the result of question {row.id!r} is none.", _AGAIN)
    return row


def _number(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _group(runs: Sequence[Run]) -> DataGroup:
    """`hoptree run` calls a run METHOD on DATA: where all agree on the latter, it names the group, not each run."""
    ends = {run.label.rpartition(_ON)[2] if _ON in run.label else "" for run in runs}
    if len(ends) == 1 and (name := ends.pop()):
        labels = [run.label.rpartition(_ON)[0] for run in runs]
    else:
        name, labels = _data_name(runs[0]), [run.label for run in runs]
    labels = _unlike(_unlike(labels, [run.folder.name for run in runs]), [run.id for run in runs])
    named = tuple(
        Run(run.folder, run.id, label, run.about, run.rows, run.total) for run, label in zip(runs, labels, strict=True)
    )
    return DataGroup(name, runs[0].total, named)


def _data_name(run: Run) -> str:
    if name := run.about.get("data_name"):
        return str(name)
    path = Path(str(run.about["experiment"].get("data", "questions")))
    return "/".join((*path.parts[-2:-1], path.stem)).lstrip("/") or "questions"


def _unlike(names: Sequence[str], more: Sequence[str]) -> list[str]:
    """Names that occur twice get something more to tell them apart."""
    times = Counter(names)
    return [f"{name} ({other})" if times[name] > 1 else name for name, other in zip(names, more, strict=True)]


def _told_apart(groups: Sequence[DataGroup]) -> list[DataGroup]:
    names = _unlike([group.name for group in groups], [f"{group.questions:,} questions" for group in groups])
    digests = [str(group.runs[0].about["rests_on"].get("questions"))[:8] for group in groups]
    names = _unlike(names, digests)
    return [DataGroup(name, group.questions, group.runs) for name, group in zip(names, groups, strict=True)]
