"""`hoptree show`: trace files, and the questions of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.evaluation.report_runs import right, run
from typer.testing import CliRunner, Result

from hoptree.cli.main import app
from hoptree.core.errors import HoptreeError, InputError


def shown(*arguments: str | Path) -> str:
    done = CliRunner().invoke(app, ["show", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return done.output


def refused(*arguments: str | Path) -> HoptreeError:
    done: Result = CliRunner().invoke(app, ["show", *map(str, arguments)])
    assert isinstance(done.exception, InputError) and done.exception.exit_code == 2
    return done.exception


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Eight questions, of which the first four are answered rightly."""
    return run(tmp_path, "direct", [*right(range(4)), {"reply": "answer 4 or 5"}])


def test_the_questions_of_a_run_are_drawn_with_id_right_answer_and_score(folder: Path) -> None:
    text = shown(folder)
    assert text.startswith("q/0 · right answer: answer 0 · EM 100.0 · F1 100.0\nWhat is number 0?")
    assert "\n\nq/4 · right answer: answer 4 · EM 0.0 · F1 66.7\nWhat is number 4?\n" in text, "a line apart"
    assert text.count("right answer") == 8


def test_one_question_of_a_run_is_drawn_by_its_id(folder: Path) -> None:
    text = shown(folder, "--id", "q/4")
    assert text.startswith("q/4 · ") and text.count("right answer") == 1


def test_the_beginning_of_an_id_is_enough_if_it_is_that_of_one_question(tmp_path: Path) -> None:
    data = tmp_path / "d.jsonl"
    rows = [{"id": name, "question": f"What is {name}?", "answers": ["x", "y"]} for name in ("ab", "abc", "b1", "b2")]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "m.json").write_text(json.dumps({"replies": [{"reply": "x"}]}), encoding="utf-8")
    given = ["run", "--data", str(data), "--method", "direct", "--model", f"scripted/{tmp_path / 'm.json'}"]
    assert CliRunner().invoke(app, [*given, "--out", str(tmp_path / "r")]).exit_code == 0
    text = shown(tmp_path / "r", "--id", "abc")
    assert text.startswith("abc · right answers: x, y · EM 100.0 · F1 100.0\n")
    assert shown(tmp_path / "r", "--id", "ab").startswith("ab · "), "the whole id comes before the beginning of another"
    error = refused(tmp_path / "r", "--id", "b")
    assert "2 questions" in str(error) and "b1, b2" in str(error)


def test_an_id_that_no_question_has_is_refused_with_some_that_are_there(folder: Path) -> None:
    error = refused(folder, "--id", "zzz")
    assert "'zzz'" in str(error) and "q/0" in str(error)


def test_a_folder_without_a_run_is_refused_and_runs_below_it_are_named(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no run" in str(refused(tmp_path / "empty"))
    error = refused(folder.parent)
    assert "holds no run" in str(error) and str(folder) in str(error)


def test_a_run_without_its_traces_is_refused(folder: Path) -> None:
    (folder / "traces.jsonl").unlink()
    assert "no trace" in str(refused(folder))


def test_a_trace_file_of_several_questions_tells_their_ids_and_can_be_asked_for_one(folder: Path) -> None:
    text = shown(folder / "traces.jsonl")
    assert "\n\nq/5\nWhat is number 5?\n" in text and "right answer" not in text
    assert shown(folder / "traces.jsonl", "--id", "q/5").startswith("q/5\nWhat is number 5?")
    assert "'zzz'" in str(refused(folder / "traces.jsonl", "--id", "zzz"))


def test_json_of_a_run_holds_id_answers_and_scores(folder: Path) -> None:
    shown_run = json.loads(shown(folder, "--id", "q/4", "--json"))
    assert (shown_run["id"], shown_run["right_answers"], shown_run["scores"]["em"]) == ("q/4", ["answer 4"], 0)
    assert shown_run["answer"] == "answer 4 or 5" and len(json.loads(shown(folder, "--json"))) == 8


def test_a_picture_of_a_question_has_its_heading(folder: Path, tmp_path: Path) -> None:
    shown(folder, "--id", "q/4", "--svg", tmp_path / "q.svg")
    picture = (tmp_path / "q.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert "right answer: answer 4" in picture


def test_it_can_be_a_web_page_of_its_own(folder: Path, tmp_path: Path) -> None:
    shown(folder, "--id", "q/4", "--svg", tmp_path / "q.svg", "--html", tmp_path / "q.html")
    page = (tmp_path / "q.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>") and '<meta charset="utf-8">' in page and page.endswith("</html>\n")
    assert (tmp_path / "q.svg").read_text(encoding="utf-8").strip() in page, "the drawing, where scripts are off"
    assert "import {" not in page and "default-src 'none'" in page and '"answer":"answer 4 or 5"' in page
    assert "://" not in page.replace("http://www.w3.org", ""), "nothing comes from outside"
    assert "Choose another --html" in str(refused(folder, "--html", tmp_path / "none" / "q.html"))
