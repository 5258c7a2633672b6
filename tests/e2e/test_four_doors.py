"""A question has one result, whichever door it is asked through: Python, the command line, HTTP or MCP."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import index_of
from typer.testing import CliRunner

import hoptree
from hoptree.cli.main import app

pytest.importorskip("fastapi")
pytest.importorskip("mcp_types")

from mcp import Client
from tests.mcp.served import script
from tests.server.running import running, settings

from hoptree.engine.engine import Engine
from hoptree.mcp.server import open_server
from hoptree.models.scripted import Rule

QUESTION = "Who directed The Hourglass Sanatorium?"
PASSAGES = (
    ("The Hourglass Sanatorium", "The Hourglass Sanatorium is a film of 1973. Wojciech Has directed it."),
    ("Night Train to Lisbon", "Night Train to Lisbon is a film of 2013. Bille August directed it."),
)
PLAN = json.dumps({"query1": {"question": "Who directed The Hourglass Sanatorium?"}})
SCRIPTS = {
    "a guess": ("oner", [Rule("Zanzibar", step="read")]),
    "an answer": ("oner", [Rule("Wojciech Has", step="read")]),
    "a decision": ("skr", [Rule("No.", step="need"), Rule("So the answer is: Wojciech Has.", step="think")]),
    "a tree": (
        "taikc",
        [
            Rule(PLAN, step="decompose"),
            Rule("RAG_REQUIRED", step="confident"),
            Rule("Orson Welles", step="read"),
            Rule("Orson Welles directed it.", step="summarise"),
            Rule("Orson Welles", step="final"),
        ],
    ),
    "a tree that says otherwise": (
        "taikc",
        [
            Rule(PLAN, step="decompose"),
            Rule("RAG_REQUIRED", step="confident"),
            Rule("Wojciech Has", step="read"),
            Rule("Bille August directed it.", step="summarise"),
            Rule("Bille August", step="final"),
        ],
    ),
}
GUESS = "what was read does not hold the answer: it is a guess that documents do not support"


def by_python(model: str, corpus: Path, method: str, trace: Path) -> dict[str, Any]:
    return hoptree.ask(QUESTION, model=model, corpus=corpus, method=method, cache=None, trace=trace).as_dict()


def by_command(*arguments: str) -> dict[str, Any]:
    done = CliRunner().invoke(app, [*arguments, "--json"])
    assert done.exit_code == 0, done.output
    printed: dict[str, Any] = json.loads(done.stdout)
    return printed


def by_http(model: str, corpus: Path, method: str, folder: Path) -> dict[str, Any]:
    wanted = settings(folder, models={"demo": model}, corpora={"films": str(corpus)}, method=method)
    with running(wanted) as server:
        reply: dict[str, Any] = server.ask(QUESTION).json()
    return reply


def by_mcp(model: str, corpus: Path, method: str) -> dict[str, Any]:
    async def ask() -> dict[str, Any]:
        async with (
            Engine(method=method, model=model, corpus=corpus, cache=None) as engine,
            Client(open_server(engine)) as client,
        ):
            content: dict[str, Any] | None = (await client.call_tool("ask", {"question": QUESTION})).structured_content
        assert content is not None
        return content

    return asyncio.run(ask())


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    usage = {name: value for name, value in result["usage"].items() if "seconds" not in name}
    return {**result, "usage": usage}


@pytest.mark.parametrize("case", SCRIPTS)
def test_every_door_gives_the_same_result(case: str, tmp_path: Path) -> None:
    method, rules = SCRIPTS[case]
    corpus, trace = index_of(tmp_path, *PASSAGES), tmp_path / "trace.jsonl"
    model = f"scripted/{script(tmp_path, rules)}"
    result = by_python(model, corpus, method, trace)

    asked = ("ask", QUESTION, "--method", method, "--model", model, "--corpus", str(corpus), "--no-cache")
    assert timeless(by_command(*asked)) == timeless(result)
    assert by_command("show", str(trace)) == json.loads(json.dumps(result)), "from its trace too"
    assert timeless(by_http(model, corpus, method, tmp_path)) == timeless({**result, "model": "demo"})

    by_tool = by_mcp(model, corpus, method)
    for name in ("answer", "abstained", "method", "warnings", "decisions", "options", "confidence", "chains"):
        assert by_tool[name] == result[name], name
    contrary = "its last step says “Wojciech Has”" in ((result["confidence"] or {}).get("reason") or "")
    assert contrary == (case == "a tree that says otherwise")
    assert [passage["id"] for passage in by_tool["evidence"]] == [passage["id"] for passage in result["evidence"]]
    assert [(node["answer"], node["source"], node["evidence"]) for node in by_tool["tree"]] == [
        (node["answer"], node["source"], node["evidence"]) for node in result["tree"]
    ]


def test_a_guess_has_a_warning_and_no_evidence(tmp_path: Path) -> None:
    method, rules = SCRIPTS["a guess"]
    model = f"scripted/{script(tmp_path, rules)}"
    result = hoptree.ask(QUESTION, model=model, corpus=index_of(tmp_path, *PASSAGES), method=method, cache=None)
    assert (result.answer, result.evidence, result.warnings) == ("Zanzibar", (), (GUESS,))
    assert {passage.id for passage in result.consulted} == {"p1", "p2"}
