"""Measuring versions of a model: the same runs with each, in folders of their own, and what changed between them."""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.evaluation.datasets.reading import half_of
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.running import Progress, RunOptions
from hoptree.training.adapter_eval import (
    ALL,
    MEAN,
    Measured,
    Trial,
    Version,
    boundary_gains,
    measure,
    plan_trials,
    run_gains,
)

FILES = Path(__file__).resolve().parents[2] / "experiments" / "alignment"
CITIES = ["Rome", "Oslo", "Lima", "Bern", "Riga", "Doha", "Kyiv", "Baku"]
BEFORE = [{"step": "read", "reply": "It is written nowhere."}, {"step": "direct", "reply": "Rome"}]
"""Right once in eight, and sure of everything."""
AFTER = [
    *({"step": "read", "contains": f"number {place}?", "reply": city} for place, city in enumerate(CITIES)),
    {"step": "confident", "contains": "number 0?", "reply": "Rome"},
    {"step": "confident", "contains": "number 1?", "reply": "Rome"},
    {"step": "confident", "reply": "RAG_REQUIRED"},
    {"step": "direct", "reply": "Rome"},
]
"""Reads everything, and refuses what it does not know but for one question."""
ANSWERING = """
data: {towns: {questions: towns.jsonl, corpus: passages.jsonl}}
runs: {direct: {method: direct}, one reading: {method: oner}}
"""
KNOWING = """
data: {towns: {questions: towns.jsonl}, villages: {questions: villages.jsonl, limit: 4}}
every: {method: boundary}
runs: {boundary: {}}
"""


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    for name in ("towns", "villages"):
        write(
            tmp_path / f"{name}.jsonl",
            [{"id": f"{n}", "question": f"Which is number {n}?", "answers": [city]} for n, city in enumerate(CITIES)],
        )
    write(tmp_path / "passages.jsonl", [{"id": "p", "title": "Towns", "text": "Rome is number 0."}])
    (tmp_path / "answering.yaml").write_text(ANSWERING, encoding="utf-8")
    (tmp_path / "knowing.yaml").write_text(KNOWING, encoding="utf-8")
    before = [*BEFORE, {"step": "confident", "reply": "Rome"}]
    for name, replies in (("before", before), ("after", AFTER)):
        (tmp_path / f"{name}.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    return tmp_path


def versions(here: Path) -> list[Version]:
    return [Version("base", f"scripted/{here / 'before.json'}"), Version("both", f"scripted/{here / 'after.json'}")]


def trials(here: Path, *files: str, **how: Any) -> list[Trial]:
    names = files or ("answering", "knowing")
    return plan_trials([here / f"{name}.yaml" for name in names], None, versions(here), **how)


def measured(here: Path, wanted: list[Trial], **how: Any) -> Measured:
    return asyncio.run(measure(wanted, here / "out", RunOptions(cache=None), **how))


def by_name(rows: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    return {(one["data"], one["run"], one["version"]): one for one in rows}


def test_every_run_with_every_version_and_what_changed(here: Path) -> None:
    found = by_name(run_gains(measured(here, trials(here), at_once=3)))
    assert len(found) == 4 and {one["questions"] for one in found.values()} == {8}
    assert found["towns", "one reading", "base"]["em"] == 0 and found["towns", "one reading", "both"]["em"] == 1
    assert not found["towns", "one reading", "base"]["against_base"], "the base is held against nothing"
    change = found["towns", "one reading", "both"]["against_base"]["em"]
    assert change["difference"] == 1 and (change["wins"], change["losses"]) == (8, 0)
    assert change["p_value"] == pytest.approx(2 / 2**8), "all eight tosses fell to one side"
    assert change["adjusted_p"] == pytest.approx(2 * change["p_value"]), "two comparisons of this score"
    same = found["towns", "direct", "both"]["against_base"]["f1"]
    assert same["difference"] == 0 and same["ties"] == 8 and same["adjusted_p"] == 1
    assert not any(one["against_plain"] for one in found.values()), "direct answers and one reading are plain"


def test_a_boundary_before_and_after(here: Path) -> None:
    found = by_name(boundary_gains(measured(here, trials(here, "knowing"))))
    before, after = found["towns", "boundary", "base"], found["towns", "boundary", "both"]
    assert (before["refused_share"], before["gap_f1"], before["right_decisions"]) == (0, None, 1 / 8)
    assert (after["refused_share"], after["confident_f1"], after["knowledge_gap_f1"]) == (6 / 8, 0.5, 0)
    assert after["right_decisions"] == 7 / 8, "it was sure of one answer that is wrong"
    changed = after["against_base"]
    assert changed["right_decisions"]["difference"] == 6 / 8 and changed["refused_share"]["difference"] == 6 / 8
    assert changed["direct_f1"]["difference"] == 0
    assert "gap_f1" not in changed, "who refuses nothing has no gap that could have grown"
    pooled, mean = found[ALL, "boundary", "both"], found[MEAN, "boundary", "both"]
    assert pooled["questions"] == 12 and pooled["right_decisions"] == 10 / 12
    assert mean["right_decisions"] == (7 / 8 + 3 / 4) / 2 and mean["confident_f1"] == 0.5
    assert mean["refused_share"] == (6 / 8 + 2 / 4) / 2 and "questions" not in mean
    assert after["sure_and_right"] == 1 / 8 and changed["sure_and_right"]["difference"] == 0
    assert pooled["against_base"]["right_decisions"]["questions"] == 12


def test_the_change_of_a_gap_has_the_width_of_both(here: Path) -> None:
    sure_of_less = [{"step": "confident", "contains": "number 7?", "reply": "RAG_REQUIRED"}, *BEFORE[1:]]
    replies = [*sure_of_less, {"step": "confident", "reply": "Rome"}, *BEFORE]
    (here / "before.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    found = by_name(boundary_gains(measured(here, trials(here, "knowing", only=["towns"]))))
    before, after = found["towns", "boundary", "base"], found["towns", "boundary", "both"]
    change = after["against_base"]["gap_f1"]
    assert change["difference"] == pytest.approx(0.5 - 1 / 7) and before["gap_f1_plus_minus"] is None
    assert change["plus_minus"] is None, "one refused question has no width"


def test_what_lies_in_the_folder_is_runs_like_any_others(here: Path) -> None:
    measured(here, trials(here))
    out = here / "out"
    assert sorted(path.parent.relative_to(out).as_posix() for path in out.rglob("run.json")) == [
        "towns/base",
        "towns/both",
        "towns/direct--base",
        "towns/direct--both",
        "towns/one-reading--base",
        "towns/one-reading--both",
        "villages/base",
        "villages/both",
    ]
    groups = {group.name: [run.label for run in group.runs] for group in read_groups([out])}
    assert groups["villages"] == ["base", "both"] and "one reading, both" in groups["towns"]
    assert "Knowledge-boundary awareness" in [table.title for table in tables_of(read_groups([out]))]


def test_the_same_again_asks_nothing(here: Path) -> None:
    first = measured(here, trials(here))
    for name in ("before", "after"):
        (here / f"{name}.json").write_text(json.dumps({"replies": []}), encoding="utf-8")
    with pytest.raises(InputError, match="rests on something else") as refused:
        measured(here, trials(here))
    assert "on towns: " in refused.value.cause, "it says which run"
    before = {path: path.read_bytes() for path in (here / "out").rglob("results.jsonl")}
    for name, replies in (("before", [*BEFORE, {"step": "confident", "reply": "Rome"}]), ("after", AFTER)):
        (here / f"{name}.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    heard: list[tuple[str, Progress]] = []
    again = measured(here, trials(here), on_progress=lambda trial, now: heard.append((trial.run, now)))
    assert all(not now.asked for _, now in heard) and {run for run, _ in heard} == {"direct", "one reading", "boundary"}
    assert {path: path.read_bytes() for path in before} == before
    assert boundary_gains(again) == boundary_gains(first)


def test_only_some(here: Path) -> None:
    assert {(one.data, one.run) for one in trials(here, only=["villages"])} == {("villages", "boundary")}
    assert {one.run for one in trials(here, only=["direct"])} == {"direct"}
    with pytest.raises(ConfigError, match="no run and no data set 'direkt'"):
        trials(here, only=["direkt"])


def test_settings_hold_for_all_and_a_file_that_names_models_gets_these(here: Path) -> None:
    models = "models: {GPT: openai/gpt, Other: openai/other}\n"
    (here / "models.yaml").write_text(KNOWING + models, encoding="utf-8")
    found = trials(here, "models", settings={"limit": 2})
    assert [(one.run, one.planned.run_name) for one in found] == [
        *[("boundary", "base")] * 2,
        *[("boundary", "both")] * 2,
    ]
    assert {one.planned.experiment.limit for one in found} == {2}
    assert {one.planned.experiment.model for one in found} == {version.model for version in versions(here)}


def test_files_that_would_share_a_folder(here: Path) -> None:
    with pytest.raises(InputError, match="2 runs would be kept in"):
        trials(here, "knowing", "knowing")


def test_a_judge_of_boundaries_comes_in_the_end(here: Path) -> None:
    """It is asked of both answers at once, and not by the run."""
    judge = here / "judge.json"
    judge.write_text(json.dumps({"replies": [{"step": "judge", "reply": "Yes"}]}), encoding="utf-8")
    wanted = trials(here, only=["towns"], settings={"judge": f"scripted/{judge}"})
    found = measured(here, wanted)
    (one,) = (one for one in boundary_gains(found) if one["version"] == "both")
    assert one["consistency_judged"] == 1
    assert not (here / "out" / "towns" / "both" / "judgements.jsonl").exists()
    answered = by_name(run_gains(found))["towns", "direct", "both"]
    assert answered["judge"] == 1 and answered["against_base"]["judge"]["difference"] == 0


def test_a_question_that_failed_has_no_decision(here: Path) -> None:
    broken = [{"step": "confident", "contains": "number 3?", "fault": "401"}, *AFTER]
    (here / "after.json").write_text(json.dumps({"replies": broken}), encoding="utf-8")
    found = by_name(boundary_gains(measured(here, trials(here, "knowing", only=["towns"]))))
    after = found["towns", "boundary", "both"]
    assert after["failed"] == 1 and after["right_decisions"] == 6 / 7
    assert after["against_base"]["right_decisions"]["questions"] == 7
    assert after["against_base"]["direct_f1"]["questions"] == 8, "wrong if asked directly"


def test_an_error_says_whose_run_it_was(here: Path) -> None:
    (here / "passages.jsonl").unlink()
    with pytest.raises(HoptreeError, match=r"^one reading, base on towns: There is no corpus"):
        measured(here, trials(here, only=["one reading"]))


def test_our_own_files_from_data_to_figures(here: Path) -> None:
    """What they measure on is the half that is not trained on, and the runs of one model stand beside the other's."""
    data = here / "data"
    single = [{"id": f"{n}", "question": f"Which is number {n}?", "answers": [city]} for n, city in enumerate(CITIES)]
    for name in ("nq", "popqa", "webquestions", "triviaqa"):
        write(data / name / "dev_open.jsonl", single)
    for name in ("2wikimultihopqa", "hotpotqa", "musique"):
        write(data / name / "dev.jsonl", [{**row, "type": "bridge"} for row in single[:2]])
        passages = b'{"id": "p", "title": "Towns", "text": "Rome is number 0, and Oslo number 1."}\n'
        (data / name / "corpus.jsonl.gz").write_bytes(gzip.compress(passages))
    for name in ("before", "after"):
        script = json.loads((here / f"{name}.json").read_text(encoding="utf-8"))
        script["replies"].append({"reply": "none"})
        (here / f"{name}.json").write_text(json.dumps(script), encoding="utf-8")
    files = [FILES / "boundary.yaml", FILES / "small-model.yaml"]
    found = measured(here, plan_trials(files, data, versions(here)), at_once=4)
    halves = {
        path.parts[-3]: {half_of(key) for key in json.loads(path.read_text(encoding="utf-8"))["questions"]}
        for path in (here / "out").glob("*/base/run.json")
    }
    assert halves["nq"] == halves["popqa"] == halves["webquestions"] == {"second"}
    assert halves["triviaqa"] == {"first", "second"}
    gains = by_name(run_gains(found))
    assert {run for _, run, _ in gains} == {"direct", "one reading", "taikc", "taikc external"}
    assert gains["musique", "one reading", "both"]["against_base"]["em"]["difference"] == 1
    beyond = gains["musique", "taikc", "both"]["against_plain"]
    f1 = {run: gains["musique", run, "both"]["f1"] for run in ("direct", "one reading", "taikc")}
    assert {run: change["difference"] for run, change in beyond.items()} == {
        run: pytest.approx(f1["taikc"] - f1[run]) for run in ("direct", "one reading")
    }
    assert (
        by_name(boundary_gains(found))[ALL, "boundary", "both"]["against_base"]["right_decisions"]["difference"] > 0.5
    )
