"""Decisions of RA-ISF's modules (its Table 5), and sheets to rate them in CSV."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from hoptree.core.errors import InputError, file_errors
from hoptree.core.files import atomic_write
from hoptree.engine.events import Decision, Event, Finished, NodeStarted, TextQuarantined
from hoptree.engine.prompts import MAX_WORDS
from hoptree.engine.trace import ModelCalled, Retrieved, read_events
from hoptree.evaluation.datasets.reading import seeded_rank
from hoptree.evaluation.run_folder import TRACES, Row, by_question, read_rows, read_run

Module = Literal["know", "relevance", "decompose"]
MODULES: tuple[Module, ...] = ("know", "relevance", "decompose")
KNOWS, KNOWS_NOT = "knows", "does not know"
RELEVANT, IRRELEVANT = "relevant", "irrelevant"
NOTHING_NEW = "(no new sub-question)"

_EVENTS = (NodeStarted, Decision, Retrieved, TextQuarantined, ModelCalled, Finished)
_MAX_CELL_CHARS = 30_000  # spreadsheets silently truncate cells after 32,767 characters
_MAX_ACCEPTED = 5  # accepted answers shown to raters; some questions have thousands
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class RatedDecision:
    """A decision to rate; equal decisions of a question share a `key`."""

    key: str
    data: str
    module: Module
    question: str
    shown: str  # for the rater: the passage, or the answer from memory and the accepted answers
    decided: str  # one of the constants above, or the sub-questions


class Drawn(NamedTuple):
    """The decisions drawn from one run, with counts by module."""

    folder: Path
    data: str
    decisions: tuple[RatedDecision, ...]
    drawn: dict[Module, int]
    of: dict[Module, int]


def read_decisions(folder: Path) -> dict[str, list[RatedDecision]]:
    """Return the decisions of an RA-ISF run by question id."""
    run, rows = read_run(folder), read_rows(folder)
    by_trace = {row.trace: row for row in rows if row.trace}
    decisions: dict[str, list[RatedDecision]] = {}
    if not by_trace:
        return decisions
    events = (event for event in read_events(folder / TRACES) if event.run in by_trace and isinstance(event, _EVENTS))
    try:
        for question in by_question(events):
            if isinstance(question[-1], Finished):
                row = by_trace[question[-1].run]
                decisions[row.id] = _DecisionReader(str(run["data_name"]), row, question).decisions()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        cause = f"The traces of the run in {folder} are damaged: {type(error).__name__}, {error}."
        raise InputError(cause, "Run it again into another folder.") from error
    return {row.id: decisions[row.id] for row in rows if decisions.get(row.id)}


def draw_decisions(decisions: Mapping[str, Sequence[RatedDecision]], count: int, seed: int) -> list[RatedDecision]:
    """Draw `count` decisions of each module, at most one a question."""
    drawn = []
    for module in MODULES:
        by_id = {
            name: of_module
            for name, of_question in decisions.items()
            if (of_module := [decision for decision in of_question if decision.module == module])
        }
        names = sorted(by_id, key=lambda name: seeded_rank(seed, f"{module}:{name}"))[:count]
        drawn += [min(by_id[name], key=lambda decision: seeded_rank(seed, decision.key)) for name in names]
    return drawn


def draw_of_runs(folders: Sequence[Path], count: int, seed: int) -> list[Drawn]:
    """Draw from several runs, one a data set."""
    drawn: dict[str, Drawn] = {}
    without = []
    for folder in folders:
        by_id = read_decisions(folder)
        decisions = [decision for of_question in by_id.values() for decision in of_question]
        if not decisions:
            without.append(str(folder))
            continue
        data = decisions[0].data
        if data in drawn:
            cause = f"Two runs are over {data}: {drawn[data].folder} and {folder}."
            raise InputError(cause, "Write a sheet for each: a mean over both would describe neither.")
        chosen = draw_decisions(by_id, count, seed)
        numbers = [Counter(decision.module for decision in part) for part in (chosen, decisions)]
        counts, totals = ({module: number[module] for module in MODULES} for number in numbers)
        drawn[data] = Drawn(folder, data, tuple(chosen), counts, totals)
    if not drawn:
        cause = f"There are no decisions of RA-ISF's modules in {', '.join(without)}."
        raise InputError(cause, "Give a run of it: hoptree run --method ra_isf …")
    return list(drawn.values())


class _DecisionReader:
    """Collects the decisions of one question from its events."""

    def __init__(self, data: str, row: Row, events: Sequence[Event]) -> None:
        self._data, self._row, self._events = data, row, events
        self._questions: dict[int, str] = {}
        self._from_memory: dict[int, str] = {}
        self._passages: dict[tuple[int, str], tuple[str, str]] = {}
        self._quarantined: dict[str, list[str]] = {}
        for event in events:
            if isinstance(event, NodeStarted):
                self._questions[event.id] = event.resolved
            elif isinstance(event, Retrieved) and event.node is not None:
                for passage in event.passages:
                    self._passages[event.node, passage["id"]] = (passage["title"], passage["text"])
            elif isinstance(event, TextQuarantined):
                self._quarantined.setdefault(event.passage, []).extend(event.sentences)
            elif isinstance(event, ModelCalled) and event.step == "direct" and event.node is not None:
                self._from_memory[event.node] = event.reply

    def decisions(self) -> list[RatedDecision]:
        recorded = [event.as_dict() for event in self._events if isinstance(event, Decision)]
        return list({decision.key: decision for record in recorded for decision in self._read(record)}.values())

    def _read(self, record: Mapping[str, Any]) -> Iterator[RatedDecision]:
        kind = record["kind"]
        if kind == "know":
            answer = record["answer"] or self._from_memory.get(record["node"], "")
            parts = [f"From memory: {_line(answer)}"] if answer else []
            if record["node"] == 0:
                parts.append(f"Accepted: {' | '.join(map(_line, self._row.answers[:_MAX_ACCEPTED]))}")
            decided = KNOWS if record["value"] else KNOWS_NOT
            yield self._decision("know", record["node"], "\n".join(parts), decided)
        elif kind == "relevance":
            node = record["node"]
            for passage, relevant in record["judged"]:
                decided = RELEVANT if relevant else IRRELEVANT
                yield self._decision("relevance", node, self._passage(node, passage), decided)
        elif kind == "split":
            listed = [f"{number}. {_line(question)}" for number, question in enumerate(record["questions"], 1)]
            yield self._decision("decompose", record["node"], "", "\n".join(listed) or NOTHING_NEW)

    def _decision(self, module: Module, node: int, shown: str, decided: str) -> RatedDecision:
        question = _line(self._questions[node])
        content = json.dumps([self._data, self._row.id, module, question, shown, decided])
        # The name in front keeps spreadsheets from reading digits with an e among them as a number.
        key = f"{module}-{hashlib.sha256(content.encode()).hexdigest()[:12]}"
        return RatedDecision(key, _line(self._data), module, question, shown, decided)

    def _passage(self, node: int, name: str) -> str:
        """Return a passage with its title as the module's prompt showed it."""
        title, text = (_line(part) for part in self._passages[node, name])
        for sentence in self._quarantined.get(name, ()):
            title, text = title.replace(sentence, " "), text.replace(sentence, " ")
        text = " ".join(text.split()[:MAX_WORDS])
        return _line(f"{title}: {text}" if title.strip() else text)


def _line(text: str) -> str:
    """Return a text on one line, without control characters."""
    text = " ".join(_CONTROL.sub(" ", text).split())
    return text if len(text) <= _MAX_CELL_CHARS else f"{text[: _MAX_CELL_CHARS - 1]}…"


CRITERIA: dict[Module, str] = {
    "know": "yes if a model that says it knows has the right answer, or one that says no cannot have it",
    "relevance": "yes if the passage is called relevant and helps to answer the question, or irrelevant and does not",
    "decompose": "yes if every sub-question is in keeping with what the question asks",
}

_GIVEN = ("data", "module", "question", "shown", "decided")
_COLUMNS = ("item", *_GIVEN, "criterion", "rating", "note", "check")
_SEPARATORS = (",", ";", "\t")  # spreadsheets use one of these, depending on their language
_RATINGS = {
    **dict.fromkeys(("yes", "y", "1", "1.0", "true"), True),
    **dict.fromkeys(("no", "n", "0", "0.0", "false"), False),
}
_MAX_PROBLEMS = 20
_FORMULA = "=+\\-@＝＋－＠"
_RISKY = re.compile(rf"'*\s*[{_FORMULA}\x00-\x1f\x7f]")
_INSIDE = re.compile(rf"(?<=[,;\t\r\n\"])('*)(?=[ \u00a0]*[{_FORMULA}])")
_INSIDE_NEUTRAL = re.compile(rf"(?<=[,;\t\r\n\"])'('*)(?=[ \u00a0]*[{_FORMULA}])")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One annotator's sheet; decisions without a rating are in `decisions` only."""

    name: str
    decisions: Mapping[str, RatedDecision]
    ratings: Mapping[str, bool]
    notes: Mapping[str, str]


def neutral(text: str) -> str:
    """Return a cell that no spreadsheet reads as a formula."""
    start = "'" if _RISKY.match(text) else ""
    return _INSIDE.sub(r"'\1", start + text)


def restore(cell: str) -> str:
    """Return the original text of a cell that `neutral` wrote."""
    text = _INSIDE_NEUTRAL.sub(r"\1", cell)
    return text[1:] if text.startswith("'") and _RISKY.match(text) else text


def write_sheet(path: Path, decisions: Iterable[RatedDecision]) -> None:
    """Write a sheet to fill in; an existing file is an error."""
    if path.exists():
        raise InputError(f"{path} exists already, and may hold ratings.", "Choose another --out.")
    text = io.StringIO(newline="")
    rows = csv.writer(text, quoting=csv.QUOTE_ALL)
    rows.writerow(_COLUMNS)
    for decision in decisions:
        texts = [neutral(getattr(decision, column)) for column in _GIVEN]
        check = f"x{'-'.join(_digests(decision))}"
        rows.writerow([decision.key, *texts, CRITERIA[decision.module], "", "", check])
    with file_errors(path, "written", "Choose another --out."):
        atomic_write(path, ["\ufeff", text.getvalue()])  # Excel needs the mark to read UTF-8


def read_sheets(paths: Sequence[Path]) -> list[Sheet]:
    """Read the sheets of several annotators, named by their file or path."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("A sheet was given twice.", "Name each annotator's sheet once.")
    stems = [path.stem for path in paths]
    return [read_sheet(path, path.stem if stems.count(path.stem) == 1 else str(path)) for path in paths]


def read_sheet(path: Path, name: str) -> Sheet:
    """Read a sheet; its first row shows the separator. Errors name the cells."""
    try:
        data = path.read_bytes()
        text = data.decode("utf-16" if data.startswith((b"\xff\xfe", b"\xfe\xff")) else "utf-8-sig")
        separator = max(_SEPARATORS, key=text.partition("\n")[0].count)
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
        header, *records = list(rows) or [[]]
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.", "Give an annotation sheet.") from error
    except UnicodeDecodeError as error:
        cause = f"{path} is not in UTF-8: some letters of it are lost."
        raise InputError(cause, "Save it again, as CSV in UTF-8.") from error
    except csv.Error as error:
        raise InputError(f"{path} is not CSV: {error}.", "Save it again, as CSV in UTF-8.") from error
    reader = _SheetReader(path, header)
    for number, record in enumerate(records, 2):
        if any(cell.strip() for cell in record):
            reader.add(number, record)
    reader.check()
    return Sheet(name, reader.decisions, reader.ratings, reader.notes)


@dataclass(slots=True)
class _SheetReader:
    """Collects the rows of a sheet, and the problems in them."""

    path: Path
    header: Sequence[str]
    decisions: dict[str, RatedDecision] = field(default_factory=dict)
    ratings: dict[str, bool] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    columns: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, title in enumerate(self.header):
            name = title.strip().casefold()
            if name in self.columns:
                self._report(1, place, f"there is a column '{name}' already")
            elif name in _COLUMNS:
                self.columns[name] = place
            elif name:
                self._report(1, place, f"a sheet has no column '{_cut(title)}'")
        missing = [column for column in _COLUMNS if column not in self.columns and column != "criterion"]
        if missing:
            cause = f"{self.path} is not a sheet: it lacks {', '.join(missing)}."
            raise InputError(cause, "Give what hoptree eval annotate wrote.")

    def add(self, row: int, record: Sequence[str]) -> None:
        for place, cell in enumerate(record):
            if cell.strip() and place not in self.columns.values():
                self._report(row, place, f"'{_cut(cell)}' stands in no column")
        cells = {column: record[place] if place < len(record) else "" for column, place in self.columns.items()}
        decision = self._decision(row, cells)
        rating, note = (restore(cells[column]).strip() for column in ("rating", "note"))
        if rating and rating.casefold() not in _RATINGS:
            self._report(row, self.columns["rating"], f"'{_cut(cells['rating'])}' is neither yes nor no")
        elif not rating and note.casefold() in _RATINGS:
            self._report(row, self.columns["note"], f"'{_cut(cells['note'])}' is a rating, and belongs under rating")
        if decision is None:
            return
        if decision.key in self.decisions:
            self._report(row, self.columns["item"], f"{decision.key} has a row already")
            return
        self.decisions[decision.key] = decision
        if rating.casefold() in _RATINGS:
            self.ratings[decision.key] = _RATINGS[rating.casefold()]
        if note:
            self.notes[decision.key] = note

    def _decision(self, row: int, cells: Mapping[str, str]) -> RatedDecision | None:
        """Return the decision of a row; report changed cells instead, if any."""
        texts = {column: restore(cells[column]).replace("\r\n", "\n") for column in _GIVEN}
        key, check, name = cells["item"].strip(), cells["check"].strip(), texts["module"].strip()
        module = next((known for known in MODULES if known == name and key.startswith(f"{known}-")), None)
        expected = check.removeprefix("x").split("-")
        if module is None:
            changed = ["item" if name in MODULES else "module"]
        elif len(expected) != len(_GIVEN):
            changed = ["check"]
        else:
            decision = RatedDecision(key, texts["data"], module, texts["question"], texts["shown"], texts["decided"])
            digests = zip(_GIVEN, _digests(decision), expected, strict=True)
            changed = [column for column, digest, written in digests if digest != written]
            if not changed:
                return decision
        for column in changed:
            self._report(row, self.columns[column], f"'{_cut(cells[column])}' is not what was written there")
        return None

    def _report(self, row: int, place: int, problem: str) -> None:
        title = self.header[place].strip() if place < len(self.header) else ""
        self.problems.append(f"{_letters(place)}{row}{f' ({_cut(title)})' if title else ''}: {problem}")

    def check(self) -> None:
        """Raise all problems as one error, if there are any."""
        if self.problems:
            more = len(self.problems) - _MAX_PROBLEMS
            listed = "; ".join(self.problems[:_MAX_PROBLEMS]) + (f"; and {more:,} more" if more > 0 else "")
            raise InputError(
                f"{self.path} cannot be used as it is. {listed}.",
                "Fix these cells and save it as CSV in UTF-8: fill in only rating (yes, no, or empty) and note.",
            )
        if not self.decisions:
            raise InputError(f"{self.path} holds no decisions.", "Give what hoptree eval annotate wrote.")


def _digests(decision: RatedDecision) -> list[str]:
    """Return a short digest of each text of a row, to detect changes."""
    texts = {column: " ".join(getattr(decision, column).split()) for column in _GIVEN}
    contents = [f"{decision.key}\0{column}\0{text}" for column, text in texts.items()]
    return [hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:4] for content in contents]


def _letters(place: int) -> str:
    """Return a column's letters as in spreadsheets: A to Z, AA and so on."""
    place, letter = divmod(place, 26)
    return (_letters(place - 1) if place else "") + chr(ord("A") + letter)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else f"{text[:39]}…"
