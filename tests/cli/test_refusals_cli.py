"""What the command line says where it refuses, and what it says beside an answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.command_line import call

from hoptree.cli import console
from hoptree.core.errors import CorpusError
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.models.scripted import ScriptedModel

QUESTION = "Who directed it?"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "m.json").write_text(json.dumps({"replies": [{"reply": "Elia Kazan"}]}), encoding="utf-8")
    row = {"id": "q0", "question": QUESTION, "answers": ["Elia Kazan"]}
    (tmp_path / "q.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    facts = {"subject": "A film", "relation": "director", "object": "Elia Kazan"}
    (tmp_path / "f.jsonl").write_text(json.dumps(facts) + "\n", encoding="utf-8")
    return tmp_path


def hoptree(here: Path, *arguments: str) -> tuple[int, str, str]:
    done = call(*arguments, folder=here, environment={"HOME": str(here), "HOPTREE_MODEL": "scripted/m.json"})
    return done.returncode, done.stdout, done.stderr


def test_a_refused_question_has_one_line_and_no_tree(here: Path) -> None:
    code, out, err = hoptree(here, "ask", QUESTION, "--method", "oner", "--no-cache")
    assert (code, out) == (2, "") and err.count("no corpus was given") == 1


def test_a_refused_question_is_told_in_json(here: Path) -> None:
    code, out, _ = hoptree(here, "ask", QUESTION, "--method", "oner", "--no-cache", "--json")
    assert code == 2 and json.loads(out)["error"]["class"] == "CorpusError"


def test_what_does_without_documents_is_told() -> None:
    ctx = Context(method="m", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("t"))
    with pytest.raises(CorpusError, match=r"\(or --corpus sample\)\. --set evidence=graph does without\.$"):
        ctx.require_corpus(instead="--set evidence=graph")
    with pytest.raises(CorpusError, match=r"\(or --corpus sample\)\.$"):
        ctx.require_corpus()


def test_a_graph_that_a_method_does_not_look_into_is_told(here: Path) -> None:
    assert hoptree(here, "graph", "load", "f.jsonl", "--out", "kg")[0] == 0
    code, out, err = hoptree(here, "ask", QUESTION, "--method", "direct", "--graph", "kg", "--no-cache")
    assert code == 0 and "Elia Kazan" in out
    assert "direct does not look into a knowledge graph: --graph kg changes nothing." in err
    assert "1 model call ·" in out and "0 searches" in out


def test_a_run_says_that_the_graph_is_of_no_use(here: Path) -> None:
    hoptree(here, "graph", "load", "f.jsonl", "--out", "kg")
    code, _, err = hoptree(here, "run", "--data", "q.jsonl", "--method", "direct", "--graph", "kg", "--out", "run")
    assert code == 0 and "direct does not look into a knowledge graph" in err


def test_a_refused_run_of_an_experiment_is_named(here: Path) -> None:
    (here / "plan.yaml").write_text(
        "data: {films: {questions: q.jsonl}}\nruns: {plain: {method: direct}, one round: {method: oner}}\n",
        encoding="utf-8",
    )
    code, _, err = hoptree(here, "run", "plan.yaml", "--out", "runs")
    assert code == 2 and "hoptree: one round on films: oner reads documents" in err
    assert (here / "runs" / "films" / "plain").is_dir() and not (here / "runs" / "films" / "one-round").exists()


def test_another_corpus_takes_the_place_of_those_of_an_experiment(here: Path) -> None:
    (here / "plan.yaml").write_text(
        "data: {films: {questions: q.jsonl, corpus: wikipedia}}\nruns: {one round: {method: oner}}\n", encoding="utf-8"
    )
    code, out, err = hoptree(here, "run", "plan.yaml", "--corpus", "sample", "--out", "runs", "--json")
    assert code == 0, err
    assert json.loads(out)[0]["finished"] == 1


def test_show_says_how_a_struck_out_answer_looks(here: Path) -> None:
    assert "old ⇒ new" in hoptree(here, "show", "--help")[1]


def test_a_file_that_may_not_be_used_is_named_with_a_remedy(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied", "adapters/a.gguf")

    monkeypatch.setattr(console, "_call", refuse)
    code, _, err = hoptree(here, "search", "mayor")
    assert code == 2
    assert err == (
        "hoptree: adapters/a.gguf cannot be used: Permission denied. Ask its owner for permission, or name another.\n"
    )
