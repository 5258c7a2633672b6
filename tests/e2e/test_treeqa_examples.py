"""The examples of the TreeQA paper (Figure 1, appendix B), replayed at the command line against an endpoint over HTTP.

The graph is loaded and the corpus indexed by commands too. Questions, facts and verdicts are the paper's; hypotheses,
sub-questions and passages are in our own words.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, Response, Seen, said
from typer.testing import CliRunner

from hoptree.cli.main import app

pytest.importorskip("pyoxigraph")

MOON = "Who was the President of the United States when humans made their third landing on the moon?"
LANDING = "When did astronauts of the Apollo program land on the Moon for the third time?"
OLD_PRESIDENT = "Who led the United States in December 1968?"
PRESIDENT = "Who led the United States on 5 February 1971?"
INDONESIA = "On which island is the Indonesian capital located?"
CAPITAL = "Which city is the capital of Indonesia?"
ISLAND = "Which island does Jakarta lie on?"
GHOST = "In the country where ghost in the shell is born, who is the current head of the state?"
COUNTRY = "Which country does Ghost in the Shell come from?"
HEAD = "Who is head of state of Japan?"
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
    ("Japan", "capital", "Tokyo"),
    ("Naruhito", "noble title", "Emperor of Japan"),
    ("Naruhito", "position held", "Emperor of Japan"),
    ("Naruhito", "father", "Akihito"),
)
PASSAGES = {
    "Apollo program_2_0": "After Apollo 11 and 12, the crew of Apollo 14 was the third to walk on the Moon.",
    "Apollo 8_0_0": "In December 1968 Apollo 8 went round the Moon ten times and came home without having landed.",
    "Richard Nixon_0_0": "Richard Nixon led the United States from January 1969 until he resigned in August 1974.",
    "Java_0_1": "The city of Jakarta, from where Indonesia is ruled, faces the sea in the northwest of Java.",
    "Jakarta_5_1": "Where the river Ciliwung meets the sea in the northwest of Java, Jakarta grew around a bay.",
    "Indonesia_0_0": "Jakarta has been the seat of Indonesia's government since independence.",
    "Ghost in the Shell_0_0": "Masamune Shirow, who lives in Japan, drew the manga from which Ghost in the Shell grew.",
    "Naruhito_0_0": "Naruhito has been on the throne of Japan since his father Akihito stepped down in 2019.",
    "Japan_4_10": "With Naruhito, who followed Akihito in May 2019, Japan entered the Reiwa era.",
}
RELATIONS = {  # what is worth reading of what the graph has, for the queries that begin with a question
    LANDING: ("third crewed lunar landing", "date of lunar landing"),
    OLD_PRESIDENT: ("head of government in 1971", "end time"),
    PRESIDENT: ("head of government in 1971",),
    CAPITAL: ("capital of",),
    ISLAND: ("located in/on physical feature",),
    COUNTRY: ("country of origin",),
    HEAD: ("head of state", "noble title", "position held"),
}
ENTITIES = {
    LANDING: ("Apollo program", "Apollo 14"),
    OLD_PRESIDENT: ("United States", "Lyndon Baines Johnson"),
    PRESIDENT: ("United States", "Lyndon Baines Johnson"),
    CAPITAL: ("Indonesia", "Jakarta"),
    ISLAND: ("Jakarta", "Java"),
    COUNTRY: ("Ghost in the Shell", "Japan"),
    HEAD: ("Japan", "Naruhito"),
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph (kg) and an index (docs), both made by commands."""
    folder = tmp_path_factory.mktemp("world")
    triples, passages = folder / "triples.jsonl", folder / "passages.jsonl"
    triples.write_text("".join(json.dumps(dict(zip("spo", triple, strict=True))) + "\n" for triple in TRIPLES))
    rows = [{"id": name, "title": name.partition("_")[0], "text": text} for name, text in PASSAGES.items()]
    passages.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    loaded = CliRunner().invoke(app, ["graph", "load", str(triples), "--out", str(folder / "kg"), "--json"])
    assert loaded.exit_code == 0, loaded.output
    indexed = CliRunner().invoke(app, ["index", str(passages), "--out", str(folder / "docs")])
    assert indexed.exit_code == 0, indexed.output
    return folder


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    """An endpoint that reads names out of a query and chooses what is worth reading, whatever is shown to it."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        running.on("treeqa/mentions", lambda seen: said(json.dumps(list(_of(ENTITIES, seen)))))
        running.on("treeqa/entities", lambda seen: _choose(seen, r"{}(?:\W|$)", _of(ENTITIES, seen)))
        running.on("treeqa/relations", lambda seen: _choose(seen, r".*\| {} \|", _of(RELATIONS, seen)))
        yield running


def _of(table: Mapping[str, tuple[str, ...]], seen: Seen) -> tuple[str, ...]:
    return next(known for question, known in table.items() if f"Query: {question}" in seen.text)


def _choose(seen: Seen, form: str, wanted: tuple[str, ...]) -> Response:
    """The numbers of the first line for each of the names."""
    lines = re.findall(r"(?m)^\[(\d+)\] (.*)$", seen.text)
    lines_of_names = [
        next((n for n, line in lines if re.match(form.format(re.escape(name)), line)), "") for name in wanted
    ]
    return said("".join(f"[{number}]" for number in lines_of_names if number) or "None")


def node(question: str, hypothesis: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"sub_question": question, "hypothesis_answer": hypothesis, "children": list(children)}


def build(endpoint: Endpoint, question: str, *children: dict[str, Any], draft: str) -> None:
    tree = {"input_question": question, "logic_tree": {"children": list(children)}, "answer": draft}
    endpoint.on("treeqa/build", f"```json\n{json.dumps(tree)}\n```", contains=question)


def judge(endpoint: Endpoint, question: str, verdict: dict[str, Any], texts: list[str], facts: list[str]) -> None:
    verdict_row = {"fact_sufficient": True, "ref": {"wikipedia": texts, "Wikidata": facts}, **verdict}
    endpoint.on("treeqa/validate", json.dumps(verdict_row), contains=f"Question: {question}")


def supports(endpoint: Endpoint, question: str, texts: list[str], facts: list[str]) -> None:
    judge(endpoint, question, {"isTrue": True, "reason": "None"}, texts, facts)


def refutes(endpoint: Endpoint, question: str, reason: str, correct: str, texts: list[str], facts: list[str]) -> None:
    judge(endpoint, question, {"isTrue": False, "reason": reason, "correct_answer": correct}, texts, facts)


@dataclass(frozen=True, slots=True)
class Asked:
    """A question that was asked at the command line: what `ask --json` said, and its trace."""

    result: dict[str, Any]
    trace: Path

    def shown(self) -> str:
        invoked = CliRunner().invoke(app, ["show", str(self.trace)])
        assert invoked.exit_code == 0, invoked.output
        return invoked.stdout

    def golden(self) -> dict[str, Any]:
        invoked = CliRunner().invoke(app, ["show", str(self.trace), "--golden"])
        assert invoked.exit_code == 0, invoked.output
        tree: dict[str, Any] = json.loads(invoked.stdout)
        return tree


def ask(question: str, world: Path, trace: Path, *settings: str) -> Asked:
    command = ["ask", question, "--method", "treeqa", "--model", "openai/test", "--no-cache", "--json"]
    command += ["--graph", str(world / "kg"), "--corpus", str(world / "docs"), "--trace", str(trace)]
    asked = CliRunner().invoke(app, [*command, *(part for setting in settings for part in ("--set", setting))])
    assert asked.exit_code == 0, (asked.output, asked.exception)
    return Asked(json.loads(asked.stdout), trace)


def written(name: str) -> str:
    """A passage as a golden tree cites it."""
    return f"{name}||{PASSAGES[name]}"


def script_moon(endpoint: Endpoint) -> None:
    """Figure 1: the landing is taken for another, and so the president for his predecessor."""
    wrong = node(OLD_PRESIDENT, "Lyndon Baines Johnson")
    build(endpoint, MOON, node(LANDING, "In December 1968, with Apollo 8.", wrong), draft="Lyndon Baines Johnson")
    refutes(
        endpoint,
        LANDING,
        "Apollo 8 did not land; the third landing was that of Apollo 14 on 5 February 1971.",
        "On 5 February 1971, with Apollo 14.",
        ["Apollo program_2_0"],
        ["Apollo program-third crewed lunar landing-Apollo 14", "Apollo 14-date of lunar landing-5 February 1971"],
    )
    rebuilt = node(LANDING, "On 5 February 1971, with Apollo 14.", node(PRESIDENT, "Lyndon Baines Johnson"))
    endpoint.on("treeqa/rebuild", json.dumps({"logic_tree": rebuilt}), contains=OLD_PRESIDENT)
    nixon = ["Richard Nixon_0_0"], ["United States-head of government in 1971-Richard Nixon"]
    refutes(endpoint, PRESIDENT, "In February 1971 it was Richard Nixon.", "Richard Nixon", *nixon)
    again = json.dumps([node(PRESIDENT, "Richard Nixon")])
    endpoint.on("treeqa/rebuild", again, contains="Correct answer: Richard Nixon")
    supports(endpoint, OLD_PRESIDENT, [], ["Lyndon Baines Johnson-end time-20 January 1969"])
    endpoint.on("treeqa/final", "Richard Nixon", contains=MOON)


@pytest.mark.parametrize("traversal", ["serial", "level", "speculative"])
def test_the_third_landing_is_repaired_and_the_repaired_children_are_validated(
    traversal: str, endpoint: Endpoint, world: Path, tmp_path: Path
) -> None:
    script_moon(endpoint)
    asked = ask(MOON, world, tmp_path / "trace.jsonl", f"traversal={traversal}")
    assert asked.result["answer"] == "Richard Nixon"
    (root,) = asked.result["tree"]
    assert root["hypothesis"] == "Lyndon Baines Johnson", "the draft, which nobody believes"
    (landing,) = root["children"]
    assert (landing["struck"], landing["answer"]) == (
        ["In December 1968, with Apollo 8."],
        "On 5 February 1971, with Apollo 14.",
    )
    (president,) = landing["children"]
    assert (president["question"], president["verdict"]) == (PRESIDENT, "refuted")
    assert (president["struck"], president["answer"]) == (["Lyndon Baines Johnson"], "Richard Nixon")
    checked = [text for text in endpoint.texts("treeqa/validate") if f"Question: {PRESIDENT}" in text]
    assert checked and "Answer to check: Lyndon Baines Johnson" in checked[0], "the new child is not taken on trust"
    (final,) = endpoint.texts("treeqa/final")
    assert "Answer: Richard Nixon (corrected by evidence)" in final and "Answer: Lyndon" not in final


def test_the_golden_tree_of_the_third_landing_holds_what_is_right_and_what_says_so(
    endpoint: Endpoint, world: Path, tmp_path: Path
) -> None:
    script_moon(endpoint)
    golden = ask(MOON, world, tmp_path / "trace.jsonl", "whole_corpus=on").golden()
    nixon = {
        "sub_question": PRESIDENT,
        "hypothesis_answer": "Richard Nixon",
        "ref": {
            "Wikipedia": [written("Richard Nixon_0_0")],
            "Wikidata": ["United States-head of government in 1971-Richard Nixon"],
        },
    }
    landing = {
        "sub_question": LANDING,
        "hypothesis_answer": "On 5 February 1971, with Apollo 14.",
        "children": [nixon],
        "ref": {
            "Wikipedia": [written("Apollo program_2_0")],
            "Wikidata": [
                "Apollo program-third crewed lunar landing-Apollo 14",
                "Apollo 14-date of lunar landing-5 February 1971",
            ],
        },
    }
    assert golden == {"input_question": MOON, "logic_tree": {"children": [landing]}, "answer": "Richard Nixon"}


def test_the_tree_is_shown_with_verdicts_and_what_was_struck_out(
    endpoint: Endpoint, world: Path, tmp_path: Path
) -> None:
    script_moon(endpoint)
    shown = " ".join(ask(MOON, world, tmp_path / "trace.jsonl", "whole_corpus=on").shown().split())
    first = "In December 1968, with Apollo 8. ⇒ On 5 February 1971, with Apollo 14. [refuted, and corrected: Apollo"
    assert first in shown and "Apollo 8 did not land" in shown
    assert "Lyndon Baines Johnson ⇒ Richard Nixon [refuted, and corrected: Richard Nixon_0_0" in shown
    picture = tmp_path / "tree.svg"
    drawn = CliRunner().invoke(app, ["show", str(tmp_path / "trace.jsonl"), "--svg", str(picture)])
    assert drawn.exit_code == 0, drawn.output
    assert "line-through" in picture.read_text(encoding="utf-8"), "struck out to be seen"


def test_what_stands_unverified_is_shown_as_such(endpoint: Endpoint, world: Path, tmp_path: Path) -> None:
    build(endpoint, INDONESIA, node(CAPITAL, "It is Jakarta.", node(ISLAND, "It lies on Java.")), draft="Java")
    supports(endpoint, CAPITAL, ["Indonesia_0_0"], ["Jakarta-capital of-Indonesia"])
    unknown = {"isTrue": "unknown", "fact_sufficient": False, "reason": "Nothing.", "ref": "No Information provided."}
    endpoint.on("treeqa/validate", json.dumps(unknown), contains=f"Question: {ISLAND}")
    endpoint.on("treeqa/clue", json.dumps({"new_clue": f"{ISLAND} Java"}))
    endpoint.on("treeqa/final", "Java", contains=INDONESIA)
    asked = ask(INDONESIA, world, tmp_path / "trace.jsonl")
    shown = " ".join(asked.shown().split())
    assert "It is Jakarta. [supported: Indonesia_0_0, Jakarta-capital of-Indonesia" in shown
    assert "It lies on Java. [not verified; nothing found says so, 2 attempts]" in shown
    (capital,) = asked.golden()["logic_tree"]["children"]
    assert "ref" in capital and "ref" not in capital["children"][0], "nothing vouches for it"


def script_indonesia(endpoint: Endpoint) -> None:
    below = node(ISLAND, "Jakarta lies on Java.")
    build(endpoint, INDONESIA, node(CAPITAL, "The capital is Jakarta.", below), draft="Java")
    supports(endpoint, CAPITAL, ["Indonesia_0_0"], ["Jakarta-capital of-Indonesia"])
    supports(endpoint, ISLAND, ["Java_0_1", "Jakarta_5_1"], ["Jakarta-located in/on physical feature-Java"])
    endpoint.on("treeqa/final", "Java, where Jakarta lies.", contains=INDONESIA)


def test_the_indonesian_capital_gives_the_golden_tree_of_appendix_b(
    endpoint: Endpoint, world: Path, tmp_path: Path
) -> None:
    script_indonesia(endpoint)
    asked = ask(INDONESIA, world, tmp_path / "trace.jsonl")
    island = {
        "sub_question": ISLAND,
        "hypothesis_answer": "Jakarta lies on Java.",
        "ref": {
            "Wikipedia": [written("Java_0_1"), written("Jakarta_5_1")],
            "Wikidata": ["Jakarta-located in/on physical feature-Java"],
        },
    }
    capital = {
        "sub_question": CAPITAL,
        "hypothesis_answer": "The capital is Jakarta.",
        "children": [island],
        "ref": {"Wikipedia": [written("Indonesia_0_0")], "Wikidata": ["Jakarta-capital of-Indonesia"]},
    }
    golden = asked.golden()
    assert golden.pop("answer") == asked.result["answer"] and "Java" in asked.result["answer"]
    assert golden == {"input_question": INDONESIA, "logic_tree": {"children": [capital]}}
    assert endpoint.steps().count("treeqa/validate") == 2 and "treeqa/rebuild" not in endpoint.steps()
    shown = asked.shown()
    assert shown.count("[supported: ") == 2 and "⇒" not in shown


def test_the_head_of_state_gives_the_golden_tree_of_appendix_b(endpoint: Endpoint, world: Path, tmp_path: Path) -> None:
    build(endpoint, GHOST, node(COUNTRY, "From Japan.", node(HEAD, "The Emperor, Naruhito.")), draft="Naruhito")
    supports(endpoint, COUNTRY, ["Ghost in the Shell_0_0"], ["Ghost in the Shell-country of origin-Japan"])
    facts = [
        "Japan-head of state-Naruhito",
        "Naruhito-noble title-Emperor of Japan",
        "Naruhito-position held-Emperor of Japan",
    ]
    supports(endpoint, HEAD, ["Naruhito_0_0", "Japan_4_10"], facts)
    endpoint.on("treeqa/final", "**Emperor Naruhito**", contains=GHOST)
    asked = ask(GHOST, world, tmp_path / "trace.jsonl")
    head = {
        "sub_question": HEAD,
        "hypothesis_answer": "The Emperor, Naruhito.",
        "ref": {"Wikipedia": [written("Naruhito_0_0"), written("Japan_4_10")], "Wikidata": facts},
    }
    country = {
        "sub_question": COUNTRY,
        "hypothesis_answer": "From Japan.",
        "children": [head],
        "ref": {
            "Wikipedia": [written("Ghost in the Shell_0_0")],
            "Wikidata": ["Ghost in the Shell-country of origin-Japan"],
        },
    }
    assert asked.golden() == {
        "input_question": GHOST,
        "logic_tree": {"children": [country]},
        "answer": "Emperor Naruhito",
    }
    assert "Akihito" not in json.dumps(asked.golden()["logic_tree"]["children"][0]["children"][0]["ref"]["Wikidata"])


def test_a_source_that_is_made_up_vouches_for_nothing(endpoint: Endpoint, world: Path, tmp_path: Path) -> None:
    script_indonesia(endpoint)
    supports(endpoint, CAPITAL, ["Indonesia_0_0", "Capital_9_9"], ["Jakarta-capital of-Borneo"])
    (capital,) = ask(INDONESIA, world, tmp_path / "trace.jsonl").golden()["logic_tree"]["children"]
    assert capital["ref"] == {"Wikipedia": [written("Indonesia_0_0")], "Wikidata": []}


def test_a_run_of_the_example_is_scored(endpoint: Endpoint, world: Path, tmp_path: Path) -> None:
    script_moon(endpoint)
    row = {"id": "q1", "question": MOON, "answers": ["Richard Nixon"]}
    (tmp_path / "data.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    out = tmp_path / "run"
    command = ["run", "--data", str(tmp_path / "data.jsonl"), "--method", "treeqa", "--model", "openai/test", "--json"]
    command += ["--graph", str(world / "kg"), "--corpus", str(world / "docs"), "--out", str(out)]
    ran = CliRunner().invoke(app, command)
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["metrics"]["em"]["mean"] == 1.0
    run = json.loads((out / "run.json").read_text(encoding="utf-8"))
    assert run["rests_on"]["graph"].startswith("graph:") and run["experiment"]["graph"] == str(world / "kg")


def test_a_graph_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text('{"replies": [{"reply": "x"}]}', encoding="utf-8")
    options = ["--method", "treeqa", "--graph", str(tmp_path / "nowhere"), "--model", f"scripted/{tmp_path / 'm.json'}"]
    invoked = CliRunner().invoke(app, ["ask", MOON, *options])
    assert invoked.exception is not None and invoked.exit_code != 0
    assert "nowhere" in str(invoked.exception)


@pytest.mark.parametrize("given", [True, False])
def test_an_experiment_file_names_its_graphs_unless_one_is_given(
    given: bool, endpoint: Endpoint, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    script_moon(endpoint)
    (tmp_path / "data.jsonl").write_text(json.dumps({"id": "q", "question": MOON, "answers": ["Richard Nixon"]}) + "\n")
    (tmp_path / "kg").symlink_to(world / "kg")
    (tmp_path / "docs").symlink_to(world / "docs")
    graph = "nowhere" if given else "kg"
    file = f"data: {{d: {{questions: data.jsonl, corpus: docs, graph: {graph}}}}}\nruns: {{a: {{method: treeqa}}}}\n"
    (tmp_path / "plan.yaml").write_text(file, encoding="utf-8")
    command = ["run", str(tmp_path / "plan.yaml"), "--out", str(tmp_path / "o"), "--model", "openai/test"]
    ran = CliRunner().invoke(app, [*command, *(["--graph", str(world / "kg")] if given else [])])
    assert ran.exit_code == 0, (ran.output, ran.exception)
    run = json.loads((tmp_path / "o" / "d" / "a" / "run.json").read_text(encoding="utf-8"))
    assert run["rests_on"]["graph"].startswith("graph:"), "what it rests on is known by its digest"
    assert run["experiment"]["graph"] == str((world if given else tmp_path) / "kg")
