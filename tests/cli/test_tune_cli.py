"""`hoptree eval tune` at the command line: a table, a verdict, commands that work, one JSON object, plain errors."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest
from tests.command_line import call

from hoptree.core.values import Passage
from hoptree.retrieval.indexing import index_passages

COUNT = 40
USUAL = ("--method", "oner", "--data", "data.jsonl", "--corpus", "idx", "--no-cache")


@pytest.fixture(scope="module")
def prepared_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions whose answer is in the 1st to 8th passage that is found, and a model that reads it there."""
    passages, rows, replies = [], [], []
    for n in range(COUNT):
        asked = f"Who knows thing{n} best?"
        passages += [Passage(f"x{n}-{d}", f"Decoy {n} {d}", f"{asked} {asked}") for d in range(n % 8)]
        passages.append(Passage(f"p{n}", f"T{n}", f"thing{n} is known by answer {n}, and many other words follow here"))
        rows.append({"id": f"q{n}", "question": asked, "answers": [f"answer {n}"]})
        replies.append({"regex": f"(?s)answer {n},.*thing{n} best", "reply": f"answer {n}"})
    folder = tmp_path_factory.mktemp("made")
    index_passages(passages, folder / "idx")
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    script = {"replies": [*replies, {"reply": "nobody"}]}
    (folder / "m.json").write_text(json.dumps(script), encoding="utf-8")
    return folder


@pytest.fixture
def here(prepared_home: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return shutil.copytree(prepared_home, tmp_path, dirs_exist_ok=True)


def hoptree(here: Path, *arguments: object) -> tuple[int, str, str]:
    environment = {"HOME": str(here), "HOPTREE_MODEL": "scripted/m.json"}
    done = call(*map(str, arguments), folder=here, environment=environment)
    return done.returncode, done.stdout, done.stderr


def test_a_table_a_verdict_and_what_shows_it_elsewhere(here: Path) -> None:
    given = (
        "eval",
        "tune",
        *USUAL,
        "--questions",
        "1-24",
        "--vary",
        "k=2:8:2",
        "--vary",
        "titles=on,off",
        "--out",
        "my out",
    )
    code, out, err = hoptree(here, *given, "--prices", "1/2", "--budget", "calls=3")
    assert code == 0, err
    head, columns, *rows = out.splitlines()
    assert head == "oner on data, 24 of 40 questions, in my out"
    assert " ".join(columns.split()) == "k titles f1 against the defaults calls searches tokens price"
    assert [row.split()[:3] for row in rows[:3]] == [["8", "off", "100.0"], ["8", "on", "100.0"], ["6", "off", "75.0"]]
    assert [row.split()[:2] for row in rows if "  defaults  " in row] == [["5", "off"]]
    assert "  +37.5 [+" in rows[0]
    assert "best: k=8, titles=off: 100.0 against 62.5 of the defaults, +37.5 [" in out
    assert "(Holm, for 8 trials: p = 0.0" in out and "better than the defaults by more than chance" in out
    assert "not a result: what won had luck on its side. Show it on the 16 other questions of the file:" in out
    assert err.count(" over 24 questions\n") == 9 and "hoptree: 1 of 9: k=5, titles=off: f1 62.5 ± " in err


def test_the_commands_that_are_printed_work(here: Path) -> None:
    given = ("eval", "tune", *USUAL, "--questions", "1-24", "--vary", "k=8", "--set", "titles=on", "--out", "my out")
    _, out, _ = hoptree(here, *given, "--prices", "1/2", "--budget", "calls=3", "--role", "answer=scripted/m.json")
    commands = [shlex.split(line) for line in out.splitlines() if line.startswith("  hoptree ")]
    assert [command[:2] for command in commands] == [["hoptree", "run"], ["hoptree", "run"], ["hoptree", "eval"]]
    for command in commands:
        code, output, err = hoptree(here, *command[1:])
        assert code == 0, err
    assert "f1: k=8" not in output and "62.5 -> 100.0: +37.5 [" in output
    run = json.loads((here / "my out-best" / "run.json").read_text())
    assert run["questions"] == [f"q{n}" for n in range(24, COUNT)]
    assert (
        run["rests_on"]["options"] == {"k": 8, "titles": True, "surest": False}
        and run["rests_on"]["budget"]["calls"] == 3
    )
    assert run["experiment"]["prices"]["completion"] == 2 and run["experiment"]["roles"] == {
        "answer": "scripted/m.json"
    }


def test_one_object_and_nothing_else(here: Path) -> None:
    code, out, err = hoptree(here, "eval", "tune", *USUAL, "--limit", 8, "--vary", "k=8", "--out", "out", "--json")
    summary = json.loads(out)
    assert (code, err) == (0, "") and summary == json.loads((here / "out" / "tune.json").read_text())
    assert (summary["best"], summary["defaults"], summary["better"], summary["metric"]) == ("k=8", "k=5", False, "f1")
    assert [trial["name"] for trial in summary["trials"]] == ["k=8", "k=5"]
    assert (
        summary["trials"][0]["against_defaults"]["interval"]["low"]
        <= summary["trials"][0]["against_defaults"]["difference"]
    )
    assert "within chance of the defaults" in summary["remark"] and len(summary["show_it"]) == 3


def test_where_a_whole_file_was_tuned_on_another_is_needed(here: Path) -> None:
    _, out, _ = hoptree(here, "eval", "tune", *USUAL, "--vary", "k=8", "--out", "out")
    assert "40 of 40 questions" in out and "Show it on other questions:" in out
    assert "hoptree run --data OTHER-QUESTIONS --corpus idx" in out and not (here / "out" / "others.txt").exists()


def test_halving_says_what_was_dropped(here: Path) -> None:
    code, out, _ = hoptree(here, "eval", "tune", *USUAL, "--vary", "k=1:12", "--search", "halving", "--out", "out")
    assert code == 0 and out.splitlines()[1].endswith("questions") and out.count("  dropped  ") == 8
    assert "best: k=8" in out


def test_a_long_table_is_cut_and_has_the_defaults(here: Path) -> None:
    code, out, _ = hoptree(
        here, "eval", "tune", *USUAL, "--vary", "k=4,6:29", "--limit", 6, "--out", "out", "--metric", "em"
    )
    assert code == 0 and "… and 5 more (tune.json lists them)" in out
    assert sum("  defaults  " in line for line in out.splitlines()) == 1


def test_trials_are_reported_as_a_line(here: Path) -> None:
    hoptree(here, "eval", "tune", *USUAL, "--vary", "k=2,8", "--limit", 8, "--out", "out")
    code, _, err = hoptree(here, "eval", "report", "out", "--html", "r.html")
    assert code == 0, err
    assert "F1 by k" in (here / "r.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("--vary", "kk=1"), "oner has no option 'kk': did you mean 'k'?"),
        (("--vary", "k=few"), "oner: k=few is not possible; k takes int, 1 or more (--set k=5)."),
        (("--vary", "k=9:1"), "is empty"),
        ((), "Nothing is varied."),
        (("--vary", "k=5"), "Nothing but the defaults would be tried."),
        (("--vary", "k=1", "--metric", "fi"), "There is no score 'fi'"),
        (("--vary", "k=1", "--questions", "50-60"), "There is no question in 50-60."),
        (("--vary", "k=1", "--ids", "m.json"), "is not in data"),
        (("--vary", "k=1", "--search", "random"), "There is no search 'random'. Choose --search grid or halving."),
        (("--vary", "k=1", "--max-cost", "1"), "A limit of money needs prices."),
        (("--vary", "k=1", "--method", "ones"), "There is no method 'ones'. Did you mean 'oner'?"),
        (("--vary", "k=1", "--data", "none.jsonl"), "none.jsonl"),
        (("--vary", "k=1", "--corpus", "none.idx"), "none.idx"),
        (("--vary", "k=1", "--model", "scripted/none.json"), "none.json"),
    ],
)
def test_what_cannot_be_is_one_sentence_and_leaves_nothing(here: Path, given: tuple[str, ...], message: str) -> None:
    code, out, err = hoptree(here, "eval", "tune", *USUAL, *given, "--out", "new/out")
    assert (code, out) == (2, "") and message in err and err.count("\n") == 1
    assert not (here / "new").exists()


def test_help_teaches(here: Path) -> None:
    code, out, _ = hoptree(here, "eval", "tune", "--help")
    assert code == 0 and "--vary alpha=1.0,1.5,2.0" in out and "are a result" in " ".join(out.split())
