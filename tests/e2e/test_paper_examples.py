"""The worked examples of the TAIKC paper (Tables 12, 14 and 15), replayed over HTTP."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.endpoint import Endpoint, index_of
from tests.traced import as_dicts

import hoptree
from hoptree.engine.events import Event
from hoptree.engine.result import Result, TreeNode

TABLE_14 = "Which film has the director who is older than the other, The Carousel Of Death or Nameless Star?"
TABLE_14_PLAN = {
    "query1": {
        "question": "Who directed the film The Carousel Of Death?",
        "children": {"query2": {"question": "What is the birth year of #query1?"}},
    },
    "query3": {
        "question": "Who directed the film Nameless Star?",
        "children": {"query4": {"question": "What is the birth year of #query3?"}},
    },
}
TABLE_14_CHAINS = (
    'The film "The Carousel Of Death" was directed by Heinz Paul, who was born in 1918.',
    'The film "Nameless Star" was directed by Mihail Kozakov, who was born in 1934.',
)
TABLE_12 = "Are Han Sai Por and Gabriele Oettingen of the same nationality?"
TABLE_12_PLAN = (
    '{ "query1": { "question": "What is the nationality of Han Sai Por?", "children": '
    '{ "query2": { "question": "What is the nationality of Gabriele Oettingen?" } } }'
)
TABLE_15 = "Why did the performer of song Sommer I Palma die?"
TABLE_15_PLAN = {
    "query1": {
        "question": "Who is the performer of the song Sommer I Palma?",
        "children": {"query2": {"question": "How did Nora Brockstedt die?"}},
    }
}
PASSAGES = (
    ("The Carousel of Death", "A silent circus picture made in Germany; Heinz Paul was the director of the film."),
    (
        "Heinz Paul",
        "Heinz Paul made films in Germany for thirty years. His birth year is given as 1918 in one lexicon.",
    ),
    ("Han Sai Por", "Han Sai Por carves granite and marble. She is a sculptor from Singapore."),
    ("Gabriele Oettingen", "Gabriele Oettingen is a German scholar of motivation who grew up in Munich."),
    (
        "Sommer i Palma",
        "Sommer i Palma is a song with which its performer, Nora Brockstedt, went to Naples for Norway.",
    ),
    ("Nora Brockstedt", "Nora Brockstedt sang on records and on the stage in Oslo for half a century."),
)


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Endpoint() as running:
        yield running


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return index_of(tmp_path, *PASSAGES)


def script_table_14(endpoint: Endpoint) -> None:
    endpoint.on("taikc/decompose", json.dumps(TABLE_14_PLAN, indent=2), contains=TABLE_14)
    endpoint.on("taikc/confident", "RAG_REQUIRED", contains="Who directed the film The Carousel Of Death?")
    endpoint.on("taikc/confident", "RAG_REQUIRED", contains="What is the birth year of Heinz Paul?")
    endpoint.on("taikc/confident", "Mihail Kozakov", contains="Who directed the film Nameless Star?")
    endpoint.on("taikc/confident", "1934", contains="What is the birth year of Mihail Kozakov?")
    endpoint.on("taikc/read", "Heinz Paul", contains="Question: Who directed the film The Carousel Of Death?")
    endpoint.on("taikc/read", "1918", contains="Question: What is the birth year of Heinz Paul?")
    endpoint.on("taikc/summarise", TABLE_14_CHAINS[0], contains="Heinz Paul")
    endpoint.on("taikc/summarise", TABLE_14_CHAINS[1], contains="Mihail Kozakov")
    endpoint.on("taikc/final", "The Carousel Of Death", contains="\n".join(TABLE_14_CHAINS))


def script_table_12(endpoint: Endpoint) -> None:
    chain = "Han Sai Por is Singaporean, while Gabriele Oettingen is German."
    endpoint.on("taikc/decompose", TABLE_12_PLAN, contains=TABLE_12)
    endpoint.on("taikc/confident", "Singaporean", contains="What is the nationality of Han Sai Por?")
    endpoint.on("taikc/confident", "RAG_REQUIRED", contains="What is the nationality of Gabriele Oettingen?")
    endpoint.on("taikc/read", "German", contains="Question: What is the nationality of Gabriele Oettingen?")
    endpoint.on("taikc/summarise", chain, contains="Singaporean")
    endpoint.on("taikc/final", "No.", contains=chain)


def script_table_15(endpoint: Endpoint) -> None:
    chain = 'Nora Brockstedt is the performer of the song "Sommer I Palma" and she died of natural causes.'
    endpoint.on("taikc/decompose", json.dumps(TABLE_15_PLAN), contains=TABLE_15)
    endpoint.on("taikc/confident", "RAG_REQUIRED", contains="Who is the performer of the song Sommer I Palma?")
    endpoint.on("taikc/read", "Nora Brockstedt", contains="Question: Who is the performer of the song Sommer I Palma?")
    endpoint.on("taikc/confident", "Natural causes.", contains="How did Nora Brockstedt die?")
    endpoint.on("taikc/summarise", chain, contains="Sommer I Palma")
    endpoint.on("taikc/final", "natural causes", contains=chain)


def ask(question: str, endpoint: Endpoint, corpus: Path, tmp_path: Path, events: list[Event], **options: Any) -> Result:
    return hoptree.ask(
        question,
        method="taikc",
        corpus=corpus,
        model="openai/test",
        base_url=endpoint.url,
        cache=tmp_path / "replies.sqlite",
        options=options,
        listeners=(events.append,),
    )


def preorder(tree: tuple[TreeNode, ...]) -> list[TreeNode]:
    nodes = []
    waiting = list(reversed(tree))
    while waiting:
        node = waiting.pop()
        nodes.append(node)
        waiting.extend(reversed(node.children))
    return nodes


@pytest.mark.parametrize("order", ["parallel", "preorder"])
def test_table_14_joins_two_chains_from_documents_and_memory(
    order: str, endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    script_table_14(endpoint)
    events: list[Event] = []
    result = ask(TABLE_14, endpoint, corpus, tmp_path, events, order=order)
    assert result.answer == "The Carousel Of Death"
    nodes = preorder(result.tree)
    assert [(node.id, node.resolved, node.answer, node.source) for node in nodes] == [
        (1, "Who directed the film The Carousel Of Death?", "Heinz Paul", "external"),
        (2, "What is the birth year of Heinz Paul?", "1918", "external"),
        (3, "Who directed the film Nameless Star?", "Mihail Kozakov", "internal"),
        (4, "What is the birth year of Mihail Kozakov?", "1934", "internal"),
    ]
    assert result.chains == TABLE_14_CHAINS
    assert nodes[0].evidence[0] == "p1" and nodes[1].evidence == ("p2",)
    assert [event["query"] for event in as_dicts(events) if event["event"] == "retrieve"] == [
        "Who directed the film The Carousel Of Death?",
        "What is the birth year of Heinz Paul?",
    ]
    assert result.usage.retrievals == 2
    assert not result.warnings and not result.stopped_by


@pytest.mark.parametrize("order", ["parallel", "preorder"])
def test_table_14_names_each_step_to_the_endpoint(order: str, endpoint: Endpoint, corpus: Path, tmp_path: Path) -> None:
    script_table_14(endpoint)
    result = ask(TABLE_14, endpoint, corpus, tmp_path, [], order=order)
    assert Counter(endpoint.steps()) == {
        "taikc/decompose": 1,
        "taikc/confident": 4,
        "taikc/read": 2,
        "taikc/summarise": 2,
        "taikc/final": 1,
    }
    assert endpoint.steps()[0] == "taikc/decompose" and endpoint.steps()[-1] == "taikc/final"
    assert result.usage.llm_calls == 10


def test_table_14_asks_in_preorder_when_told_so(endpoint: Endpoint, corpus: Path, tmp_path: Path) -> None:
    script_table_14(endpoint)
    ask(TABLE_14, endpoint, corpus, tmp_path, [], order="preorder")
    asked = [text.splitlines()[0].removeprefix("Question: ") for text in endpoint.texts("taikc/confident")]
    assert asked == [
        "Who directed the film The Carousel Of Death?",
        "What is the birth year of Heinz Paul?",
        "Who directed the film Nameless Star?",
        "What is the birth year of Mihail Kozakov?",
    ]


def test_table_14_gives_each_path_to_the_summariser_as_nested_json(
    endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    script_table_14(endpoint)
    ask(TABLE_14, endpoint, corpus, tmp_path, [])
    first = next(json.loads(text) for text in endpoint.texts("taikc/summarise") if "Heinz Paul" in text)
    assert first == {
        "query1": {
            "question": "Who directed the film The Carousel Of Death?",
            "answer": "Heinz Paul",
            "children": {"query2": {"question": "What is the birth year of Heinz Paul?", "answer": "1918"}},
        }
    }


@pytest.mark.parametrize("order", ["parallel", "preorder"])
def test_table_12_mends_the_missing_brace_without_asking_again(
    order: str, endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    script_table_12(endpoint)
    events: list[Event] = []
    result = ask(TABLE_12, endpoint, corpus, tmp_path, events, order=order)
    assert result.answer == "No"
    assert endpoint.steps().count("taikc/decompose") == 1
    plans = [event for event in as_dicts(events) if event["event"] == "parse" and event["step"] == "decompose"]
    assert [event["repairs"] for event in plans] == [["completed"]]
    assert result.chains == ("Han Sai Por is Singaporean, while Gabriele Oettingen is German.",)
    assert [(node.answer, node.source) for node in preorder(result.tree)] == [
        ("Singaporean", "internal"),
        ("German", "external"),
    ]
    assert result.tree[0].children[0].id == 2, "the nesting is shown as it was written"


def test_table_12_nested_questions_that_refer_to_nothing_are_asked_at_once(
    endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    script_table_12(endpoint)
    events: list[Event] = []
    result = ask(TABLE_12, endpoint, corpus, tmp_path, events)
    plan = next(event for event in as_dicts(events) if event["event"] == "plan")
    assert [node["refs"] for node in plan["nodes"]] == [[], []]
    states = [(event["id"], event["state"]) for event in as_dicts(events) if event["event"] == "node"]
    assert states[:2] == [(1, "asking"), (2, "asking")], "both began before one ended"
    assert result.answer == "No"


@pytest.mark.parametrize("order", ["parallel", "preorder"])
def test_table_15_logs_that_the_plan_gave_an_answer_away(
    order: str, endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    script_table_15(endpoint)
    events: list[Event] = []
    result = ask(TABLE_15, endpoint, corpus, tmp_path, events, order=order)
    assert result.answer == "natural causes"
    issues = next(event["issues"] for event in as_dicts(events) if event["event"] == "plan")
    assert [(issue["kind"], issue["node"]) for issue in issues] == [("plan_leak", 2)]
    assert "Nora Brockstedt" in issues[0]["detail"]
    assert [(node.answer, node.source) for node in preorder(result.tree)] == [
        ("Nora Brockstedt", "external"),
        ("Natural causes", "internal"),
    ]


@pytest.mark.parametrize(
    ("script", "question"),
    [(script_table_14, TABLE_14), (script_table_12, TABLE_12), (script_table_15, TABLE_15)],
    ids=["table 14", "table 12", "table 15"],
)
def test_preorder_and_parallel_send_the_same_requests_and_come_to_the_same(
    script: Any, question: str, endpoint: Endpoint, corpus: Path, tmp_path: Path
) -> None:
    script(endpoint)
    at_once = ask(question, endpoint, corpus, tmp_path / "a", [], order="parallel")
    sent = sorted(seen.key for seen in endpoint.requests)
    endpoint.requests.clear()
    one_by_one = ask(question, endpoint, corpus, tmp_path / "b", [], order="preorder")
    assert sorted(seen.key for seen in endpoint.requests) == sent
    assert one_by_one.tree == at_once.tree
    assert (one_by_one.answer, one_by_one.chains, one_by_one.evidence) == (
        at_once.answer,
        at_once.chains,
        at_once.evidence,
    )
