"""Tuning: trials are runs, finished ones cost nothing, and the best is held against the defaults and against luck."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.values import Passage
from hoptree.engine.context import Prices
from hoptree.engine.registry import find_method, read_options
from hoptree.evaluation import tuning as tuning_module
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.plan import read_plan
from hoptree.evaluation.run_folder import RESULTS, read_rows, read_run
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.evaluation.tuned import Outcome, Tuned, Tuning, read_trials
from hoptree.evaluation.tuning import rungs, tune
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval.indexing import index_passages

COUNT = 40


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions whose answer is in the 1st to 8th passage that is found, and a model that reads it there."""
    passages, rows, replies = [], [], []
    for n in range(COUNT):
        asked = f"Who knows thing{n} best?"
        passages += [Passage(f"x{n}-{d}", f"Decoy {n} {d}", f"{asked} {asked}") for d in range(n % 8)]
        passages.append(Passage(f"p{n}", f"T{n}", f"thing{n} is known by answer {n}, and many other words follow here"))
        rows.append({"id": f"q{n}", "question": asked, "answers": [f"answer {n}"], "supporting_ids": [f"p{n}"]})
        replies.append({"regex": f"(?s)answer {n},.*thing{n} best", "reply": f"answer {n}"})
    folder = tmp_path_factory.mktemp("made")
    index_passages(passages, folder / "idx")
    (folder / "data.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_script(folder, [*replies, {"reply": "nobody"}])
    return folder


@pytest.fixture
def here(made: Path, tmp_path: Path) -> Path:
    """A copy of them."""
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def write_script(here: Path, replies: Sequence[dict[str, Any]]) -> None:
    (here / "m.json").write_text(json.dumps({"replies": list(replies)}), encoding="utf-8")


def prepared(here: Path, *varied: str, **more: Any) -> Tuning:
    how = {name: more.pop(name) for name in ("rows", "metric", "search") if name in more}
    wanted = Experiment(
        here / "data.jsonl", method="oner", model=f"scripted/{here / 'm.json'}", corpus=str(here / "idx"), **more
    )
    return Tuning.prepare(wanted, read_trials(find_method("oner"), varied, wanted.options), **how)


def tuned(here: Path, *varied: str, out: str = "out", **more: Any) -> Tuned:
    ways = RunOptions(**{"cache": None, **more.pop("ways", {})})
    return asyncio.run(tune(prepared(here, *varied, **more), here / out, ways))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The requests that models got."""
    found: list[str] = []
    generate = ScriptedModel.generate

    async def counted(self: ScriptedModel, request: Any, *, step: str) -> Any:
        found.append(step)
        return await generate(self, request, step=step)

    monkeypatch.setattr(ScriptedModel, "generate", counted)
    return found


def test_the_best_is_found_and_the_defaults_are_beside_it(here: Path) -> None:
    found = tuned(here, "k=2,8,10", rows="1-24")
    assert [one.trial.name for one in found.ranked] == ["k=8", "k=10", "k=5", "k=2"]
    assert [one.score for one in found.ranked] == [1.0, 1.0, pytest.approx(15 / 24), pytest.approx(6 / 24)]
    assert found.best.trial.name == "k=8" and found.better, "of equals the cheaper one"
    pair = found.best.against
    assert pair and pair.difference == pytest.approx(9 / 24) and 0 < pair.interval.low < pair.difference
    assert (pair.wins, pair.losses, pair.ties) == (9, 0, 15)
    assert pair.p_value == pytest.approx(2 / 2**9) and pair.adjusted_p == pytest.approx(3 * 2 / 2**9), "Holm"
    assert "better than the defaults by more than chance" in found.remark
    assert found.best.usage["llm_calls"] == found.best.usage["retrievals"] == 1 and found.best.usage["tokens"] > 50


def test_a_trial_is_an_ordinary_run_of_the_slice(here: Path) -> None:
    found = tuned(here, "k=2", rows="11-20", options={"titles": "on"})
    for one in found.ranked:
        run = read_run(one.folder)
        assert run["questions"] == [f"q{n}" for n in range(10, 20)] == [row.id for row in read_rows(one.folder)]
        assert run["rests_on"]["options"] == {"k": one.trial.values["k"], "titles": True, "surest": False}
        assert run["rests_on"]["data"] == found.tuning.data.digest and run["experiment"]["ids"] == str(
            here / "out" / "tuned-on.txt"
        )
        assert run["name"] == f"{one.trial.name} on data"
    told = json.loads((here / "out" / "tune.json").read_text(encoding="utf-8"))
    assert told == json.loads(json.dumps(found.as_dict()))
    assert (
        told["slice"]["ids"] == [f"q{n}" for n in range(10, 20)] and told["slice"]["digest"] == found.tuning.data.digest
    )
    assert told["slice"]["questions"] == run["rests_on"]["questions"], "the digest that runs have"
    assert (here / "out" / "others.txt").read_text().split() == [f"q{n}" for n in (*range(10), *range(20, COUNT))]


@pytest.mark.parametrize(
    ("fixed", "varied", "said"),
    [
        ({"titles": "on"}, "k=8", 'options: {"titles": "on", "k": 8}'),
        ({"surest": False}, "k=8", 'options: {"surest": false, "k": 8}'),
    ],
)
def test_an_experiment_file_takes_the_best_as_it_is_written(
    here: Path, fixed: dict[str, Any], varied: str, said: str
) -> None:
    found = tuned(here, varied, rows="1-24", options=fixed)
    assert found.setting == said == json.loads((here / "out" / "tune.json").read_text(encoding="utf-8"))["setting"]
    plan = here / "plan.yaml"
    plan.write_text(
        f"data: {{d: {{questions: data.jsonl}}}}\nruns: {{best: {{method: oner, {said}}}}}", encoding="utf-8"
    )
    (run,) = read_plan(plan, here)
    assert read_options(find_method("oner"), run.experiment.options) == read_options(
        find_method("oner"), {**fixed, **found.best.trial.values}
    )


@pytest.mark.parametrize(
    "value", ["minilm", "rules:de", "a, b", "x: y", "}", "#1", "", "cot+confidence", None, 0.5, -6.0]
)
def test_any_value_is_read_as_it_was(here: Path, value: Any) -> None:
    found = tuned(here, "k=8", rows="1-12")
    experiment = replace(found.tuning.experiment, options={"x": value})
    found = replace(found, tuning=replace(found.tuning, experiment=experiment))
    read = yaml.safe_load(found.setting)["options"]["x"]
    assert read == value and type(read) is type(value)


def test_finished_trials_cost_nothing_and_others_may_join_them(here: Path, asked: list[str]) -> None:
    first = tuned(here, "k=2,8", limit=10)
    assert len(asked) == 30
    assert tuned(here, "k=2,8", limit=10).as_dict() == first.as_dict() and len(asked) == 30
    tuned(here, "k=2,3,8", limit=10)
    assert len(asked) == 40
    assert tuned(here, "k=2,3,8", limit=10, metric="em").tuning.metric == "em" and len(asked) == 40


def test_what_was_broken_off_goes_on(here: Path, asked: list[str]) -> None:
    first = tuned(here, "k=2,8", limit=10)
    results = here / "out" / "k-8" / RESULTS
    lines = results.read_text().splitlines(keepends=True)
    results.write_text("".join(lines[:4]) + lines[4][:20], encoding="utf-8")
    again = tuned(here, "k=2,8", limit=10)
    assert len(asked) == 36
    assert [one.scores for one in again.ranked] == [one.scores for one in first.ranked]


def test_what_is_within_chance_is_said(here: Path) -> None:
    found = tuned(here, "k=8", limit=8)
    assert found.best.trial.name == "k=8" and found.best.score > found.defaults.score
    assert not found.better and "within chance of the defaults: keep these" in found.remark
    assert "This sample can detect a difference of" in found.remark and "is not a result" in found.warning


def test_an_interval_above_nothing_is_not_enough_where_many_were_tried(here: Path) -> None:
    """Seven wins and no loss: p is 1 in 64, and twelve had that chance."""
    few = tuned(here, "k=8", limit=16, out="few")
    many = tuned(here, "k=1:16", limit=16, out="many")
    assert many.best.trial == few.best.trial and many.best.score == few.best.score
    assert many.best.against and many.best.against.interval.low > 0 and many.best.against.p_value < 0.05
    assert few.better and not many.better


def test_equal_scores_leave_the_defaults(here: Path) -> None:
    found = tuned(here, "k=6:9", rows="1-3")
    assert found.best is found.defaults and not found.better and found.commands == ()
    assert found.remark == "Of 4 combinations none scores higher than the defaults: keep them."


def test_a_failed_question_counts_as_wrong_and_may_be_asked_again(here: Path, asked: list[str]) -> None:
    good = json.loads((here / "m.json").read_text())["replies"]
    write_script(here, [{"contains": "thing0 ", "fault": "401"}, *good])
    found = tuned(here, "k=8", limit=8)
    assert [one.failed for one in found.ranked] == [1, 1] and found.best.score == pytest.approx(7 / 8)
    assert found.best.scores["q0"] == 0
    before = len(asked)
    tuned(here, "k=8", limit=8)
    assert len(asked) == before
    tuned(here, "k=8", limit=8, ways={"retry_failed": True})
    assert len(asked) > before


def test_halving_asks_few_questions_first_and_the_better_half_more(here: Path, asked: list[str]) -> None:
    found = tuned(here, "k=1:12", search="halving")
    assert rungs(11, COUNT, "halving") == ((11, 10), (6, 20), (3, 40))
    assert sorted(len(one.scores) for one in found.trials) == [10] * 5 + [20] * 3 + [40] * 3
    assert len(asked) == 5 * 10 + 3 * 20 + 3 * 40 + 40, "what was asked before is not asked again"
    assert found.best.trial.name == "k=8" and len(found.defaults.scores) == 40 and found.better
    dropped = [one for one in found.trials if one.against is None]
    assert len(dropped) == 8 and found.ranked[-1] in dropped
    pair = found.best.against
    assert pair and pair.adjusted_p == pytest.approx(11 * pair.p_value), "those that were dropped had their chance too"
    assert tuned(here, "k=1:12", search="halving").as_dict() == found.as_dict() and len(asked) == 270


def test_halving_does_not_drop_by_what_a_file_begins_with(here: Path) -> None:
    ids = prepared(here, "k=1", search="halving").ids
    assert sorted(ids) == sorted(f"q{n}" for n in range(COUNT)) and ids != tuple(f"q{n}" for n in range(COUNT))
    assert ids == prepared(here, "k=2", search="halving").ids
    assert prepared(here, "k=1", seed=3, search="halving").ids == prepared(here, "k=1", seed=3).ids
    rows = [prepared(here, "k=1", seed=seed, rows="1-9", search="halving").ids for seed in (3, 4)]
    assert set(rows[0]) == {f"q{n}" for n in range(9)} == set(rows[1]) and rows[0] != rows[1]
    assert prepared(here, "k=1", seed=3, rows="1-9").ids == tuple(f"q{n}" for n in range(9))


@pytest.mark.parametrize(
    ("trials", "questions", "wanted"),
    [
        (1, 100, ((1, 100),)),
        (2, 100, ((2, 100),)),
        (16, 19, ((16, 19),)),
        (16, 20, ((16, 10), (8, 20))),
        (16, 100, ((16, 13), (8, 25), (4, 50), (2, 100))),
        (9, 1000, ((9, 125), (5, 250), (3, 500), (2, 1000))),
    ],
)
def test_the_steps_of_halving(trials: int, questions: int, wanted: tuple[tuple[int, int], ...]) -> None:
    assert rungs(trials, questions, "halving") == wanted
    assert rungs(trials, questions, "grid") == ((trials, questions),)


def test_money_is_limited_over_all_trials(here: Path) -> None:
    with pytest.raises(InputError, match=r"^k=\d: \d+ questions were not asked: .*Raise --max-cost, and give the same"):
        tuned(here, "k=2,8", limit=10, prices=Prices(1e6, 1e6), ways={"max_cost": 2000.0})
    found = tuned(here, "k=2,8", limit=10, prices=Prices(1e6, 1e6), ways={"max_cost": 1e6})
    assert found.best.usage["price"] == pytest.approx(found.best.usage["tokens"])


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rows": "41-50"}, r"There is no question in 41-50\. The file has 1-40\."),
        ({"rows": "9-3"}, "There is no question in 9-3"),
        ({"rows": "3"}, "Write FIRST-LAST"),
        ({"rows": "1-3", "limit": 2}, "is a choice already"),
        ({"metric": "fi"}, r"There is no score 'fi' .* em, .*retrieval_recall"),
        ({"metric": "support_f1"}, "There is no score 'support_f1'"),
    ],
)
def test_what_cannot_be_tuned_is_refused_before_anything_is_asked(here: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        prepared(here, "k=2", **more)


def test_a_score_that_no_question_has_is_refused_after_the_defaults(here: Path, asked: list[str]) -> None:
    with pytest.raises(InputError, match="k=5: no question has the score yes_no"):
        tuned(here, "k=2,8", metric="yes_no", limit=3)
    assert len(asked) == 3


def test_a_file_without_a_question_that_can_be_scored_is_refused(here: Path) -> None:
    (here / "data.jsonl").write_text('{"id": "a", "question": "Who?"}\n', encoding="utf-8")
    with pytest.raises(InputError, match="without an accepted answer"):
        prepared(here, "k=2")


def test_a_folder_holds_one_tuning(here: Path) -> None:
    tuned(here, "k=2", limit=3)
    with pytest.raises(InputError, match=r"tuned on other questions \(3, now 4\)"):
        tuned(here, "k=2", limit=4)
    with pytest.raises(InputError, match=r"^k=5: The run in .* rests on something else: .* Choose another --out\.$"):
        tuned(here, "k=2", limit=3, options={"titles": "on"})
    with pytest.raises(InputError, match="holds something else than a tuning"):
        tuned(here, "k=2", limit=3, out="idx")
    with pytest.raises(InputError, match="cannot be written"):
        tuned(here, "k=2", limit=3, out="m.json")


def test_what_is_refused_leaves_nothing(here: Path) -> None:
    (here / "m.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be used"):
        tuned(here, "k=2", out="deep/er")
    assert not (here / "deep").exists()
    write_script(here, [])
    with pytest.raises(ConfigError, match="k=5: The script has no reply"):
        tuned(here, "k=2", out="deep/er")
    assert not (here / "deep").exists()


def test_what_fails_later_keeps_what_was_paid(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def once(wanted: Experiment, folder: Path, *more: Any, **named: Any) -> Any:
        if folder.name == "k-8":
            raise HoptreeError("The endpoint went away.", "Try later.")
        return await run_experiment(wanted, folder, *more, **named)

    monkeypatch.setattr(tuning_module, "run_experiment", once)
    with pytest.raises(HoptreeError, match=r"^k=8: The endpoint went away\. Try later\.$"):
        tuned(here, "k=2,8", limit=3)
    assert len(read_rows(here / "out" / "k-2")) == 3 and not (here / "out" / "tune.json").exists()


def test_a_model_is_opened_once_for_all_trials_and_closed(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    closed: list[str] = []

    class Watched(ScriptedModel):
        async def aclose(self) -> None:
            closed.append(self.name)

    def watch(spec: str, *, base_url: str) -> Watched:
        opened.append(spec)
        return Watched(spec.partition("/")[2])

    monkeypatch.setattr("hoptree.evaluation.experiment.open_model", watch)
    tuned(here, "k=2,8", limit=3, roles={"answer": f"scripted/{here / 'm.json'}"})
    assert len(opened) == len(closed) == 1


def test_scores_that_some_questions_lack_are_of_those_that_have_them(tmp_path: Path) -> None:
    trial = read_trials(find_method("oner"), ["k=1"], {})[0]
    one = Outcome(trial, tmp_path, {"a": 1.0, "b": None, "c": 0.0}, 0, {"tokens": 1.0})
    assert one.score == 0.5 and one.as_dict()["scored"] == 2 and one.as_dict()["questions"] == 3


@pytest.mark.parametrize(
    ("method", "varied", "said"),
    [
        ("mind", ("theta=0.5,1.0",), "theta=0.5: theta=0.5 is a fixed threshold"),
        ("mind", ("threshold=dynamic,fixed", "alpha=1.5,2.0"), "threshold=fixed, alpha=2.0: alpha=2.0 belongs to"),
        ("mind", ("cut=none,0.8", "top_k=2,5"), "cut=0.8, top_k=5: top_k=5"),
        ("dragin", ("tagger=rules:de,nouns",), "tagger=nouns: There is no tagger 'nouns'"),
        ("seakr", ("encoder=openai/m,foo",), "encoder=foo: There is no encoder 'foo'"),
    ],
)
def test_all_trials_are_checked_before_the_first_is_run(
    here: Path, method: str, varied: tuple[str, ...], said: str
) -> None:
    wanted = Experiment(here / "data.jsonl", method=method, model=f"scripted/{here / 'm.json'}")
    with pytest.raises(ConfigError) as refused:
        Tuning.prepare(wanted, read_trials(find_method(method), varied, {}))
    assert said in str(refused.value)
