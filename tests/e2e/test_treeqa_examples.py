"""The examples of the TreeQA paper (Figure 1, Appendix B), replayed over HTTP with a small graph and corpus on disk.

Passages are shortened. What the paper prints as golden trees comes out as it prints them, but for these texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint
from typer.testing import CliRunner

import hoptree
from hoptree.cli.main import app
from hoptree.graph.store.loading import load_graph
from hoptree.indexing import index_passages
from hoptree.runtime.golden import golden_tree
from hoptree.runtime.result import Result, TreeNode
from hoptree.values import Passage

pytest.importorskip("pyoxigraph")

MOON = "Who was the President of the United States when humans made their third landing on the moon?"
LANDING = "When was the third manned moon landing of the Apollo program?"
OLD_PRESIDENT = "Who was the President of the United States in December 1968?"
PRESIDENT = "Who was the President of the United States on February 5, 1971?"
INDONESIA = "On which island is the Indonesian capital located?"
GHOST = "In the country where ghost in the shell is born, who is the current head of the state?"
TRIPLES = (
    ("Apollo program", "third crewed lunar landing", "Apollo 14"),
    ("Apollo 14", "date of lunar landing", "5 February 1971"),
    ("Apollo 14", "crew member", "Alan Shepard"),
    ("Apollo 14", "instance of", "crewed spaceflight"),
    ("United States", "head of government in 1971", "Richard Nixon"),
    ("Lyndon Baines Johnson", "end time", "20 January 1969"),
    ("Jakarta", "capital of", "Indonesia"),
    ("Jakarta", "located in/on physical feature", "Java"),
    ("Ghost in the Shell", "country of origin", "Japan"),
    ("Japan", "head of state", "Naruhito"),
    ("Naruhito", "noble title", "Emperor of Japan"),
    ("Naruhito", "position held", "Emperor of Japan"),
)
PASSAGES = (
    Passage("Apollo program_2_0", "Apollo program", "The third landing of the Apollo program was that of Apollo 14."),
    Passage("Richard Nixon_0_0", "Richard Nixon", "Richard Nixon was the President of the United States from 1969."),
    Passage("Java_0_1", "Java", "Indonesia's capital city, Jakarta, is on Java's northwestern coast."),
    Passage("Jakarta_5_1", "Jakarta", "Jakarta is situated on the northwest coast of Java."),
    Passage("Indonesia_0_0", "Indonesia", "The capital of Indonesia has been Jakarta for long."),
    Passage("Ghost in the Shell_0_0", "Ghost in the Shell", "Ghost in the Shell is a Japanese media franchise."),
    Passage("Naruhito_0_0", "Naruhito", "Naruhito (born 23 February 1960) is Emperor of Japan."),
    Passage("Japan_4_10", "Japan", "On May 1, 2019 Naruhito became Emperor, beginning the Reiwa era."),
)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph (kg) and an index (docs)."""
    folder = tmp_path_factory.mktemp("world")
    rows = folder / "triples.jsonl"
    rows.write_text("".join(json.dumps(dict(zip("spo", one, strict=True))) + "\n" for one in TRIPLES), encoding="utf-8")
    load_graph(folder / "kg", [rows])
    index_passages(PASSAGES, folder / "docs")
    return folder


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        for step in ("entities", "relations"):
            running.on(f"treeqa/{step}", "[1][2][3]")
        yield running


def node(question: str, hypothesis: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"sub_question": question, "hypothesis_answer": hypothesis, "children": list(children)}


def build(endpoint: Endpoint, question: str, *children: dict[str, Any], draft: str) -> None:
    tree = {"input_question": question, "logic_tree": {"children": list(children)}, "answer": draft}
    endpoint.on("treeqa/build", f"```json\n{json.dumps(tree)}\n```", contains=question)


def supports(endpoint: Endpoint, question: str, texts: list[str], facts: list[str]) -> None:
    said = {"isTrue": True, "fact_sufficient": True, "reason": "None", "ref": {"wikipedia": texts, "Wikidata": facts}}
    endpoint.on("treeqa/validate", json.dumps(said), contains=f"Question: {question}")


def refutes(endpoint: Endpoint, question: str, reason: str, correct: str, *refs: str) -> None:
    said = {"isTrue": False, "fact_sufficient": True, "reason": reason, "correct_answer": correct, "ref": list(refs)}
    endpoint.on("treeqa/validate", json.dumps(said), contains=f"Question: {question}")


def ask(question: str, endpoint: Endpoint, world: Path, **options: Any) -> Result:
    return hoptree.ask(
        question,
        method="treeqa",
        model="openai/test",
        base_url=endpoint.url,
        corpus=world / "docs",
        graph=world / "kg",
        options=options,
        cache=None,
        trace=options.pop("trace", None),
    )


def script_moon(endpoint: Endpoint) -> None:
    build(
        endpoint,
        MOON,
        node(LANDING, "In December 1968, by Apollo 8.", node(OLD_PRESIDENT, "Lyndon Baines Johnson")),
        draft="Lyndon Baines Johnson",
    )
    why = "The third landing was that of Apollo 14 on 5 February 1971."
    refutes(endpoint, LANDING, why, "February 5, 1971", "T1", "Apollo program-third crewed lunar landing-Apollo 14")
    rebuilt = node(LANDING, "On February 5, 1971, by Apollo 14.", node(PRESIDENT, "Lyndon Baines Johnson"))
    endpoint.on("treeqa/rebuild", json.dumps({"logic_tree": rebuilt}), contains=OLD_PRESIDENT)
    refutes(endpoint, PRESIDENT, "Richard Nixon was President from 1969.", "Richard Nixon", "T1", "F1")
    endpoint.on(
        "treeqa/rebuild", json.dumps([node(PRESIDENT, "Richard Nixon")]), contains="Correct answer: Richard Nixon"
    )
    supports(endpoint, OLD_PRESIDENT, ["T1"], [])
    endpoint.on("treeqa/final", "Richard Nixon", contains=MOON)


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_the_third_landing_is_repaired_and_the_repaired_children_are_validated(
    traversal: str, endpoint: Endpoint, world: Path
) -> None:
    script_moon(endpoint)
    result = ask(MOON, endpoint, world, traversal=traversal)
    assert result.answer == "Richard Nixon"
    (root,) = result.tree
    (landing,) = root.children
    assert (landing.struck, landing.answer) == (
        ("In December 1968, by Apollo 8.",),
        "On February 5, 1971, by Apollo 14.",
    )
    assert landing.evidence == ("Apollo program_2_0",)
    assert landing.facts == (("Apollo program", "third crewed lunar landing", "Apollo 14"),)
    (president,) = landing.children
    assert (president.question, president.struck, president.answer) == (
        PRESIDENT,
        ("Lyndon Baines Johnson",),
        "Richard Nixon",
    )
    assert president.evidence and root.hypothesis == "Lyndon Baines Johnson"
    (final,) = endpoint.texts("treeqa/final")
    assert "Answer: Richard Nixon (corrected by evidence)" in final and "Answer: Lyndon" not in final


def script_indonesia(endpoint: Endpoint) -> None:
    first, second = "What is the capital of Indonesia?", "On which island is Jakarta located?"
    build(
        endpoint,
        INDONESIA,
        node(first, "The capital of Indonesia is Jakarta.", node(second, "Jakarta is located on the island of Java.")),
        draft="Java",
    )
    supports(endpoint, first, ["Indonesia_0_0"], ["Jakarta-capital of-Indonesia"])
    supports(endpoint, second, ["Java_0_1", "Jakarta_5_1"], ["Jakarta-located in/on physical feature-Java"])
    endpoint.on(
        "treeqa/final", "The Indonesian capital, Jakarta, is located on the island of Java.", contains=INDONESIA
    )


def test_the_indonesian_capital_gives_the_golden_tree_of_appendix_b(endpoint: Endpoint, world: Path) -> None:
    script_indonesia(endpoint)
    result = ask(INDONESIA, endpoint, world)
    text = {passage.id: passage.text for passage in PASSAGES}
    assert golden_tree(result) == {
        "input_question": INDONESIA,
        "logic_tree": {
            "children": [
                {
                    "sub_question": "What is the capital of Indonesia?",
                    "hypothesis_answer": "The capital of Indonesia is Jakarta.",
                    "children": [
                        {
                            "sub_question": "On which island is Jakarta located?",
                            "hypothesis_answer": "Jakarta is located on the island of Java.",
                            "ref": {
                                "Wikipedia": [
                                    f"Java_0_1||{text['Java_0_1']}",
                                    f"Jakarta_5_1||{text['Jakarta_5_1']}",
                                ],
                                "Wikidata": ["Jakarta-located in/on physical feature-Java"],
                            },
                        }
                    ],
                    "ref": {
                        "Wikipedia": [f"Indonesia_0_0||{text['Indonesia_0_0']}"],
                        "Wikidata": ["Jakarta-capital of-Indonesia"],
                    },
                }
            ]
        },
        "answer": "The Indonesian capital, Jakarta, is located on the island of Java",
    }
    assert endpoint.steps().count("treeqa/validate") == 2 and "treeqa/rebuild" not in endpoint.steps()


def test_the_head_of_state_is_found_with_three_facts(endpoint: Endpoint, world: Path) -> None:
    first, second = "In which country was Ghost in the Shell created?", "Who is the current head of state in Japan?"
    build(
        endpoint,
        GHOST,
        node(
            first,
            "Ghost in the Shell was created in Japan.",
            node(second, "The current head of state in Japan is Emperor Naruhito."),
        ),
        draft="Naruhito",
    )
    supports(endpoint, first, ["Ghost in the Shell_0_0"], ["Ghost in the Shell-country of origin-Japan"])
    facts = [
        "Japan-head of state-Naruhito",
        "Naruhito-noble title-Emperor of Japan",
        "Naruhito-position held-Emperor of Japan",
    ]
    supports(endpoint, second, ["Naruhito_0_0", "Japan_4_10"], facts)
    endpoint.on("treeqa/final", "**Emperor Naruhito**", contains=GHOST)
    # The names lead to both entities of the second question, whose relations are more than three.
    endpoint.on("treeqa/relations", "[1], [2], [3], [4]", contains=second)
    result = ask(GHOST, endpoint, world)
    (top,) = golden_tree(result)["logic_tree"]["children"]
    (below,) = top["children"]
    assert result.answer == "Emperor Naruhito"
    assert [one.split("||")[0] for one in below["ref"]["Wikipedia"]] == ["Naruhito_0_0", "Japan_4_10"]
    assert set(below["ref"]["Wikidata"]) <= set(facts) and len(below["ref"]["Wikidata"]) >= 2


def flat(nodes: list[TreeNode]) -> list[TreeNode]:
    return [one for node in nodes for one in (node, *flat(node.children))]


def test_ask_run_and_show_at_the_command_line(
    endpoint: Endpoint, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    script_moon(endpoint)
    both = ["--corpus", str(world / "docs"), "--graph", str(world / "kg"), "--model", "openai/test"]
    trace = tmp_path / "trace.jsonl"
    asked = CliRunner().invoke(app, ["ask", MOON, "--method", "treeqa", *both, "--trace", str(trace), "--json"])
    assert asked.exit_code == 0, asked.output
    assert json.loads(asked.stdout)["tree"][0]["children"][0]["struck"] == ["In December 1968, by Apollo 8."]
    shown = CliRunner().invoke(app, ["show", str(trace)])
    assert "⇒ On February 5, 1971, by Apollo 14.  [refuted, and corrected: Apollo program_2_0" in shown.stdout
    golden = json.loads(CliRunner().invoke(app, ["show", str(trace), "--golden"]).stdout)
    assert golden["answer"] == "Richard Nixon" and list(golden) == ["input_question", "logic_tree", "answer"]

    (tmp_path / "data.jsonl").write_text(
        json.dumps({"id": "q1", "question": MOON, "answers": ["Richard Nixon"]}) + "\n"
    )
    out = tmp_path / "run"
    command = ["run", "--data", str(tmp_path / "data.jsonl"), "--method", "treeqa", *both, "--out", str(out), "--json"]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["metrics"]["em"]["mean"] == 1.0
    told = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert told["rests_on"]["graph"].startswith("graph:") and told["experiment"]["graph"] == str(world / "kg")


def test_a_graph_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"replies": [{"reply": "x"}]}', encoding="utf-8")
    told = ["--method", "treeqa", "--graph", str(tmp_path / "nowhere"), "--model", f"scripted/{tmp_path / 'm.json'}"]
    said = CliRunner().invoke(app, ["ask", MOON, *told])
    assert said.exception is not None and said.exit_code != 0
    assert "nowhere" in str(said.exception)


def test_an_experiment_file_names_its_own_graphs(tmp_path: Path) -> None:
    (tmp_path / "plan.yaml").write_text("data: {d: {questions: data.jsonl}}\nruns: {a: {method: direct}}\n")
    said = CliRunner().invoke(app, ["run", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "o"), "--graph", "kg"])
    assert "names its own corpora, graphs and runs" in str(said.exception)
