"""RA-ISF's experiment files: all tables and figures are there, and the ablations run from the file to the report."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoptree.cli.main import app

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "ra-isf"
QUESTION = "Where was the director of film N born?"
REPLIES = [
    {"step": "know", "contains": "Who directed", "reply": "Yes. Ann Dee."},
    {"step": "know", "reply": "No"},
    {"step": "relevance", "contains": "Where was Ann Dee born?\nIs", "regex": "born in Rome", "reply": "relevance"},
    {"step": "relevance", "reply": "irrelevance"},
    {"step": "decompose", "contains": QUESTION, "reply": "1. Who directed film N?\n2. Where was Ann Dee born?"},
    {"step": "decompose", "reply": "There is nothing to split."},
    {"step": "read", "regex": "born in Rome", "reply": "Rome"},
    {"step": "read", "reply": "unknown"},
    {"step": "combine", "contains": "Where was Ann Dee born?\nRome", "reply": "Rome"},
    {"step": "combine", "reply": "unknown"},
    {"step": "direct", "reply": "Paris"},
]


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


def test_there_is_a_file_for_every_table_and_figure_that_runs_make() -> None:
    names = {path.stem for path in FOLDER.glob("*.yaml")}
    assert names >= {"table1", "table2", "table4", "table7", "figure2", "figures3-4", "small-model"}


def prepared(folder: Path, *names: str) -> tuple[object, ...]:
    """Documents hold the birthplace, which only a split finds; and a model that knows who the director is."""
    passages = [
        {"id": "p1", "title": "Film N", "text": "Film N is a film about a director born somewhere."},
        {"id": "p2", "title": "Ann Dee", "text": "Ann Dee was born in Rome."},
    ]
    for name in names:
        write(folder / "data" / name / "dev.jsonl", [{"id": "q", "question": QUESTION, "answers": ["Rome"]}])
        write(folder / "data" / name / f"corpus.jsonl{'' if name == 'strategyqa' else '.gz'}", passages)
    script = folder / "m.json"
    script.write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    given = ("--data", folder / "data", "--model", f"scripted/{script}", "--out", folder / "runs", "--no-cache")
    return (*given, "--retriever", "bm25")


def reported(folder: Path) -> tuple[str, str]:
    """The page and the tables as Markdown."""
    page, tables = folder / "r.html", folder / "r.md"
    invoke("eval", "report", folder / "runs", "--html", page, "--markdown", tables)
    return page.read_text(encoding="utf-8"), tables.read_text(encoding="utf-8")


def test_table_2_from_the_file_to_the_report(tmp_path: Path) -> None:
    """Without searching or splitting the birthplace is missed."""
    where = prepared(tmp_path, "nq", "triviaqa", "hotpotqa")
    out = tmp_path / "runs"
    summaries = json.loads(invoke("run", FOLDER / "table2.yaml", *where, "--json"))
    em = {one["name"].removesuffix(" on HotpotQA"): one["metrics"]["em"]["mean"] for one in summaries}
    assert {name: em[name] for name in ("Direct", "RA-ISF", "No SKM", "No PRM", "No QDM")} == {
        "Direct": 0.0,
        "RA-ISF": 1.0,
        "No SKM": 1.0,
        "No PRM": 0.0,
        "No QDM": 0.0,
    }
    assert "No QDM" in reported(tmp_path)[1]
    (run,) = [path for path in (out / "HotpotQA").iterdir() if path.name == "RA-ISF"]
    events = [json.loads(line) for line in (run / "traces.jsonl").read_text(encoding="utf-8").splitlines()]
    branches = {event["id"]: event["branch"] for event in events if event["event"] == "node" and "branch" in event}
    assert branches == {0: "sub-questions", 1: "self-knowledge", 2: "passages"}, "what Table 7 is made from"
    drawn = invoke("show", run / "traces.jsonl")
    assert f"{QUESTION}  → Rome  [from its sub-questions" in drawn


def test_table_4_from_the_file_to_the_report(tmp_path: Path) -> None:
    invoke("run", FOLDER / "table4.yaml", *prepared(tmp_path, "nq", "triviaqa", "strategyqa"))
    (cost,) = [one for one in reported(tmp_path)[1].split("## ") if one.startswith("StrategyQA: searches and sub-")]
    # it and its second sub-question are searched for; the first is known
    assert re.search(r"\| RA-ISF \| `\w+` \| 2\.0 \(2\.0–2\.0\) \| 3\.0 \(3\.0–3\.0\) \|", cost)


def test_table_7_from_the_file_to_the_report(tmp_path: Path) -> None:
    where = prepared(tmp_path, "nq", "triviaqa", "hotpotqa", "strategyqa", "2wikimultihopqa")
    invoke("run", FOLDER / "table7.yaml", *where)
    (work,) = [one for one in reported(tmp_path)[1].split("## ") if one.startswith("2WikiMultihopQA: workload by")]
    assert re.search(r"\| [^|]*: sub-questions \| `\w+` \| 1 \| 100\.0 \| 1 \| 100\.0", work)


def test_tables_4_and_7_in_the_papers_rows(tmp_path: Path) -> None:
    where = prepared(tmp_path, "nq", "triviaqa", "hotpotqa", "strategyqa", "2wikimultihopqa")
    only = ("--only", "StrategyQA", "--only", "RA-ISF", "--json")
    (searches,) = json.loads(invoke("paper", "ra-isf", "table4", *where, *only))["tables"]
    ours, theirs = searches["rows"][:2]
    assert (ours["StrategyQA Ret"]["value"], ours["StrategyQA Sub"]["value"]) == (2.0, 3.0)
    assert (theirs["run"], theirs["StrategyQA Sub"]["value"]) == ("RA-ISF, Llama-2-13B", 6.8)
    again = [*where[:4], "--out", tmp_path / "table7", *where[6:]]
    (work,) = json.loads(invoke("paper", "ra-isf", "table7", *again, "--only", "StrategyQA", "--json"))["tables"]
    shares = {row["run"]: row["StrategyQA WR"]["value"] for row in work["rows"] if row["id"] == "here"}
    assert list(shares.values()) == [0.0, 0.0, 100.0] and list(shares)[2].startswith("Task-Decomposition")


@pytest.mark.parametrize(("name", "option", "end"), [("figure2", "depth", 5), ("figures3-4", "k", 9)])
def test_figures_2_to_4_are_lines_in_the_report(tmp_path: Path, name: str, option: str, end: int) -> None:
    invoke("run", FOLDER / f"{name}.yaml", *prepared(tmp_path, "nq", "triviaqa"))
    page, _ = reported(tmp_path)
    assert f"Natural Questions: EM by {option}" in page and f"ra_isf: EM 100.0 at {end}" in page
    assert ("Direct: EM 0.0; RAG: EM" in page) == (name == "figure2"), "what the paper holds it against"
