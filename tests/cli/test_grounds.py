"""Passages that were read and do not hold the answer are not shown as its evidence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.engine.result import read_result
from hoptree.engine.trace import read_traces

PAGES = {
    "Vertigo": "Vertigo is a film of 9 May 1958 by Alfred Hitchcock.",
    "Rebecca": "Rebecca is a film with Joan Fontaine.",
}
GUESS = "what was read does not hold the answer: it is a guess that documents do not support"
GUESSED = "Possibly {}: nothing that was read says so."


def drawn(folder: Path, answer: str, **final: Any) -> tuple[str, str]:
    """What `hoptree show` draws of a question that both pages were read for, and its picture."""
    passages = [{"id": title, "title": title, "text": text, "score": 1.0} for title, text in PAGES.items()]
    begin = {"event": "start", "question": "Who directed it?", "method": "flare", "model": "m", "fidelity": "exact"}
    read = {"event": "retrieve", "passages": passages, "issued": 0.0, "seconds": 0.0}
    events = (begin, read, {"event": "final", "answer": answer, "support": list(PAGES), **final})
    written = "".join(json.dumps({"run": "r", "t": 0.0, **event}) + "\n" for event in events)
    (folder / "t.jsonl").write_text(written, encoding="utf-8")
    done = CliRunner().invoke(app, ["show", str(folder / "t.jsonl"), "--svg", str(folder / "t.svg")])
    assert done.exit_code == 0, done.output
    return done.output, (folder / "t.svg").read_text(encoding="utf-8")


def test_an_answer_that_no_passage_holds_is_called_a_guess(tmp_path: Path) -> None:
    text, picture = drawn(tmp_path, "Orson Welles")
    assert (
        GUESSED.format("Orson Welles") in text
        and "─ A guess ─" in text
        and "\nEvidence\n" not in text
        and "\nRead, but no evidence\n  Vertigo" in text
    )
    assert "guess" in picture and "Evidence" not in picture


@pytest.mark.parametrize(
    "answer",
    [
        "Alfred Hitchcock",
        "the ALFRED HITCHCOCK",
        "yes",
        "No",
        "May 9, 1958",
        "Alfred Hitchcock, Joan Fontaine",  # each on a page of its own
    ],
)
def test_an_answer_that_passages_hold_in_any_form_keeps_its_evidence(tmp_path: Path, answer: str) -> None:
    text, _ = drawn(tmp_path, answer)
    assert "\nEvidence\n  [1] Vertigo  Vertigo: " in text and "guess" not in text


def test_a_guess_is_told_once(tmp_path: Path) -> None:
    text, _ = drawn(tmp_path, "Orson Welles")
    assert text.casefold().count("guess") == 1 and text.count("nothing that was read says so") == 1
    assert "note:" not in text
    (result,) = [read_result(events) for events in read_traces(tmp_path / "t.jsonl")]
    assert str(result).count("nothing that was read says so") == 1 and GUESS not in str(result)


def test_of_two_names_one_is_not_enough(tmp_path: Path) -> None:
    names = "Alfred Hitchcock and Orson Welles"
    assert GUESSED.format(names) in drawn(tmp_path, names)[0]


def test_no_answer_is_no_guess(tmp_path: Path) -> None:
    assert "guess" not in drawn(tmp_path, "")[0]


def test_machines_are_told_the_same(tmp_path: Path) -> None:
    drawn(tmp_path, "Orson Welles")
    result = json.loads(CliRunner().invoke(app, ["show", str(tmp_path / "t.jsonl"), "--json"]).stdout)
    assert result["evidence"] == [] and result["warnings"] == [GUESS]


def test_a_part_that_no_passage_answers_has_guessed(tmp_path: Path) -> None:
    part = {"id": 1, "question": "Who directed Vertigo?", "parent": None, "refs": []}
    answered = {"state": "answered", "source": "external", "evidence": list(PAGES), "confidence": None}
    passages = [{"id": title, "title": title, "text": text, "score": 1.0} for title, text in PAGES.items()]
    for answer, guessed in (("Zanzibar", True), ("Alfred Hitchcock", False), ("yes", False)):
        events: tuple[dict[str, Any], ...] = (
            {"event": "start", "question": "Who?", "method": "self_ask", "model": "m", "fidelity": "exact"},
            {"event": "plan", "nodes": [part], "issues": []},
            {"event": "retrieve", "passages": passages, "issued": 0.0, "seconds": 0.0, "node": 1},
            {"event": "node", **part, **answered, "answer": answer},
            {"event": "final", "answer": "Alfred Hitchcock", "support": list(PAGES), "source": "synthesis"},
        )
        written = "".join(json.dumps({"run": "r", "t": 0.0, **event}) + "\n" for event in events)
        (tmp_path / "t.jsonl").write_text(written, encoding="utf-8")
        drawn_so = CliRunner().invoke(app, ["show", str(tmp_path / "t.jsonl")]).output
        line = next(line for line in drawn_so.splitlines() if answer in line and "Who directed" in line)
        assert ("guess" in line) is guessed and ("from documents" in line) is not guessed
