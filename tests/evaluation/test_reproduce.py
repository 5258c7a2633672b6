"""Running a run again: what changed is said first, then whether answers and scores did."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import HoptreeError, InputError
from hoptree.core.files import with_sum, without_sum
from hoptree.core.values import Passage
from hoptree.engine.context import Budget, Prices
from hoptree.evaluation.experiment import BoundaryExperiment, Experiment, experiment_of
from hoptree.evaluation.reproduce import Reproduction, differences, reproduce
from hoptree.evaluation.run_folder import RESULTS, RUN, read_rows, read_run
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.retrieval.indexing import index_passages

COUNT = 40


def script(folder: Path, right: int, *, wrong: str = "nonsense", name: str = "model.json") -> str:
    """A model that knows the first so many numbers, and says the same wrong thing of the others."""
    replies = [{"contains": f"number {n}?", "reply": f"answer {n}"} for n in range(right)]
    (folder / name).write_text(json.dumps({"replies": [*replies, {"reply": wrong}]}), encoding="utf-8")
    return f"scripted/{folder / name}"


def make(folder: Path, *, right: int = 20, only: int | None = None, cache: str | None = None, **more: Any) -> Path:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": [f"answer {n}"]} for n in range(COUNT)]
    (folder / "numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    wanted = Experiment(
        folder / "numbers.jsonl", **{"method": "direct", "model": script(folder, right), "name": "numbers"} | more
    )
    asyncio.run(run_experiment(wanted, folder / "run", RunOptions(cache=cache, only=only)))
    return folder / "run"


def again(run: Path, out: Path | None = None, **more: Any) -> Reproduction:
    return asyncio.run(reproduce(run, out, **more))


def test_the_same_comes_out_the_same(tmp_path: Path) -> None:
    run = make(tmp_path)
    heard: list[Mapping[str, Any]] = []
    found = again(run, on_begin=lambda changed, out: heard.append(dict(changed)))
    assert heard == [{}] and not found.not_the_same
    assert found.verdict == "reproduced: 40 of 40 answers identical, F1 50.0 against 50.0" and not found.reasons
    assert found.again == tmp_path / "run-again" and len(read_rows(found.again)) == COUNT
    assert read_run(found.again)["reproduces"] == read_run(run)["id"]
    told = json.loads(json.dumps(found.as_dict()))
    assert told["reproduced"] and told["metrics"]["f1"]["p_value"] == 1.0 and told["identical"] == COUNT


def test_another_time_goes_to_another_folder(tmp_path: Path) -> None:
    run = make(tmp_path)
    assert [again(run).again.name for _ in range(2)] == ["run-again", "run-again-2"]


def test_one_that_was_broken_off_goes_on(tmp_path: Path) -> None:
    run = make(tmp_path)
    first = again(run).again
    lines = (first / RESULTS).read_bytes().splitlines(keepends=True)
    (first / RESULTS).write_bytes(b"".join(lines[:30]))
    asked: list[int] = []
    found = again(run, on_progress=lambda now: asked.append(now.asked))
    assert found.again == first and asked[-1] == 10 and found.identical == COUNT
    (first / RESULTS).write_bytes(b"".join(lines[:30]))
    script(tmp_path, 5)
    with pytest.raises(InputError, match="rests on something else: model"):
        again(run)


def test_no_reply_is_taken_from_memory(tmp_path: Path) -> None:
    found = again(make(tmp_path, cache="default"))
    assert sum(row.usage["llm_calls"] for row in read_rows(found.again)) == COUNT
    assert not any(row.usage["cached_calls"] for row in read_rows(found.again))


def test_a_changed_model_is_said_and_a_worse_one_is_found_out(tmp_path: Path) -> None:
    run = make(tmp_path)
    script(tmp_path, 5)
    heard: list[Mapping[str, Any]] = []
    found = again(run, on_begin=lambda changed, out: heard.append(dict(changed)))
    assert set(heard[0]) == {"model"} and heard[0]["model"][0] != heard[0]["model"][1]
    assert found.verdict.startswith("not reproduced: 25 of 40 answers identical, F1 12.5 against 50.0; EM differs")
    assert found.compared["f1"].adjusted_p < 0.05 and len(found.unlike) == 15
    assert not found.as_dict()["reproduced"]


@pytest.mark.parametrize(("tolerance", "reproduced"), [(None, False), (0.0, False), (0.5, True)])
def test_answers_may_differ_as_far_as_is_allowed(tmp_path: Path, tolerance: float | None, reproduced: bool) -> None:
    run = make(tmp_path)
    script(tmp_path, 20, wrong="gibberish")  # as wrong as before, in other words
    found = again(run, tolerance=tolerance)
    assert found.identical == 20 and found.compared["f1"].difference == 0
    assert (not found.reasons) is reproduced
    if not reproduced:
        assert "50.0% of the answers differ" in found.verdict


def test_questions_are_those_that_were_asked_whatever_the_file_holds_now(tmp_path: Path) -> None:
    run = make(tmp_path, limit=10, seed=3)
    data = tmp_path / "numbers.jsonl"
    more = {"id": "new", "question": "What is number 99?", "answers": ["answer 99"]}
    lines = [json.dumps(more), *reversed(data.read_text().splitlines())]
    data.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = again(run)
    assert list(found.not_the_same) == ["data"] and found.questions == 10 and found.identical == 10
    assert [row.id for row in read_rows(found.again)] == [row.id for row in read_rows(run)]


def test_a_run_that_is_not_finished_is_repeated_as_far_as_it_came(tmp_path: Path) -> None:
    found = again(make(tmp_path, only=7))
    assert found.questions == 7 and not found.not_the_same and not found.reasons


def test_what_moved_is_found_where_it_is_now(tmp_path: Path) -> None:
    run = make(tmp_path)
    moved = tmp_path / "moved"
    moved.mkdir()
    for name in ("numbers.jsonl", "model.json"):
        (tmp_path / name).rename(moved / name)
    elsewhere = {"data": moved / "numbers.jsonl", "model": f"scripted/{moved / 'model.json'}"}
    found = again(run, tmp_path / "there", moved=elsewhere)
    assert found.again == tmp_path / "there" and not found.reasons and not found.not_the_same


@pytest.mark.parametrize(
    ("gone", "remedy"), [("numbers.jsonl", "--data"), ("index", "--corpus"), ("run/run.json", "hoptree run")]
)
def test_what_cannot_be_run_again_is_said_with_the_remedy(tmp_path: Path, gone: str, remedy: str) -> None:
    index_passages([Passage("p1", "Numbers", "Number 1 is answer 1.")], tmp_path / "index")
    run = make(tmp_path, method="oner", corpus=str(tmp_path / "index"))
    (tmp_path / gone).rename(tmp_path / "gone")
    with pytest.raises(InputError) as caught:
        again(run)
    assert remedy in caught.value.remedy and caught.value.exit_code == 2
    assert not (tmp_path / "run-again").exists()


def test_a_question_that_is_no_longer_there_is_an_error(tmp_path: Path) -> None:
    run = make(tmp_path)
    data = tmp_path / "numbers.jsonl"
    data.write_text("".join(data.read_text().splitlines(keepends=True)[1:]), encoding="utf-8")
    with pytest.raises(InputError, match="'q0' is not in numbers"):
        again(run)


def test_where_everything_fails_nothing_is_compared(tmp_path: Path) -> None:
    run = make(tmp_path)
    (tmp_path / "model.json").write_text(json.dumps({"replies": [{"fault": "401"}]}), encoding="utf-8")
    with pytest.raises(HoptreeError, match="Every question failed") as caught:
        again(run)
    assert caught.value.exit_code == 1


def test_a_run_that_failed_altogether_is_not_asked_again(tmp_path: Path) -> None:
    (tmp_path / "broken.json").write_text(json.dumps({"replies": [{"fault": "401"}]}), encoding="utf-8")
    run = make(tmp_path, model=f"scripted/{tmp_path / 'broken.json'}")
    with pytest.raises(InputError, match="there is nothing to compare with"):
        again(run)
    assert not (tmp_path / "run-again").exists()


def test_questions_that_failed_both_times_are_not_identical(tmp_path: Path) -> None:
    replies = [{"regex": "number [0-9]\\?", "fault": "401"}, {"reply": "x"}]
    (tmp_path / "half.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    found = again(make(tmp_path, model=f"scripted/{tmp_path / 'half.json'}"))
    assert (found.identical, found.failed, found.failed_twice, found.unlike) == (30, (10, 10), 10, ())
    assert found.verdict.startswith("reproduced: 30 of 40 answers identical")
    assert found.as_dict()["failed"] == {"was": 10, "is": 10, "both": 10}


@pytest.mark.parametrize(
    ("asked", "wrong", "reproduced"), [(6, 6, None), (7, 7, False), (10, 4, None), (40, 2, True), (6, 0, True)]
)
def test_few_questions_cannot_tell(tmp_path: Path, asked: int, wrong: int, reproduced: bool | None) -> None:
    """Six right answers that are all wrong the second time have a p-value of 0.0625 after Holm's correction."""
    run = make(tmp_path, right=COUNT, limit=asked)
    script(tmp_path, 0)
    replies = [{"contains": f"number {n}?", "reply": f"answer {n}"} for n in range(wrong, COUNT)]
    (tmp_path / "model.json").write_text(json.dumps({"replies": [*replies, {"reply": "nonsense"}]}), encoding="utf-8")
    found = again(run, tolerance=1.0)
    assert found.reproduced is reproduced and found.as_dict()["reproduced"] is reproduced
    assert found.verdict.startswith(
        {None: "cannot be told:", True: "reproduced:", False: "not reproduced:"}[reproduced]
    )


def test_what_was_said_in_the_confident_setting_counts_too(tmp_path: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"What is number {n}?", "answers": ["x"]} for n in range(8)]
    (tmp_path / "numbers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    def model(confident: str) -> str:
        replies = [{"step": "taikc/confident", "reply": confident}, {"reply": "x"}]
        (tmp_path / "model.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
        return f"scripted/{tmp_path / 'model.json'}"

    wanted = BoundaryExperiment(tmp_path / "numbers.jsonl", model=model("RAG_REQUIRED"))
    asyncio.run(run_experiment(wanted, tmp_path / "run", RunOptions(cache=None)))
    assert again(tmp_path / "run").verdict.startswith("reproduced: 8 of 8")
    model("Milan")
    found = again(tmp_path / "run")
    assert len(found.unlike) == 8 and found.compared["f1"].difference == 0
    assert found.verdict.startswith("not reproduced: 0 of 8 answers identical")


def test_answers_that_are_there_already_are_no_repetition(tmp_path: Path) -> None:
    run = make(tmp_path)
    shutil.copytree(run, tmp_path / "copy")
    done = again(run).again
    for out in (run, tmp_path / "copy", done, run / ".." / "run"):
        asked: list[int] = []
        with pytest.raises(InputError, match="holds a run already"):
            again(run, out, on_progress=lambda now, asked=asked: asked.append(now.asked))
        assert not asked
    lines = (done / RESULTS).read_bytes().splitlines(keepends=True)
    (done / RESULTS).write_bytes(b"".join(lines[:30]))
    assert again(run, done).identical == COUNT, "one that was broken off goes on"


def test_a_run_without_answers_cannot_be_compared_with(tmp_path: Path) -> None:
    run = make(tmp_path)
    (run / RESULTS).write_text("")
    with pytest.raises(InputError, match="no answers"):
        again(run)


def test_an_experiment_survives_the_file(tmp_path: Path) -> None:
    more: dict[str, Any] = {
        "budget": Budget(calls=4),
        "prices": Prices(1.0, 2.0),
        "limit": 3,
        "seed": 5,
        "judge_base_url": "x",
    }
    run = read_run(make(tmp_path, **more))
    read = experiment_of(run)
    assert read.budget == Budget(calls=4) and read.prices == Prices(1.0, 2.0)
    assert (read.limit, read.seed, read.data, read.name) == (3, 5, tmp_path / "numbers.jsonl", "numbers")


@pytest.mark.parametrize("said", [None, {}, {"data": 5}, {"data": "x", "budget": {"nonsense": 1}}])
def test_a_run_that_does_not_say_how_it_was_made(tmp_path: Path, said: Any) -> None:
    run = make(tmp_path)
    about = json.loads((run / RUN).read_text())
    (run / RUN).write_text(json.dumps(with_sum(without_sum(about) | {"experiment": said})))
    with pytest.raises(InputError, match="does not say how it was made"):
        again(run)


def test_other_libraries_are_differences_too() -> None:
    run = {"rests_on": {"data": "a", "version": "1"}, "questions": ["q"]}
    new = {"rests_on": {"data": "a", "version": "2", "answer_filter": "x"}, "questions": ["q"]}
    old_packages = {"environment": {"python": "3.11", "packages": {"torch": "2.0", "peft": "1"}}}
    new_packages = {"environment": {"python": "3.11", "packages": {"torch": "2.1"}}}
    assert differences(run | old_packages, new | new_packages) == {
        "version": ("1", "2"),
        "answer_filter": (None, "x"),
        "peft": ("1", None),
        "torch": ("2.0", "2.1"),
    }
