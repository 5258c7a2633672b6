"""Evaluation runs, looked into over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from tests.server.running import PASSAGES, Running, running, settings
from tests.server.some_runs import make_runs

from hoptree.evaluation.run_folder import read_run, summarise


@pytest.fixture(scope="module")
def browsed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("runs")
    wanted = settings(folder, runs=folder / "runs")
    make_runs(folder, wanted.corpora["films"])
    with running(wanted) as server:
        yield server


def _ids(server: Running) -> dict[str, str]:
    return {run["folder"]: run["id"] for run in server.client.get("/v1/runs").json()["runs"]}


def test_runs_are_listed_without_paths(browsed: Running) -> None:
    reply = browsed.client.get("/v1/runs")
    runs = {run["folder"]: run for run in reply.json()["runs"]}
    assert set(runs) == {"broken", "deep/direct", "deep/oner"}
    assert "damaged" in runs["broken"]["error"]
    oner = runs["deep/oner"]
    assert (oner["name"], oner["method"], oner["model"], oner["dataset"]) == (
        "oner here",
        "oner",
        "oner.json",
        "questions",
    )
    assert (oner["questions"], oner["finished"], oner["em"], oner["f1"]) == (2, 2, 0.5, 0.5)
    assert runs["deep/direct"]["failed"] == 1
    assert str(browsed.state.settings.runs) not in reply.text


def test_one_run_tells_its_scores_by_type(browsed: Running) -> None:
    name = _ids(browsed)["deep/oner"]
    data = browsed.client.get(f"/v1/runs/{name}").json()
    assert data["by_type"]["bridge"]["metrics"]["em"]["mean"] == 1.0
    assert data["by_type"]["other"]["metrics"]["em"]["mean"] == 0.0
    assert data["options"]["k"] == 5
    assert browsed.client.get("/v1/runs/none").status_code == 404
    assert browsed.client.get(f"/v1/runs/{_ids(browsed)['broken']}").status_code == 400


def test_questions_by_type_and_outcome(browsed: Running) -> None:
    oner, direct = _ids(browsed)["deep/oner"], _ids(browsed)["deep/direct"]

    def ids(run: str, **params: str | int) -> list[str]:
        data = browsed.client.get(f"/v1/runs/{run}/questions", params=params).json()
        return [row["id"] for row in data["questions"]]

    assert ids(oner) == ["a", "b/2"]
    assert ids(oner, verdict="right") == ["a"]
    assert ids(oner, verdict="wrong") == ["b/2"]
    assert ids(direct, verdict="failed") == ["b/2"]
    assert ids(oner, type="other") == ["b/2"]
    assert ids(oner, offset=1, limit=1) == ["b/2"]
    assert browsed.client.get(f"/v1/runs/{oner}/questions", params={"verdict": "odd"}).status_code == 422


def test_one_question_has_its_result(browsed: Running) -> None:
    oner = _ids(browsed)["deep/oner"]
    data = browsed.client.get(f"/v1/runs/{oner}/questions/b%2F2").json()
    assert data["gold"] == ["Bille August"]
    assert data["result"]["answer"] == "Nobody"
    assert data["result"]["model"] == "oner.json"
    assert {passage["title"] for passage in data["result"]["evidence"]} <= {title for _, title, _ in PASSAGES}
    assert browsed.client.get(f"/v1/runs/{oner}/questions/none").status_code == 404


def test_two_runs_are_compared_question_by_question(browsed: Running) -> None:
    oner, direct = _ids(browsed)["deep/oner"], _ids(browsed)["deep/direct"]
    data = browsed.client.get("/v1/compare", params={"a": direct, "b": oner}).json()
    assert data["metrics"]["em"]["difference"] == 0.5
    assert data["metrics"]["em"]["wins"] == 1
    assert [row["id"] for row in data["differ"]] == ["a"]
    assert data["differ"][0]["a"]["answer"] == "1950"
    assert data["differ"][0]["b"]["answer"] == "1948"
    assert browsed.client.get("/v1/compare", params={"a": oner, "b": oner}).status_code == 400
    assert browsed.client.get("/v1/compare", params={"a": oner, "b": "none"}).status_code == 404


def test_texts_among_options_are_not_told(browsed: Running) -> None:
    path = next(browsed.state.settings.runs.rglob("oner/run.json"))  # type: ignore[union-attr]
    before = path.read_text()
    run = read_run(path.parent)
    run["rests_on"]["options"] |= {"labels": "/home/ada/private.jsonl"}
    path.write_text(json.dumps(run))
    try:
        data = browsed.client.get(f"/v1/runs/{_ids(browsed)['deep/oner']}").json()
    finally:
        path.write_text(before)
    assert data["options"]["labels"] == "set by the server"
    assert data["options"]["k"] == 5


def test_judges_go_by_the_names_of_their_models(browsed: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = "local//home/ada/judge.gguf"

    def summarised(folder: Path) -> dict[str, Any]:
        return summarise(folder) | {"judges": {spec: {"model": spec, "accuracy": 0.5}}}

    monkeypatch.setattr("hoptree.server.runs.summarise", summarised)
    browsed.state.runs._summaries.clear()
    try:
        data = browsed.client.get(f"/v1/runs/{_ids(browsed)['deep/oner']}").json()
    finally:
        browsed.state.runs._summaries.clear()
    assert data["judges"] == {"judge.gguf": {"model": "judge.gguf", "accuracy": 0.5}}


def test_a_failed_question_tells_its_class_and_not_what_the_endpoint_said(browsed: Running) -> None:
    data = browsed.client.get(f"/v1/runs/{_ids(browsed)['deep/direct']}/questions/b%2F2").json()
    assert data["result"]["error"]["class"] == "EndpointError"
    assert "The script says" not in json.dumps(data)


def test_without_a_folder_there_are_none(server: Running) -> None:
    assert server.client.get("/v1/runs").json() == {"runs": []}
