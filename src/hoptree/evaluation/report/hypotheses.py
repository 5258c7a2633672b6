"""What became of the hypotheses of every question, read from a run's traces (TreeQA, Tables 5 to 7 and Figure 6).

A method takes part if its plans tell a hypothesis for every node.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.errors import InputError
from hoptree.evaluation.report.runs import Run
from hoptree.evaluation.run_folder import TRACES

__all__ = ["STAGES", "Checked", "HypothesisTree", "Spent", "corrects", "trees_of"]

_STAGE_OF = {
    **dict.fromkeys(("build", "expand", "direct"), "build"),
    **dict.fromkeys(("mentions", "entities", "relations"), "linking"),
    **dict.fromkeys(("validate", "reason"), "validation"),
    "final": "final",
    "clue": "clue",
    "rebuild": "rebuild",
}
_CONCLUDES, _OTHER, _LOOKED_UP = "final", "other", "retrieval"
STAGES = ("build", "linking", _LOOKED_UP, "validation", "clue", "rebuild", "final", _OTHER)
"""In the order they come in; retrieval asks no model, and what a method does beyond the paper is other."""
_OF_SOURCES = frozenset({"retrieve", "facts", "entities"})
_MARKS = tuple(f'"{name}"'.encode() for name in ("plan", "node", "llm", "final", *sorted(_OF_SOURCES)))
_LETTERS = 40

PassageWords = tuple[str, str]
"""Title and text."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What was spent on something: calls of a model with their tokens, look-ups, and the seconds all these took."""

    calls: int = 0
    tokens: int = 0
    look_ups: int = 0
    seconds: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.calls + other.calls,
            self.tokens + other.tokens,
            self.look_ups + other.look_ups,
            self.seconds + other.seconds,
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """A node as it was left: `path` are the ids from the question, 0, down to it; `attempts` its validations."""

    id: int
    question: str
    hypothesis: str
    verdict: str
    struck: tuple[str, ...]
    path: tuple[int, ...]
    attempts: int
    clues: int
    rebuilt: bool


@dataclass(frozen=True, slots=True)
class HypothesisTree:
    """One question: its nodes in the end, every text a node ever had, what they were shown, and what each stage took.

    `planned` are the questions and hypotheses of all nodes below the question itself, also of those that were replaced;
    a question that failed before it had a tree has none. `passages` and `facts` are what hypotheses were held against,
    and what was found for the question itself. `updates` are rebuilt sub-trees. `begun` says that something was to be
    validated, whether or not a budget ended that before there was any verdict.
    """

    nodes: tuple[Checked, ...]
    planned: tuple[str, ...]
    passages: Mapping[str, PassageWords]
    facts: tuple[str, ...]
    updates: int
    stages: Mapping[str, Spent] = field(default_factory=dict)
    begun: bool = False


def trees_of(run: Run) -> dict[str, HypothesisTree]:
    """By question id; empty for a method without hypotheses, and for a run without traces."""
    path = run.folder / TRACES
    try:
        known = path.stat()
    except OSError:
        return {}
    found = _read(path, known.st_size, known.st_mtime_ns)
    return {row.id: found[row.trace] for row in run.rows if row.trace in found}


def corrects(trees: Mapping[str, HypothesisTree]) -> bool:
    """Whether hypotheses were held against anything, or were about to be; without self-correction none is."""
    return any(tree.nodes or tree.begun for tree in trees.values())


@lru_cache(64)
def _read(path: Path, size: int, changed: int) -> Mapping[str, HypothesisTree]:
    """By trace; the tables of one report ask for it again."""
    under_way: dict[str, list[dict[str, Any]]] = {}
    found: dict[str, HypothesisTree] = {}
    shelf: dict[PassageWords, PassageWords] = {}
    try:
        if not _guesses(path):
            return {}
        for event in _events(path):
            under_way.setdefault(event["run"], []).append(event)
            if event["event"] == "final":
                _put(found, under_way.pop(event["run"]), shelf)
    except OSError as error:
        raise InputError(f"The trace {path} cannot be read: {error.strerror}.", "Make it readable.") from error
    for events in under_way.values():
        _put(found, events, shelf)
    return found


def _guesses(path: Path) -> bool:
    """Whether the first plan of the file tells hypotheses; of a large file, little is taken apart for that."""
    for event in _events(path, (b'"plan"',)):
        if event["event"] == "plan":
            nodes = event.get("nodes")
            return isinstance(nodes, list) and any(isinstance(one, dict) and "hypothesis" in one for one in nodes)
    return False


def _events(path: Path, marks: Iterable[bytes] = _MARKS) -> Iterator[dict[str, Any]]:
    with path.open("rb") as lines:
        for line in lines:
            if not any(mark in line for mark in marks):
                continue
            try:
                event = json.loads(line)
                if isinstance(event["event"], str) and isinstance(event["run"], str):
                    yield event
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # cut off by a kill, or no event: whoever reads the whole trace says so


def _put(
    found: dict[str, HypothesisTree], events: Sequence[dict[str, Any]], shelf: dict[PassageWords, PassageWords]
) -> None:
    """Add the tree of a question, unless its records are none."""
    with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
        found[events[0]["run"]] = _tree(events, shelf)


def _tree(events: Sequence[dict[str, Any]], shelf: dict[PassageWords, PassageWords]) -> HypothesisTree:
    nodes = tuple(_checked(event) for event in _left(events))
    ended = {event["id"]: event for event in events if event["event"] == "node" and event.get("state") != "asking"}
    counted = ended.get(0, {}).get("fixes")
    return HypothesisTree(
        nodes,
        tuple(dict.fromkeys(_planned(events, nodes))),
        _passages(events, ended, shelf),
        tuple(dict.fromkeys(_facts(events, ended))),
        counted if type(counted) is int else sum(node.rebuilt for node in nodes),
        _stages(events),
        any(event["event"] == "node" and event["id"] != 0 for event in events),
    )


def _left(events: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The records with a verdict of the nodes that are in the tree in the end, the last one of each."""
    parents: dict[int, int | None] = {}
    records: dict[int, Mapping[str, Any]] = {}
    for event in events:
        if event["event"] == "plan":
            if event.get("under") is None:
                parents, records = {}, {}
            elif event.get("rebuilt"):
                gone = {node for node in parents if event["under"] in _above(node, parents)}
                records = {node: record for node, record in records.items() if node not in gone}
                parents = {node: parent for node, parent in parents.items() if node not in gone}
            parents |= {node["id"]: node["parent"] for node in event["nodes"]}
        elif event["event"] == "node" and isinstance(event.get("verdict"), str):
            records[event["id"]] = event
    return [record for node, record in records.items() if node in parents]


def _above(node: int, parents: Mapping[int, int | None]) -> set[int]:
    """The nodes that a node hangs below; a trace that was tampered with may run in circles."""
    found: set[int] = set()
    above = parents.get(node)
    while above is not None and above not in found:
        found.add(above)
        above = parents.get(above)
    return found


def _checked(event: Mapping[str, Any]) -> Checked:
    return Checked(
        int(event["id"]),
        str(event.get("question", "")),
        str(event.get("hypothesis", "")),
        event["verdict"][:_LETTERS],
        tuple(map(str, event.get("struck", ()))),
        tuple(map(int, event.get("path", ()))),
        len(event.get("attempts", ())),
        len(event.get("clues", ())),
        event.get("rebuilt") is True,
    )


def _planned(events: Iterable[Mapping[str, Any]], nodes: Iterable[Checked]) -> Iterator[str]:
    for event in events:
        if event["event"] == "plan":
            for node in event["nodes"]:
                if node["id"] != 0:
                    yield from (str(node.get("question", "")), str(node.get("hypothesis", "")))
    for checked in nodes:
        yield from (checked.question, checked.hypothesis)


def _attempts(ended: Mapping[int, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for record in ended.values():
        yield from record.get("attempts", ())


def _read_whole(event: Mapping[str, Any], ended: Mapping[int, Mapping[str, Any]]) -> bool:
    """Whether all that a look-up found counts as shown: for the question itself, or a node that tells no attempts."""
    node = event.get("node")
    return node is None or (node in ended and "attempts" not in ended[node])


def _passages(
    events: Iterable[Mapping[str, Any]],
    ended: Mapping[int, Mapping[str, Any]],
    shelf: dict[PassageWords, PassageWords],
) -> dict[str, PassageWords]:
    """What was shown, by ids; each text is kept once, whoever was shown it."""
    wanted = {str(name) for one in _attempts(ended) for name in one.get("passages", ())}
    found: dict[str, PassageWords] = {}
    for event in events:
        if event["event"] == "retrieve":
            whole = _read_whole(event, ended)
            for passage in event["passages"]:
                if whole or str(passage["id"]) in wanted:
                    words = (str(passage["title"]), str(passage["text"]))
                    found[str(passage["id"])] = shelf.setdefault(words, words)
    return found


def _facts(events: Iterable[Mapping[str, Any]], ended: Mapping[int, Mapping[str, Any]]) -> Iterator[str]:
    for one in _attempts(ended):
        yield from map(str, one.get("facts", ()))
    for event in events:
        if event["event"] == "facts" and _read_whole(event, ended):
            yield from map(str, event["facts"])


def _stages(events: Sequence[Mapping[str, Any]]) -> dict[str, Spent]:
    """What each stage took; every call is in one of them.

    The last conclusion is that of the question; those before it are drawn for nodes, which the paper does not do.
    """
    found: dict[str, Spent] = {}
    steps = {place: event["step"] for place, event in enumerate(events) if event["event"] == "llm"}
    last = max((place for place, step in steps.items() if step == _CONCLUDES), default=None)
    for place, event in enumerate(events):
        if place in steps:
            stage = _OTHER if steps[place] == _CONCLUDES and place != last else _STAGE_OF.get(steps[place], _OTHER)
            spent = Spent(1, int(event["prompt_tokens"] + event["completion_tokens"]), 0, float(event["seconds"]))
        elif event["event"] in _OF_SOURCES:
            stage, spent = _LOOKED_UP, Spent(0, 0, 1, float(event["seconds"]))
        else:
            continue
        found[stage] = found.get(stage, Spent()) + spent
    return found
