"""What a page shows of a question's trace: its tree or text, what was searched and found, chains and warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.engine.events import Event
from hoptree.engine.generation_view import Part, ReadFact, SubQuery, Writing
from hoptree.engine.result import TreeNode, read_result
from hoptree.engine.sentence_view import LEVELS, Said, SaidWord
from hoptree.engine.trace import read_events
from hoptree.evaluation.report.measures import Run
from hoptree.evaluation.run_folder import TRACES

_PARTS, _WORDS, _LISTED = 80, 500, 20
"""Sentences of a text, words of a sentence, and facts, names or samples of one of them."""
_DOUBTS_LETTERS = 300

Piece = str | list[str | int | float | None]


def shown_writing(writing: Writing) -> dict[str, Any]:
    """The writing as the page's script reads it; what is empty is left out.

    A word is a list: its text, its level of doubt, 1 if it is in doubt or 2 if it does not count (else 0), and then
    entropy, share of attention and score, or else its probability alone. What stands between words is a plain text.
    """
    return _filled(
        {
            "levels": list(LEVELS) if writing.told_by else [],
            "toldBy": writing.told_by,
            "explained": writing.explained,
            "names": [_cut(name) for name in writing.extracted[:_LISTED]],
            "first": [_doubts_query(query) for query in writing.first],
            "parts": [_part(part) for part in writing.parts[:_PARTS]],
            "more": max(0, len(writing.parts) - _PARTS),
            "facts": [_fact(fact) for fact in writing.facts[:_LISTED]],
            "conflicts": [[[_cut(text) for text in fact] for fact in group] for group in writing.conflicts[:_LISTED]],
            "missing": [_cut(name, 40) for name in writing.missing],
            "stopped": _cut(writing.stopped, 40),
            "asked": writing.asked_for_answer,
            "answers": [[_cut(way, 40), _cut(text), _rounded(left)] for way, text, left in writing.answers],
            "taken": _cut(writing.taken, 40),
        }
    )


def _part(part: Part) -> dict[str, Any]:
    said = part.said
    return _filled(
        {
            "said": _pieces(said),
            "compared": said.compared,
            "doubted": said.triggered,
            "samples": [_cut(sample) for sample in said.samples[:_LISTED]] if said.triggered else [],
            "names": [
                [_cut(one.name), _cut(one.kind, 40), _rounded(one.confidence), _cut(one.dropped_by, 40)]
                for one in part.names[: 2 * _LISTED]
            ],
            "sought": [_cut(name) for name in part.in_doubt[:_LISTED]],
            "queries": [_doubts_query(query) for query in part.queries],
            "skipped": _fact(part.skipped) if part.skipped is not None else {},
            "facts": [_fact(fact) for fact in part.facts[:_LISTED]],
            "shown": [_cut(line) for line in part.shown[:_LISTED]],
            "tried": [[_cut(name), _rounded(left)] for name, left in part.tried[:_LISTED]],
            "leftOut": [_cut(word) for word in part.left_out[:_LISTED]],
            "again": _pieces(part.again) if part.again is not None else [],
            "againCompared": part.again.compared if part.again is not None else "",
            "replaced": part.replaced,
            "lost": part.kept is False,
            "outcome": part.outcome,
        }
    )


def _pieces(said: Said) -> list[Piece]:
    found: list[Piece] = []
    for text, word in said.pieces:
        if len(found) >= _WORDS:
            return [*found, " …"]
        found.append(_cut(text) if word is None else _word(text, word))
    return found


def _word(text: str, word: SaidWord) -> list[str | int | float | None]:
    mark = 1 if word.hit else 0 if word.content else 2
    if word.entropy is not None:
        numbers = [_rounded(word.entropy), _rounded(word.attention), _rounded(word.score)]
    else:
        numbers = [] if word.probability is None else [_rounded(word.probability)]
    return [_cut(text), word.level, mark, *numbers]


def _doubts_query(query: SubQuery) -> dict[str, Any]:
    """`search` is the place of the search among those of the trace; without it, nothing was searched for."""
    told = {"again": query.again, "repeated": query.repeated}
    place = {} if query.search is None else {"search": query.search}
    return {"query": _cut(query.query), **_filled(told), **place}


def _fact(fact: ReadFact) -> dict[str, Any]:
    return _filled(
        {
            "fact": [_cut(text) for text in fact.fact],
            "confidence": _rounded(fact.confidence),
            "passage": _cut(fact.passage),
            "title": _cut(fact.title),
            "sentence": _cut(fact.sentence),
            "outcome": _cut(fact.outcome, 40),
            "turn": fact.turn,
        }
    )


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in ("", [], {}, None, False)}


def _cut(text: str, letters: int = _DOUBTS_LETTERS) -> str:
    return text if len(text) <= letters else f"{text[:letters]}…"


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


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
    record: Mapping[str, Any] = records.get(node.id, {})
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


def _reasons(node: TreeNode, record: Mapping[str, Any]) -> dict[str, Any]:
    """Which module answered, and why: what the model said of its own knowledge, and of the passages."""
    found: dict[str, Any] = {"why": cut(node.why, 800), "module": cut(node.module, 40)}
    if isinstance(record.get("know"), bool):
        found["knows"] = record["know"]
    judged = record.get("relevance")
    if isinstance(judged, list):
        pairs = [pair for pair in judged if isinstance(pair, list) and len(pair) == 2]
        found["judged"] = {str(name): bool(verdict) for name, verdict in pairs}
    return {name: value for name, value in found.items() if value != ""}


def _checked(node: TreeNode, record: Mapping[str, Any]) -> dict[str, Any]:
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
