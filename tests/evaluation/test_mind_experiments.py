"""MIND's experiment files: all tables are there, and they run from the file to the report with a scripted model."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.evaluation.experiment_files import invoke, write

from hoptree.engine.context import Budget
from hoptree.engine.registry import find_method
from hoptree.evaluation.datasets.reading import read_examples, read_ids
from hoptree.evaluation.plan import read_plan
from hoptree.evaluation.tuned import read_trials

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "mind"
SHARED = FOLDER.parents[2] / "shared" / "data"
QUESTION = "Where was the director of Film N born?"
DRAFT, LAST = "The director of Film N is Bob.", "So the answer is: Rome."
REPLIES = [
    {"step": "extract", "reply": '{"entities": ["Film N"], "relations": ["director"]}'},
    {"step": "restate", "entropy": 1.0, "attention": 0.2},
    {"step": "filter", "reply": "[1]"},
    {"step": "sub_query", "reply": "Who is the director of Film N?"},
    {"step": "facts", "reply": "Film N | director | Ann Dee"},
    {"step": "rewrite", "contains": "Film N", "reply": "The director of Film N is Ann Dee.", "entropy": 0.1},
    {"step": "look_back", "attended": {"Film": 0.9}},
    {"step": "weigh", "attention": 0.2},
    {"step": "draft", "reply": [f"{DRAFT} {LAST}"], "entropy": [0, 0, 0, 0, 0, 0, 9, 0], "attention": 0.2},
    {"step": "sample", "reply": "x", "hidden": [1.0, -1.0]},
    {"step": "conclude", "reply": ": Rome."},
    {"step": "direct", "reply": "Oslo"},
    {"step": "read", "reply": "Rome"},
]
"""The director is in doubt and looked up; the answer follows."""


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Data laid out as the files expect, and a script."""
    folder = tmp_path_factory.mktemp("mind")
    passages = [
        {"id": "p1", "title": "Film N", "text": "Film N is a film by Ann Dee."},
        {"id": "p2", "title": "Ann Dee", "text": "Ann Dee was born in Rome."},
    ]
    question = {"question": QUESTION, "answers": ["Rome"], "supporting_titles": ["Film N", "Ann Dee"]}
    for name, end in (("2wikimultihopqa", ".gz"), ("hotpotqa", ".gz"), ("strategyqa", ""), ("iirc", "")):
        write(folder / "data" / name / "dev.jsonl", [{"id": "q", "supporting_ids": ["p1", "p2"], **question}])
        write(folder / "data" / name / f"corpus.jsonl{end}", passages)
    script = folder / "m.json"
    script.write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    return folder / "data", script


def made(name: str, prepared: tuple[Path, Path], out: Path, *only: str) -> tuple[list[dict[str, Any]], str]:
    """The summaries of a file's runs on these data sets, or on all, and their report as Markdown."""
    data, script = prepared
    plan = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    plan["data"] = {one: plan["data"][one] for one in only or plan["data"]}
    (out / "plan.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    how = ("--data", data, "--model", f"scripted/{script}", "--no-cache", "--json", "--out", out / "runs")
    summaries = json.loads(invoke("run", out / "plan.yaml", *how))
    invoke("eval", "report", out / "runs", "--markdown", out / "r.md", "--html", out / "r.html")
    return summaries, (out / "r.md").read_text(encoding="utf-8")


def section(report: str, title: str) -> str:
    (found,) = [one for one in report.split("## ") if one.startswith(title)]
    return found


def test_there_is_a_file_for_every_table() -> None:
    names = {path.stem for path in FOLDER.glob("*.yaml")}
    assert names >= {*(f"table{number}" for number in range(1, 5)), "small-model"}


@pytest.mark.skipif(not SHARED.exists(), reason="the data sets are not here")
@pytest.mark.parametrize("name", ["hotpotqa", "strategyqa"])
def test_thresholds_are_tuned_on_questions_that_no_table_asks(name: str) -> None:
    """Of whatever file, however it draws its questions.

    Files of moves and labels are no tables; TAIKC's mixture of types is asked of no method that has these thresholds.
    """
    slice_ = set(read_ids(FOLDER / f"tuning-{name}.txt"))
    assert len(slice_) == 100 and slice_ <= {one.id for one in read_examples(SHARED / name / "dev.jsonl").examples}
    drawn = {
        (one.experiment.data, one.experiment.limit, one.experiment.seed, one.experiment.half): one.experiment
        for path in FOLDER.parent.rglob("*.yaml")
        if not path.stem.endswith(("moves", "labels"))
        for one in read_plan(path, SHARED, {"model": "hf/none"})
        if one.experiment.data == SHARED / name / "dev.jsonl"
        if not one.experiment.sample or one.experiment.method == "mind"
    }
    assert len(drawn) > 2
    fewer = [replace(one, limit=100) for one in drawn.values() if (one.limit or 0) > 100]  # as small models are asked
    for wanted in (*drawn.values(), *fewer):
        assert not slice_ & {example.id for example in wanted.read_data().examples}


def test_every_command_of_the_tuning_can_be_given() -> None:
    """Methods, options and values are read as the command reads them; the questions are counted."""
    text = (FOLDER / "TUNING.md").read_text(encoding="utf-8")
    commands = [shlex.split(line) for line in text.splitlines() if line.startswith("    hoptree eval tune")]
    assert {line[line.index("--method") + 1] for line in commands} == {"mind", "dragin", "flare", "seakr"}
    outs = [line[line.index("--out") + 1] for line in commands]
    assert len(set(outs)) == len(outs)
    for line in commands:
        given = {flag: [line[at + 1] for at, said in enumerate(line) if said == flag] for flag in ("--vary", "--set")}
        chosen = find_method(line[line.index("--method") + 1])
        fixed = dict(one.split("=") for one in [*given["--set"], "titles=on"])
        assert len(read_trials(chosen, given["--vary"], fixed)) > 3
    slices = re.findall(r'SLICE="(.*)"', text)
    assert len(slices) == 3 and all((FOLDER.parents[1] / name).exists() for name in re.findall(r"--ids (\S+)", text))


def test_what_the_small_model_is_asked(tmp_path: Path) -> None:
    runs = read_plan(FOLDER / "small-model.yaml", tmp_path)
    assert {one.data_name for one in runs} == {"2wikimultihopqa", "hotpotqa", "strategyqa"}
    first = [one.experiment for one in runs if one.data_name == "hotpotqa"]
    assert all(one.limit == 200 and one.budget.calls == 60 and one.retriever == "bm25" for one in first)
    drawn: dict[str, list[int]] = {}
    for one in first:
        others = {name: value for name, value in one.options.items() if name != "draw"}
        drawn.setdefault(f"{one.method} {json.dumps(others, sort_keys=True)}", []).append(one.options.get("draw", -1))
    assert sorted(map(sorted, drawn.values()))[:3] == [[-1]] * 3, (
        "one reading, three and a direct answer show no examples"
    )
    assert sorted(map(len, drawn.values())) == [1] * 3 + [3] * 8
    filters = [one.options["filters"] for one in first if one.method == "mind" and "filters" in one.options]
    assert set(filters) == {"none", "cot", "confidence", "cot+confidence"}
    assert sum(one.options.get("memory") is False for one in first) == 3


@pytest.mark.parametrize(("name", "runs"), [("table3", 7), ("table4", 5)])
def test_tables_3_and_4_are_asked_of_a_small_model_in_one_command(name: str, runs: int, tmp_path: Path) -> None:
    about = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))["about"]
    (command,) = [shlex.split(line) for line in about.splitlines() if "--limit" in line]
    given = dict(zip(command[3::2], command[4::2], strict=True))
    assert command[:3] == ["hoptree", "run", f"experiments/mind/{name}.yaml"]
    overrides = {"model": given["--model"], "limit": int(given["--limit"]), "budget": Budget.parse(given["--budget"])}
    planned = [one.experiment for one in read_plan(FOLDER / f"{name}.yaml", tmp_path, overrides)]
    assert len(planned) == runs and {one.limit for one in planned} == {100}
    assert {one.budget.calls for one in planned} == {60} and {one.model for one in planned} == {"hf/FILE.gguf"}


def test_table_2_counts_searches_with_and_without_memory(prepared: tuple[Path, Path], tmp_path: Path) -> None:
    summaries, report = made("table2", prepared, tmp_path, "HotpotQA", "StrategyQA")
    assert len(summaries) == 2 * 9 and not any(one["failed"] for one in summaries)
    searches = section(report, "Searches by data set")
    assert "| Run | Id | HotpotQA | StrategyQA |" in searches
    assert {"No filter", "DRAGIN", "SeaKR", "FLARE"} <= set(re.findall(r"^\| ([^|]+) \|", searches, re.MULTILINE))
    counted = section(report, "HotpotQA: triggers, searches and memory")
    assert "| CoT+Confidence, every sentence |" in counted
    changed = section(report, "HotpotQA: what skipping a search changed")
    assert "| CoT+Confidence, memory off |" in changed


def test_table_3_says_what_the_weights_drop(prepared: tuple[Path, Path], tmp_path: Path) -> None:
    _, report = made("table3", prepared, tmp_path)
    dropped = section(report, "HotpotQA: what filters drop")
    rows = re.findall(r"^\| (gamma [^|]+) \|", dropped, re.MULTILINE)
    assert len(rows) == 7 and "gamma 1.0, delta 1.0, first 2" in rows


def test_table_4_sets_thresholds(prepared: tuple[Path, Path], tmp_path: Path) -> None:
    _, report = made("table4", prepared, tmp_path)
    rests_on = section(report, "Runs, and what they rest on")
    assert re.search(r"\| Fixed 0\.6 \|.*threshold=fixed.*theta=0\.6", rests_on)
    assert re.search(r"\| Dynamic, over history \|.*over=history", rests_on)
    assert "| P |" in section(report, "HotpotQA: 1 questions")


def test_table_1_from_the_file_to_the_spread_over_draws(prepared: tuple[Path, Path], tmp_path: Path) -> None:
    summaries, report = made("table1", prepared, tmp_path, "StrategyQA")
    assert len(summaries) == 7 * 3 and not any(one["failed"] for one in summaries)
    drawn = section(report, "StrategyQA: over demonstration draws")
    rows = re.findall(r"^\| ([^|]+) \| `[^`]+` \| 3 \|", drawn, re.MULTILINE)
    assert set(rows) == {"DRAGIN", "SeaKR", "FLARE", "No filter", "Confidence", "CoT", "CoT+Confidence"}


def test_table_1_in_the_papers_rows_is_a_mean_over_draws(prepared: tuple[Path, Path], tmp_path: Path) -> None:
    data, script = prepared
    only = [part for name in ("HotpotQA", *(f"CoT, draw {n}" for n in range(3))) for part in ("--only", name)]
    how = ("--data", data, "--model", f"scripted/{script}", *only, "--out", tmp_path / "runs", "--no-cache", "--json")
    (table,) = json.loads(invoke("paper", "mind", "table1", *how))["tables"]
    rows = {row["run"]: row for row in table["rows"]}
    ours, theirs = rows[f"CoT, scripted/{script}"], rows["CoT, Llama-3.1-8B"]
    assert ours["HotpotQA EM"]["after"] == "± 0.0 over 3 draws" and ours["IIRC EM"] is None
    assert (theirs["HotpotQA EM"]["value"], theirs["id"]) == (34.5, "paper")
