"""What RA-ISF's three modules decided in a run, each decision as something that can be rated (the paper's Table 5)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hoptree.core.errors import InputError
from hoptree.engine.events import Event
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
    """One judgement or one split: `question` is what the module was asked about, `shown` what it or a rater goes by.

    That is the passage, or what the model said from memory, with the accepted answers of the data set's own question.
    `decided` is one of the words above, or the sub-questions. Equal decisions of one question have one `key`.
    """

    key: str
    data: str
    module: Module
    question: str
    shown: str
    decided: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """The decisions drawn of one run, how many of each module they are, and how many there were."""

    folder: Path
    data: str
    decisions: tuple[Decision, ...]
    drawn: dict[Module, int]
    of: dict[Module, int]


def read_decisions(folder: Path) -> dict[str, list[Decision]]:
    """The decisions of a run by the ids of its questions, in the order they were made; none for other methods."""
    run, rows = read_run(folder), read_rows(folder)
    of_trace = {row.trace: row for row in rows if row.trace}
    waiting: dict[str, list[Event]] = {}
    found: dict[str, list[Decision]] = {}
    if not of_trace:
        return found
    try:
        for event in read_events(folder / TRACES):
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
    """So many decisions of each module, no two of them of one question; fewer where fewer questions have any.

    The paper takes 40 questions of each data set, and its percentages are those of 200 ratings: one a question. A
    question is drawn by its id alone, however many decisions it led to, and then one of these.
    """
    chosen = []
    for module in MODULES:
        having = {name: mine for name, some in found.items() if (mine := [one for one in some if one.module == module])}
        names = sorted(having, key=lambda name: _drawn(seed, f"{module}:{name}"))[:count]
        chosen += [min(having[name], key=lambda one: _drawn(seed, one.key)) for name in names]
    return chosen


def draw_of_runs(folders: Sequence[Path], count: int | None, seed: int) -> list[Drawn]:
    """What is drawn of each of several runs, or all there is where no `count` is given; one run a data set."""
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
    """The events of one question, made into decisions."""

    def __init__(self, run: Mapping[str, object], row: Row, events: Sequence[Event]) -> None:
        self._data, self._row = str(run["data_name"]), row
        self._decided = [event for event in events if event["event"] == "decision"]
        self._asked: dict[int, str] = {}
        self._recalled: dict[int, str] = {}
        self._found: dict[tuple[int, str], tuple[str, str]] = {}
        self._left_out: dict[str, list[str]] = {}
        for event in events:
            self._note(event)

    def _note(self, event: Event) -> None:
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

    def _read(self, event: Event) -> Iterator[Decision]:
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

    def _memory(self, event: Event) -> str:
        """What the model answered from memory, if it was asked, and what would have been right, where that is known."""
        node = event["node"]
        said = event["answer"] or self._recalled.get(node, "")
        parts = [f"From memory: {_line(said)}"] if said else []
        if node == 0:
            parts.append(f"Accepted: {' | '.join(map(_line, self._row.answers[:_ACCEPTED]))}")
        return "\n".join(parts)

    def _passage(self, node: int, name: str) -> str:
        """A passage as the module saw it, and its title: without what gives orders to a model, and cut to length."""
        title, text = (_line(part) for part in self._found[node, name])
        for sentence in self._left_out.get(name, ()):
            title, text = title.replace(sentence, " "), text.replace(sentence, " ")
        text = " ".join(text.split()[:MAX_WORDS])
        return _line(f"{title}: {text}" if title.strip() else text)


def _line(text: str) -> str:
    """The text on one line, without what no spreadsheet keeps."""
    text = " ".join(_CONTROL.sub(" ", text).split())
    return text if len(text) <= _LETTERS else f"{text[: _LETTERS - 1]}…"


def _drawn(seed: int, key: str) -> bytes:
    return hashlib.sha256(f"{seed}:{key}".encode("utf-8", "replace")).digest()
