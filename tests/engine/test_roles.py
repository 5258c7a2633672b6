"""Roles: parts of a method played by models of their own, in an engine, a run and on the command line."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.traced import as_dicts
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, InputError
from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.run_folder import read_run
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.models.scripted import Rule, ScriptedModel

PLAN = json.dumps({"query1": {"question": "Who wrote Emma?"}})


def engine(heard: list[Event] | None = None, **more: Any) -> Engine:
    events = [] if heard is None else heard
    options = {"source": "internal"}
    return Engine(method="taikc", options=options, cache=None, listeners=(events.append,), **more)


def asked(model: ScriptedModel) -> Counter[str]:
    return Counter(step.removeprefix("taikc/") for step, _ in model.requests)


def test_a_role_goes_to_its_own_model_and_all_others_to_the_one_for_all() -> None:
    planner, rest = ScriptedModel(rules=[Rule(PLAN)]), ScriptedModel(rules=[Rule("Jane Austen")])
    heard: list[Event] = []

    async def ask() -> str:
        async with engine(heard, model=rest, roles={"decompose": planner}) as ready:
            return (await ready.ask("Who wrote Emma, and when?")).answer

    assert asyncio.run(ask()) == "Jane Austen"
    assert asked(planner) == {"decompose": 1} and asked(rest) == {"direct": 1, "summarise": 1, "final": 1}
    assert heard[0].as_dict()["roles"] == {"decompose": planner.name}
    assert {event["role"] for event in as_dicts(heard) if event["event"] == "llm"} == {
        "decompose",
        "answer",
        "summarise",
    }


def test_a_method_refuses_a_role_it_does_not_have() -> None:
    model = ScriptedModel(rules=[Rule("x")])
    with pytest.raises(ConfigError, match=r"taikc has no role 'decomposer'.*Did you mean 'decompose'"):
        engine(model=model, roles={"decomposer": model})
    with pytest.raises(ConfigError, match=r"direct has no role 'relevance'.*It has answer"):
        Engine(method="direct", model=model, roles={"relevance": model})


def script(path: Path, *replies: dict[str, Any]) -> str:
    path.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    return f"scripted/{path}"


def test_a_signal_is_required_of_the_model_that_answers() -> None:
    class Mute(ScriptedModel):
        capabilities = frozenset()

    mute, tells = Mute(rules=[Rule("x")]), ScriptedModel(rules=[Rule("x")])

    async def ask(**more: Any) -> str:
        async with Engine(
            method="taikc", options={"source": "probability"}, corpus="sample", cache=None, **more
        ) as ready:
            return (await ready.ask("Who?")).error

    assert asyncio.run(ask(model=tells, roles={"answer": mute})) == "ConfigError"
    assert asyncio.run(ask(model=mute, roles={"answer": tells})) == ""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    row = {"id": "q", "question": "Who wrote Emma?", "answers": ["Jane Austen"]}
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(row) + "\n", encoding="utf-8")
    return path


def test_a_run_rests_on_the_models_of_its_roles(tmp_path: Path, data: Path) -> None:
    rest = script(tmp_path / "rest.json", {"reply": "Jane Austen"})

    def run(planner: str) -> dict[str, Any]:
        options = {"source": "internal"}
        wanted = Experiment(data, method="taikc", model=rest, options=options, roles={"decompose": planner})
        return asyncio.run(run_experiment(wanted, tmp_path / "run", RunOptions(cache=None)))

    first = script(tmp_path / "first.json", {"reply": PLAN})
    assert run(first)["metrics"]["em"]["mean"] == 1
    assert "decompose=" in read_run(tmp_path / "run")["rests_on"]["model"]
    with pytest.raises(InputError, match="model"):
        run(script(tmp_path / "second.json", {"reply": PLAN + " "}))


def test_roles_on_the_command_line(tmp_path: Path, data: Path) -> None:
    rest = script(tmp_path / "rest.json", {"reply": "Jane Austen"})
    planner = script(tmp_path / "planner.json", {"step": "decompose", "reply": PLAN})
    given = [
        "--method",
        "taikc",
        "-m",
        rest,
        "--role",
        f"decompose={planner}",
        "--set",
        "source=internal",
        "--no-cache",
        "--json",
    ]
    output = CliRunner().invoke(app, ["ask", "Who wrote Emma?", *given])
    assert output.exit_code == 0 and json.loads(output.stdout)["answer"] == "Jane Austen"
    out = tmp_path / "run"
    ran = CliRunner().invoke(app, ["run", "--data", str(data), *given, "--out", str(out)])
    assert ran.exit_code == 0 and json.loads(ran.stdout)["metrics"]["em"]["mean"] == 1
    assert read_run(out)["experiment"]["roles"] == {"decompose": planner}
    listed = CliRunner().invoke(app, ["methods", "taikc"]).stdout
    assert "--role ROLE=MODEL    decompose|know|answer|summarise" in listed
    for wrong in ("decompose", "=x", "decompose="):
        refused = CliRunner().invoke(app, ["ask", "Who?", "--role", wrong])
        assert isinstance(refused.exception, InputError) and "--role ROLE=MODEL" in str(refused.exception)
    twice = CliRunner().invoke(app, ["ask", "Who?", "--role", "know=A", "--role", "know =B"]).exception
    assert isinstance(twice, InputError) and "--role know was given twice: A and B" in str(twice)


def test_an_experiment_file_names_roles(tmp_path: Path, data: Path) -> None:
    rest = script(tmp_path / "rest.json", {"reply": "Jane Austen"})
    planner = script(tmp_path / "planner.json", {"step": "decompose", "reply": PLAN})
    plan = tmp_path / "plan.yaml"
    plan.write_text(
        f"data: {{one: {{questions: {data.name}}}}}\nevery: {{model: {rest}, options: {{source: internal}}}}\n"
        f"runs: {{split: {{method: taikc, roles: {{decompose: {planner}}}}}}}\n",
        encoding="utf-8",
    )
    ran = CliRunner().invoke(app, ["run", str(plan), "--no-cache", "--json", "--out", str(tmp_path / "runs")])
    assert ran.exit_code == 0 and json.loads(ran.stdout)[0]["metrics"]["em"]["mean"] == 1
    plan.write_text(plan.read_text().replace(f"{{decompose: {planner}}}", "planner"), encoding="utf-8")
    refused = CliRunner().invoke(app, ["run", str(plan), "--out", str(tmp_path / "more")])
    assert isinstance(refused.exception, ConfigError) and "roles: {decompose:" in str(refused.exception)
