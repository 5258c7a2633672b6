"""Results read off traces: tree, evidence, usage, critical path; and traces that were cut off."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from tests.traced import as_dicts, changed, event

from hoptree.core.errors import TraceError
from hoptree.core.values import Passage, Usage
from hoptree.engine.events import Event, Started, Warned
from hoptree.engine.result import read_result
from hoptree.engine.trace import Trace, TraceFile, hit_of, passage_of, read_events, read_traces


def llm(issued: float, t: float, seconds: float | None = None, **fields: Any) -> Event:
    """A call issued and answered at given times; it worked all the while unless `seconds` says otherwise."""
    counts = dict.fromkeys(("prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"), 0)
    worked = t - issued if seconds is None else seconds
    return event("llm", t=t, **{**counts, "cost": 0.0, "cached": False, **fields}, issued=issued, seconds=worked)


def retrieve(issued: float, t: float, *passages: tuple[str, float]) -> Event:
    rows = [{"id": name, "title": name.upper(), "text": f"{name}: A and B", "score": score} for name, score in passages]
    return event("retrieve", t=t, passages=rows, issued=issued, seconds=t - issued)


def planned(number: int, question: str, *refs: int) -> dict[str, Any]:
    return {"id": number, "question": question, "parent": refs[0] if refs else None, "refs": [*refs]}


PAGE = (("page", "3"),)
START = event("start", question="Who?", method="taikc", model="m", fidelity="exact", options={"k": 5})
PLAN = event(
    "plan",
    t=0.1,
    nodes=[
        {"id": 1, "question": "a?", "parent": None, "refs": []},
        {"id": 2, "question": "b #query1?", "parent": 1, "refs": [1]},
        {"id": 3, "question": "c?", "parent": None, "refs": []},
    ],
    issues=[],
)
RUN = [
    START,
    PLAN,
    event("node", t=0.1, id=1, state="asking", resolved="a?"),
    retrieve(0.1, 0.2, ("p1", 1.0), ("p2", 0.5)),
    event("node", t=0.3, id=1, state="answered", answer="A", source="external", evidence=["p2"]),
    event("node", t=0.3, id=2, state="asking", resolved="b A?"),
    retrieve(0.3, 0.4, ("p2", 0.9), ("p3", 0.4)),
    event("node", t=0.5, id=2, state="answered", answer="B", source="external", evidence=["p3", "p2"]),
    event("warning", t=0.5, kind="quarantine", message="careful"),
    event("warning", t=0.5, kind="quarantine", message="careful"),
    event("chain", t=0.6, text="A is B."),
    event("final", t=0.7, answer="B", abstained=False, stopped_by=""),
]


def test_every_number_of_the_sentence_is_that_of_a_passage_of_the_evidence() -> None:
    """Also of one that only a step cites, with its place in its document, as far as the trace has it."""
    first = Passage("a.pdf#page=3#1", "Red Kite", "Red Kite is by Ada Moor.", 2.0, "a.pdf#page=3", 7, 31, (), PAGE)
    second = Passage("b", "Ada Moor", "Ada Moor was born in Skagen.", 1.0)
    events = [
        event("start", question="Where was the director of Red Kite born?", method="hop", model="m", options={}),
        event("plan", nodes=[planned(1, "Who directed Red Kite?"), planned(2, "Where was #query1 born?", 1)]),
        event("retrieve", passages=[hit_of(first), hit_of(second)], issued=0.0, seconds=0.0),
        event("node", id=1, state="answered", answer="Ada Moor", source="external", evidence=[first.id]),
        event("node", id=2, state="answered", answer="Skagen", source="external", evidence=["b"]),
        event("final", answer="Skagen", source="external", support=["b"], abstained=False, stopped_by=""),
    ]
    result = read_result(events)
    assert result.evidence == (second, first) and result.sentence.endswith("[1][2]")
    shown = result.as_dict()
    assert "cited" not in shown and "consulted" not in shown
    place = {"document": "a.pdf#page=3", "start": 7, "end": 31, "metadata": {"page": "3"}}
    assert shown["evidence"][1] == {"id": first.id, "title": first.title, "text": first.text, "score": 2.0} | place
    assert "[2] Red Kite (a.pdf, page 3): " in str(result) and "a.pdf, page 3" in result._repr_html_()
    assert "[1] Ada Moor: " in str(result), "without a document there is no place to name"


def test_the_event_of_a_search_has_the_place_of_a_passage_but_no_long_metadata() -> None:
    long = Passage("a", "A", "t", 1.0, "a", 0, 1, (), (("tag", "x"), ("tag", "y"), ("more", "z" * 600), ("lang", "de")))
    hit = hit_of(long)
    assert hit["metadata"] == {"tag": ["x", "y"], "lang": "de"}, "only the long value is left out"
    assert passage_of(hit).metadata == (*long.metadata[:2], long.metadata[3])
    assert hit_of(Passage("a", "A", "t", 1.0)) == {"id": "a", "title": "A", "text": "t", "score": 1.0}


def test_a_run_is_put_together() -> None:
    result = read_result(RUN)
    assert (result.question, result.answer, result.method, result.model) == ("Who?", "B", "taikc", "m")
    assert (result.fidelity, result.options, result.chains) == ("exact", {"k": 5}, ("A is B.",))
    assert (result.abstained, result.stopped_by, result.error) == (False, "", "")
    assert result.warnings == ("careful",)


def test_the_tree_hangs_together_and_knows_what_became_of_each_node() -> None:
    first, third = read_result(RUN).tree
    (second,) = first.children
    assert (first.id, first.answer, first.state, first.evidence) == (1, "A", "answered", ("p2",))
    assert (second.question, second.resolved, second.answer, second.source) == ("b #query1?", "b A?", "B", "external")
    assert (third.state, third.answer, third.as_dict()["resolved"]) == ("waiting", "", "c?")


def test_the_evidence_is_what_is_cited_once_with_its_best_score() -> None:
    assert read_result(RUN).evidence == (
        Passage("p2", "P2", "p2: A and B", 0.9),
        Passage("p3", "P3", "p3: A and B", 0.4),
    )


def test_without_an_answer_all_that_was_found_is_read_and_nothing_is_evidence() -> None:
    result = read_result([START, retrieve(0, 1, ("b", 2.0), ("a", 1.0))])
    assert result.evidence == () and [passage.id for passage in result.consulted] == ["b", "a"]
    assert "Read: B: b" in str(result) and "<summary>What was read</summary>" in result._repr_html_()


def test_the_last_plan_counts() -> None:
    again = event("plan", t=0.8, nodes=[{"id": 1, "question": "only?", "parent": None, "refs": []}], issues=[])
    assert [node.question for node in read_result([*RUN, again]).tree] == ["only?"]


def test_a_run_without_its_end_was_killed() -> None:
    result = read_result(RUN[:-1])
    assert (result.answer, result.stopped_by) == ("", "killed")


def test_a_failed_run_says_how() -> None:
    failed = event("final", t=0.2, answer="", abstained=False, stopped_by="", error="EndpointError", error_message="no")
    result = read_result([START, failed])
    assert (result.answer, result.stopped_by) == ("", "")
    assert result.as_dict()["error"] == {"class": "EndpointError", "message": "no"}


def test_a_budget_that_ended_the_run_is_named() -> None:
    assert read_result([START, event("final", t=1, answer="x", stopped_by="calls")]).as_dict()["stopped_by"] == "calls"


def test_no_events_are_an_empty_result() -> None:
    assert read_result([]).usage == Usage()


def test_a_result_is_json() -> None:
    data = json.loads(json.dumps(read_result(RUN).as_dict()))
    assert data["tree"][0]["children"][0]["answer"] == "B"
    assert data["evidence"][0]["id"] == "p2"


# Usage


def test_usage_adds_up_the_calls() -> None:
    events = [
        llm(0, 1, prompt_tokens=10, cached_tokens=4, completion_tokens=3, reasoning_tokens=2, cost=0.1),
        llm(1, 2, prompt_tokens=5, completion_tokens=1, cached=True),
        retrieve(2, 2.5),
        event("final", t=3.25, answer="x"),
    ]
    assert read_result(events).usage == Usage(
        llm_calls=2,
        cached_calls=1,
        prompt_tokens=15,
        cached_tokens=4,
        completion_tokens=4,
        reasoning_tokens=2,
        retrievals=1,
        price=0.1,
        cost=0.1,
        seconds=3.25,
        critical_path_seconds=2.5,
    )


# The critical path


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        ([], 0.0),
        ([llm(0, 1), llm(1, 3), llm(3, 3.5)], 3.5),
        # two branches at once, of 2 and 3 seconds, and a call that waits for both
        ([llm(0, 1), llm(1, 3), llm(1, 4), llm(4, 5)], 5.0),
        # two branches of two calls each: 1 + 1 and 2 + 3
        ([llm(0, 1), llm(1, 2), llm(0, 2), llm(2, 5)], 5.0),
        # a short branch that ends after the long one's first call has begun does not count
        ([llm(0, 1), llm(1, 2), llm(1, 9), llm(9, 10)], 10.0),
        # four seconds in the queue are not work
        ([llm(0, 1), llm(1, 6, seconds=1), llm(6, 7)], 3.0),
        # a cached call counts what it once took
        ([llm(0, 0, seconds=2), llm(0, 0, seconds=3)], 5.0),
        ([retrieve(0, 1), llm(1, 2)], 2.0),
    ],
)
def test_the_critical_path_is_the_work_that_decided_when_it_was_done(calls: list[Event], seconds: float) -> None:
    assert read_result(calls).usage.critical_path_seconds == seconds


# Trace files


def write(path: Path, events: list[Event]) -> Path:
    listener = TraceFile(path)
    for each in events:
        listener(each)
    listener.close()
    return path


def test_a_trace_read_back_gives_the_same_result(tmp_path: Path) -> None:
    (events,) = read_traces(write(tmp_path / "deep" / "trace.jsonl", RUN))
    assert read_result(events) == read_result(RUN)


def test_runs_that_were_traced_at_once_are_told_apart(tmp_path: Path) -> None:
    second = [changed(each, run="r2") for each in RUN]
    mixed = [each for pair in zip(RUN, second, strict=True) for each in pair]
    assert list(read_traces(write(tmp_path / "trace.jsonl", mixed))) == [RUN, second]


def test_events_are_read_one_at_a_time(tmp_path: Path) -> None:
    """A trace of many questions is larger than memory: one event of it is not."""
    path = tmp_path / "trace.jsonl"
    text = "word " * 2_000
    path.write_text("".join(json.dumps(event("llm", reply=text, run=f"r{n}").as_dict()) + "\n" for n in range(1_000)))
    tracemalloc.start()
    count = sum(1 for _ in read_events(path))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 1_000 and most < path.stat().st_size / 20


@pytest.mark.parametrize("kept", [1, 10, 40])
def test_a_last_line_cut_off_by_a_kill_is_passed_over(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path / "trace.jsonl", RUN)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    (events,) = read_traces(path)
    assert events == RUN[:-1]
    assert read_result(events).stopped_by == "killed"


def test_a_last_line_cut_off_inside_a_character_is_passed_over(tmp_path: Path) -> None:
    path = write(tmp_path / "trace.jsonl", [START, event("final", answer="Łódź")])
    content = path.read_bytes()
    path.write_bytes(content[: content.index("ó".encode()) + 1])
    (events,) = read_traces(path)
    assert events == [START]


@pytest.mark.parametrize("text", ["a\u2028b", "a\x85b", "a\u2029b\x1c", "a\nb\rc", "\0", "😀"])
def test_any_text_survives_the_file(tmp_path: Path, text: str) -> None:
    events = [START, event("final", answer=text)]
    assert list(read_traces(write(tmp_path / "trace.jsonl", events))) == [events]


def test_a_lone_surrogate_does_not_end_the_run(tmp_path: Path) -> None:
    (events,) = read_traces(write(tmp_path / "trace.jsonl", [START, event("final", answer="half \ud83d a character")]))
    assert events[1].as_dict()["answer"].startswith("half ")


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["", " "],
        ["not json"],
        ['{"event": "start"}'],
        ['{"run": "r1"}'],
        ['{"event": "start", "run": ["r1"]}'],
        ["[]"],
        ["3"],
        ["not json", '{"event": "start", "run": "r1", "t": 0}'],
        ['{"event": "start", "run": "r1", "t": 0}', '{"run": "r1"}', '{"event": "final", "run": "r1", "t": 1}'],
        ["[" * 5000, '{"event": "start", "run": "r1", "t": 0}'],
    ],
)
def test_what_is_no_trace_is_a_trace_error(tmp_path: Path, lines: list[str]) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(TraceError):
        list(read_traces(path))


def test_a_last_line_that_is_no_event_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text(json.dumps(START.as_dict()) + '\n{"run": "r1"}\n', encoding="utf-8")
    assert list(read_traces(path)) == [[START]]


def test_a_missing_trace_is_a_trace_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="cannot be read"):
        list(read_traces(tmp_path / "none.jsonl"))


def test_a_trace_that_is_no_text_is_a_trace_error(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(TraceError):
        list(read_traces(tmp_path / "trace.jsonl"))


def test_a_trace_that_cannot_be_written_is_a_trace_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match="cannot be written"):
        TraceFile(tmp_path / "file" / "trace.jsonl")


def test_what_a_killed_run_leaves_is_at_most_a_second_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods that write and search for minutes record nothing else meanwhile."""
    now = 0.0
    monkeypatch.setattr("hoptree.engine.trace._clock", lambda: now)
    path = tmp_path / "trace.jsonl"
    listener = TraceFile(path)
    left = []
    for now, kind in ((0.0, "start"), (0.5, "llm"), (1.2, "decision"), (1.9, "parse"), (2.5, "retrieve")):  # noqa: B007
        listener(event(kind, kind="any"))
        left.append(len(path.read_text(encoding="utf-8").splitlines()))
    assert left == [1, 1, 3, 3, 5], "and writing each out would cost more than the event"
    listener.close()


def test_listeners_hear_every_event_in_order() -> None:
    heard: list[Event] = []
    trace = Trace("r9", (heard.append,))
    trace.add("start", question="Who?")
    trace.add("final", answer="x")
    assert heard == trace.events
    assert [(each["event"], each["run"]) for each in as_dicts(heard)] == [("start", "r9"), ("final", "r9")]
    assert 0 <= heard[0].as_dict()["t"] <= heard[1].as_dict()["t"]


def test_lines_of_unwanted_events_are_passed_over_unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t.jsonl"
    listener = TraceFile(path)
    for run in ("a", "b"):
        trace = Trace(run, (listener,))
        trace.emit(Started(question="Who?", method="oner"))
        trace.emit(Warned(kind="odd", message="Oh."))
    listener.close()
    read: list[bytes] = []

    def note(line: bytes) -> Warned:
        read.append(line)
        return Warned(kind="read")

    monkeypatch.setattr("hoptree.engine.trace._read_event", note)
    assert len(list(read_events(path, lambda kind, run: (kind, run) == ("warning", "b")))) == len(read) == 1
    assert len(list(read_events(path))) == 4
