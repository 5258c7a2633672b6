"""Judging runs: every answer once by each judge, in the run's folder, and among its scores from then on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import ConfigError, EndpointError, IndexUnavailable, InputError
from hoptree.core.files import FolderLock
from hoptree.engine.context import Prices
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.judge import JUDGEMENTS, read_judgements
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import METRICS, RESULTS, read_rows
from hoptree.evaluation.running import JudgeProgress, RunOptions, judge_run, run_experiment
from hoptree.models.scripted import Rule, ScriptedModel

STEP = "evaluation/judge"


def judge(name: str, *rules: Rule) -> ScriptedModel:
    model = ScriptedModel(rules=list(rules))
    model.name = name
    return model


def kind_judge(name: str = "kind") -> ScriptedModel:
    return judge(name, Rule("Yes"))


def make(folder: Path, replies: Iterable[dict[str, Any]], count: int = 6, **more: Any) -> Path:
    """A run whose question n is answered as the replies say."""
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(count)]
    data = folder / "numbers.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    script = folder / "model.json"
    script.write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")
    ways = more.pop("ways", RunOptions(cache=None))
    wanted = Experiment(data, method="direct", model=f"scripted/{script}", **more)
    asyncio.run(run_experiment(wanted, folder / "run", ways))
    return folder / "run"


ANSWERS: list[dict[str, Any]] = [
    {"contains": "number 0?", "reply": "answer 0"},
    {"contains": "number 1?", "reply": "that very number"},
    {"contains": "number 2?", "reply": "something else"},
    {"contains": "number 3?", "reply": "who knows"},
    {"contains": "number 4?", "reply": ""},
    {"contains": "number 5?", "fault": "401"},
]


def strict_judge() -> ScriptedModel:
    return judge(
        "strict",
        Rule("Yes", contains="Predicted answer: answer 0"),
        Rule("Yes", contains="that very number"),
        Rule("Hm.", contains="who knows"),
        Rule("No"),
    )


def judged(folder: Path, model: ScriptedModel, **more: Any) -> dict[str, Any]:
    return asyncio.run(judge_run(folder, model, cache=None, **more))


def test_verdicts_become_scores_of_the_run(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    model = strict_judge()
    found = judged(run, model)["judge"]
    assert len(model.requests) == 4, "neither the blank answer nor the failed question is asked about"
    assert (found["accuracy"], found["unparsed_rate"], found["asked"]) == (2 / 6, 1 / 4, 4)
    assert [row.scores["judge"] for row in read_rows(run)] == [1, 1, 0, 0, 0, 0]
    kept = json.loads((run / METRICS).read_text())
    assert kept["metrics"]["judge"]["mean"] == pytest.approx(2 / 6) and kept["metrics"]["judge"]["questions"] == 6
    assert kept["judges"]["strict"]["judge_unparsed"] == 1
    assert "judge" not in (run / RESULTS).read_text(), "what was answered stays as it is"


def test_a_report_shows_the_judge(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    judged(run, strict_judge())
    table = tables_of(read_groups([run]))[0]
    (row,) = table.rows
    cell = row.cells[table.columns.index("Judge")]
    assert getattr(cell, "figure", None) == "33.3"


def test_what_is_judged_costs_nothing(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    first, again = strict_judge(), strict_judge()
    before = judged(run, first)
    text = (run / JUDGEMENTS).read_bytes()
    assert judged(run, again)["judge"] == before["judge"] and not again.requests
    assert [line for line in (run / JUDGEMENTS).read_bytes()[len(text) :].split(b"\n") if b'"id"' in line] == []


@pytest.mark.parametrize("cut", [1, 30])
def test_a_judge_that_was_killed_goes_on(tmp_path: Path, cut: int) -> None:
    run = make(tmp_path, ANSWERS)
    whole = judged(run, strict_judge())
    lines = (run / JUDGEMENTS).read_bytes().splitlines(keepends=True)
    (run / JUDGEMENTS).write_bytes(b"".join(lines[:3])[:-cut])
    assert [row.scores["judge"] for row in read_rows(run)].count(None) == (4 if cut == 1 else 5)
    again = strict_judge()
    seen: list[JudgeProgress] = []
    found = judged(run, again, on_progress=lambda now: seen.append(JudgeProgress(now.total, now.done)))
    assert len(again.requests) == 3, "the one that is whole is not asked for again"
    assert found["judge"] == whole["judge"]
    assert (seen[0].done, seen[-1].done, seen[-1].total) == (1, 6, 6)


def test_an_answer_that_changed_is_judged_again(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    judged(run, kind_judge())
    make(
        tmp_path,
        [{"contains": "number 5?", "reply": "at last"}],
        ways=RunOptions(cache=None, retry_failed=True, anyway=True),
    )
    assert [row.scores["judge"] for row in read_rows(run)] == [1, 1, 1, 1, 0, None]
    again = kind_judge()
    judged(run, again)
    assert len(again.requests) == 1 and "at last" in again.requests[0][1]
    assert [row.scores["judge"] for row in read_rows(run)] == [1, 1, 1, 1, 0, 1]


def test_several_judges_and_how_far_they_agree(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    judged(run, strict_judge())
    found = judged(run, kind_judge())
    # Both were asked about four answers, of which strict finds two right, and one it says nothing clear of; kind all.
    assert found["agreement"] == {"strict": {"questions": 3, "rate": pytest.approx(2 / 3), "kappa": pytest.approx(0)}}
    rows = read_rows(run)
    assert [row.scores["judge"] for row in rows] == [row.scores["judge:kind"] for row in rows] == [1, 1, 1, 1, 0, 0]
    assert [row.scores["judge:strict"] for row in rows] == [1, 1, 0, 0, 0, 0]
    judged(run, strict_judge())
    assert [row.scores["judge"] for row in read_rows(run)] == [1, 1, 0, 0, 0, 0], "the judge that was asked last"


def test_a_judge_with_other_weights_under_the_same_name_begins_anew(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    judged(run, kind_judge("j"))
    changed = judge("j", Rule("No"))
    judged(run, changed)
    assert len(changed.requests) == 4 and len(read_judgements(run)) == 1
    assert {row.scores["judge"] for row in read_rows(run)} == {0.0}


def test_a_failed_call_is_a_no_that_is_counted_and_asked_again(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    broken = judge("j", Rule(fault="401", contains="something else"), Rule("Yes"))
    found = judged(run, broken)
    assert (found["judge"]["errors"], found["judge"]["accuracy"]) == (1, 3 / 6)
    assert [row.scores["judge"] for row in read_rows(run)] == [1, 1, 0, 1, 0, 0]
    again = judge("j", Rule("Yes"))
    again.identity = broken.identity
    found = judged(run, again)
    assert (len(again.requests), found["judge"]["errors"], found["judge"]["accuracy"]) == (1, 0, 4 / 6)


def test_a_judge_that_never_answers_leaves_nothing_behind(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    judged(run, kind_judge())
    with pytest.raises(EndpointError):
        judged(run, judge("dead", Rule(fault="401")))
    assert [one.judge.name for one in read_judgements(run)] == ["kind"]
    assert read_rows(run)[0].scores["judge"] == 1.0


def test_the_reply_cache_is_used(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS)
    first, second = kind_judge(), kind_judge()
    second.identity = first.identity
    asyncio.run(judge_run(run, first, cache=tmp_path / "replies.sqlite"))
    (run / JUDGEMENTS).unlink()
    found = asyncio.run(judge_run(run, second, cache=tmp_path / "replies.sqlite"))
    assert not second.requests and found["judge"]["cached_calls"] == 4 and found["judge"]["accuracy"] == 4 / 6


def test_a_run_that_is_not_finished_is_judged_as_far_as_it_came(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS, ways=RunOptions(cache=None, only=2))
    found = judged(run, kind_judge())
    assert (found["questions"], found["judge"]["questions"]) == (6, 2)


def test_what_cannot_be_judged_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no run"):
        judged(tmp_path, kind_judge())
    run = make(tmp_path, ANSWERS)
    lock = FolderLock(run, IndexUnavailable)
    lock.acquire()
    with pytest.raises(IndexUnavailable):
        judged(run, kind_judge())
    lock.release()
    (run / RESULTS).write_text("")
    with pytest.raises(InputError, match="no answers to judge"):
        judged(run, kind_judge())


@pytest.mark.parametrize(
    "line",
    [
        "7",
        '{"judge": "j"}',
        '{"judge": "nobody", "digest": "x", "id": "q0", "words": "w", "correct": true, "em": true}',
        '{"judge": "kind", "digest": "DIGEST", "id": "q0", "words": "w", "correct": "yes", "em": true}',
        '{"judge": ["j"], "digest": "x", "identity": "i", "template": "t"}',
    ],
)
def test_a_damaged_verdict_is_named(tmp_path: Path, line: str) -> None:
    run = make(tmp_path, ANSWERS)
    judged(run, kind_judge())
    digest = read_judgements(run)[0].judge.digest
    with (run / JUDGEMENTS).open("a", encoding="utf-8") as file:
        file.write(line.replace("DIGEST", digest) + "\n")
    with pytest.raises(InputError, match=r"Line 8 of .* is not a verdict"):
        read_rows(run)


def test_a_run_can_be_judged_at_its_end(tmp_path: Path) -> None:
    script = tmp_path / "judge.json"
    script.write_text(json.dumps({"replies": [{"step": STEP, "reply": "Yes"}]}), encoding="utf-8")
    run = make(tmp_path, ANSWERS, judge=f"scripted/{script}")
    assert [row.scores["judge"] for row in read_rows(run)] == [1, 1, 1, 1, 0, 0]
    assert json.loads((run / METRICS).read_text())["judges"][f"scripted/{script}"]["accuracy"] == pytest.approx(4 / 6)


def test_a_judge_that_does_not_exist_is_noticed_before_the_first_question(tmp_path: Path) -> None:
    with pytest.raises(ConfigError):
        make(tmp_path, ANSWERS, judge="nonsense/x")
    assert not (tmp_path / "run" / RESULTS).exists()
    with pytest.raises(ConfigError, match="names no judge"):
        Experiment(tmp_path / "numbers.jsonl", judge=5)  # type: ignore[arg-type]


def test_a_run_without_an_outcome_is_not_judged(tmp_path: Path) -> None:
    script = tmp_path / "judge.json"
    script.write_text(json.dumps({"replies": [{"reply": "Yes"}]}), encoding="utf-8")
    ways = RunOptions(cache=None, max_cost=0.0)
    run = make(tmp_path, ANSWERS, judge=f"scripted/{script}", prices=Prices(1.0, 1.0), ways=ways)
    assert not read_rows(run) and not (run / JUDGEMENTS).exists()


def test_what_the_run_was_warned_of_is_not_lost_by_judging(tmp_path: Path) -> None:
    run = make(tmp_path, ANSWERS, ways=RunOptions(cache=None, max_cost=1e-4), prices=Prices(1.0, 1.0))
    warned = json.loads((run / METRICS).read_text())["warnings"]
    assert warned and "were not asked" in warned[0]
    judged(run, kind_judge())
    again = json.loads((run / METRICS).read_text())
    assert again["warnings"] == warned and "kind" in again["judges"]
    (run / METRICS).write_text("[]", encoding="utf-8")
    with pytest.raises(InputError, match=r"metrics.json is damaged.*Delete it"):
        judged(run, kind_judge())
    (run / METRICS).unlink()
    judged(run, kind_judge())
    assert "kind" in json.loads((run / METRICS).read_text())["judges"], "a summary that is not there is made again"
