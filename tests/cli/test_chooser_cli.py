"""`hoptree methods chooser`: weights fitted to a real run of hop, told in words, and used again."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.command_line import call

from hoptree.evaluation.run_folder import read_run

FILMS = {"Alpha": "Oslo", "Beta": "Bergen", "Gamma": "Turku", "Delta": "Malmo"}
QUESTIONS = 12


def hoptree(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"), "PATH": "/usr/bin", "COLUMNS": "200"}
    return call(*arguments, folder=home, environment=environment)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Films that are set in towns. Of every other question, the reader is sure and right; of the others neither."""
    folder = tmp_path_factory.mktemp("home")
    rows, rules, pages = [], [], []
    for number in range(QUESTIONS):
        film = f"Film {number}a"
        town = list(FILMS.values())[number % 4]
        pages.append({"id": f"p{number}", "title": film, "text": f"{film} is set in {town}."})
        rows.append({"id": f"q{number}", "question": f"Where is {film} set?", "answers": [town]})
        right = number % 2 == 0
        rules.append(
            {
                "step": "read",
                "contains": f"Question: Where is {film} ",
                "reply": town if right else "Atlantis",
                "logprob": -0.01 if right else -2.0,
            }
        )
    rules += [
        {"step": "decompose", "reply": '{"query1": "Where is it set?"}'},
    ]
    (folder / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    (folder / "films.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "model.json").write_text(json.dumps({"replies": rules}))
    assert hoptree(folder, "index", "pages.jsonl", "--out", "idx").returncode == 0
    all_moves = ("--set", "effort=high")
    what = ("--data", "films.jsonl", "--corpus", "idx", "--model", "scripted/model.json", "--no-cache")
    done = hoptree(folder, "run", "--method", "hop", *all_moves, *what, "--out", "runs/all")
    assert done.returncode == 0, done.stderr
    assert hoptree(folder, "run", "--method", "oner", *what, "--out", "runs/oner").returncode == 0
    assert hoptree(folder, "run", "--method", "hop", *what, "--out", "runs/default").returncode == 0
    # Other questions, with the ids of the first.
    others = [row | {"question": f"Where is Film {number}a filmed?"} for number, row in enumerate(rows)]
    (folder / "others.jsonl").write_text("\n".join(map(json.dumps, others)))
    what = ("--data", "others.jsonl", *what[2:])
    assert hoptree(folder, "run", "--method", "hop", *all_moves, *what, "--out", "runs/others").returncode == 0
    return folder


def test_weights_are_fitted_told_and_used(home: Path) -> None:
    fit = ("methods", "chooser", "fit", "runs/all", "runs/others", "--out", "made/chooser.json")
    done = hoptree(home, *fit, "--json")
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    judged = {(effort, row["data"]): row for effort, rows in data["left_out"].items() for row in rows}
    assert {name for _, name in judged} == {"films", "others"} and len(judged) == 6
    for row in judged.values():
        assert row["questions"] == QUESTIONS
        assert row["one_reading"] == row["every_move"] == row["oracle"] == pytest.approx(0.5), "no move mends any"
    assert {row["data"] for row in data["left_out_without_logprobs"]} == {"films", "others"}
    right = data["chooser"]["with_logprobs"]["right"]["weights"]
    assert right["confidence"] > 0 and right["quoted"] > 0, "what tells right from wrong here"
    assert "confidence" not in data["chooser"]["without_logprobs"]["right"]["weights"]
    assert not any(str(weight) == "-0.0" for weight in right.values())
    first, second = data["chooser"]["made_from"]["runs"]
    assert first["questions"] == second["questions"] == QUESTIONS and first["results"] != second["id"]
    assert json.loads((home / "made/chooser.json").read_text()) == data["chooser"]
    printed = hoptree(home, *fit).stdout
    assert "effort low, each data set left out" in printed and "use it with --set chooser=" in printed


def test_fitted_weights_are_shown_and_asked_with(home: Path) -> None:
    fit = ("methods", "chooser", "fit", "runs/all", "runs/others", "--out", "made/shown.json")
    assert hoptree(home, *fit).returncode == 0
    shown = hoptree(home, "methods", "chooser", "show", "made/shown.json").stdout
    assert "that the best answer is right after split" in shown and "  confidence" in shown
    assert "least gain for a thousand tokens: low " in shown and "penalty 1.0" in shown
    assert read_run(home / "runs/all")["rests_on"]["chooser"], "a run with other weights is another run"
    asked = ("ask", "Where is Film 0a set?", "--method", "hop", "--corpus", "idx", "--model", "scripted/model.json")
    answer = hoptree(home, *asked, "--no-cache", "--set", "chooser=made/shown.json", "--json")
    assert json.loads(answer.stdout)["answer"] == "Oslo"
    words = hoptree(home, *asked, "--no-cache").stdout
    assert "Oslo" in words and "why: no other answer was found" in words


def test_weights_written_by_hand_are_shown(home: Path) -> None:
    logistic = {"weights": {"typed": -0.0001}, "bias": 0}
    weights = {"right": logistic, "after": {}, "worth": {}}
    file = {"format": 2, "with_logprobs": weights, "without_logprobs": weights}
    (home / "least.json").write_text(json.dumps(file))
    least = hoptree(home, "methods", "chooser", "show", "least.json").stdout
    assert "-0.000  typed" in least and "made from" not in least


def test_a_run_is_replayed_without_each_move(home: Path) -> None:
    rows = json.loads(hoptree(home, "methods", "chooser", "replay", "runs/all", "--json").stdout)
    assert set(rows) == {"effort low", "effort medium", "effort high", "high, no split", "one reading"}
    alone = rows["one reading"]
    assert (alone["f1"], alone["calls"]) == (0.5, 1.0) and 0 < alone["tokens"] < rows["effort high"]["tokens"]
    assert rows["effort high"]["calls"] >= rows["effort medium"]["calls"] >= rows["effort low"]["calls"] >= 1
    printed = hoptree(home, "methods", "chooser", "replay", "runs/all", "runs/others").stdout
    assert f"{2 * QUESTIONS} questions" in printed and "F1  calls  tokens" in printed, "they may share their ids"


def test_the_packaged_one_is_shown(home: Path) -> None:
    shown = hoptree(home, "methods", "chooser", "show").stdout
    assert (
        "made from:\n" in shown
        and "questions of every move on musique" in shown
        and shown.count("adapter=") == 7
        and "{" not in shown
    )
    assert "models without log-probabilities" in shown
    assert set(json.loads(hoptree(home, "methods", "chooser", "show", "--json").stdout)) == {
        "format",
        "with_logprobs",
        "without_logprobs",
        "made_from",
    }


def test_what_cannot_be_fitted_to_is_named(home: Path) -> None:
    (home / "no.json").write_text("{}")
    (home / "old.json").write_text('{"format": 1, "weights": {}, "bias": 0}')
    for arguments, words in (
        (("fit", "runs/oner", "--out", "x.json"), "is not of hop"),
        (("fit", "runs/none", "--out", "x.json"), "holds no run"),
        (("fit", "runs/all", "runs/all", "--out", "x.json"), "One data set cannot be left out"),
        (("fit", "runs/default", "--out", "x.json"), "did not make every move"),
        (("fit", "runs/all", "runs/others", "--out", "idx"), "cannot be written"),
        (("replay", "runs/default"), "--set effort=high"),
        (("replay", "runs/oner"), "is not of hop"),
        (("replay", "runs/all", "--chooser", "no.json"), "is not a chooser"),
        (("show", "no.json"), "is not a chooser"),
        (("show", "none.json"), "cannot be read"),
        (("show", "old.json"), "is of another version"),
    ):
        done = hoptree(home, "methods", "chooser", *arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
    assert not (home / "x.json").exists()
