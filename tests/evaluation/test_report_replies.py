"""The table of replies that could not be read and calls that were remembered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.doubting_runs import doubting_run, understood
from tests.evaluation.hypothesis_runs import Asked, llm
from tests.evaluation.report_runs import HOSTILE, cells, table

from hoptree.evaluation.report import measures as run_traces
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page
from hoptree.evaluation.report.run_tables import replies_of
from hoptree.evaluation.report.tables import Number, Table, as_csv, as_latex, as_markdown
from hoptree.evaluation.run_folder import TRACES

TITLE = "hand: replies that could not be read and calls that were remembered"


def called(step: str, *, cached: bool = False) -> dict[str, Any]:
    return llm(step, 10) | {"cached": cached}


def made(folder: Path, name: str, *events: list[dict[str, Any]]) -> Path:
    """A run with one question for each list of events."""
    asked = [Asked(f"q{number}", "Rome", events=some) for number, some in enumerate(events)]
    return doubting_run(folder, name, asked, {})


def shown(folder: Path) -> Table:
    return table(tables_of(read_groups([folder])), TITLE)


def value(cell: Any) -> float:
    assert isinstance(cell, Number)
    return round(cell.value, 2)


def test_replies_and_calls_of_all_questions_are_counted(tmp_path: Path) -> None:
    first = [called("plan"), understood(True, "plan"), called("judge"), understood(False, "judge"), called("read")]
    second = [called("plan", cached=True), *(understood(ok, "judge") for ok in (True, False, True))]
    made(tmp_path, "both", first, second)
    found = cells(shown(tmp_path), "both")
    assert value(found["Calls"]) == 2
    assert value(found["Replies parsed"]) == 5, "a call can bring several, or none"
    assert value(found["Unread, %"]) == 40
    assert found["Step with most unread"] == "judge"
    assert found["Unread of that step, %"].text == "50.0 (2 of 4)"
    assert found["Calls remembered, %"].text == "25.0 (1 of 4)"


def test_what_could_be_read_only_when_mended_is_told_beside_what_could_not(tmp_path: Path) -> None:
    mended = [understood(ok, "plan") | {"repairs": repairs} for ok, repairs in ((True, ["closed"]), (False, ["cut"]))]
    made(tmp_path, "run", [*mended, understood(True, "plan"), understood(True, "read")])
    found = cells(shown(tmp_path), "run")
    assert (found["Unread, %"].text, found["Mended, %"].text) == ("25.0 (1 of 4)", "25.0 (1 of 4)")


@pytest.mark.parametrize(
    ("replies_of_steps", "step"),
    [
        ({"often": [False] * 3 + [True] * 7, "rare": [False] * 2}, "often"),
        ({"a": [False, False, True, True], "b": [False, False, True]}, "b"),
        ({"b": [False], "a": [False]}, "a"),
    ],
)
def test_the_step_is_that_with_the_most_and_then_the_highest_share(
    tmp_path: Path, replies_of_steps: dict[str, list[bool]], step: str
) -> None:
    made(tmp_path, "run", [understood(ok, name) for name, some in replies_of_steps.items() for ok in some])
    assert cells(shown(tmp_path), "run")["Step with most unread"] == step


def test_where_every_reply_was_read_no_step_is_named(tmp_path: Path) -> None:
    made(tmp_path, "run", [called("plan"), understood(True, "plan")])
    found = cells(shown(tmp_path), "run")
    assert value(found["Unread, %"]) == 0 and found["Step with most unread"] == "none"
    assert found["Unread of that step, %"] is None


def test_what_is_not_known_is_not_zero(tmp_path: Path) -> None:
    """A run without traces still tells its calls, and one that parses nothing also what the cache answered."""
    (made(tmp_path, "bare", [called("read"), understood(False, "read")]) / TRACES).unlink()
    made(tmp_path, "direct", [called("direct", cached=True)])
    bare, direct = (cells(shown(tmp_path), name) for name in ("bare", "direct"))
    assert value(bare.pop("Calls")) == 1 and set(bare.values()) == {None}
    assert value(direct.pop("Calls")) == 1 and value(direct.pop("Calls remembered, %")) == 100
    assert set(direct.values()) == {None}


def test_an_attempt_without_an_outcome_does_not_count(tmp_path: Path) -> None:
    out = made(tmp_path, "run", [called("plan"), understood(True, "plan")])
    with (out / TRACES).open("a", encoding="utf-8") as file:
        for event in (called("plan", cached=True), understood(False, "plan")):
            file.write(json.dumps({"run": "given up", "t": 9.0, **event}) + "\n")
    found = cells(shown(tmp_path), "run")
    assert value(found["Unread, %"]) == 0 and value(found["Calls remembered, %"]) == 0


def test_only_lines_that_can_matter_are_decoded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searches = [{"event": "retrieve", "query": "q", "passages": [{"text": "long"}]}] * 50
    (group,) = read_groups([made(tmp_path, "run", [called("plan"), *searches, understood(True, "plan")])])
    decoded: list[bytes] = []

    class Counting:
        @staticmethod
        def loads(line: bytes) -> Any:
            decoded.append(line)
            return json.loads(line)

    monkeypatch.setattr(run_traces, "json", Counting)
    assert replies_of(group.runs[0]).calls == 1
    assert len(decoded) == 3, "the call, the parse and the final event"


def test_a_trace_that_has_grown_is_read_again(tmp_path: Path) -> None:
    out = made(tmp_path, "run", [understood(True, "plan")])
    (group,) = read_groups([out])
    assert replies_of(group.runs[0]).parsed.total() == 1
    with (out / TRACES).open("a", encoding="utf-8") as file:
        file.write(json.dumps({"run": "t-q0", "t": 9.0, **understood(False, "plan")}) + "\n")
    assert replies_of(group.runs[0]).unread["plan"] == 1


def test_counting_leaves_what_was_read_as_it_was(tmp_path: Path) -> None:
    (group,) = read_groups([made(tmp_path, "run", [called("a"), understood(False, "a")], [understood(True, "a")])])
    counts = [replies_of(group.runs[0]).parsed.total() for _ in range(3)]
    assert counts == [2, 2, 2], "what is kept from one table to the next does not grow"


def test_every_form_holds_the_table_and_none_carries_out_a_step(tmp_path: Path) -> None:
    made(tmp_path, "run", [understood(False, HOSTILE)])
    groups = read_groups([tmp_path])
    tables = [shown(tmp_path)]
    assert TITLE in make_page(groups) and "<img src=x" not in make_page(groups)
    assert TITLE in as_csv(tables) and TITLE in as_latex(tables)
    assert TITLE in as_markdown(tables) and "<img" not in as_markdown(tables)


DAMAGED: list[dict[str, Any]] = [
    {"event": "parse", "ok": True},
    {"event": "parse", "step": 5, "ok": True},
    {"event": "parse", "step": ["plan"], "ok": True},
    {"event": ["parse"], "step": "plan", "ok": True},
    {"event": "other", "step": "parse", "kind": "llm"},
]


def test_damaged_records_are_passed_over(tmp_path: Path) -> None:
    out = made(
        tmp_path, "run", [called("plan") | {"cached": "yes"}, {"event": "parse", "step": "plan", "ok": "yes"}, *DAMAGED]
    )
    with (out / TRACES).open("ab") as file:
        file.write(b'["parse"]\n"llm"\n\xff"parse"\n{"event": "llm", "cached": true}\n')
        file.write(b'{"event": "parse", "run": 5, "step": "x"}\n{"event": "llm", "st')
    (group,) = read_groups([out])
    found = replies_of(group.runs[0])
    assert (found.calls, found.remembered) == (1, 0), "only true is remembered"
    assert dict(found.parsed) == dict(found.unread) == {"plan": 1}, "a reply that is not said to be read was not"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.tuples(st.sampled_from(["parse", "node"]), json_values, json_values), max_size=5))
def test_no_record_breaks_the_table(tmp_path_factory: pytest.TempPathFactory, told: list[tuple[str, Any, Any]]) -> None:
    folder = tmp_path_factory.mktemp("runs")
    made(folder, "any", [{"event": kind, "step": step, "ok": ok, "cached": ok} for kind, step, ok in told])
    (group,) = read_groups([folder])
    found = replies_of(group.runs[0])
    assert found.unread <= found.parsed
    assert cells(shown(folder), "any")
