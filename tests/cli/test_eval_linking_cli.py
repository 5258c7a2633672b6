"""`hoptree eval linking` as a person meets it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.graph.graph_files import jsonl
from tests.small_indexes import hoptree

pytest.importorskip("pyoxigraph")
pytest.importorskip("numpy")

QUESTIONS = [
    {"id": "1", "question": "where did roger marquis die", "subject_qid": "Q1", "property": "P20"},
    {"id": "2", "question": "where was nolan born", "subject_qid": "Q99", "property": "P19"},
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fact = {"s": "Roger Marquis", "s_id": "Q1", "p": "place of death", "p_id": "P20", "o": "Holyoke", "o_id": "Q2"}
    jsonl(tmp_path / "facts.jsonl", [fact])
    jsonl(tmp_path / "q.jsonl", QUESTIONS)
    assert hoptree(tmp_path, "graph", "load", "facts.jsonl", "--out", "kg").returncode == 0
    return tmp_path


def test_figures_for_people_and_for_machines(home: Path) -> None:
    shown = hoptree(home, "eval", "linking", "--data", "q.jsonl", "--graph", "kg")
    assert shown.returncode == 0, shown.stderr
    assert "entities, 2 questions" in shown.stdout and "R@5" in shown.stdout and "R@6" in shown.stdout
    assert "the 1 questions whose entity is in the graph" in shown.stdout and "100.0 (2.5 to 100.0)" in shown.stdout
    data = json.loads(hoptree(home, "eval", "linking", "--data", "q.jsonl", "--graph", "kg", "--json").stdout)
    assert list(data["entities"]["linker"]) == ["recall@1", "recall@3", "recall@5"]
    assert data["relations"]["words"]["recall@1"]["recall"] == 0.5 and data["failed"] == 0


def test_a_model_that_fails_is_told(home: Path, no_backoff: None) -> None:
    (home / "script.json").write_text(json.dumps({"replies": [{"fault": "html"}]}))
    arguments = ["--data", "q.jsonl", "--graph", "kg", "-m", "scripted/script.json", "--no-cache", "--limit", "1"]
    shown = hoptree(home, "eval", "linking", *arguments, "--json")
    assert shown.returncode == 0 and json.loads(shown.stdout)["failed"] == 1
    assert "1 of 1 questions failed and count as missed." in shown.stderr


def test_a_linker_beside_the_index(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class GLiNER:
        @classmethod
        def from_pretrained(cls, model_id: str) -> GLiNER:
            return cls()

        def predict_entities(self, text: str, labels: list[str], threshold: float) -> list[dict[str, object]]:
            return [{"start": 0, "end": 5, "text": "holyoke", "label": "location", "score": 0.9}]

    monkeypatch.setitem(sys.modules, "gliner", SimpleNamespace(GLiNER=GLiNER))
    arguments = ["eval", "linking", "--data", "q.jsonl", "--graph", "kg", "--linker", "gliner:some/model"]
    shown = hoptree(home, *arguments, "--json")
    data = json.loads(shown.stdout)
    assert data["linker"] == "gliner:some/model" and "downloads what is missing" in shown.stderr
    assert data["entities"]["index"]["recall@1"]["recall"] == 0.5
    assert data["entities"]["linker"]["recall@1"]["recall"] == 0.0
    assert "index" in hoptree(home, *arguments).stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--relations", "luck"], "cannot be ranked by 'luck'"),
        (["--relations", "llm"], "Without a model"),
        (["--among", "all"], "no relations of 'all'"),
        (["--half", "third"], "not a half"),
        (["--linker", "spacy:x"], "'spacy:x' is not a linker"),
        (["--graph", "nowhere"], "There is no knowledge graph at nowhere"),
        (["--data", "missing.jsonl"], "There is no missing.jsonl"),
    ],
)
def test_what_cannot_be_is_one_sentence(home: Path, arguments: list[str], words: str) -> None:
    done = hoptree(home, "eval", "linking", "--data", "q.jsonl", "--graph", "kg", *arguments)
    assert done.returncode == 2 and words in done.stderr and "Traceback" not in done.stderr and done.stdout == ""
