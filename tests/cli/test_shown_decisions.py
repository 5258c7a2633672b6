"""What a method decided about a question is told wherever its answer is: drawn, in JSON, and again from its trace."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.traced import event
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.engine.events import Decision
from hoptree.engine.registry import list_methods
from hoptree.engine.result import read_result
from hoptree.engine.result_text import describe_decision

QUESTION = "Who directed The Hourglass Sanatorium?"
SO = "He directed it. So the answer is: Has."


def hoptree(*arguments: str) -> str:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    return done.stdout


def ask(folder: Path, replies: dict[str, str | list[str]], *arguments: str) -> tuple[str, dict[str, Any]]:
    """What is drawn, the same again from the trace, and what JSON says."""
    script = folder / "script.json"
    rules = [{"step": step, "reply": reply, "logprob": -0.1} for step, reply in replies.items()]
    script.write_text(json.dumps({"replies": rules}), encoding="utf-8")
    usual = ("ask", QUESTION, "--corpus", "sample", "-m", f"scripted/{script}", "--no-cache", *arguments)
    trace = str(folder / "trace.jsonl")
    drawn = hoptree(*usual, "--trace", trace)
    assert told_again(hoptree("show", trace)) == told_again(drawn)
    data = json.loads(hoptree("show", trace, "--json"))
    assert json.loads(hoptree(*usual, "--json"))["decisions"] == data["decisions"]
    return drawn, data


def summary(fields: dict[str, Any]) -> str:
    decided = event("decision", **fields)
    assert isinstance(decided, Decision)
    return decided.shown_line()


def told_again(drawn: str) -> list[str]:
    return drawn.splitlines()[:-1]


@pytest.mark.parametrize(
    ("method", "settings", "replies", "lines"),
    [
        (
            "dyplan",
            ("--set", "verify=off"),
            {"route": "Direct", "direct": "Has"},
            ["way: Direct (of Direct, Plan, Reason, Retrieval)"],
        ),
        (
            "dyplan",
            (),
            {"route": "Direct", "direct": "Has", "verify": "No", "route_again": "Reason", "think": SO},
            [
                "way: Direct (of Direct, Plan, Reason, Retrieval)",
                "verify: no",
                "way: Reason (of Plan, Reason, Retrieval)",
            ],
        ),
        ("adaptive_rag", (), {"route": "B", "think": SO}, ["way: B (of A, B, C)"]),
        ("adaptive_rag", (), {"route": "Hm.", "draft": SO, "think": SO}, ["way: C (not read, of A, B, C)"]),
        ("skr", (), {"need": "No.", "think": SO}, ["need: no"]),
        (
            "replug",
            ("--set", "k=2", "--set", "mixture=answers"),
            {"read": "Has"},
            ["heaviest: Has (scores has 0.9048, weights 0.7311, 0.2689)"],
        ),
        (
            "replug",
            ("--set", "k=2"),
            {"read": "Has"},
            ["mixed: Has (weights 0.7311, 0.2689, likelihoods 0.9048, 0.9048)"],
        ),
        (
            "compact",
            ("--set", "segment=2", "--set", "segments=3"),
            {
                "compress": [
                    "Summary: A film.\nEvaluation: [INCOMPLETE] Who?",
                    "Summary: Has.\nEvaluation: [COMPLETE] All.",
                ],
                "final": "Has",
                "read": "Has",
            },
            ["ended: complete (read 4, of 6)"],
        ),
        (
            "search_r1",
            (),
            {"act": ["<search>its director</search>", "<answer>Has</answer>"]},
            ["action: search (turn 0, text its director)", "action: answer (turn 1, text Has)"],
        ),
    ],
)
def test_a_method_tells_what_it_decided(
    tmp_path: Path, method: str, settings: tuple[str, ...], replies: dict[str, str | list[str]], lines: list[str]
) -> None:
    drawn, data = ask(tmp_path, replies, "--method", method, *settings)
    kinds = {line.partition(":")[0] for line in lines}
    assert [line for line in drawn.splitlines() if line.partition(":")[0] in kinds] == lines
    assert list(map(summary, data["decisions"])) == lines


def test_a_method_that_decides_nothing_says_nothing(tmp_path: Path) -> None:
    _, data = ask(tmp_path, {"read": "Has"}, "--method", "oner")
    assert data["decisions"] == []


def test_a_decision_with_fields_of_another_version_is_shown_as_others_of_its_kind() -> None:
    list_methods()
    assert summary({"kind": "need", "value": False, "asked": 2}) == "need: no (asked 2)"
    assert summary({"kind": "repeated_search", "value": "x", "asked": 2}) == "searched before: x (asked 2)"
    assert not summary({"kind": "round", "value": 1, "asked": 2}) and not summary({"kind": "unknown", "value": 1})


def test_a_picture_tells_it_too(tmp_path: Path) -> None:
    ask(tmp_path, {"need": "No.", "think": SO}, "--method", "skr")
    hoptree("show", str(tmp_path / "trace.jsonl"), "--svg", str(tmp_path / "t.svg"))
    picture = (tmp_path / "t.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert re.search(r">need: <.*\n?.*>no<", picture)


def test_self_rag_tells_its_choice_and_what_each_answer_scored(tmp_path: Path) -> None:
    replies: dict[str, str | list[str]] = {
        "need": "Yes", "read": "Has", "relevant": "Yes", "supported": "Fully", "useful": "5",
    }  # fmt: skip
    drawn, data = ask(tmp_path, replies, "--method", "self_rag", "--set", "k=1")
    assert "\nretrieve: yes (probability " in drawn and "\ncritique: Has (scores Has 3." in drawn
    assert data["decisions"][1]["judged"][0][1] == "Has", "in full"


def test_a_checkpoint_that_is_none_is_not_called_exact(tmp_path: Path) -> None:
    replies: dict[str, str | list[str]] = {"need": "Well", "read": "Has"}
    drawn, data = ask(tmp_path, replies, "--method", "self_rag", "--set", "checkpoint=on")
    assert "not exactly as in its paper" in drawn and "not a Self-RAG model" in drawn and data["fidelity"] == "approx"


def test_what_was_decided_of_a_node_is_told_with_the_node() -> None:
    events = [event("decision", kind="route", value="A", node=1, depth=1), event("decision", kind="hm", value=1)]
    assert read_result([event("start"), *events]).decisions == ()


def test_what_a_run_noticed_takes_from_its_stamp_and_adds_nothing() -> None:
    def stamp(declared: str, noticed: str) -> str:
        events = [event("start", fidelity=declared), event("decision", kind="fidelity", value=noticed)]
        return read_result(events).fidelity

    assert [stamp(*pair) for pair in (("exact", "approx"), ("exact", "exact"))] == ["approx", "exact"]
    assert [stamp(*pair) for pair in (("prompted", "approx"), ("approx", "exact"))] == ["prompted", "approx"]


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"value": True}, "route: yes"),
        ({"value": None}, "route: none"),
        ({"value": "x" * 300}, f"route: {'x' * 80}…"),
        ({"value": "a", "raw": "much", "step": "route", "read": True}, "route: a"),
        ({"value": "a", "rows": [[1, 2]], "deep": {"a": {"b": 1}}, "none": None, "empty": []}, "route: a"),
        ({"value": "a", "weights": [0.123456, 2], "turn": 3}, "route: a (weights 0.1235, 2, turn 3)"),
        ({"value": "a", "many": list(range(20))}, "route: a (many 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 10 more)"),
        ({"value": ["a", "b"]}, "route: a, b"),
    ],
)
def test_a_decision_is_told_in_one_line_whatever_is_in_it(fields: dict[str, Any], line: str) -> None:
    assert describe_decision("route", {"kind": "route", **fields}) == line
