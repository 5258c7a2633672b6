"""The view of a question's trace on the report's page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from sys import intern
from typing import Any

from hoptree.engine.events import Event, NodeSettled, NodeStarted
from hoptree.engine.generation_view import Part, ReadFact, SubQuery, Writing
from hoptree.engine.result import TreeNode, read_result
from hoptree.engine.sentence_view import LEVELS, SentenceView, WordView
from hoptree.engine.trace import Retrieved, read_events
from hoptree.evaluation.report.measures import Run
from hoptree.evaluation.run_folder import TRACES, by_question

MAX_PASSAGE_CHARS = 1_500
_MAX_CHARS = 2_000
_MAX_REASON_CHARS = 800
_MAX_NAME_CHARS = 300
_MAX_LABEL_CHARS = 40
_MAX_DEPTH = 40
_MAX_FACTS = 20  # of a node, and of each of its validations
_MAX_PARTS, _MAX_WORDS, _MAX_LISTED = 80, 500, 20  # sentences, words of one, and its facts, names or samples

PassageText = tuple[str, str, str]  # id, title and text


def cut(value: object, chars: int = _MAX_CHARS) -> str:
    text = str(value)
    return text if len(text) <= chars else f"{text[:chars]}…"


def _label(text: object) -> str:
    return cut(text, _MAX_LABEL_CHARS)


def _names(texts: Iterable[object]) -> list[str]:
    return [cut(text, _MAX_NAME_CHARS) for text in texts]


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _filled(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that are not empty."""
    return {name: value for name, value in values.items() if value not in ("", [], {}, None, False)}


def view_writing(writing: Writing) -> dict[str, Any]:
    """Return a generated text in the form of the page's script.

    A word is a list: its text, its level of doubt, a mark (1: in doubt, 2: does not count, else 0), and then entropy,
    share of attention and score, or only its probability. Texts between words are plain strings.
    """
    return _filled(
        {
            "levels": list(LEVELS) if writing.told_by else [],
            "toldBy": writing.told_by,
            "explained": writing.explained,
            "names": _names(writing.extracted[:_MAX_LISTED]),
            "first": [_view_query(query) for query in writing.first],
            "parts": [_view_part(part) for part in writing.parts[:_MAX_PARTS]],
            "more": max(0, len(writing.parts) - _MAX_PARTS),
            "facts": [_view_fact(fact) for fact in writing.facts[:_MAX_LISTED]],
            "conflicts": [[_names(fact) for fact in group] for group in writing.conflicts[:_MAX_LISTED]],
            "missing": [_label(name) for name in writing.missing],
            "stopped": _label(writing.stopped),
            "asked": writing.asked_for_answer,
            "answers": [[_label(way), cut(text, _MAX_NAME_CHARS), _round(left)] for way, text, left in writing.answers],
            "taken": _label(writing.taken),
        }
    )


def _view_part(part: Part) -> dict[str, Any]:
    sentence, again = part.said, part.again
    return _filled(
        {
            "said": _view_sentence(sentence),
            "compared": sentence.compared,
            "doubted": sentence.triggered,
            "samples": _names(sentence.samples[:_MAX_LISTED]) if sentence.triggered else [],
            "names": [
                [cut(name.name, _MAX_NAME_CHARS), _label(name.kind), _round(name.confidence), _label(name.dropped_by)]
                for name in part.names[: 2 * _MAX_LISTED]
            ],
            "queries": [_view_query(query) for query in part.queries],
            "skipped": _view_fact(part.skipped) if part.skipped is not None else {},
            "facts": [_view_fact(fact) for fact in part.facts[:_MAX_LISTED]],
            "shown": _names(part.shown[:_MAX_LISTED]),
            "tried": [[cut(name, _MAX_NAME_CHARS), _round(left)] for name, left in part.tried[:_MAX_LISTED]],
            "leftOut": _names(part.left_out[:_MAX_LISTED]),
            "again": _view_sentence(again) if again is not None else [],
            "againCompared": again.compared if again is not None else "",
            "replaced": part.replaced,
            "lost": part.kept is False,
            "outcome": part.outcome,
        }
    )


def _view_sentence(sentence: SentenceView) -> list[str | list[Any]]:
    pieces: list[str | list[Any]] = []
    for text, word in sentence.pieces:
        if len(pieces) >= _MAX_WORDS:
            return [*pieces, " …"]
        pieces.append(cut(text, _MAX_NAME_CHARS) if word is None else _view_word(text, word))
    return pieces


def _view_word(text: str, word: WordView) -> list[Any]:
    mark = 1 if word.hit else 0 if word.content else 2
    numbers: list[float | None] = [] if word.probability is None else [word.probability]
    if word.entropy is not None:
        numbers = [word.entropy, word.attention, word.score]
    return [cut(text, _MAX_NAME_CHARS), word.level, mark, *map(_round, numbers)]


def _view_query(query: SubQuery) -> dict[str, Any]:
    """Return a query; `search` is the index of its search, absent if it was not made."""
    place = {} if query.search is None else {"search": query.search}
    return {"query": cut(query.query, _MAX_NAME_CHARS), **_filled({"repeated": query.repeated}), **place}


def _view_fact(fact: ReadFact) -> dict[str, Any]:
    texts = {name: cut(getattr(fact, name), _MAX_NAME_CHARS) for name in ("passage", "title", "sentence")}
    known = {"fact": _names(fact.fact), "confidence": _round(fact.confidence), **texts}
    return _filled({**known, "outcome": _label(fact.outcome), "turn": fact.turn})


@dataclass(frozen=True, slots=True)
class TraceView:
    """The view of a trace; the page replaces its passages by their indices."""

    tree: list[dict[str, Any]]
    searches: list[tuple[str, int | None, list[PassageText]]]
    chains: list[str]
    warnings: list[str]
    why: str = ""
    writing: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunTraces:
    """The traces of a run by question id, and counts of attempts at sub-questions."""

    views: dict[str, TraceView] = field(default_factory=dict)
    attempts: Counter[int] = field(default_factory=Counter)


def read_run_traces(run: Run) -> RunTraces:
    """Return the traces of all outcomes of a run; empty without a trace file."""
    path = run.folder / TRACES
    traces = RunTraces()
    if not path.exists() or not path.stat().st_size:
        return traces
    ids = {row.trace: row.id for row in run.rows}
    for events in by_question(event for event in read_events(path) if event.run in ids):
        traces.views[ids[events[0].run]] = _view_trace(events)
        for event in events:
            if isinstance(event, NodeSettled) and event.state == "answered":
                attempts = event.details.get("iterations")
                traces.attempts.update([attempts] if isinstance(attempts, int) else [])
    return traces


def _view_trace(events: Sequence[Event]) -> TraceView:
    result = read_result(events)  # also checks the events
    searches = []
    for event in events:
        if isinstance(event, Retrieved):
            passages = [
                (
                    intern(str(passage["id"])),
                    intern(cut(passage["title"], _MAX_NAME_CHARS)),
                    intern(cut(passage["text"], MAX_PASSAGE_CHARS)),
                )
                for passage in event.passages
            ]
            where = event.where if isinstance(event.where, dict) else {}
            only = ", ".join(f"{name}: {value}" for name, value in where.items())  # if not among all passages
            query = cut(event.query) + (f" ({cut(only, _MAX_NAME_CHARS)})" if only else "")
            searches.append((query, event.node if isinstance(event.node, int) else None, passages))
    records: dict[int, NodeSettled | None] = {}
    for event in events:
        if isinstance(event, NodeStarted | NodeSettled):
            records[event.id] = event if isinstance(event, NodeSettled) else None
    return TraceView(
        tree=[_view_node(node, records, _MAX_DEPTH) for node in result.tree],
        searches=searches,
        chains=[cut(chain) for chain in result.chains],
        warnings=[cut(warning) for warning in result.warnings],
        why=cut(result.why, _MAX_REASON_CHARS) if result.answer else "",
        writing=view_writing(result.writing) if result.writing else {},
    )


def _view_node(node: TreeNode, records: Mapping[int, NodeSettled | None], depth_left: int) -> dict[str, Any]:
    record = records.get(node.id)
    details = record.details if record else {}
    return {
        "id": node.id,
        "question": cut(node.question),
        "asked": cut(node.resolved or node.question),
        "answer": cut(node.answer),
        "source": _label(node.source),
        "state": _label(node.state),
        "attempts": details.get("iterations"),
        "evidence": [str(name) for name in node.evidence],
        **_view_reasons(node, record.know if record else None, details),
        **_view_validation(node, details),
        "children": [_view_node(child, records, depth_left - 1) for child in node.children] if depth_left else [],
    }


def _view_reasons(node: TreeNode, knows: bool | None, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the module that answered and the model's judgements that led to it."""
    reasons: dict[str, Any] = {"why": cut(node.why, _MAX_REASON_CHARS), "module": _label(node.branch)}
    if isinstance(knows, bool):
        reasons["knows"] = knows
    if isinstance(judged := details.get("relevance"), list):
        pairs = [pair for pair in judged if isinstance(pair, list) and len(pair) == 2]
        reasons["judged"] = {str(name): bool(verdict) for name, verdict in pairs}
    return {name: value for name, value in reasons.items() if value != ""}


def _view_validation(node: TreeNode, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict on a hypothesis, its attempts, and what it cites."""
    validation: dict[str, Any] = {
        "verdict": _label(node.verdict),
        "struck": [cut(text) for text in node.struck],
        "draft": cut(node.hypothesis) if node.id == 0 else "",
        "facts": [_names(fact) for fact in node.facts[:_MAX_FACTS]],
        "tries": [_view_attempt(attempt) for attempt in _listed(details, "attempts") if isinstance(attempt, dict)],
        "unfounded": _names(_listed(details, "fabricated")[:_MAX_FACTS]),
    }
    if details.get("rebuilt") is True:
        validation["sizes"] = [details.get(name) for name in ("size_before", "size_after")]
    return {name: value for name, value in validation.items() if value}


def _view_attempt(attempt: Mapping[str, Any]) -> dict[str, Any]:
    facts = _listed(attempt, "facts")
    return {
        "query": cut(attempt.get("query", "")),
        "verdict": _label(attempt.get("verdict", "")),
        "reason": cut(attempt.get("reason", "")),
        "passages": len(_listed(attempt, "passages")),
        "found": len(facts),
        "facts": _names(facts[:_MAX_FACTS]),
    }


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    items = record.get(name)
    return items if isinstance(items, list) else []
