"""RA-ISF's experiment files: all tables and figures are there, and the ablations run from the file to the report."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

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


def test_table_2_from_the_file_to_the_report(tmp_path: Path) -> None:
    """Documents hold the birthplace, which only a split finds: without searching or splitting it is missed."""
    passages = [
        {"id": "p1", "title": "Film N", "text": "Film N is a film about a director born somewhere."},
        {"id": "p2", "title": "Ann Dee", "text": "Ann Dee was born in Rome."},
    ]
    for name in ("nq", "triviaqa", "hotpotqa"):
        write(tmp_path / "data" / name / "dev.jsonl", [{"id": "q", "question": QUESTION, "answers": ["Rome"]}])
        write(tmp_path / "data" / name / "corpus.jsonl.gz", passages)
    script = tmp_path / "m.json"
    script.write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    out = tmp_path / "runs"
    where = ("--data", tmp_path / "data", "--model", f"scripted/{script}", "--out", out, "--no-cache")
    summaries = json.loads(invoke("run", FOLDER / "table2.yaml", *where, "--json"))
    em = {one["name"].removesuffix(" on HotpotQA"): one["metrics"]["em"]["mean"] for one in summaries}
    assert {name: em[name] for name in ("Direct", "RA-ISF", "No SKM", "No PRM", "No QDM")} == {
        "Direct": 0.0,
        "RA-ISF": 1.0,
        "No SKM": 1.0,
        "No PRM": 0.0,
        "No QDM": 0.0,
    }
    invoke("report", out, "--html", tmp_path / "r.html", "--markdown", tmp_path / "r.md")
    assert "No QDM" in (tmp_path / "r.md").read_text(encoding="utf-8")
    (run,) = [path for path in (out / "HotpotQA").iterdir() if path.name == "RA-ISF"]
    events = [json.loads(line) for line in (run / "traces.jsonl").read_text(encoding="utf-8").splitlines()]
    branches = {event["id"]: event["branch"] for event in events if event["event"] == "node" and "branch" in event}
    assert branches == {0: "sub-questions", 1: "self-knowledge", 2: "passages"}, "what Table 7 is made from"
    drawn = invoke("show", run / "traces.jsonl")
    assert f"{QUESTION}  → Rome  [from its sub-questions" in drawn
