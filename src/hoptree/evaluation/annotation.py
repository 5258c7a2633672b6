"""Decisions of RA-ISF's modules to rate, and annotation sheets in CSV (Table 5)."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from hoptree.core.errors import InputError
from hoptree.engine.trace import read_events
from hoptree.evaluation.run_folder import TRACES, Row, read_rows, read_run
from hoptree.methods.steps.evidence import MAX_WORDS

Module = Literal["know", "relevance", "decompose"]
MODULES: tuple[Module, ...] = ("know", "relevance", "decompose")
KNOWS, KNOWS_NOT = "knows", "does not know"
RELEVANT, IRRELEVANT = "relevant", "irrelevant"
NOTHING_NEW = "(no new sub-question)"

_EVENTS = frozenset({"node", "decision", "retrieve", "quarantine", "llm", "final"})
_LETTERS = 30_000
"""Letters of a text: spreadsheets keep 32,767 in a cell, and cut off the rest without a word."""
_ACCEPTED = 5
"""Accepted answers that are shown; some questions have thousands."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Decision:
    """One judgement or split to rate.

    `question` is what the module was asked about, `shown` what a rater goes by: the passage, or the model's answer from
    memory, with the accepted answers. `decided` is one of the words above, or the sub-questions. Equal decisions of one
    question have one `key`.
    """

    key: str
    data: str
    module: Module
    question: str
    shown: str
    decided: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """The decisions drawn from one run, how many of each module, and how many there were."""

    folder: Path
    data: str
    decisions: tuple[Decision, ...]
    drawn: dict[Module, int]
    of: dict[Module, int]


def read_decisions(folder: Path) -> dict[str, list[Decision]]:
    """Return the decisions of a run by question id, in order; none for other methods than RA-ISF."""
    run, rows = read_run(folder), read_rows(folder)
    of_trace = {row.trace: row for row in rows if row.trace}
    waiting: dict[str, list[Mapping[str, Any]]] = {}
    found: dict[str, list[Decision]] = {}
    if not of_trace:
        return found
    try:
        for event in (event.as_dict() for event in read_events(folder / TRACES)):
            if event["run"] not in of_trace or event["event"] not in _EVENTS:
                continue
            waiting.setdefault(event["run"], []).append(event)
            if event["event"] == "final":
                row = of_trace[event["run"]]
                found[row.id] = _Reading(run, row, waiting.pop(row.trace)).decisions()
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"The traces of the run in {folder} are damaged: {type(error).__name__}, {error}.",
            "Run it again into another folder.",
        ) from error
    return {row.id: found[row.id] for row in rows if found.get(row.id)}


def draw_decisions(found: Mapping[str, Sequence[Decision]], count: int, seed: int) -> list[Decision]:
    """Draw `count` decisions of each module, at most one a question, as the paper does.

    A question is drawn by its id alone, however many decisions it led to, and then one of these.
    """
    chosen = []
    for module in MODULES:
        having = {name: mine for name, some in found.items() if (mine := [one for one in some if one.module == module])}
        names = sorted(having, key=lambda name: _drawn(seed, f"{module}:{name}"))[:count]
        chosen += [min(having[name], key=lambda one: _drawn(seed, one.key)) for name in names]
    return chosen


def draw_of_runs(folders: Sequence[Path], count: int | None, seed: int) -> list[Drawn]:
    """Draw from several runs, one a data set; without `count` take all decisions."""
    drawn: dict[str, Drawn] = {}
    without = []
    for folder in folders:
        found = read_decisions(folder)
        every = [one for some in found.values() for one in some]
        if not every:
            without.append(str(folder))
            continue
        data = every[0].data
        if data in drawn:
            raise InputError(
                f"Two runs are over {data}: {drawn[data].folder} and {folder}.",
                "Write a sheet for each: a mean over both would be neither's.",
            )
        chosen = every if count is None else draw_decisions(found, count, seed)
        drawn[data] = Drawn(folder, data, tuple(chosen), _counted(chosen), _counted(every))
    if not drawn:
        raise InputError(
            f"There are no decisions of RA-ISF's modules in {', '.join(without)}.",
            "Give a run of it: hoptree run --method ra_isf …",
        )
    return list(drawn.values())


def _counted(decisions: Sequence[Decision]) -> dict[Module, int]:
    return {module: sum(one.module == module for one in decisions) for module in MODULES}


class _Reading:
    """Collects the decisions of one question from its events."""

    def __init__(self, run: Mapping[str, object], row: Row, events: Sequence[Mapping[str, Any]]) -> None:
        self._data, self._row = str(run["data_name"]), row
        self._decided = [event for event in events if event["event"] == "decision"]
        self._asked: dict[int, str] = {}
        self._recalled: dict[int, str] = {}
        self._found: dict[tuple[int, str], tuple[str, str]] = {}
        self._left_out: dict[str, list[str]] = {}
        for event in events:
            self._note(event)

    def _note(self, event: Mapping[str, Any]) -> None:
        kind = event["event"]
        if kind == "node" and event["state"] == "asking":
            self._asked[event["id"]] = event["resolved"]
        elif kind == "retrieve" and "node" in event:
            for passage in event["passages"]:
                self._found[event["node"], passage["id"]] = (passage["title"], passage["text"])
        elif kind == "quarantine":
            self._left_out.setdefault(event["passage"], []).extend(event["sentences"])
        elif kind == "llm" and event["step"] == "direct" and "node" in event:
            self._recalled[event["node"]] = event["reply"]

    def decisions(self) -> list[Decision]:
        return list({one.key: one for event in self._decided for one in self._read(event)}.values())

    def _read(self, event: Mapping[str, Any]) -> Iterator[Decision]:
        kind = event["kind"]
        if kind == "know":
            yield self._made("know", event["node"], self._memory(event), KNOWS if event["value"] else KNOWS_NOT)
        elif kind == "relevance":
            node = event["node"]
            for passage, relevant in event["judged"]:
                yield self._made("relevance", node, self._passage(node, passage), RELEVANT if relevant else IRRELEVANT)
        elif kind == "split":
            listed = [f"{number}. {_line(one)}" for number, one in enumerate(event["questions"], 1)]
            yield self._made("decompose", event["node"], "", "\n".join(listed) or NOTHING_NEW)

    def _made(self, module: Module, node: int, shown: str, decided: str) -> Decision:
        question = _line(self._asked[node])
        said = json.dumps([self._data, self._row.id, module, question, shown, decided])
        # The name in front keeps spreadsheets from reading digits with an e among them as a number.
        key = f"{module}-{hashlib.sha256(said.encode()).hexdigest()[:12]}"
        return Decision(key, _line(self._data), module, question, shown, decided)

    def _memory(self, event: Mapping[str, Any]) -> str:
        """Return the model's answer from memory, if it was asked, and the accepted answers."""
        node = event["node"]
        said = event["answer"] or self._recalled.get(node, "")
        parts = [f"From memory: {_line(said)}"] if said else []
        if node == 0:
            parts.append(f"Accepted: {' | '.join(map(_line, self._row.answers[:_ACCEPTED]))}")
        return "\n".join(parts)

    def _passage(self, node: int, name: str) -> str:
        """Return a passage and its title as the module saw it."""
        title, text = (_line(part) for part in self._found[node, name])
        for sentence in self._left_out.get(name, ()):
            title, text = title.replace(sentence, " "), text.replace(sentence, " ")
        text = " ".join(text.split()[:MAX_WORDS])
        return _line(f"{title}: {text}" if title.strip() else text)


def _line(text: str) -> str:
    """Put a text on one line, without characters that spreadsheets drop."""
    text = " ".join(_CONTROL.sub(" ", text).split())
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _drawn(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "replace")).digest()


CRITERIA: dict[Module, str] = {
    "know": "yes if a model that says it knows has the right answer, or one that says no cannot have it",
    "relevance": "yes if the passage is called relevant and helps to answer the question, or irrelevant and does not",
    "decompose": "yes if every sub-question is in keeping with what the question asks",
}

_GIVEN = ("data", "module", "question", "shown", "decided")
_COLUMNS = ("item", *_GIVEN, "criterion", "rating", "note", "check")
_SEPARATORS = (",", ";", "\t")  # what spreadsheets save with, by their language
_RATINGS = {
    **dict.fromkeys(("yes", "y", "1", "1.0", "true"), True),
    **dict.fromkeys(("no", "n", "0", "0.0", "false"), False),
}
_PROBLEMS = 20
_FORMULA = "=+\\-@＝＋－＠"
_RISKY = re.compile(rf"'*\s*[{_FORMULA}\x00-\x1f\x7f]")
_INSIDE = re.compile(rf"(?<=[,;\t\r\n\"])('*)(?=[ \u00a0]*[{_FORMULA}])")
_INSIDE_NEUTRAL = re.compile(rf"(?<=[,;\t\r\n\"])'('*)(?=[ \u00a0]*[{_FORMULA}])")


@dataclass(frozen=True, slots=True)
class Sheet:
    """One annotator's sheet; unrated decisions are in `decisions` alone."""

    name: str
    decisions: Mapping[str, Decision]
    ratings: Mapping[str, bool]
    notes: Mapping[str, str]


def neutral(text: str) -> str:
    """Return a cell that no spreadsheet takes for a formula."""
    start = "'" if _RISKY.match(text) else ""
    return _INSIDE.sub(r"'\1", start + text)


def undone(cell: str) -> str:
    """Return the text of a neutral cell."""
    text = _INSIDE_NEUTRAL.sub(r"\1", cell)
    return text[1:] if text.startswith("'") and _RISKY.match(text) else text


def write_sheet(path: Path, decisions: Iterable[Decision]) -> None:
    """Write a sheet to fill in; an existing file may hold ratings and is not overwritten."""
    if path.exists():
        raise InputError(f"{path} is there already, and may hold ratings.", "Choose another --out.")
    text = io.StringIO(newline="")
    rows = csv.writer(text, quoting=csv.QUOTE_ALL)
    rows.writerow(_COLUMNS)
    for one in decisions:
        given = (one.data, one.module, one.question, one.shown, one.decided)
        rows.writerow([one.key, *map(neutral, given), CRITERIA[one.module], "", "", _check(one)])
    part = path.with_name(f"{path.name}.part")
    try:
        # With its mark, or Excel reads the letters of UTF-8 as others.
        part.write_bytes(text.getvalue().encode("utf-8-sig"))
        part.replace(path)
    except OSError as error:
        raise InputError(
            f"The sheet cannot be written to {path}: {error.strerror or error}.", "Choose another --out."
        ) from error


def read_sheets(paths: Sequence[Path]) -> list[Sheet]:
    """Read the sheets of several annotators, named by file, or by path where names collide."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError("A sheet was given twice.", "Name each annotator's sheet once.")
    stems = [path.stem for path in paths]
    return [read_sheet(path, path.stem if stems.count(path.stem) == 1 else str(path)) for path in paths]


def read_sheet(path: Path, name: str) -> Sheet:
    """Read a sheet; every cell that cannot be right is reported with its row and column."""
    header, *records = _records(path)
    reading = _SheetReading(path, header)
    for number, record in enumerate(records, 2):
        if any(cell.strip() for cell in record):
            reading.add(number, record)
    return reading.end(name)


@dataclass(slots=True)
class _SheetReading:
    """A sheet while its rows are read."""

    path: Path
    header: Sequence[str]
    decisions: dict[str, Decision] = field(default_factory=dict)
    ratings: dict[str, bool] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    at: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for place, title in enumerate(self.header):
            known = title.strip().casefold()
            if known in self.at:
                self._say(1, place, f"there is a column '{known}' already")
            elif known in _COLUMNS:
                self.at[known] = place
            elif known:
                self._say(1, place, f"a sheet has no column '{_cut(title)}'")
        missing = [column for column in _COLUMNS if column not in self.at and column != "criterion"]
        if missing:
            raise InputError(
                f"{self.path} is no sheet: it lacks {', '.join(missing)}.", "Give what hoptree eval annotate wrote."
            )

    def add(self, row: int, record: Sequence[str]) -> None:
        for place, cell in enumerate(record):
            if cell.strip() and place not in self.at.values():
                self._say(row, place, f"'{_cut(cell)}' stands in no column")
        cells = {column: record[place] if place < len(record) else "" for column, place in self.at.items()}
        texts = {column: undone(cells[column]).replace("\r\n", "\n") for column in _GIVEN}
        decision = self._decision(row, cells, texts)
        rating = self._rating(row, cells)
        if decision is None:
            return
        if decision.key in self.decisions:
            self._say(row, self.at["item"], f"{decision.key} has a row already")
            return
        self.decisions[decision.key] = decision
        if rating is not None:
            self.ratings[decision.key] = rating
        if note := undone(cells["note"]).strip():
            self.notes[decision.key] = note

    def _decision(self, row: int, cells: Mapping[str, str], texts: Mapping[str, str]) -> Decision | None:
        key, check = cells["item"].strip(), cells["check"].strip()
        module = next((one for one in MODULES if one == texts["module"].strip() and key.startswith(f"{one}-")), None)
        if module is None:
            column = "item" if texts["module"].strip() in MODULES else "module"
            self._say(row, self.at[column], f"'{_cut(cells[column])}' is not what was written there")
            return None
        found = Decision(key, texts["data"], module, texts["question"], texts["shown"], texts["decided"])
        written = check.removeprefix("x").split("-")
        if len(written) != len(_GIVEN):
            self._say(row, self.at["check"], f"'{_cut(check)}' is not what was written there")
            return None
        changed = [column for column, mine, was in zip(_GIVEN, _digests(found), written, strict=True) if mine != was]
        for column in changed:
            self._say(row, self.at[column], f"'{_cut(cells[column])}' is not what was written there")
        return None if changed else found

    def _rating(self, row: int, cells: Mapping[str, str]) -> bool | None:
        said = undone(cells["rating"]).strip().casefold()
        if said and said not in _RATINGS:
            self._say(row, self.at["rating"], f"'{_cut(cells['rating'])}' is neither yes nor no")
        elif not said and undone(cells["note"]).strip().casefold() in _RATINGS:
            self._say(row, self.at["note"], f"'{_cut(cells['note'])}' is a rating, and belongs under rating")
        return _RATINGS.get(said)

    def _say(self, row: int, place: int, what: str) -> None:
        title = self.header[place].strip() if place < len(self.header) else ""
        self.problems.append(f"{_letters(place)}{row}{f' ({_cut(title)})' if title else ''}: {what}")

    def end(self, name: str) -> Sheet:
        if self.problems:
            more = len(self.problems) - _PROBLEMS
            told = "; ".join(self.problems[:_PROBLEMS]) + (f"; and {more:,} more" if more > 0 else "")
            raise InputError(
                f"{self.path} cannot be used as it is. {told}.",
                "Mend these cells and save it as CSV in UTF-8: only rating (yes, no, or empty) and note are filled in.",
            )
        if not self.decisions:
            raise InputError(f"{self.path} holds no decisions.", "Give what hoptree eval annotate wrote.")
        return Sheet(name, self.decisions, self.ratings, self.notes)


def _records(path: Path) -> list[list[str]]:
    """Read the rows with the separator of the first one."""
    try:
        data = path.read_bytes()
        utf_16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        text = data.decode("utf-16" if utf_16 else "utf-8-sig")
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}.", "Give an annotation sheet.") from error
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path} is not in UTF-8: some letters of it are lost.", "Save it again, as CSV in UTF-8."
        ) from error
    first = text.partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        records = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except csv.Error as error:
        raise InputError(f"{path} is no CSV: {error}.", "Save it again, as CSV in UTF-8.") from error
    return records or [[]]


def _digests(decision: Decision) -> list[str]:
    """Return a short digest of each text of a row, to detect which was changed."""
    found = []
    for column in _GIVEN:
        text = " ".join(getattr(decision, column).split())
        said = f"{decision.key}\0{column}\0{text}".encode("utf-8", "replace")
        found.append(hashlib.sha256(said).hexdigest()[:4])
    return found


def _check(decision: Decision) -> str:
    return "x" + "-".join(_digests(decision))


def _letters(place: int) -> str:
    """Return a column's letters as spreadsheets count: A to Z, AA and so on."""
    place, letter = divmod(place, 26)
    return (_letters(place - 1) if place else "") + chr(ord("A") + letter)


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 40 else f"{text[:39]}…"
