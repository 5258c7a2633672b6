"""The data of the page's browser: every question with its outcomes in all runs, and as many traces as there is room."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hoptree.evaluation.report.measures import DataGroup, scores_of
from hoptree.evaluation.report.trace_view import PASSAGE_LETTERS, PassageText, RunTraces, Shown, cut
from hoptree.evaluation.run_folder import Row

_GOLDS = 20
_SCORES = ("em", "f1", "contains", "judge", "retrieval_recall")
# What could end the element the data stand in, or begin another one; and what no UTF-8 file can hold.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Room:
    """How many bytes the page may spend on outcomes, and on traces with their passages."""

    outcomes: int = 7_000_000
    traces: int = 11_000_000


def script_json(value: Any) -> str:
    """JSON that can stand in a script element: no text in it can end the element or begin markup."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def browser_data(
    groups: Sequence[DataGroup], traces: Mapping[tuple[int, int], RunTraces], room: Room | None = None
) -> dict[str, Any]:
    """What the page's script reads; `traces` go by the places of a data set and of a run in it.

    Where not all fits, questions that failed or were answered wrongly come first, and `notes` say what is left out.
    """
    room = room or Room()
    asked = [one for place, group in enumerate(groups) for one in _questions(place, group)]
    by_need = sorted(asked, key=lambda one: one.need)
    listed = _that_fit(by_need, room.outcomes)
    shelf = _Shelf()
    full = 0
    for one in listed:
        some = {place: traces[one.set, place].shown.get(one.id) for place in one.rows if (one.set, place) in traces}
        full += shelf.add(one, {place: shown for place, shown in some.items() if shown}, room.traces)
    in_order = set(map(id, listed))
    return {
        "runs": [
            {"set": place, "place": number, "name": run.label, "id": run.id, "progress": run.progress}
            for place, group in enumerate(groups)
            for number, run in enumerate(group.runs)
        ],
        "sets": [group.name for group in groups],
        "questions": [one.data for one in asked if id(one) in in_order],
        "passages": list(shelf.passages),
        "notes": _notes(len(asked), len(listed), full, sum(bool(one.rows) for one in listed), shelf),
    }


@dataclass(slots=True)
class _Asked:
    """A question of a data set with its outcomes, by the place of the run; `need` is lowest for what failed."""

    set: int
    id: str
    rows: dict[int, Row]
    data: dict[str, Any]
    need: int


def _questions(place: int, group: DataGroup) -> Iterable[_Asked]:
    scores = [[scores_of(run, metric) for metric in _SCORES] for run in group.runs]
    rows = [{row.id: row for row in run.rows} for run in group.runs]
    for name in dict.fromkeys(row.id for run in group.runs for row in run.rows):
        outcomes = {number: known[name] for number, known in enumerate(rows) if name in known}
        first = next(iter(outcomes.values()))
        wrong = any(scores[number][0][name] != 1 for number in outcomes)
        data = {
            "set": place,
            "id": name,
            "question": cut(first.question),
            "type": cut(first.type, 60),
            "hops": first.hops,
            "answers": [cut(answer, 300) for answer in first.answers[:_GOLDS]],
            "more": max(0, len(first.answers) - _GOLDS),
            "gold": list(first.gold[:_GOLDS]),
            "outcomes": {
                str(number): _outcome(row, [of[name] for of in scores[number]]) for number, row in outcomes.items()
            },
        }
        failed = any(row.error for row in outcomes.values())
        yield _Asked(place, name, outcomes, data, 0 if failed else 1 if wrong else 2)


def _outcome(row: Row, scores: Sequence[float | None]) -> dict[str, Any]:
    usage = row.usage
    found = {
        "answer": cut(row.answer, 500),
        "scores": [None if score is None else round(score, 3) for score in scores],
        "error": cut(row.error, 80),
        "message": cut(row.error_message, 500),
        "stopped": cut(row.stopped_by, 80),
        "abstained": int(row.abstained),
        "usage": [
            int(usage["llm_calls"]),
            int(usage["prompt_tokens"]),
            int(usage["completion_tokens"]),
            int(usage["retrievals"]),
            round(usage["seconds"], 2),
            usage["cost"],
        ],
    }
    return {name: value for name, value in found.items() if value or name in ("answer", "scores", "usage")}


def _that_fit(asked: Iterable[_Asked], bytes_left: int) -> list[_Asked]:
    found = []
    for one in asked:
        bytes_left -= _size(one.data)
        if bytes_left < 0:
            break
        found.append(one)
    return found


def _size(value: Any) -> int:
    return len(script_json(value).encode())


@dataclass(slots=True)
class _Shelf:
    """The passages of the page, each once, and what traces have taken of its room."""

    passages: dict[PassageText, int] = field(default_factory=dict)
    spent: int = 0
    closed: bool = False

    def add(self, asked: _Asked, shown: Mapping[int, Shown], room: int) -> bool:
        """Put the traces of a question into its outcomes if there is room for all of them."""
        if self.closed or not shown:
            return False
        new = [one for one in dict.fromkeys(_passages(shown.values())) if one not in self.passages]
        self.passages |= {passage: at for at, passage in enumerate(new, len(self.passages))}
        written = {number: self._written(trace) for number, trace in shown.items()}
        self.spent += sum(map(_size, [*written.values(), *new]))
        if self.spent > room:
            self.closed = True
            for passage in new:
                del self.passages[passage]
            return False
        for number, trace in written.items():
            asked.data["outcomes"][str(number)]["trace"] = trace
        return True

    def _written(self, shown: Shown) -> dict[str, Any]:
        places = self.passages
        found: dict[str, Any] = {
            "tree": shown.tree,
            "searches": [
                {"query": query, "node": node, "found": [places[passage] for passage in some]}
                for query, node, some in shown.searches
            ],
            "chains": shown.chains,
            "warnings": shown.warnings,
            "why": shown.why,
            "writing": shown.writing,
        }
        return {name: value for name, value in found.items() if value}


def _passages(traces: Iterable[Shown]) -> Iterable[PassageText]:
    for shown in traces:
        for _, _, found in shown.searches:
            yield from found


def _notes(asked: int, listed: int, full: int, with_rows: int, shelf: _Shelf) -> list[str]:
    notes = []
    if listed < asked:
        notes.append(
            f"The list holds {listed:,} of {asked:,} questions: there was no room for more. Those that failed or were "
            "answered wrongly in some run come first."
        )
    if shelf.closed:
        notes.append(
            f"Trees and passages are here for {full:,} questions of {with_rows:,}, those that failed or were answered "
            "wrongly first; the others are in the runs' folders."
        )
    elif full < with_rows:
        notes.append(f"{with_rows - full:,} questions have no trace in their runs' folders.")
    if any(len(text) > PASSAGE_LETTERS for _, _, text in shelf.passages):
        notes.append(f"Passages are cut after {PASSAGE_LETTERS:,} letters.")
    return notes
