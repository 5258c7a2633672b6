"""What became of the hypotheses of every question, read from a run's traces (TreeQA, Tables 5 to 7 and Figure 6).

A method takes part if its plans tell a hypothesis for every node.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.evaluation.metrics import contains, normalise
from hoptree.evaluation.report.measures import Run
from hoptree.evaluation.run_folder import TRACES, Row

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


_IN_BRACKETS = re.compile(r"(?:\s*\([^()]*\))+\s*$")
_CLOSED = frozenset({"yes", "no"})
"""Answers that no fact is about."""


@dataclass(frozen=True, slots=True)
class GoldFound:
    """The gold pages of a question, by title or, where the data set tells no titles, by passage id."""

    wanted: tuple[str, ...]
    in_text: frozenset[str]
    in_facts: frozenset[str]

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(name for name in self.wanted if name not in self.in_text | self.in_facts)

    def share(self, found: Collection[str] | None = None) -> float:
        """The share of the gold pages that were found, or that are among these."""
        there = self.in_text | self.in_facts if found is None else found
        return len(there) / len(self.wanted)


def plain_name(name: str) -> str:
    """The normal form of a name without what stands in brackets behind it ("Ran (film)")."""
    return normalise(_IN_BRACKETS.sub("", name)) or normalise(name)


@lru_cache(1 << 16)
def sides(fact: str) -> tuple[str, str]:
    """The plain names of what a fact is about and of what it says ("SUBJECT | RELATION | VALUE (QUALIFIERS)")."""
    parts = fact.split(" | ")
    return plain_name(parts[0]), plain_name(parts[-1])


def named(names: Iterable[str], texts: Iterable[str]) -> bool:
    """Whether one of the names stands in one of the texts, as whole words."""
    wanted = [plain_name(name) for name in names]
    return any(contains(text, wanted) for text in texts)


def gold_found(row: Row, tree: HypothesisTree | None) -> GoldFound | None:
    """Which gold pages were shown to a node: a passage with that title, or a fact with that title on one side.

    None where the data set names no gold. Of a question without a tree nothing was shown.
    """
    if row.gold_titles:
        titles = {normalise(title) for title, _ in tree.passages.values()} if tree else set()
        said = _sides_of(tree)
        in_text = frozenset(title for title in row.gold_titles if normalise(title) in titles)
        in_facts = frozenset(title for title in row.gold_titles if plain_name(title) in said)
        return GoldFound(row.gold_titles, in_text, in_facts)
    if row.gold:
        shown = tree.passages.keys() if tree else set[str]()
        return GoldFound(row.gold, frozenset(name for name in row.gold if name in shown), frozenset())
    return None


def answer_shown(row: Row, tree: HypothesisTree) -> bool:
    """Whether an accepted answer stands in a passage or fact that a node was shown, as whole words."""
    texts = [f"{title} {text}" for title, text in tree.passages.values()]
    return any(contains(text, row.answers) for text in (*texts, *tree.facts))


def covered(row: Row, tree: HypothesisTree) -> bool:
    """Whether a fact that a node was shown has a gold title or an accepted answer (but yes and no) on one side."""
    wanted = {plain_name(name) for name in (*row.gold_titles, *row.answers)} - _CLOSED
    return not wanted.isdisjoint(_sides_of(tree))


def _sides_of(tree: HypothesisTree | None) -> set[str]:
    return {side for fact in tree.facts for side in sides(fact)} if tree else set()
