"""`hoptree show`: the trees of a trace file, or of the questions of a run."""

from __future__ import annotations

import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from string import Template
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from typer import Argument, Option

from hoptree.cli.ask import print_result
from hoptree.cli.console import counted, echo, listed, print_json, written
from hoptree.cli.options import AsJson
from hoptree.core.errors import InputError

if TYPE_CHECKING:
    from hoptree.engine.events import Event
    from hoptree.engine.result import Result
    from hoptree.evaluation.run_folder import Row


_MAX_IDS = 5  # that an error lists
_MAX_ANSWERS = 5
_MAKE_RUN = "Make one: hoptree run … --out FOLDER"
_SHARES = (10, 25, 50, 75, 90)
_SCORES = {"em": "EM", "f1": "F1", "judge": "judge"}
_PAGE_FOLDER = Path(__file__).parent.parent / "server" / "page"
_STYLE = re.compile("<style>(.*?)</style>", re.DOTALL)
_IMPORT = re.compile(r'^import \{ ([^}]+) \} from "\./(\w+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export ((?:const|class|(?:async )?function\*?) (\w+))", re.MULTILINE)


class _Shown(NamedTuple):
    """A result with its events, its heading and further JSON fields."""

    result: Result
    events: Sequence[Event]
    heading: str = ""
    more: Mapping[str, Any] = MappingProxyType({})


def show(
    trace: Annotated[Path, Argument(metavar="PATH", help="A file written by --trace, or the folder of a run.")],
    name: Annotated[
        str, Option("--id", metavar="ID", help="Only the question with this id, or the beginning of it.")
    ] = "",
    node: Annotated[
        str, Option(metavar="N", help="All that happened at the sub-question with this number; 0 is the question.")
    ] = "",
    svg: Annotated[Path | None, Option(metavar="FILE", help="Also draw it as a picture.")] = None,
    html: Annotated[Path | None, Option(metavar="FILE", help="Also draw it as a web page.")] = None,
    golden: Annotated[bool, Option("--golden", help="Print the trees as JSON of TreeQA's paper.")] = False,
    as_json: AsJson = False,
) -> None:
    """Draw the trees or texts of a trace or a run again, with evidence and verdicts.

    Above the tree of a question of a run stand its id, its right answers and its scores. An answer that evidence struck
    out stands before its replacement: old ⇒ new. Of methods that look up what they doubt, the text is drawn with its
    words shaded by doubt; of several questions, the quantiles that MIND's cut and SeaKR's theta are set by come last.

    \b
    hoptree show run.jsonl --svg tree.svg
    hoptree show run.jsonl --html tree.html
    hoptree show runs/taikc --id 5a8b57f2
    hoptree show run.jsonl --node 2                 its searches, prompt names, replies, decisions, and its reasons
    """
    shown = _read_run(trace, name) if trace.is_dir() else _read_file(trace, name)
    if svg or html:
        from hoptree.cli.render import draw_svg

        picture = draw_svg([entry.result for entry in shown], [entry.heading for entry in shown])
        for option, path in (("--svg", svg), ("--html", html)):
            if path:
                with written(path, f"Choose another {option}."):
                    path.write_text(picture if path is svg else _web_page(shown, picture), encoding="utf-8")
    if node:
        _show_node(shown, node, trace, as_json=as_json)
        return
    if golden or as_json:
        from hoptree.methods.treeqa.method import golden_tree

        objects = [golden_tree(entry.result) if golden else {**entry.more, **entry.result.as_dict()} for entry in shown]
        print_json(objects if len(objects) > 1 else objects[0])
        return
    for place, entry in enumerate(shown):
        if place:
            echo("")
        print_result(entry.result, entry.heading)
    if len(shown) > 1:  # thresholds need several questions
        for line in _quantile_lines([entry.result for entry in shown]):
            echo(f"\n{line}")


def _show_node(shown: Sequence[_Shown], name: str, path: Path, *, as_json: bool) -> None:
    from hoptree.cli.show_node import NodeRecord

    if len(shown) > 1:
        raise InputError(f"{path} holds {len(shown):,} questions.", "Name one of them: --id ID")
    record = NodeRecord(shown[0].result, shown[0].events, name)
    if as_json:
        print_json(record.as_dict())
    else:
        record.print()


def _web_page(shown: Sequence[_Shown], picture: str) -> str:
    """Return a page with the server's view; without scripts, it shows the drawing."""
    from hoptree.evaluation.report.page import hash_source, script_json
    from hoptree.evaluation.report.tables import escape_html

    style, script = (_PAGE_FOLDER / "style.css").read_text(encoding="utf-8"), _bundled("standalone", {})
    styles = " ".join(map(hash_source, (style, *_STYLE.findall(picture))))
    data = [{"heading": entry.heading, "result": entry.result.as_dict()} for entry in shown]
    template = Template(Path(__file__).with_suffix(".html").read_text(encoding="utf-8"))
    return template.substitute(
        policy=f"default-src 'none'; style-src {styles}; script-src {hash_source(script)}",
        title=escape_html(shown[0].result.question if len(shown) == 1 else f"{len(shown):,} questions"),
        style=style,
        picture=picture,
        data=script_json(data),
        script=script,
    )


def _bundled(name: str, done: dict[str, None]) -> str:
    """Return a module and its imports as one script, each once in its own scope."""
    if name in done:
        return ""
    text = (_PAGE_FOLDER / f"{name}.js").read_text(encoding="utf-8")
    needed = "".join(_bundled(other, done) for _, other in _IMPORT.findall(text))
    done[name] = None
    body = _EXPORT.sub(r"\1", _IMPORT.sub(r"const { \1 } = of_\2;", text))
    names = ", ".join(exported for _, exported in _EXPORT.findall(text))
    return f"{needed}const of_{name} = (() => {{\n{body}\nreturn {{ {names} }};\n}})();\n"


def _read_run(folder: Path, name: str) -> list[_Shown]:
    """Read the finished questions of a run, in their latest attempt."""
    from hoptree.engine.result import read_result
    from hoptree.engine.trace import read_events
    from hoptree.evaluation.run_folder import RUN, TRACES, read_rows

    if not (folder / RUN).exists():
        below = sorted(str(file.parent) for depth in ("*", "*/*") for file in folder.glob(f"{depth}/{RUN}"))
        remedy = f"Name one of those below it: {listed(below, _MAX_IDS)}." if below else _MAKE_RUN
        raise InputError(f"{folder} holds no run.", remedy)
    rows = {row.id: row for row in read_rows(folder)}
    if not (folder / TRACES).exists() or not rows:
        lack = "no outcome yet" if not rows else "no traces"
        raise InputError(f"The run in {folder} has {lack}.", "Run it: hoptree run … --out FOLDER")
    wanted = {rows[identifier].trace: rows[identifier] for identifier in _select(list(rows), name, folder)}
    events: dict[str, list[Event]] = {trace: [] for trace in wanted}
    for event in read_events(folder / TRACES):
        if event.run in events:
            events[event.run].append(event)
    shown = []
    for trace, of_trace in events.items():
        if of_trace:
            row = wanted[trace]
            more = {"id": row.id, "right_answers": list(row.answers), "scores": row.scores}
            shown.append(_Shown(read_result(of_trace), of_trace, _heading(row), more))
    if not shown:
        raise InputError(f"The run in {folder} has no trace of what was asked for.", "Run it into another folder.")
    return shown


def _read_file(path: Path, name: str) -> list[_Shown]:
    """Read every question of a trace file, in the order they began."""
    from hoptree.engine.events import Started
    from hoptree.engine.result import read_result
    from hoptree.engine.trace import read_traces

    traces = [
        (next((event.question_id for event in events if isinstance(event, Started)), ""), events)
        for events in read_traces(path)
    ]
    if name:
        selected = _select(list(dict.fromkeys(identifier for identifier, _ in traces)), name, path)
        traces = [trace for trace in traces if trace[0] in selected]
    headed = name or len(traces) > 1
    return [_Shown(read_result(events), events, identifier if headed else "") for identifier, events in traces]


def _heading(row: Row) -> str:
    answers = listed(row.answers, _MAX_ANSWERS) or "none, there is none"
    scores = [
        f"{title} {100 * score:.1f}" for key, title in _SCORES.items() if (score := row.scores.get(key)) is not None
    ]
    return " · ".join((row.id, f"right answer{'s' if len(row.answers) > 1 else ''}: {answers}", *scores))


def _select(ids: list[str], name: str, path: Path) -> list[str]:
    """Return the one id that is or begins with this name; all ids for no name."""
    if not name or name in ids:
        return [name] if name else ids
    matches = [identifier for identifier in ids if identifier.startswith(name)]
    if not matches:
        cause = f"No question of {path} has an id that begins with '{name}'."
        raise InputError(cause, f"There are {listed(ids, _MAX_IDS)}.")
    if len(matches) > 1:
        raise InputError(
            f"{len(matches):,} questions of {path} have an id that begins with '{name}': {listed(matches, _MAX_IDS)}.",
            "Give more of the id.",
        )
    return matches


def quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """Return the 10, 25, 50, 75 and 90 % quantiles, interpolated."""
    if len(values) == 1:
        return (values[0],) * len(_SHARES)
    cuts = statistics.quantiles(values, n=100, method="inclusive")
    return tuple(cuts[share - 1] for share in _SHARES)


def _quantile_lines(results: Sequence[Result]) -> Iterator[str]:
    """Yield quantile lines of name confidences and sampled steps."""
    parts = [part for result in results if result.writing for part in result.writing.parts]
    confidences = [name.confidence for part in parts for name in part.names if name.dropped_by != "cot"]
    spreads = [part.said.measured for part in parts if part.said.measure == "spread"]
    for what, of, values, use in (
        ("confidence", "name", confidences, "--set cut=… drops what lies below"),
        ("U", "step", spreads, "--set theta=… looks up what lies above"),
    ):
        if known := [value for value in values if value is not None]:
            (first, least), *others = zip(_SHARES, quantiles(known), strict=True)
            more = "".join(f", {share} % below {value:.2f}" for share, value in others)
            yield f"{what} of {counted(len(known), of)}: {first} % lie below {least:.2f}{more} ({use})"
