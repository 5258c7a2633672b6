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
        {"step": "confident", "reply": "RAG_REQUIRED"},
        {"step": "which", "reply": "1"},
    ]
    (folder / "pages.jsonl").write_text("\n".join(map(json.dumps, pages)))
    (folder / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "model.json").write_text(json.dumps({"replies": rules}))
    assert hoptree(folder, "index", "pages.jsonl", "--out", "idx").returncode == 0
    all_moves = ("--set", "sure=1", "--set", "worth=0")
    what = ("--data", "train.jsonl", "--corpus", "idx", "--model", "scripted/model.json", "--no-cache")
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
    done = hoptree(home, "methods", "chooser", "fit", "runs/all", "--out", "made/chooser.json", "--json")
    told = json.loads(done.stdout)
    assert done.returncode == 0 and told["questions"] == QUESTIONS
    assert told["first"] == told["chosen"] == told["oracle"] == pytest.approx(0.5), "no move brings another answer"
    assert told["captured"] is None
    weights = told["chooser"]["weights"]
    assert weights["confidence"] > 0 and weights["held"] > 0, "what tells right from wrong here"
    (made_from,) = told["chooser"]["made_from"]["runs"]
    assert made_from["questions"] == QUESTIONS and made_from["results"]
    assert json.loads((home / "made/chooser.json").read_text()) == told["chooser"]

    assert read_run(home / "runs/all")["rests_on"]["chooser"], "a run with other weights is another run"
    assert not any(str(weight) == "-0.0" for weight in weights.values())
    (home / "least.json").write_text(json.dumps({"format": 1, "weights": {"typed": -0.0001}, "bias": 0}))
    least = hoptree(home, "methods", "chooser", "show", "least.json").stdout
    assert "+0.000  typed" in least and "made from" not in least
    shown = hoptree(home, "methods", "chooser", "show", "made/chooser.json").stdout
    assert "the model was sure of its words" in shown and "again: settles" in shown
    asked = ("ask", "Where is Film 0a set?", "--method", "hop", "--corpus", "idx", "--model", "scripted/model.json")
    answer = hoptree(home, *asked, "--no-cache", "--set", "chooser=made/chooser.json", "--json")
    assert json.loads(answer.stdout)["answer"] == "Oslo"
    words = hoptree(home, *asked, "--no-cache").stdout
    assert "Oslo" in words and "likely right by" in words


def test_a_run_is_replayed_without_each_move(home: Path) -> None:
    rows = json.loads(hoptree(home, "methods", "chooser", "replay", "runs/all", "--json").stdout)
    assert {"hop", "without again", "without split", "the first move alone"} <= set(rows)
    alone = rows["the first move alone"]
    assert (alone["f1"], alone["calls"]) == (0.5, 1.0) and 0 < alone["tokens"] <= rows["hop"]["tokens"]
    assert rows["hop"]["calls"] >= rows["without again"]["calls"] >= 1
    assert "F1 for 1,000 tokens" in hoptree(home, "methods", "chooser", "replay", "runs/all").stdout


def test_questions_of_two_data_sets_may_share_their_ids(home: Path) -> None:
    done = hoptree(home, "methods", "chooser", "fit", "runs/all", "runs/others", "--out", "made/two.json", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["questions"] == 2 * QUESTIONS
    assert (
        f"{2 * QUESTIONS} questions" in hoptree(home, "methods", "chooser", "replay", "runs/all", "runs/others").stdout
    )


def test_the_packaged_one_is_shown(home: Path) -> None:
    shown = hoptree(home, "methods", "chooser", "show").stdout
    assert "made from:\n" in shown and "questions of all moves on musique" in shown and "{" not in shown
    assert set(json.loads(hoptree(home, "methods", "chooser", "show", "--json").stdout)) >= {
        "weights",
        "bias",
        "outlooks",
    }


def test_what_cannot_be_fitted_to_is_named(home: Path) -> None:
    (home / "no.json").write_text("{}")
    for arguments, words in (
        (("fit", "runs/oner", "--out", "x.json"), "is not of hop"),
        (("fit", "runs/none", "--out", "x.json"), "holds no run"),
        (("fit", "runs/all", "runs/all", "--out", "x.json"), "are in two of these runs"),
        (("fit", "runs/default", "--out", "x.json"), "did not make every move"),
        (("fit", "runs/all", "--out", "idx"), "cannot be written"),
        (("replay", "runs/default"), "--set sure=1 --set worth=0"),
        (("replay", "runs/all", "runs/all"), "are in two of these runs"),
        (("replay", "runs/oner"), "is not of hop"),
        (("replay", "runs/all", "--chooser", "no.json"), "is no chooser"),
        (("show", "no.json"), "is no chooser"),
        (("show", "none.json"), "cannot be read"),
    ):
        done = hoptree(home, "methods", "chooser", *arguments)
        assert done.returncode == 2 and words in done.stderr, (arguments, done.stderr)
    assert not (home / "x.json").exists()
