"""`hoptree eval compare`: what it refuses to compare, and how it groups."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import InputError
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.report.measures import find_runs
from hoptree.evaluation.running import RunOptions, run_experiment


def stored_run(folder: Path, name: str, word: str, *, answer: str, hops: int = 0) -> str:
    """A run over ten questions whose answers hold a word, by a model that says one thing."""
    rows = [
        {"id": f"q{n}", "question": f"What {word} {n}?", "answers": [word], "hops": hops * (n % 2)} for n in range(10)
    ]
    data = folder / f"{word}.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    model = folder / f"{name}.json"
    model.write_text(json.dumps({"replies": [{"reply": answer}]}), encoding="utf-8")
    wanted = Experiment(data, method="direct", model=f"scripted/{model}", name=name)
    asyncio.run(run_experiment(wanted, folder / name, RunOptions(cache=None)))
    return str(folder / name)


def test_runs_over_different_questions_are_not_compared_though_their_ids_agree(tmp_path: Path) -> None:
    first, second = stored_run(tmp_path, "one", "red", answer="red"), stored_run(tmp_path, "two", "blue", answer="red")
    done = CliRunner().invoke(app, ["eval", "compare", first, second])
    assert isinstance(done.exception, InputError) and "over different data" in str(done.exception)


def test_what_flipped_goes_from_the_first_run_to_the_second(tmp_path: Path) -> None:
    first, second = stored_run(tmp_path, "one", "red", answer="red"), stored_run(tmp_path, "two", "red", answer="blue")
    printed = CliRunner().invoke(app, ["eval", "compare", first, second, "--metric", "em", "--flipped", "1"]).output
    assert "100.0 -> 0.0" in printed and "1.00 -> 0.00  q" in printed


def test_the_difference_is_the_second_run_less_the_first_and_wins_have_a_name(tmp_path: Path) -> None:
    first, second = stored_run(tmp_path, "one", "red", answer="red"), stored_run(tmp_path, "two", "red", answer="blue")
    printed = CliRunner().invoke(app, ["eval", "compare", first, second, "--metric", "em"]).output
    assert "em: one -> two\n  100.0 -> 0.0: -100.0 [-100.0, -100.0]" in printed
    assert "two wins 0, one wins 10, 0 ties" in printed
    comparison = json.loads(
        CliRunner().invoke(app, ["eval", "compare", first, second, "--metric", "em", "--json"]).output
    )
    pair = comparison["metrics"]["em"][0]
    assert (pair["a"], pair["b"], pair["mean_a"], pair["mean_b"], pair["difference"]) == ("one", "two", 1, 0, -1)
    assert (pair["wins"], pair["losses"]) == (0, 10), "those of the second"
    turned = CliRunner().invoke(app, ["eval", "compare", second, first, "--metric", "em"]).output
    assert "em: two -> one\n  0.0 -> 100.0: +100.0 [+100.0, +100.0]" in turned
    assert "one wins 10, two wins 0, 0 ties" in turned


def test_a_repetition_is_no_run_among_others(tmp_path: Path) -> None:
    first = stored_run(tmp_path, "one", "red", answer="red")
    done = CliRunner().invoke(app, ["eval", "reproduce", first])
    assert done.exit_code == 0 and "reproduced" in done.output
    again = [path for path in tmp_path.iterdir() if path.name.startswith("one-")]
    assert find_runs([tmp_path]) == [tmp_path / "one"] and find_runs(again) == again


def test_questions_without_a_number_of_hops_are_a_group_of_their_own(tmp_path: Path) -> None:
    first = stored_run(tmp_path, "one", "red", answer="red", hops=2)
    two = stored_run(tmp_path, "two", "red", answer="blue", hops=2)
    printed = CliRunner().invoke(app, ["eval", "compare", first, two, "--by", "hops", "--metric", "em"]).output
    assert "none" in printed and "questions  -100.0" in printed
    comparison = json.loads(
        CliRunner().invoke(app, ["eval", "compare", first, two, "--by", "hops", "--metric", "em", "--json"]).output
    )
    assert comparison["metrics"]["em"][0]["groups"].keys() == {"none", "2"}
