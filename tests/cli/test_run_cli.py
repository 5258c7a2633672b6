"""`hoptree run` at the command line: estimates, limits over several runs, and what a score is of."""

from __future__ import annotations

import asyncio
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, Response
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.engine import trace
from hoptree.evaluation.running import judge_run
from hoptree.models import open_model
from hoptree.retrieval.indexing import index_passages


@pytest.fixture
def here(tmp_path: Path) -> Path:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(40)]
    (tmp_path / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    script(tmp_path / "m.json", [{"reply": "x y"}], latency=0.02)
    return tmp_path


def script(path: Path, replies: list[dict[str, Any]], **more: Any) -> str:
    path.write_text(json.dumps({"replies": replies, **more}), encoding="utf-8")
    return f"scripted/{path}"


def run(here: Path, *arguments: object) -> str:
    usual = ("--model", f"scripted/{here / 'm.json'}", "--out", here / "out")
    result = CliRunner().invoke(app, ["run", *map(str, usual), *map(str, arguments)])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def dry(here: Path, *arguments: object) -> dict[str, Any]:
    how = ("--data", here / "data.jsonl", "--method", "direct", "--dry-run", "--json", "--concurrency", 1)
    summary: dict[str, Any] = json.loads(run(here, *how, *arguments))
    return summary


def test_prompts_of_one_s_own_are_part_of_what_a_run_rests_on(here: Path) -> None:
    mine = here / "mine" / "direct"
    mine.mkdir(parents=True)
    (mine / "direct.txt").write_text("In a word: {question}", encoding="utf-8")
    usual = ("--data", here / "data.jsonl", "--method", "direct", "--limit", 1)
    run(here, *usual, "--prompts", here / "mine")
    stored = json.loads((here / "out" / "run.json").read_text("utf-8"))
    assert set(stored["rests_on"]["own_prompts"]) == {"direct/direct.txt"}
    started = json.loads((here / "out" / "traces.jsonl").read_text("utf-8").splitlines()[0])
    assert started["prompts"] == stored["rests_on"]["own_prompts"]
    again = CliRunner().invoke(
        app, ["run", "--model", f"scripted/{here / 'm.json'}", "--out", str(here / "out"), *map(str, usual)]
    )
    assert isinstance(again.exception, InputError) and "own_prompts was" in str(again.exception)
    plan = {
        "data": {"d": {"questions": "data.jsonl"}},
        "runs": {"r": {"method": "direct", "limit": 1, "prompts": "mine"}},
    }
    (here / "plan.yaml").write_text(json.dumps(plan), encoding="utf-8")
    run(here, here / "plan.yaml", "--out", here / "planned")
    planned = json.loads((here / "planned" / "d" / "r" / "run.json").read_text("utf-8"))
    assert planned["rests_on"]["own_prompts"] == stored["rests_on"]["own_prompts"]


def test_an_estimate_is_of_all_questions_from_those_asked_now(here: Path) -> None:
    for asked in (5, 10, 15):
        summary = dry(here, "--no-cache", "--prices", "1000000/1000000")
        estimate, usage = summary["estimate"], summary["usage"]
        assert summary["finished"] == asked and estimate["llm_calls"] == 40
        assert estimate["tokens"] == round(40 * usage["tokens"]["mean"])
        assert estimate["cost"] == pytest.approx(estimate["tokens"])
        assert estimate["seconds_like_the_sample"] >= 0.5, "40 times 0.02 seconds, one by one"
        assert estimate["seconds_one_by_one"] >= 0.5


def test_an_estimate_does_not_depend_on_the_cache(here: Path) -> None:
    first = dry(here, "--prices", "1000000/1000000")
    again = dry(here, "--prices", "1000000/1000000", "--out", here / "again")
    assert again["usage"]["cached_calls"]["total"] == 5 and again["usage"]["cost"]["total"] == 0
    assert again["estimate"]["cost"] == first["estimate"]["cost"] > 0
    assert again["estimate"]["seconds_one_by_one"] >= 0.5, "what the replies once took"


def test_where_nothing_was_asked_there_is_no_sample_of_seconds(here: Path) -> None:
    run(here, "--data", here / "data.jsonl", "--method", "direct", "--limit", 5, "--no-cache")
    summary = dry(here, "--limit", 5, "--no-cache")
    assert summary["estimate"]["seconds_like_the_sample"] is None and summary["estimate"]["llm_calls"] == 5
    printed = run(here, "--data", here / "data.jsonl", "--method", "direct", "--limit", 5, "--no-cache", "--dry-run")
    assert "all 5 would take about 5 calls" in printed and "None" not in printed


def test_an_estimate_is_printed(here: Path) -> None:
    printed = run(here, "--data", here / "data.jsonl", "--method", "direct", "--dry-run", "--no-cache")
    assert "5 of 40 questions" in printed and "all 40 would take about 40 calls" in printed


def test_a_limit_of_money_holds_for_all_runs_of_a_file(here: Path) -> None:
    plan = here / "plan.yaml"
    plan.write_text(
        "data: {d: {questions: data.jsonl}}\nevery: {method: direct, limit: 5}\nruns: {a: {}, b: {}, c: {}}\n"
    )
    given = (plan, "--data", here, "--prices", "1000000/1000000", "--json", "--no-cache")
    (first, *_) = json.loads(run(here, *given, "--dry-run", "--out", here / "dry"))
    each = first["usage"]["cost"]["mean"]
    # What a run's first question costs is not known: it goes alone, and none after it once the limit is reached.
    for limit, finished in ((7.5, [5, 2, 1]), (7.5, [5, 2, 1]), (11.5, [5, 5, 1])):
        summaries = json.loads(run(here, *given, "--max-cost", limit * each))
        assert [summary["finished"] for summary in summaries] == finished
    spent = sum(summary["usage"]["cost"]["total"] for summary in summaries)
    assert spent <= 11.5 * each


def test_a_score_of_fewer_questions_says_so(here: Path) -> None:
    arguments = ("--data", here / "data.jsonl", "--method", "direct", "--no-cache")
    run(here, *arguments, "--dry-run")
    judge = open_model(script(here / "judge.json", [{"reply": "Yes"}]))
    asyncio.run(judge_run(here / "out", judge, cache=None))
    lines = {line.split()[0]: line for line in run(here, *arguments).splitlines()}
    assert lines["judge"].endswith("(of 5 questions)") and "questions" not in lines["em"]


def test_rows_that_rest_on_different_things_are_said(here: Path) -> None:
    arguments = ("--data", here / "data.jsonl", "--method", "direct", "--no-cache")
    run(here, *arguments, "--dry-run")
    script(here / "m.json", [{"reply": "another"}])
    printed = run(here, *arguments, "--anyway")
    assert "5 questions rest on " in printed and ", 35 on " in printed


class FullDisk(io.BytesIO):
    def write(self, _: object) -> int:
        raise OSError(28, "No space left on device")


def test_a_lost_trace_is_printed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = trace.TraceFile.__init__

    def open_full(self: trace.TraceFile, path: Path) -> None:
        opened(self, path)
        self._file = FullDisk()

    monkeypatch.setattr(trace.TraceFile, "__init__", open_full)
    assert "could not be written further: No space left" in run(
        here, "--data", here / "data.jsonl", "--method", "direct", "--no-cache"
    )


def test_who_was_stopped_and_who_was_not_asked_is_printed(here: Path) -> None:
    arguments = ("--data", here / "data.jsonl", "--limit", 4, "--no-cache")
    internal = ("--method", "taikc", "--set", "source=internal", "--budget", "calls=1")
    printed = run(here, *arguments, *internal)
    assert "4 stopped by their budget" in printed and "guess" not in printed
    money = ("--method", "direct", "--prices", "1000000/1000000", "--max-cost", "0.5", "--out", here / "money")
    assert "3 questions were not asked: the limit of 0.5 leaves no room." in run(here, *arguments, *money)


def test_drafts_that_a_budget_left_for_answers_are_counted(here: Path) -> None:
    tree = {"logic_tree": {"children": [{"sub_question": "Who was it?", "hypothesis_answer": "Ann"}]}, "answer": "Ann"}
    script(here / "m.json", [{"step": "build", "reply": json.dumps(tree)}, {"reply": "[]"}])
    treeqa = ("--method", "treeqa", "--set", "evidence=text", "--corpus", "sample", "--budget", "calls=2")
    printed = run(here, "--data", here / "data.jsonl", "--limit", 4, "--no-cache", *treeqa)
    counted = "; 4 of them with a draft or a guess that nothing found confirms"
    assert f"4 stopped by their budget, with what was found until then{counted}" in printed
    summary = json.loads((here / "out" / "metrics.json").read_text())
    assert (summary["stopped"], summary["stopped_guesses"]) == (4, 4)


def test_a_command_that_came_to_nothing_does_not_occupy_its_folder(here: Path) -> None:
    arguments = ("--data", here / "data.jsonl", "--limit", 2, "--no-cache")
    wrong = ("run", *arguments, "--model", f"scripted/{here / 'm.json'}", "--method", "oner", "--out", here / "out")
    assert CliRunner().invoke(app, [*map(str, wrong)]).exit_code != 0, "it has no corpus"
    assert "2 of 2 questions" in run(here, *arguments, "--method", "direct")


def test_what_changed_is_said_so_that_it_can_be_understood(here: Path) -> None:
    arguments = ("--data", here / "data.jsonl", "--method", "direct", "--no-cache")
    run(here, *arguments, "--limit", 2)
    usual = ("--model", f"scripted/{here / 'm.json'}", "--out", here / "out", "--limit", 3)
    refused = CliRunner().invoke(app, [*map(str, ("run", *arguments, *usual))])
    assert isinstance(refused.exception, InputError) and "it asks 2 questions, now 3 (--limit" in str(refused.exception)


def test_an_experiment_file_names_its_own_runs(here: Path) -> None:
    (here / "plan.yaml").write_text("data: {d: {questions: data.jsonl}}\nruns: {a: {method: direct}}\n")
    refused = CliRunner().invoke(app, ["run", str(here / "plan.yaml"), "--out", str(here / "o"), "--name", "x"])
    assert isinstance(refused.exception, InputError) and "Leave out --name" in str(refused.exception)


def test_only_an_experiment_file_has_runs_to_choose_from(here: Path) -> None:
    command = ["run", "--data", str(here / "data.jsonl"), "--only", "direct", "--out", str(here / "o")]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InputError) and "leave out --only" in str(refused.exception)


def test_some_runs_of_a_file_are_made_alone(here: Path) -> None:
    (here / "plan.yaml").write_text(
        "data: {d: {questions: data.jsonl}}\nruns: {a: {method: direct}, b: {method: direct}}\n"
    )
    run(here, here / "plan.yaml", "--limit", 2, "--only", "b")
    assert [folder.name for folder in (here / "out" / "d").iterdir()] == ["b"]


def test_what_is_suspicious_is_said(here: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"Who is {n}?", "answers": ["x"], "supporting_ids": ["gold"]} for n in range(5)]
    data = here / "gold.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    index_passages([Passage("other", "Kite", "Who is it?")], here / "idx")
    printed = run(here, "--data", data, "--corpus", here / "idx", "--method", "oner", "--no-cache")
    assert "No search found any of the gold passages" in printed and "tokens it used" not in printed
    with Endpoint() as endpoint:
        endpoint.on("", lambda seen: Response(json.dumps({"choices": [{"message": {"content": "x"}}]}).encode()))
        given = ("--data", data, "--method", "direct", "--no-cache", "--base-url", endpoint.url, "--out", here / "e")
        assert "does not say how many tokens it used" in run(here, *given, "--model", "openai/x")


def test_no_score_at_all_is_no_certainty(here: Path) -> None:
    printed = run(here, "--data", here / "data.jsonl", "--method", "direct", "--no-cache", "--limit", 3)
    assert "em                  0.0 ± 70.8" in printed, "of three, a model that is right in seven of ten may be wrong"


def left_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


@pytest.mark.parametrize("as_json", [False, True])
def test_a_dry_run_does_without_a_folder_and_leaves_none(
    here: Path, as_json: bool, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    monkeypatch.chdir(here)
    (here / "e.yaml").write_text(
        "name: e\ndata: {q: {questions: data.jsonl}}\nruns: {one: {method: direct}, two: {method: direct}}\n",
        encoding="utf-8",
    )
    before = left_in(here)
    model = ("--model", f"scripted/{here / 'm.json'}")
    command = ["run", "e.yaml", *model, "--dry-run", "--no-cache", *(["--json"] if as_json else [])]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, (result.output, result.exception)
    if as_json:
        summaries = json.loads(result.stdout)
        assert [(each["finished"], each["folder"], each["estimate"]["llm_calls"]) for each in summaries] == [
            (5, None, 40)
        ] * 2
    else:
        assert result.output.count("5 of 40 questions, none of it kept") == 2 and str(scratch) not in result.output
    assert left_in(here) == before and left_in(scratch) == []


def test_a_run_that_is_no_dry_one_needs_a_folder(here: Path) -> None:
    model = f"scripted/{here / 'm.json'}"
    result = CliRunner().invoke(
        app, ["run", "--data", str(here / "data.jsonl"), "--method", "direct", "--model", model]
    )
    assert isinstance(result.exception, InputError) and "--out" in result.exception.remedy
