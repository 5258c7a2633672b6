"""`hoptree show`: the trees of a trace file, or of the questions of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hoptree.cli.ask import print_outcome
from hoptree.cli.console import echo, print_json
from hoptree.cli.options import AsJson
from hoptree.core.errors import InputError

if TYPE_CHECKING:
    from hoptree.cli.outcome import Outcome
    from hoptree.engine.events import Event
    from hoptree.engine.result import Result
    from hoptree.evaluation.run_folder import Row


_SHARES = (10, 25, 50, 75, 90)


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """What 10, 25, 50, 75 and 90 % of the values lie below, on the line between the two nearest."""
    ordered = sorted(values)
    found = []
    for share in _SHARES:
        place, rest = divmod((len(ordered) - 1) * share, 100)
        above = ordered[min(place + 1, len(ordered) - 1)]
        found.append(ordered[place] + (above - ordered[place]) * rest / 100)
    return tuple(found)


def told_quantiles(results: Iterable[Result]) -> Iterator[str]:
    """A line for the names that the confidence filter saw, and one for the steps that were sampled."""
    parts = [part for result in results if result.writing for part in result.writing.parts]
    sure = [one.confidence for part in parts for one in part.names if one.dropped_by != "cot"]
    yield from _line("confidence", "name", sure, "--set cut=… drops what lies below")
    apart = [part.said.measured for part in parts if part.said.measure == "spread"]
    yield from _line("U", "step", apart, "--set theta=… looks up what lies above")


def _line(what: str, of: str, values: Iterable[float | None], use: str) -> Iterator[str]:
    known = [value for value in values if value is not None]
    if not known:
        return
    (first, least), *others = zip(_SHARES, quantiles(known), strict=True)
    more = "".join(f", {share} % below {value:.2f}" for share, value in others)
    count = f"{len(known):,} {of}{'' if len(known) == 1 else 's'}"
    yield f"{what} of {count}: {first} % lie below {least:.2f}{more} ({use})"


_NAMED = 5
"""Ids that an error lists."""
_GOLDS = 5
_PAGE = """<!DOCTYPE html>
<html>
<head><meta charset="utf-8"><title>hoptree</title></head>
<body>
{}
</body>
</html>
"""
_SCORES = {"em": "EM", "f1": "F1", "judge": "judge"}


@dataclass(frozen=True, slots=True)
class _Shown:
    """A question's result and its events, with what stands above its tree, and what JSON says of it beyond these."""

    result: Result
    events: Sequence[Event]
    heading: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        from hoptree.cli.outcome import Outcome

        return Outcome.of(self.result, self.events)


def show(
    trace: Annotated[Path, typer.Argument(metavar="PATH", help="A file written by --trace, or the folder of a run.")],
    name: Annotated[
        str, typer.Option("--id", metavar="ID", help="Only the question with this id, or the beginning of it.")
    ] = "",
    svg: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it as a picture.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it as a web page.", show_default=False)
    ] = None,
    golden: Annotated[bool, typer.Option("--golden", help="Print the trees as JSON of TreeQA's paper.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the trees or texts of a trace or a run again, with evidence and verdicts.

    Of a run, the id of each question, its right answers and its scores stand above its tree.

    An answer that evidence struck out stands before the one that took its place: old ⇒ new. A guess that nothing was
    held against is called one, and so is an answer that nothing read for it holds. Where a budget ended, a node tells
    what it had come to so far.

    Of methods that look up what they doubt while they write, it draws the text with its words shaded by doubt: which
    made it search, what it asked and found, what it wrote instead, and what its memory held. Of several questions, the
    quantiles of what MIND's cut and SeaKR's theta are held against stand at the end.

    \b
    hoptree show run.jsonl --svg tree.svg
    hoptree show run.jsonl --html tree.html
    hoptree show runs/taikc --id 5a8b57f2
    """
    found = _of_run(trace, name) if trace.is_dir() else _of_file(trace, name)
    if svg or html:
        from hoptree.cli.render import draw_svg

        drawn = draw_svg([one.outcome for one in found], [one.heading for one in found])
        if svg:
            _write(svg, drawn, "--svg")
        if html:
            _write(html, _PAGE.format(drawn), "--html")
    if golden or as_json:
        from hoptree.methods.treeqa.golden_tree import golden_tree

        told = [golden_tree(one.result) if golden else {**one.more, **one.outcome.as_dict()} for one in found]
        print_json(told if len(told) > 1 else told[0])
        return
    for place, one in enumerate(found):
        if place:
            typer.echo()
        print_outcome(one.outcome, heading=one.heading)
    if len(found) > 1:  # one question is no slice to set a threshold by
        for line in told_quantiles(one.result for one in found):
            echo(f"\n{line}")


def _write(path: Path, picture: str, option: str) -> None:
    try:
        path.write_text(picture, encoding="utf-8")
    except OSError as error:
        cause = f"The picture cannot be written to {path}: {error.strerror}."
        raise InputError(cause, f"Choose another {option}.") from error


def _of_run(folder: Path, name: str) -> list[_Shown]:
    """The questions of a run that have an outcome, each as it was asked last."""
    from hoptree.engine.trace import read_events
    from hoptree.evaluation.run_folder import RUN, TRACES, read_rows

    if not (folder / RUN).exists():
        below = sorted(str(file.parent) for depth in ("*", "*/*") for file in folder.glob(f"{depth}/{RUN}"))
        remedy = f"Name one of those below it: {_few(below)}." if below else "Make one: hoptree run … --out FOLDER"
        raise InputError(f"{folder} holds no run.", remedy)
    rows = {row.id: row for row in read_rows(folder)}
    if not (folder / TRACES).exists() or not rows:
        lack = "no outcome yet" if not rows else "no traces"
        raise InputError(f"The run in {folder} has {lack}.", "Run it: hoptree run … --out FOLDER")
    wanted = {rows[one].trace: rows[one] for one in _named(rows, name, folder)}
    events: dict[str, list[Event]] = {trace: [] for trace in wanted}
    for event in read_events(folder / TRACES):
        if event["run"] in events:
            events[event["run"]].append(event)
    found = [_shown(some, wanted[trace]) for trace, some in events.items() if some]
    if not found:
        raise InputError(f"The run in {folder} has no trace of what was asked for.", "Run it into another folder.")
    return found


def _of_file(path: Path, name: str) -> list[_Shown]:
    """Every question of a trace file, in the order they began."""
    from hoptree.engine.trace import read_traces

    traces = list(read_traces(path))
    if name:
        ids = dict.fromkeys(map(_id, traces))
        wanted = _named(ids, name, path)
        traces = [events for events in traces if _id(events) in wanted]
    return [_shown(events, heading=_id(events) if name or len(traces) > 1 else "") for events in traces]


def _shown(events: list[Event], row: Row | None = None, heading: str = "") -> _Shown:
    from hoptree.engine.result import read_result

    result = read_result(events)
    if row is None:
        return _Shown(result, events, heading)
    more = {"id": row.id, "right_answers": list(row.answers), "scores": row.scores}
    return _Shown(result, events, _heading(row), more)


def _id(events: list[Event]) -> str:
    return next((str(event.get("question_id", "")) for event in events if event["event"] == "start"), "")


def _heading(row: Row) -> str:
    answers = ", ".join(row.answers[:_GOLDS]) + (f" and {len(row.answers) - _GOLDS} more" * (len(row.answers) > _GOLDS))
    right = f"right answer{'s' if len(row.answers) > 1 else ''}: {answers or 'none, there is none'}"
    scores = [
        f"{title} {100 * score:.1f}" for key, title in _SCORES.items() if (score := row.scores.get(key)) is not None
    ]
    return " · ".join((row.id, right, *scores))


def _named(ids: Iterable[str], name: str, path: Path) -> list[str]:
    """The id that is this name, or begins with it; all of them for no name."""
    known = list(ids)
    if not name or name in known:
        return [name] if name else known
    found = [one for one in known if one.startswith(name)]
    if not found:
        raise InputError(f"No question of {path} has an id that begins with '{name}'.", f"There are {_few(known)}.")
    if len(found) > 1:
        raise InputError(
            f"{len(found):,} questions of {path} have an id that begins with '{name}': {_few(found)}.",
            "Give more of the id.",
        )
    return found


def _few(names: list[str]) -> str:
    return ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else "")
