"""`hoptree paper`: tables from a tiny data folder, judged, resumed after a kill, and what is refused."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call
from tests.evaluation.experiment_files import write

from hoptree.evaluation.plan import experiments_folder
from hoptree.graph.loading import load_graph

TREE = {"query1": {"question": "Who directed film N?", "children": {"query2": {"question": "Where was #query1 born?"}}}}
PASSAGES = [{"id": "p", "title": "Film N", "text": "Film N was directed by Ann Dee, who was born in Rome."}]
REPLIES: list[dict[str, Any]] = [
    {"step": "decompose", "reply": json.dumps(TREE)},
    {"step": "confident", "reply": "RAG_REQUIRED"},
    {"step": "read", "contains": "Who directed", "reply": "Ann Dee"},
    {"step": "read", "reply": "The documents do not mention the answer."},
    {"step": "judge", "reply": "Yes"},
    {"reply": "Rome"},
]


def questions(name: str, count: int = 4) -> list[dict[str, Any]]:
    asked = "Where was the director of film N number {} born?"
    return [{"id": f"{name}{n}", "question": asked.format(n), "answers": ["Rome"], "hops": 2} for n in range(count)]


def folder(here: Path) -> None:
    """Two data sets in our layout, and a model that is sure of nothing."""
    for name, corpus in (("2wikimultihopqa", "corpus.jsonl.gz"), ("bamboogle", "corpus.jsonl")):
        write(here / "D" / name / "dev.jsonl", questions(name))
        write(here / "D" / name / corpus, PASSAGES)
    (here / "m.json").write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")


def paper(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Give the command, without the reranker that the files of TAIKC name."""
    if arguments[0] == "taikc" and "--rerank" not in arguments:
        arguments = (*arguments, "--rerank", "none")
    environment = {"XDG_CACHE_HOME": str(here / "cache"), "HOME": str(here)}
    return call("paper", *arguments, folder=here, environment=environment)


def test_a_table_beside_the_papers_figures(tmp_path: Path) -> None:
    folder(tmp_path)
    command = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--limit", "3", "--json")
    done = paper(tmp_path, *command)
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    (table,) = output["tables"]
    rows = {(row["run"], row["id"]): row for row in table["rows"]}
    assert list(rows) == [
        ("With continuation, scripted/m.json", "here"),
        ("With continuation, GPT-4o", "paper"),
        ("Without continuation, scripted/m.json", "here"),
        ("Without continuation, GPT-4o", "paper"),
    ]
    ours = rows["With continuation, scripted/m.json", "here"]
    theirs = rows["With continuation, GPT-4o", "paper"]
    assert ours["2WikiMultihopQA EM"]["value"] == 100.0 and ours["2WikiMultihopQA EM"]["low"] < 100
    assert ours["Bamboogle Acc†"]["value"] == 100.0
    assert theirs["2WikiMultihopQA EM"]["value"] == 53.8
    assert rows["Without continuation, scripted/m.json", "here"]["Bamboogle F1"]["value"] == 0.0
    notes = " ".join(table["notes"])
    assert "Model: scripted/m.json; the paper: GPT-4o." in notes
    assert "2WikiMultihopQA 3 (500), Bamboogle 3 (125)" in notes
    assert "Judge: scripted/m.json" in notes and "KILT" in notes and "terminates" in notes
    assert (tmp_path / output["files"][0]).read_text(encoding="utf-8").startswith("## TAIKC, Table 8")

    again = json.loads(paper(tmp_path, *command).stdout)
    assert again == output


def test_a_table_and_the_claims_are_printed_from_stored_runs(tmp_path: Path) -> None:
    folder(tmp_path)
    printed = paper(
        tmp_path,
        "taikc",
        "table8",
        "--data",
        "D",
        "-m",
        "scripted/m.json",
        "--out",
        "all/one/taikc/table8",
        "--at-once",
        "2",
    )
    assert printed.returncode == 0, printed.stderr
    assert "by bm25, in the place of bm25 + embed/st/intfloat/e5-base-v2; the paper:" in printed.stdout
    (tmp_path / "m.json").unlink()  # nothing is asked
    stored = paper(tmp_path, "taikc", "table8", "--runs", "all")
    assert stored.returncode == 0, stored.stderr
    assert stored.stdout.partition("wrote ")[0] == printed.stdout.partition("wrote ")[0]
    assert (tmp_path / "all" / "taikc" / "table8.md").exists()
    claims = paper(tmp_path, "taikc", "claims", "--runs", "all", "--json")
    assert claims.returncode == 0, claims.stderr
    (table,) = json.loads(claims.stdout)["tables"]
    rows = {row["run"]: row for row in table["rows"]}
    continued = rows["Reasoning continuation helps"]
    assert (continued["id"], continued["Verdict"], continued["p"]) == ("scripted/m.json", "holds", "0.0078")
    assert continued["Figure"]["value"] == 100.0 and continued["Questions"]["value"] == 8
    assert rows["One retrieval helps a small open model"]["Decided by"] == "not run: OneR, Direct QA"
    assert {row["Verdict"] for row in rows.values()} == {"holds", "cannot be told"}

    refused = paper(tmp_path, "taikc", "table2", "--runs", "all")
    assert refused.returncode == 2 and "There is no run of TAIKC, Table 2 in all/taikc/table2" in refused.stderr
    shutil.copytree(tmp_path / "all" / "one", tmp_path / "all" / "two")
    twice = paper(tmp_path, "taikc", "table8", "--runs", "all")
    assert twice.returncode == 2 and "hold the same run. Give --runs a folder with only one of them." in twice.stderr


def test_a_killed_run_goes_on(tmp_path: Path) -> None:
    folder(tmp_path)
    arguments = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--only", "Bamboogle", "--out", "out")
    given = (*arguments, "--rerank", "none")
    # The process kills itself before it writes the third outcome.
    code = """
import os, signal, sys
from hoptree.evaluation.run_folder import RunFolder
add, written = RunFolder.add, []
async def killed(self, row):
    written.append(row.id)
    if len(written) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    await add(self, row)
RunFolder.add = killed
from hoptree.__main__ import main
main()
"""
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "paper", *given], cwd=tmp_path, env=environment, capture_output=True
    )
    assert done.returncode == -signal.SIGKILL
    first = tmp_path / "out" / "Bamboogle" / "With-continuation" / "results.jsonl"
    before = first.read_text(encoding="utf-8").splitlines()
    assert len(before) < 4
    finished = paper(tmp_path, *arguments)
    assert finished.returncode == 0, finished.stderr
    assert first.read_text(encoding="utf-8").splitlines()[: len(before)] == before
    assert "| With continuation, scripted/m.json | `here` |" in finished.stdout
    assert "Bamboogle 4 (125)" in finished.stdout and "not finished" not in finished.stdout


def test_boundary_awareness_in_the_papers_rows(tmp_path: Path) -> None:
    for place in ("nq/dev", "triviaqa/dev", "popqa/dev", "webquestions/dev_open"):
        write(tmp_path / "D" / f"{place}.jsonl", questions(place))
    replies = [
        {"step": "confident", "contains": "number 0", "reply": "RAG_REQUIRED"},
        {"step": "judge", "reply": "Yes"},
        {"reply": "Rome"},
    ]
    (tmp_path / "m.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    done = paper(tmp_path, "taikc", "table4", "--data", "D", "--model", "scripted/m.json", "--json")
    assert done.returncode == 0, done.stderr
    rows = {row["run"]: row for row in json.loads(done.stdout)["tables"][0]["rows"] if row["id"] == "here"}
    numbers = {name: row["PopQA Num"]["value"] for name, row in rows.items()}
    assert numbers == {f"{part}, scripted/m.json": n for part, n in (("DirQA", 4), ("ConfQA", 3), ("DirQA§", 1))}
    assert rows["ConfQA, scripted/m.json"]["Average"]["value"] == 100.0


def test_a_figure_writes_its_plots_and_judges_can_be_compared(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "n.json").write_text(json.dumps({"replies": [{"step": "judge", "reply": "No"}]}), encoding="utf-8")
    only = ("--data", "D", "--model", "scripted/m.json", "--limit", "2", "--only", "Bamboogle")
    figure = paper(tmp_path, "taikc", "figure13", *only, "--only", "TAIKC")
    assert figure.returncode == 0, figure.stderr
    assert "about 5 %" in figure.stdout and "report.html" in figure.stdout
    judged = paper(tmp_path, "taikc", "table7", *only, "--judge", "scripted/m.json", "--judge", "scripted/n.json")
    assert judged.returncode == 0, judged.stderr
    assert "| Bamboogle | `here` | 0.0 n=2 | n/a |" in judged.stdout
    alone = paper(tmp_path, "taikc", "table7", *only)
    assert alone.returncode == 2 and "needs at least 2 judges. Give each: --judge MODEL" in alone.stderr


def test_what_cannot_be_made_says_why_in_one_line(tmp_path: Path) -> None:
    folder(tmp_path)
    for arguments, cause in {
        ("taikc", "tabel2"): "taikc has no 'tabel2'. Did you mean table2?",
        ("mind", "table9"): "mind has no 'table9'. It has table1, table2, table3, table4.",
        ("tiakc", "table2"): "There is no paper 'tiakc'. Did you mean taikc?",
        ("mind", "figure1"): "MIND, Figure 1 is not here: it is a drawing;",
        ("taikc", "figure12"): "is made by another command. Give hoptree align train.",
        ("ra-isf", "table1", "--data", "D", "-m", "scripted/m.json"): "hoptree data get nq --data D;",
        ("taikc", "table8", "--data", "D", "-m", "scripted/m.json", "--only", "x"): "no run and no data set 'x'",
        ("taikc", "table8", "--data", "D", "-m", "scripted/m.json", "--out", "m.json"): "m.json is a file. Give --out",
    }.items():
        done = paper(tmp_path, *arguments)
        assert done.returncode == 2 and cause in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_an_encoder_that_is_not_here_says_what_does_without(tmp_path: Path) -> None:
    folder(tmp_path)
    given = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--rerank", "embed/onnx/nowhere")
    done = paper(tmp_path, *given)
    assert done.returncode == 2 and done.stderr.rstrip().endswith("; or take another: --encoder minilm, --rerank none.")


def test_what_searches_is_checked_before_anything_is_indexed(tmp_path: Path) -> None:
    folder(tmp_path)
    given = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json")
    for more, cause in {
        ("--retriever", "nope"): "There is no retriever 'nope'.",
        ("--rerank", "nope"): "There is no reranker 'nope'.",
        ("--rerank", "embed/onnx/nowhere"): "nowhere",
    }.items():
        done = paper(tmp_path, *given, *more)
        assert done.returncode == 2 and cause in done.stderr
        assert "on Bamboogle" not in done.stderr and not (tmp_path / "runs").exists()


def test_indexing_is_announced_where_no_bar_is_drawn(tmp_path: Path) -> None:
    folder(tmp_path)
    given = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--limit", "1", "--only", "Bamboogle")
    done = paper(tmp_path, *given)
    announced = "With continuation on Bamboogle: indexing D/bamboogle/corpus.jsonl."
    assert done.returncode == 0 and done.stderr.count(announced) == 1
    assert "indexing" not in paper(tmp_path, *given).stderr


def test_a_model_whose_name_holds_none_keeps_it(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "m.json").rename(tmp_path / "none.json")
    done = paper(
        tmp_path, "taikc", "table8", "--data", "D", "-m", "scripted/none.json", "--limit", "1", "--only", "Bamboogle"
    )
    assert "| With continuation, scripted/none.json | `here` |" in done.stdout


def test_prompts_of_ones_own(tmp_path: Path) -> None:
    folder(tmp_path)
    environment = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    assert call("methods", "prompts", "taikc", "--out", "P", folder=tmp_path, environment=environment).returncode == 0
    read = tmp_path / "P" / "taikc" / "read.txt"
    read.write_text(read.read_text(encoding="utf-8") + "\nBe brief, as the paper is.", encoding="utf-8")
    given = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--limit", "1", "--only", "Bamboogle")
    plain, own = (json.loads(paper(tmp_path, *given, "--json", *more).stdout) for more in ((), ("--prompts", "P")))
    assert own["folder"] != plain["folder"]
    runs = [json.loads(path.read_text()) for path in (tmp_path / own["folder"] / "Bamboogle").glob("*/run.json")]
    assert [set(run["rests_on"]["own_prompts"]) for run in runs] == [{"taikc/read.txt"}] * 2
    unused = paper(tmp_path, "taikc", "table8", "--prompts", "nowhere", "--data", "D", "--model", "scripted/m.json")
    assert unused.returncode == 2 and "There is no folder of prompts" in unused.stderr


def test_a_judge_that_cannot_be_opened_is_known_before_the_first_run(tmp_path: Path) -> None:
    folder(tmp_path)
    given = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--limit", "1")
    for judge, cause in {"nope": "'nope' names no model.", "scripted/none.json": "none.json"}.items():
        done = paper(tmp_path, *given, "--judge", judge)
        assert done.returncode == 2 and cause in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert not (tmp_path / "runs").exists()


def test_runs_over_another_corpus_have_a_folder_of_their_own(tmp_path: Path) -> None:
    folder(tmp_path)
    write(tmp_path / "other.jsonl", [{"id": "x", "title": "Film N", "text": "Film N is by Ann Dee."}])
    assert call("index", "other.jsonl", "--out", "X", folder=tmp_path, environment={}).returncode == 0
    given = ("taikc", "table8", "--data", "D", "--model", "scripted/m.json", "--limit", "1", "--only", "Bamboogle")
    first, other, again, less = (
        paper(tmp_path, *given, "--json", *more)
        for more in ((), ("--corpus", "X"), ("--corpus", "X"), ("--budget", "calls=9"))
    )
    folders = [json.loads(done.stdout)["folder"] for done in (first, other, again, less)]
    assert len(set(folders)) == 3 and folders[1] == folders[2]
    assert all(place.startswith("runs/taikc/table8/scripted-m.json-1-") for place in folders)
    mixed = paper(tmp_path, *given, "--corpus", "X", "--out", folders[0])
    assert mixed.returncode == 2 and "rests on something else: corpus was" in mixed.stderr
    assert mixed.stderr.endswith("Choose another --out.\n") and "--anyway" not in mixed.stderr


def test_a_figure_says_which_table_is_missing_and_why(tmp_path: Path) -> None:
    folder(tmp_path)
    given = ("--data", "D", "--model", "scripted/m.json", "--limit", "2", "--only", "Bamboogle", "--only", "TAIKC")
    for figure, sentence in {
        "figure3": "The table 'F1 by type' is missing: the questions that were asked have no types, or all the same.",
        "figure4": "TAIKC, Figure 4 has no table: its plots are in report.html.",
        "figure6": "The table 'All 4 data sets' is missing: the runs are of 1 data set, or none is of all.",
    }.items():
        done = paper(tmp_path, "taikc", figure, *given)
        assert done.returncode == 0 and sentence in done.stdout, (done.stdout, done.stderr)
        (written,) = (tmp_path / "runs" / "taikc" / "table2").glob(f"scripted-m.json-2-*/{figure}.md")
        assert sentence in written.read_text(encoding="utf-8")


def test_questions_are_counted_beside_the_papers_numbers(tmp_path: Path) -> None:
    folder(tmp_path)
    done = paper(tmp_path, "ra-isf", "table6", "--data", "D", "--json")
    output = json.loads(done.stdout)
    ours, theirs = output["tables"][0]["rows"]
    assert (ours["2WikiMultihopQA"]["value"], theirs["2WikiMultihopQA"]["value"]) == (4, 2935)
    assert (
        ours["HotpotQA"] is None
        and "D/hotpotqa/dev.jsonl is not here: hoptree data get hotpotqa --data D" in output["missing"]
    )


def test_drawn_questions_are_counted_beside_the_papers(tmp_path: Path) -> None:
    write(tmp_path / "D" / "qald10_en" / "dev_open.jsonl", questions("qald"))
    output = json.loads(paper(tmp_path, "treeqa", "table1", "--data", "D", "--json").stdout)
    ours, theirs = output["tables"][0]["rows"]
    assert (ours["QALD10-en"]["value"], theirs["QALD10-en"]["value"]) == (4, 333)
    assert theirs["SimpleQuestions"]["value"] == 3000 and "has 394 questions" in output["tables"][0]["notes"][0]


def test_a_run_without_its_labelled_questions_is_left_out(tmp_path: Path) -> None:
    folder(tmp_path)
    only = ("--only", "2WikiMultihopQA", "--only", "SKR", "--retriever", "bm25")
    given = ("ra-isf", "table1", "--data", "D", "--model", "scripted/m.json", "--limit", "1", *only)
    alone = paper(tmp_path, *given)
    assert alone.returncode == 2 and "there is no D/2wikimultihopqa/skr.jsonl" in alone.stderr
    beside = paper(tmp_path, *given, "--only", "Direct")
    assert beside.returncode == 0 and "SKR on 2WikiMultihopQA is left out" in beside.stderr
    assert "| Direct, scripted/m.json | `here` |" in beside.stdout
    assert "| SKR, scripted/m.json | `here` |" not in beside.stdout


def test_list_says_what_is_here_and_what_it_needs(tmp_path: Path) -> None:
    folder(tmp_path)
    listed = json.loads(paper(tmp_path, "list", "--data", "D", "--json").stdout)
    rows = {(row["paper"], row["name"]): row for row in listed}
    assert len(rows) == 30 + 17 + 13 + 5
    assert rows["taikc", "table8"]["state"] == "here" and not rows["taikc", "table8"]["missing"]
    assert rows["taikc", "table2"]["get"] == [f"hoptree data get {name} --data D" for name in ("hotpotqa", "musique")]
    assert rows["taikc", "table2"]["encoders"] == ["st/intfloat/e5-base-v2"]
    assert rows["ra-isf", "table1"]["encoders"] == ["st/facebook/contriever-msmarco"]
    assert rows["treeqa", "figure4"]["packages"] == ["relik"]
    assert rows["treeqa", "table2"]["network"][0] == "Wikidata" and not rows["taikc", "table2"]["network"]
    assert rows["mind", "table1"]["gpu"] and rows["taikc", "figure12"]["state"] == "another command"
    text = paper(tmp_path, "list", "mind", "--data", "D").stdout
    assert "mind table4: a fixed threshold" in text
    assert text.count("hoptree data get hotpotqa --data D") == 1 and "; needs data: hotpotqa" in text
    assert "\n5 tables and figures: 4 here, 1 not here\n4 of them need data that is not in D:\n" in text
    assert text == paper(tmp_path, "mind", "--data", "D").stdout


def test_figures_of_linking_with_their_plots(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    pytest.importorskip("onnxruntime")
    facts = [
        {"s": "Roger Marquis", "s_id": "Q1", "p": "place of death", "p_id": "P20", "o": "Holyoke", "o_id": "Q2"},
        {"s": "Roger Marquis", "s_id": "Q1", "p": "occupation", "p_id": "P106", "o": "catcher", "o_id": "Q3"},
    ]
    load_graph(tmp_path / "kg", [write(tmp_path / "facts.jsonl", facts)])
    rows = [
        {"id": "1", "question": "where did roger marquis die", "subject_qid": "Q1", "property": "P20"},
        {"id": "2", "question": "where was nolan born", "subject_qid": "Q99", "property": "P19"},
    ]
    write(tmp_path / "D" / "simplequestions" / "dev_wikidata_open.jsonl", rows)
    replies = [
        {"step": "mentions", "reply": '["Roger Marquis"]'},
        {"step": "relations", "reply": "2, 1"},
        {"reply": "1"},
    ]
    (tmp_path / "m.json").write_text(json.dumps({"replies": replies}), encoding="utf-8")
    how = ("--data", "D", "--graph", "kg", "--model", "scripted/m.json", "--json")

    def rows_of(name: str, *only: str) -> tuple[dict[tuple[str, str], Any], str]:
        done = paper(tmp_path, "treeqa", name, *how, *(word for run in only for word in ("--only", run)))
        assert done.returncode == 0, done.stderr
        output = json.loads(done.stdout)
        page = (tmp_path / output["files"][1]).read_text(encoding="utf-8")
        assert page.count("<svg viewBox") == 1 and "R@3" in page and "script" not in page.partition("<style>")[0]
        (table,) = output["tables"]
        return {(row["run"], row["id"]): row for row in table["rows"]}, " ".join(table["notes"])

    entities, notes = rows_of("figure4")
    left_out = paper(tmp_path, "treeqa", "figure4", *how)
    assert "ReLiK on SimpleQuestions is left out. This linker needs the package relik" in left_out.stderr
    alone = paper(tmp_path, "treeqa", "figure4", *how, "--only", "ReLiK")
    assert alone.returncode == 2 and "This linker needs the package relik" in alone.stderr
    assert rows_of("figure4", "Index")[0] == entities
    fewer = paper(tmp_path, "treeqa", "figure4", *how, "--limit", "1", "--out", json.loads(left_out.stdout)["folder"])
    assert fewer.returncode == 2 and "rests on something else: it asks 2 questions, now 1" in fewer.stderr
    assert fewer.stderr.endswith("Choose another --out.\n")
    assert entities["Index both", "here"]["R@1"]["value"] == 50.0
    assert entities["ReLiK both", "paper"]["R@5"]["value"] == 91.97
    assert "The graph has the entity of 1 of the 2 questions." in notes
    assert "SimpleQuestions 2 (3000)" in notes and "Model: scripted/m.json; the paper: DeepSeek-V3." in notes
    relations, notes = rows_of("figure5", "LLM", "all-MiniLM-L6-v2")
    assert relations["all-MiniLM-L6-v2, no model", "here"]["R@1"]["value"] == 50.0
    assert "of the 2 questions, and the relation of 1." in notes
    by_model = relations["LLM, scripted/m.json", "here"]
    assert (by_model["R@1"]["value"], by_model["R@3"]["value"]) == (0.0, 50.0)
    assert relations["LLM, DeepSeek-V3", "paper"]["R@6"]["value"] == 98.1
    (folder,) = (tmp_path / "runs" / "treeqa" / "figure5").iterdir()
    linking = folder / "SimpleQuestions" / "LLM" / "linking.json"
    before = linking.stat().st_mtime_ns
    assert rows_of("figure5", "LLM", "all-MiniLM-L6-v2")[0] == relations and linking.stat().st_mtime_ns == before

    file = str(experiments_folder() / "treeqa" / "figure4.yaml")
    refused = call("run", file, "--out", "o", folder=tmp_path, environment={})
    assert refused.returncode == 2 and "measures linking, and answers no questions" in refused.stderr
    linking.write_text("{", encoding="utf-8")
    done = paper(tmp_path, "treeqa", "figure5", *how, "--only", "LLM")
    assert done.returncode == 2 and "linking.json cannot be read" in done.stderr
