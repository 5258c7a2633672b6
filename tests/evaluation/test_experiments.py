"""The experiment files: what they name exists, and one of each kind runs from end to end on a few questions."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from hoptree.cli import commands as cli_commands
from hoptree.cli.main import app
from hoptree.engine.registry import find_method, read_options
from hoptree.evaluation.experiment import BOUNDARY_METHOD, LINKING_METHOD, BoundaryExperiment
from hoptree.evaluation.plan import NO_MODEL, IndexPlan, Planned, read_plan

HERE = Path(__file__).resolve().parents[2]
FOLDER = HERE / "experiments"
FILES = sorted(FOLDER.rglob("*.yaml"))
SHARED = HERE / ".." / "shared" / "data"
SAMPLE = HERE / "src" / "hoptree" / "sample"
COMMANDS = {name for commands in cli_commands.COMMANDS.values() for name in commands}
TREE = {"query1": {"question": "Who directed film N?", "children": {"query2": {"question": "Where was #query1 born?"}}}}


def planned(path: Path, **overrides: Any) -> list[Planned]:
    return read_plan(path, SHARED, overrides)


def test_there_are_files() -> None:
    assert {path.relative_to(FOLDER).as_posix() for path in FILES} >= {
        *(f"taikc/table{number}.yaml" for number in (2, 3, 4, 7, 8)),
        "taikc/figure5.yaml",
        "taikc/figures10-11.yaml",
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_methods_and_options_exist(path: Path) -> None:
    for one in planned(path):
        wanted = one.experiment
        if isinstance(wanted, BoundaryExperiment):
            assert wanted.method == BOUNDARY_METHOD and wanted.options.keys() <= {"strict"}
            continue
        if wanted.method == LINKING_METHOD:
            assert wanted.graph and wanted.limit and set(wanted.options) <= {"linker", "relations", "encoder"}
            continue
        method = find_method(wanted.method)
        read_options(method, wanted.options)
        options = {"evidence": "hybrid"} | dict(wanted.options)
        if "corpus" in method.needs and options.get("source") != "internal" and options["evidence"] != "graph":
            assert wanted.corpus, f"{one.run_name} reads documents"
        if "graph" in method.needs and options["evidence"] != "text":
            assert wanted.graph, f"{one.run_name} asks a graph"
        assert wanted.limit or wanted.ids or wanted.sample, (
            "the same questions on every machine: the first, or those drawn by a seed"
        )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_runs_have_folders_of_their_own_and_any_model_will_do(path: Path) -> None:
    for found in (planned(path), planned(path, model="local/mine")):
        folders = [one.folder for one in found]
        assert len(set(folders)) == len(folders)
    models = {one.experiment.model for one in planned(path, model="local/mine")}
    assert models - {NO_MODEL} == {"local/mine"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_a_file_says_about_itself_holds(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    about = yaml.safe_load(text)["about"]
    assert set(re.findall(r"^    hoptree ([a-z-]+)", about, re.MULTILINE)) <= COMMANDS
    place = path.relative_to(HERE).as_posix()
    by_paper = f"hoptree paper {place.removeprefix('experiments/').removesuffix('.yaml').replace('/', ' ')}"
    assert place in about or by_paper in about, "it says by which command it is run"
    ours = path.parent in (FOLDER, FOLDER / "hop")
    assert "differs from the paper" in about or ours, "a table of a paper says how it differs"
    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert f"({path.relative_to(FOLDER).as_posix()})" in readme


@pytest.mark.parametrize(
    ("name", "compared"),
    [
        ("taikc", "cot iter_retgen self_ask genground compact dyplan search_r1 flare dragin"),
        ("ra-isf", "least_to_most ircot skr replug iter_retgen self_rag"),
        ("treeqa", "cot cot_sc tog tog2 cok self_rag adaptive_rag"),
    ],
)
def test_all_methods_of_a_paper_s_main_table_are_there(name: str, compared: str) -> None:
    file = FOLDER / name / ("table1.yaml" if name == "ra-isf" else "table2.yaml")
    runs = yaml.safe_load(file.read_text(encoding="utf-8"))["runs"]
    assert {run["method"] for run in runs.values()} >= {"direct", "oner", *compared.split()}


@pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of data is not there")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_paths_are_those_of_the_data_folder(path: Path) -> None:
    root = SAMPLE if path.stem == "sample" else SHARED
    for one in read_plan(path, root):
        assert one.experiment.data.exists() and all(corpus.exists() for corpus in one.corpora)


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def test_files_retrieve_as_their_papers_say() -> None:
    taikc = {one.run_name: one for one in planned(FOLDER / "taikc" / "table2.yaml", model="local/mine")}
    found = {(one.experiment.retriever, one.experiment.rerank, one.experiment.sample) for one in taikc.values()}
    assert found == {("bm25", "embed/st/intfloat/e5-base-v2", "taikc")}
    assert taikc["DyPlan"].experiment.options == {"verify": True}
    ra_isf = {one.run_name: one for one in planned(FOLDER / "ra-isf" / "table1.yaml", model="local/mine")}
    assert {one.experiment.retriever for one in ra_isf.values()} == {"dense"}
    assert {one.index for one in ra_isf.values()} == {IndexPlan("words:100:0", "st/facebook/contriever-msmarco")}
    assert ra_isf["SKR"].experiment.options["how"] == "knn"


def tiny_data(folder: Path) -> Path:
    """Two data sets of three questions, laid out as the files expect."""
    passages = [
        {"id": "p1", "title": "Film N", "text": "Film N was directed by Ann Dee."},
        {"id": "p2", "title": "Ann Dee", "text": "Ann Dee is a director."},
    ]
    for name, corpus in (("2wikimultihopqa", "corpus.jsonl.gz"), ("bamboogle", "corpus.jsonl")):
        rows = [
            {"id": f"{name}{n}", "question": f"Where was the director of film N number {n} born?", "answers": ["Rome"]}
            | {"type": ["compositional", "comparison"][n % 2], "hops": 2}
            for n in range(3)
        ]
        write(folder / name / "dev.jsonl", rows)
        write(folder / name / corpus, passages)
    return folder


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_table_8_from_the_file_to_the_report(tmp_path: Path) -> None:
    replies = [
        {"step": "decompose", "reply": json.dumps(TREE)},
        {"step": "confident", "reply": "RAG_REQUIRED"},
        {"step": "read", "contains": "Who directed", "reply": "Ann Dee"},
        {"step": "read", "reply": "The documents do not mention the answer."},
        {"step": "direct", "reply": "Rome"},
        {"step": "summarise", "reply": "Film N was directed by Ann Dee, born in Rome."},
        {"step": "final", "reply": "Rome"},
    ]
    script = tmp_path / "m.json"
    script.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    out = tmp_path / "runs"
    place = ("--data", tiny_data(tmp_path / "data"), "--model", f"scripted/{script}", "--out", out, "--no-cache")
    summaries = json.loads(invoke("run", FOLDER / "taikc" / "table8.yaml", *place, "--rerank", "none", "--json"))
    em = {one["name"]: one["metrics"]["em"]["mean"] for one in summaries}
    assert em == {
        "With continuation on 2WikiMultihopQA": 1.0,
        "Without continuation on 2WikiMultihopQA": 0.0,
        "With continuation on Bamboogle": 1.0,
        "Without continuation on Bamboogle": 0.0,
    }
    invoke("eval", "report", out, "--html", tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for title in (
        "2WikiMultihopQA: F1 by type",  # Figure 3
        "Where answers come from: With continuation",  # Figure 4
        "All 2 data sets: F1 against tokens a question",  # Figure 6
        "All 2 data sets: F1 against seconds a question",
        "Bamboogle: attempts a sub-question took",  # Figure 13
    ):
        assert f"<h3>{title}</h3>" in page
    assert "With continuation, second attempt: 50.0 %; With continuation, third attempt: 50.0 %" in page


def test_the_seven_models_from_the_file_to_the_report(tmp_path: Path) -> None:
    data = tmp_path / "data"
    for number, place in enumerate(("nq/dev", "triviaqa/dev", "popqa/dev", "webquestions/dev_open")):
        rows = [{"id": f"q{n}", "question": f"Number {n} of {number}?", "answers": [f"answer {n}"]} for n in range(4)]
        write(data / f"{place}.jsonl", rows)
    for name in ("small", "large"):
        known = "[0-2]" if name == "large" else "[0]"
        replies = [
            {"step": "confident", "regex": f"Number {known} ", "reply": "answer 0"},
            {"step": "confident", "reply": "RAG_REQUIRED"},
            {"step": "direct", "reply": "answer 0"},
        ]
        script = tmp_path / f"{name}.json"
        script.write_text(json.dumps({"replies": replies}), encoding="utf-8")
        how = ("--data", data, "--model", f"scripted/{script}", "--out", tmp_path / "boundary" / name, "--no-cache")
        told = json.loads(invoke("eval", "boundary", FOLDER / "taikc" / "figures10-11.yaml", *how, "--json"))
        (model,) = told["models"]
        assert list(model["sets"]) == ["Natural Questions", "TriviaQA", "PopQA", "WebQuestions"]
        assert model["all"]["answered"] == (12 if name == "large" else 4)
    invoke("eval", "report", tmp_path / "boundary", "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for title in (
        "Accuracy by the model&#x27;s own word",  # Figures 5 and 9
        "Consistency",  # Figure 8
        "Accuracy by the model&#x27;s own word, mean of 4 data sets",  # Figure 10
        "Consistency of models, F1",  # Figure 11
        "PopQA: right answers against answers kept",
    ):
        assert f"<h3>{title}</h3>" in page
    assert "mean of 4" in (tmp_path / "r.md").read_text(encoding="utf-8")
