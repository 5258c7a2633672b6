"""Ratings from the command line: from a run to a sheet, from sheets to the figures of Table 5, and the exit codes."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.evaluation.rated_runs import make_run, write_script
from tests.small_indexes import hoptree


@pytest.fixture(scope="module")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of ra_isf and a model that rates."""
    folder = tmp_path_factory.mktemp("made")
    make_run(folder)
    write_script(
        folder / "judge.json",
        {"step": "rate_know", "contains": "Who directed", "reply": "Yes"},
        {"step": "rate_know", "reply": "No"},
        {"step": "rate_relevance", "contains": "born in Rome", "reply": "Yes"},
        {"step": "rate_relevance", "reply": "Hm"},
        {"step": "rate_decompose", "reply": "No"},
    )
    return folder


@pytest.fixture
def home(prepared_home: Path, tmp_path: Path) -> Path:
    return shutil.copytree(prepared_home, tmp_path / "home")


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr)
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr


def fill(home: Path, name: str, *ratings: str) -> Path:
    """An annotator's copy of the sheet, filled in from its first row on."""
    rows = list(csv.reader(io.StringIO((home / "sheet.csv").read_text(encoding="utf-8-sig"), newline="")))
    for row, rating in zip(rows[1:], ratings, strict=False):
        row[rows[0].index("rating")] = rating
    with (home / name).open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    return home / name


def test_from_the_run_to_the_table(home: Path) -> None:
    done = hoptree(home, "eval", "annotate", "run", "--out", "sheet.csv")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "6 decisions to rate, in sheet.csv"
    assert "2 of 6 self-knowledge" in done.stdout and "2 of 3 decomposition" in done.stdout
    refused(hoptree(home, "eval", "annotate", "run", "--out", "sheet.csv"), "may hold ratings", "another --out")
    fill(home, "first.csv", "", "", "yes", "no", "yes", "no")
    fill(home, "second.csv", "", "", "yes", "yes", "yes", "no")
    done = hoptree(home, "eval", "ratings", "first.csv", "second.csv", "--model", "scripted/judge.json")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("6 decisions")
    assert lines[1].split() == ["self-knowledge", "relevance", "decomposition"]
    assert lines[2].split()[:3] == ["people", "-", "75.0"], "as in the paper, nobody rated self-knowledge"
    assert any(line.startswith("  the model") for line in lines)
    assert "the model is scripted/judge.json, asked 5 times" in done.stdout, (
        "of one split that gave nothing it need not be asked"
    )
    assert (
        "the model says what most people say: " in done.stdout and "decomposition 50.0 %, kappa 0.00 (2)" in done.stdout
    )
    assert "Krippendorff's alpha: self-knowledge n/a" in done.stdout
    assert "first left 2 of 6 without a rating" in done.stdout


def test_a_sheet_and_its_ratings_as_json(home: Path) -> None:
    done = hoptree(home, "eval", "annotate", ".", "--sample", "99", "--out", "sheet.csv", "--json")
    sheet = json.loads(done.stdout)
    drawn, of = (sheet["runs"]["films"][name] for name in ("decisions", "of"))
    assert sheet["rows"] == sum(drawn.values()) and all(drawn[module] <= of[module] for module in of)
    summary = json.loads(hoptree(home, "eval", "ratings", "sheet.csv", "-m", "scripted/judge.json", "--json").stdout)
    model = summary["model"]
    assert summary["annotators"][0]["rated"] == 0 and summary["people"]["know"]["all"] is None
    assert model["asked"] == sheet["rows"] - 1, "a split that gave nothing is wrong without asking"
    assert model["means"]["know"]["all"]["mean"] == 1.0 and model["means"]["know"]["all"]["decisions"] == drawn["know"]
    assert model["means"]["decompose"]["all"]["mean"] == 0.0
    assert model["unparsed"] == sum(rater["unparsed"] for rater in model["ratings"])
    again = json.loads(hoptree(home, "eval", "ratings", "sheet.csv", "-m", "scripted/judge.json", "--json").stdout)
    assert again["model"]["cached_calls"] == model["asked"], "what was paid for is remembered"


def test_a_seed_draws_the_same_again(home: Path) -> None:
    for name, seed in (("a.csv", "3"), ("b.csv", "3"), ("c.csv", "4")):
        assert hoptree(home, "eval", "annotate", "run", "--sample", "1", "--seed", seed, "--out", name).returncode == 0
    texts = [(home / name).read_text(encoding="utf-8-sig") for name in ("a.csv", "b.csv", "c.csv")]
    assert texts[0] == texts[1] != texts[2]


def test_what_cannot_be_used_is_refused(home: Path) -> None:
    refused(hoptree(home, "eval", "annotate", "nowhere", "--out", "sheet.csv"), "holds no run")
    assert hoptree(home, "eval", "annotate", "run", "--out", "sheet.csv").returncode == 0
    path = fill(home, "first.csv", "", "", "dunno", "no")
    before = path.read_bytes()
    refused(hoptree(home, "eval", "ratings", "first.csv"), "H4 (rating): 'dunno' is neither yes nor no")
    assert path.read_bytes() == before
    refused(hoptree(home, "eval", "ratings", "run/run.json"), "is not a sheet")
    refused(hoptree(home, "eval", "ratings", "sheet.csv", "-m", "nonsense"), "names no model")
    done = hoptree(home, "eval", "ratings", "sheet.csv")
    assert done.returncode == 0 and "no person has rated anything yet" in done.stdout
