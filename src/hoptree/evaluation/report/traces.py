"""What a page shows of a question's trace: its tree or text, what was searched and found, chains and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.evaluation.report.doubts import shown_writing
from hoptree.evaluation.report.runs import Run
from hoptree.evaluation.run_folder import TRACES
from hoptree.runtime.result import TreeNode, read_result
from hoptree.runtime.trace import Event, read_events

__all__ = ["PASSAGE_LETTERS", "PassageText", "RunTraces", "Shown", "cut", "read_run_traces"]

PASSAGE_LETTERS = 1_500
_LETTERS = 2_000
"""Of anything else that a model or a data set wrote."""
_DEEPEST = 40
_FACTS = 20
"""Facts of a node, and of each of its validations."""

PassageText = tuple[str, str, str]
"""Id, title and text."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A trace, ready to be written; passages are in it by their text, which the page holds once."""

    tree: list[dict[str, Any]]
    searches: list[tuple[str, int | None, list[PassageText]]]
    chains: list[str]
    warnings: list[str]
    why: str = ""
    writing: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class RunTraces:
    """The traces of a run by question id, and how many of its sub-questions took one attempt, two, and so on."""

    shown: dict[str, Shown] = field(default_factory=dict)
    iterations: Counter[int] = field(default_factory=Counter)


def cut(said: object, letters: int = _LETTERS) -> str:
    text = str(said)
    return text if len(text) <= letters else f"{text[:letters]}…"


def read_run_traces(run: Run) -> RunTraces:
    """The traces of all outcomes of a run; none where it has no trace file."""
    path = run.folder / TRACES
    found = RunTraces()
    if not path.exists() or not path.stat().st_size:
        return found
    wanted = {row.trace: row.id for row in run.rows}
    known: dict[PassageText, PassageText] = {}
    for events in _traces(path, wanted):
        found.shown[wanted[events[0]["run"]]] = _shown(events, known)
        found.iterations.update(_iterations(events))
    return found


def _traces(path: Path, wanted: Mapping[str, str]) -> Iterator[list[Event]]:
    """The events of each of these questions, as soon as it is done: those asked together are mixed in the file."""
    under_way: dict[str, list[Event]] = {name: [] for name in wanted}
    for event in read_events(path):
        events = under_way.get(event["run"])
        if events is None:
            continue
        events.append(event)
        if event["event"] == "final":
            yield under_way.pop(event["run"])
    yield from filter(None, under_way.values())


def _iterations(events: Sequence[Event]) -> Iterable[int]:
    for event in events:
        number = event.get("iterations")
        if event["event"] == "node" and event.get("state") == "answered" and isinstance(number, int):
            yield number


def _shown(events: Sequence[Event], known: dict[PassageText, PassageText]) -> Shown:
    result = read_result(events)  # and so it is certain that the events are what they should be
    searches = []
    for event in events:
        if event["event"] != "retrieve":
            continue
        found = [(str(p["id"]), cut(p["title"], 300), cut(p["text"], PASSAGE_LETTERS)) for p in event["passages"]]
        once = [known.setdefault(passage, passage) for passage in found]
        node = event.get("node")
        searches.append((_query(event), node if isinstance(node, int) else None, once))
    records = {event["id"]: event for event in events if event["event"] == "node"}
    return Shown(
        tree=[_node(node, records, _DEEPEST) for node in result.tree],
        searches=searches,
        chains=[cut(chain) for chain in result.chains],
        warnings=[cut(warning) for warning in result.warnings],
        why=cut(result.why, 800) if result.answer else "",
        writing=shown_writing(result.writing) if result.writing else {},
    )


def _query(event: Event) -> str:
    """What was searched for, and among which passages if not among all."""
    where = event.get("where")
    only = ", ".join(f"{name}: {value}" for name, value in where.items()) if isinstance(where, dict) else ""
    return cut(event.get("query", "")) + (f" ({cut(only, 300)})" if only else "")


def _node(node: TreeNode, records: Mapping[Any, Event], deepest: int) -> dict[str, Any]:
    record = records.get(node.id, {})
    return {
        "id": node.id,
        "question": cut(node.question),
        "asked": cut(node.resolved or node.question),
        "answer": cut(node.answer),
        "source": cut(node.source, 40),
        "state": cut(node.state, 40),
        "attempts": record.get("iterations"),
        "evidence": [str(name) for name in node.evidence],
        **_reasons(node, record),
        **_checked(node, record),
        "children": [_node(child, records, deepest - 1) for child in node.children] if deepest else [],
    }


def _reasons(node: TreeNode, record: Event) -> dict[str, Any]:
    """Which module answered, and why: what the model said of its own knowledge, and of the passages."""
    found: dict[str, Any] = {"why": cut(node.why, 800), "module": cut(node.module, 40)}
    if isinstance(record.get("know"), bool):
        found["knows"] = record["know"]
    judged = record.get("relevance")
    if isinstance(judged, list):
        pairs = [pair for pair in judged if isinstance(pair, list) and len(pair) == 2]
        found["judged"] = {str(name): bool(verdict) for name, verdict in pairs}
    return {name: value for name, value in found.items() if value != ""}


def _checked(node: TreeNode, record: Event) -> dict[str, Any]:
    """What evidence said of a hypothesis: the verdict, what was struck out, what was tried, and what is cited."""
    found: dict[str, Any] = {
        "verdict": cut(node.verdict, 40),
        "struck": [cut(text) for text in node.struck],
        "draft": cut(node.hypothesis) if node.id == 0 else "",
        "facts": [[cut(part, 300) for part in fact] for fact in node.facts[:_FACTS]],
        "tries": [_tried(one) for one in _listed(record, "attempts") if isinstance(one, dict)],
        "unfounded": [cut(text, 300) for text in _listed(record, "fabricated")[:_FACTS]],
    }
    if record.get("rebuilt") is True:
        found["sizes"] = [record.get(name) for name in ("size_before", "size_after")]
    return {name: value for name, value in found.items() if value}


def _tried(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """One validation: what was searched for, what was found, and the verdict."""
    facts = _listed(attempt, "facts")
    return {
        "query": cut(attempt.get("query", "")),
        "verdict": cut(attempt.get("verdict", ""), 40),
        "reason": cut(attempt.get("reason", "")),
        "passages": len(_listed(attempt, "passages")),
        "found": len(facts),
        "facts": [cut(fact, 300) for fact in facts[:_FACTS]],
    }


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    found = record.get(name)
    return found if isinstance(found, list) else []
