"""RA-ISF's Table 3: sub-models of other kinds, as its file has them, with an encoder-decoder model among them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.models.encoder_decoders import saved
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.evaluation.plan import read_plan

FILE = Path(__file__).resolve().parents[2] / "experiments" / "ra-isf" / "table3.yaml"
SUB_MODELS = {"know", "relevance", "decompose"}
REPLIES = [
    {"step": "know", "reply": "No"},
    {"step": "relevance", "reply": "relevance"},
    {"step": "read", "reply": "Rome"},
    {"reply": "unknown"},
]


def test_the_file_names_the_papers_sub_models() -> None:
    plan = read_plan(FILE, Path("data"))
    assert len(plan) == 5 * 3
    assert {one.experiment.model for one in plan} == {"openai/gpt-3.5-turbo"}
    assert {(one.experiment.method, one.experiment.options["k"]) for one in plan} == {("ra_isf", 5)}
    kinds = {one.run_name: one.experiment.roles for one in plan}
    assert [set(roles) for roles in kinds.values()] == [SUB_MODELS, SUB_MODELS, set()]
    assert [len(set(roles.values())) for roles in kinds.values()] == [1, 1, 0], "one model plays all three"
    assert set(kinds["T5-780M"].values()) == {"hf/google/flan-t5-large"}


def test_a_tiny_t5_plays_the_three_parts(tmp_path: Path) -> None:
    """From the file, with models that are here: what the T5 says is noise, and counts as its reply all the same."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    t5 = f"hf/{saved(tmp_path / 't5', 't5')}?device=cpu"
    script = tmp_path / "m.json"
    script.write_text(json.dumps({"replies": REPLIES}), encoding="utf-8")
    plan: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    plan["data"] = {"Birthplaces": {"questions": "dev.jsonl", "corpus": "corpus.jsonl"}}
    plan["every"] |= {"budget": "calls=5", "retriever": "bm25", "index": {"chunk": "words:100:0"}}
    for settings in plan["runs"].values():
        roles = settings.get("roles", {})
        roles |= {role: t5 if "t5" in spec else f"scripted/{script}" for role, spec in roles.items()}
    (tmp_path / "table3.yaml").write_text(yaml.safe_dump(plan, sort_keys=False), encoding="utf-8")
    question = {"id": "q", "question": "Where was Ann Dee born?", "answers": ["Rome"]}
    passage = {"id": "p", "title": "Ann Dee", "text": "Ann Dee was born in Rome."}
    (tmp_path / "dev.jsonl").write_text(json.dumps(question) + "\n", encoding="utf-8")
    (tmp_path / "corpus.jsonl").write_text(json.dumps(passage) + "\n", encoding="utf-8")
    where = ["--data", str(tmp_path), "--model", f"scripted/{script}", "--out", str(tmp_path / "runs")]
    done = CliRunner().invoke(app, ["run", str(tmp_path / "table3.yaml"), *where, "--no-cache", "--json"])
    assert done.exit_code == 0, (done.output, done.exception)
    scores = {
        one["name"].removesuffix(" on Birthplaces"): one["metrics"]["em"]["mean"] for one in json.loads(done.output)
    }
    assert scores["Llama-2-7B"] == scores["Answering model"] == 1.0
    traces = (tmp_path / "runs" / "Birthplaces" / "T5-780M" / "traces.jsonl").read_text(encoding="utf-8")
    events = [json.loads(line) for line in traces.splitlines()]
    assert events[0]["roles"] == dict.fromkeys(sorted(SUB_MODELS), t5.removesuffix("?device=cpu"))
    said = [event for event in events if event["event"] == "llm" and event["role"] == "know"]
    assert said and all(event["prompt_tokens"] > 20 and event["completion_tokens"] for event in said)
    assert events[-1]["event"] == "final" and not events[-1].get("error")
