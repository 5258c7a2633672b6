"""`hoptree show --node`: what happened at one sub-question."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import InputError

QUESTION = "In which city did the director of The Hourglass Sanatorium die?"
PLAN = '{"query1": {"question": "Who directed The Hourglass Sanatorium?", "children": {"query2": '
PLAN += '{"question": "In which city did #query1 die?"}}}}'
RULES = [
    {"step": "decompose", "reply": PLAN},
    {"step": "read", "contains": "did the director of", "reply": "unknown"},
    {"step": "final", "reply": "Łódź"},
    {"regex": "Who directed The Hourglass Sanatorium", "reply": "Wojciech Jerzy Has"},
    {"reply": "Łódź"},
]


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("node")
    (folder / "model.json").write_text(json.dumps({"replies": RULES}), encoding="utf-8")
    given = ["--corpus", "sample", "-m", f"scripted/{folder / 'model.json'}", "--no-cache", "--set", "effort=high"]
    done = CliRunner().invoke(app, ["ask", QUESTION, *given, "--trace", str(folder / "t.jsonl")])
    assert done.exit_code == 0 and "2. In which city did Wojciech Jerzy Has die?" in done.stdout, done.output
    return folder / "t.jsonl"


def shown(trace: Path, *arguments: str) -> str:
    done = CliRunner().invoke(app, ["show", str(trace), *arguments])
    assert done.exit_code == 0, done.output
    return done.stdout


def as_json(trace: Path, node: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(shown(trace, "--node", node, "--json"))
    return data


def test_all_that_happened_at_a_sub_question_is_told_in_its_order(trace: Path) -> None:
    text = shown(trace, "--node", "2")
    parts = [
        "2. In which city did Wojciech Jerzy Has die?",
        "planned as: In which city did #query1 die?",
        "parent: 1\nneeds the answer of: 1\n",
        "asked     In which city did Wojciech Jerzy Has die?",
        "search    “",
        "wojciech-jerzy-has",
        "call      read, prompt shared/read@",
        "→ Łódź",
        "decision  answered: yes",
        "settled   Łódź [from documents]",
        "Answer: Łódź\nwhy: from documents: wojciech-jerzy-has\nquote: “He died in Łódź in October 2000",
        "Passages read\n* wojciech-jerzy-has",
    ]
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "did the director of" not in text, "what happened elsewhere"


def test_the_number_may_be_written_as_the_tree_has_it_and_0_is_the_question(trace: Path) -> None:
    assert shown(trace, "--node", "2.") == shown(trace, "--node", "2")
    text = shown(trace, "--node", "0")
    assert text.startswith(f"0. {QUESTION}\nsub-questions: 1\n") and "decompose, prompt hop/" in text
    assert "why: partly supported: each of its 2 steps rests on what was read" in text and "settled" not in text


def test_json_holds_the_node_its_reasons_its_passages_and_its_events(trace: Path) -> None:
    data = as_json(trace, "2")
    assert (data["question"], data["parent"]) == (QUESTION, 1)
    assert (data["node"]["answer"], data["node"]["children"]) == ("Łódź", [])
    assert data["reasons"] == ["from documents: wojciech-jerzy-has"]
    assert data["quote"]["passage"] == "wojciech-jerzy-has" and "Łódź" in data["quote"]["text"]
    assert data["passages"][0]["id"] == "wojciech-jerzy-has" and data["passages"][0]["text"]
    kinds = [event["event"] for event in data["events"]]
    assert (kinds[0], kinds[-1]) == ("node", "node") and {"retrieve", "llm", "decision"} < set(kinds)
    assert all(event.get("node", 2) == 2 and event.get("id", 2) == 2 for event in data["events"])
    assert as_json(trace, "0")["quote"]["passage"] == "wojciech-jerzy-has"


@pytest.mark.parametrize("name", ["7", "x", "-1", "²"])
def test_an_unknown_sub_question_is_refused_with_those_that_there_are(trace: Path, name: str) -> None:
    done = CliRunner().invoke(app, ["show", str(trace), f"--node={name}"])
    assert isinstance(done.exception, InputError) and done.exception.exit_code == 2
    assert f"'{name}'" in str(done.exception)
    assert "0 (In which city did the director" in str(done.exception)
    assert "2 (In which city did Wojciech Jerzy Has die?)" in str(done.exception)


def test_of_several_questions_one_must_be_named(trace: Path, tmp_path: Path) -> None:
    lines = trace.read_text(encoding="utf-8").splitlines()
    first = json.loads(lines[0])
    other = json.dumps({**first, "run": "other", "question_id": "q2", "sum": None}, ensure_ascii=False)
    both = tmp_path / "both.jsonl"
    both.write_text("\n".join([*lines, other.replace(', "sum": null', "")]) + "\n", encoding="utf-8")
    done = CliRunner().invoke(app, ["show", str(both), "--node", "2"])
    assert isinstance(done.exception, InputError) and "--id" in str(done.exception)
    assert "→ Łódź" in shown(both, "--node", "2", "--id", first["question_id"])


def test_an_answer_that_no_passage_holds_is_a_guess_everywhere(tmp_path: Path) -> None:
    """The live lines, the record of the node, the tree and the object name the same source."""
    plan = '{"query1": {"question": "Where did the director of The Hourglass Sanatorium die?", "children": {}}}'
    rules = [
        {"step": "decompose", "reply": plan},
        {"step": "confident", "reply": "RAG_REQUIRED"},
        {"step": "read", "reply": "Reykjavík"},
        {"reply": "Reykjavík"},
    ]
    (tmp_path / "model.json").write_text(json.dumps({"replies": rules}), encoding="utf-8")
    file = tmp_path / "t.jsonl"
    given = ["--method", "taikc", "--corpus", "sample", "-m", f"scripted/{tmp_path / 'model.json'}", "--no-cache"]
    asked = CliRunner().invoke(app, ["ask", QUESTION, *given, "--trace", str(file)])
    assert asked.exit_code == 0 and "from documents" not in asked.output, asked.output
    assert "1. → Reykjavík [guess: the documents do not say]" in asked.stderr
    text = shown(file, "--node", "1")
    assert "settled   Reykjavík [guess: the documents do not say]" in text
    assert "why: guess: the documents do not say" in text and "from documents" not in text
    data = as_json(file, "1")
    assert (data["node"]["source"], data["node"]["evidence"]) == ("fallback", [])
    assert "decision  the model asks to look it up" in text and "identifier_hit" not in text
