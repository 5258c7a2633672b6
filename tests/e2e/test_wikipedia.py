"""A wiki as the corpus of the command line: search, and TreeQA over its pages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.command_line import call
from tests.retrieval.wiki_server import Wiki, serving

MOON = "Who was the President of the United States when humans made their third landing on the Moon?"
LANDING = "Which mission of the Apollo program made the third landing on the Moon?"
PRESIDENT = "Who was President of the United States in February 1971?"
PAGES = {
    "Apollo program": "The Apollo program landed humans on the Moon.\n\n\n== Landings ==\n"
    "The third landing on the Moon was that of Apollo 14 in February 1971.",
    "Apollo 14": "Apollo 14 landed on the Moon on February 5, 1971.",
    "United States": "The United States is a country.\n\n\n== Presidents ==\n\n\n=== Since 1969 ===\n"
    "Richard Nixon was President from 1969 to 1974.",
}


@pytest.fixture
def wiki(monkeypatch: pytest.MonkeyPatch) -> Iterator[Wiki]:
    with serving(Wiki(dict(PAGES), {"Moon landing": "Apollo program"})) as running:
        yield running


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    environment = {"HOPTREE_CACHE": str(folder / "replies.sqlite"), "NO_PROXY": "127.0.0.1", "HOME": str(folder)}
    done = call(*arguments, folder=folder, environment=environment)
    return done.returncode, done.stdout, done.stderr


def test_search(wiki: Wiki, tmp_path: Path) -> None:
    code, out, err = run(tmp_path, "search", "third landing Moon", "--corpus", wiki.corpus, "--explain")
    assert code == 0, err
    assert "Apollo program_1_0  Apollo program" in out and "The third landing on the Moon" in out and "bm25" in out
    arguments = ("search", "president", "--corpus", wiki.corpus, "-k", "1", "--json", "--where")
    (row,) = json.loads(run(tmp_path, *arguments, "title=United States")[1])
    assert (row["id"], row["metadata"]["section"]) == ("United States_2_0", "Presidents › Since 1969")
    assert run(tmp_path, *arguments, "title=Nowhere land")[1].strip() == "[]"


def test_what_goes_wrong_is_told_in_words(wiki: Wiki, tmp_path: Path) -> None:
    wiki.before = lambda request: (403, {}, b"") if "generator" in request else None
    code, _, err = run(tmp_path, "search", "moon", "--corpus", wiki.corpus)
    assert code == 2 and "HOPTREE_CONTACT" in err and "Traceback" not in err
    wiki.before = lambda request: (200, {}, b"<html>") if "generator" in request else None
    assert run(tmp_path, "search", "moon", "--corpus", "wikipedia:no/such")[0] == 2


def node(question: str, hypothesis: str, *children: dict[str, object]) -> dict[str, object]:
    return {"sub_question": question, "hypothesis_answer": hypothesis, "children": list(children)}


def script(folder: Path) -> None:
    tree = node(LANDING, "Apollo 14", node(PRESIDENT, "Lyndon Johnson"))
    built = {"input_question": MOON, "logic_tree": {"children": [tree]}, "answer": "Lyndon Johnson"}
    supported = {"isTrue": True, "fact_sufficient": True, "reason": "", "ref": ["Apollo program_1_0"]}
    refuted = {"isTrue": False, "reason": "Nixon was", "correct_answer": "Richard Nixon", "ref": ["United States_2_0"]}
    replies = [
        {"step": "treeqa/build", "reply": json.dumps(built)},
        {"step": "treeqa/mentions", "contains": "Apollo", "reply": '["Apollo program", "Apollo 14"]'},
        {"step": "treeqa/mentions", "reply": '["United States"]'},
        {"step": "treeqa/entities", "reply": "[1][2][3]"},
        {"step": "treeqa/validate", "contains": f"Question: {LANDING}", "reply": json.dumps(supported)},
        {"step": "treeqa/validate", "contains": f"Question: {PRESIDENT}", "reply": json.dumps(refuted)},
        {"step": "treeqa/rebuild", "reply": json.dumps(node(PRESIDENT, "Richard Nixon"))},
        {"step": "treeqa/final", "reply": "Richard Nixon"},
    ]
    (folder / "script.json").write_text(json.dumps({"replies": replies}))


def test_treeqa_reads_the_pages_of_what_it_is_about(wiki: Wiki, tmp_path: Path) -> None:
    script(tmp_path)
    method = ("--method", "treeqa", "--set", "evidence=text", "-m", "scripted/script.json")
    arguments = ("ask", MOON, "--corpus", wiki.corpus, *method, "--trace", "run.jsonl", "--json")
    code, out, err = run(tmp_path, *arguments)
    assert code == 0, err
    result = json.loads(out)
    assert result["answer"] == "Richard Nixon"
    (root,) = result["tree"]
    (landing,) = root["children"]
    (president,) = landing["children"]
    assert landing["evidence"] == ["Apollo program_1_0"] and president["evidence"] == ["United States_2_0"]
    pages = wiki.titles()
    assert {"United States", "Apollo 14"} <= set(pages) and len(pages) == len(set(pages))
    golden = json.loads(run(tmp_path, "show", "run.jsonl", "--golden")[1])
    assert "Apollo program_1_0||The third landing on the Moon" in json.dumps(golden)
    # Asked again, everything is remembered.
    before = len(wiki.asked)
    assert json.loads(run(tmp_path, *arguments)[1])["answer"] == "Richard Nixon" and len(wiki.asked) == before
