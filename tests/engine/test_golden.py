"""Golden trees, and results of trees that were rebuilt while they were validated."""

from __future__ import annotations

from typing import Any

import pytest
from tests.traced import event

from hoptree.core.errors import TraceError
from hoptree.engine.result import read_result
from hoptree.methods.treeqa.method import golden_tree


def planned(number: int, parent: int | None, hypothesis: str = "") -> dict[str, Any]:
    return {"id": number, "question": f"q{number}?", "parent": parent, "refs": [], "hypothesis": hypothesis}


FOUND = [{"id": "p1", "title": "One", "text": "Text one.", "score": 1.0}]
ANSWERED = {"state": "answered", "source": "external"}
RUN = [
    event("start", question="Who?", method="treeqa", model="m", options={}),
    event("plan", nodes=[planned(0, None, "draft"), planned(1, 0, "wrong"), planned(2, 1, "old"), planned(3, 0, "c")]),
    event("retrieve", passages=FOUND, issued=0.0, seconds=0.0),
    event("plan", under=1, rebuilt=True, nodes=[planned(101, 1, "new")], issues=[]),
    event(
        "node", id=1, **ANSWERED, answer="right", hypothesis="right", verdict="refuted", struck=["wrong"], resolved="q?"
    ),
    event("node", id=2, **ANSWERED, answer="old", verdict="supported"),
    event("node", id=101, **ANSWERED, answer="new", verdict="supported", evidence=["p1"], facts=[["a", "is", "b"]]),
    event("node", id=0, **ANSWERED, answer="the end", hypothesis="draft"),
    event("final", answer="the end", abstained=False, stopped_by=""),
]


def test_what_was_rebuilt_takes_the_place_of_what_was_there() -> None:
    (root,) = read_result(RUN).tree
    first, third = root.children
    assert (first.answer, first.struck, first.verdict) == ("right", ("wrong",), "refuted")
    assert [child.id for child in first.children] == [101], "the old child is gone, also if it says something later"
    tree = first.as_dict()
    assert (tree["verdict"], tree["struck"], tree["hypothesis"]) == ("refuted", ["wrong"], "right")
    assert "verdict" not in third.as_dict() and third.hypothesis == "c"


def test_a_golden_tree_says_what_is_held_for_true_and_what_says_so() -> None:
    assert golden_tree(read_result(RUN)) == {
        "input_question": "Who?",
        "logic_tree": {
            "children": [
                {
                    "sub_question": "q?",
                    "hypothesis_answer": "right",
                    "children": [
                        {
                            "sub_question": "q101?",
                            "hypothesis_answer": "new",
                            "ref": {"Wikipedia": ["p1||Text one."], "Wikidata": ["a-is-b"]},
                        }
                    ],
                },
                {"sub_question": "q3?", "hypothesis_answer": "c", "verdict": "unknown"},
            ]
        },
        "answer": "the end",
    }


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({"state": "unanswered", "answer": "", "verdict": "unknown"}, ("unknown", "unknown")),
        ({"state": "answered", "answer": "guess", "verdict": "unknown"}, ("guess", "unknown")),
        ({"state": "answered", "answer": "No", "verdict": "refuted"}, ("No", None)),
        ({"state": "answered", "answer": "guess", "verdict": "refuted"}, ("guess", "refuted")),
        (
            {"state": "answered", "answer": "new", "verdict": "refuted", "struck": ["guess"], "hypothesis": "new"},
            ("new", None),
        ),
        (
            {"state": "answered", "answer": "new", "verdict": "refuted", "struck": ["guess"], "source": "internal"},
            ("new", "unknown"),
        ),
        ({"state": "answered", "answer": "guess", "verdict": "supported"}, ("guess", None)),
        ({"state": "asking"}, ("guess", "unknown")),
    ],
)
def test_a_golden_tree_says_what_nothing_verified(fields: dict[str, Any], written: tuple[str, str | None]) -> None:
    run = [RUN[0], event("plan", nodes=[planned(0, None), planned(1, 0, "guess")]), event("node", id=1, **fields)]
    (node,) = golden_tree(read_result(run))["logic_tree"]["children"]
    assert (node["hypothesis_answer"], node.get("verdict")) == written


def test_what_only_a_node_cites_is_its_reference() -> None:
    """The answer may rest on other passages than the tree."""
    passages = [{"id": name, "title": "T", "text": f"Text {name}.", "score": 1.0} for name in ("p1", "p2")]
    run = [
        RUN[0],
        event("plan", nodes=[planned(0, None), planned(1, 0, "guess")]),
        event("retrieve", passages=passages, issued=0.0, seconds=0.0),
        event("node", id=1, **ANSWERED, answer="guess", verdict="supported", evidence=["p1"]),
        event("final", answer="the end", source="external", support=["p2"]),
    ]
    (node,) = golden_tree(read_result(run))["logic_tree"]["children"]
    assert node["ref"]["Wikipedia"] == ["p1||Text p1."]


def test_trees_of_other_methods_have_golden_trees_too() -> None:
    plain = [
        event("start", question="Who?", method="taikc", model="m", options={}),
        event("plan", nodes=[{"id": 1, "question": "a?", "parent": None, "refs": []}]),
        event("node", id=1, **ANSWERED, answer="A"),
    ]
    children = golden_tree(read_result(plain))["logic_tree"]["children"]
    assert children == [{"sub_question": "a?", "hypothesis_answer": "A"}]


@pytest.mark.parametrize("facts", [5, [5], [[1], 5]])
def test_facts_that_are_none_are_a_trace_that_cannot_be_understood(facts: Any) -> None:
    with pytest.raises(TraceError):
        read_result([*RUN[:4], event("node", id=1, **ANSWERED, answer="x", facts=facts)])


@pytest.mark.parametrize(("stopped_by", "expected"), [("calls", "calls"), ("", None)])
def test_a_golden_tree_says_which_budget_ended_it(stopped_by: str, expected: str | None) -> None:
    run = [*RUN[:-1], event("final", answer="draft", abstained=False, stopped_by=stopped_by)]
    assert golden_tree(read_result(run)).get("stopped_by") == expected


def test_a_golden_tree_says_that_it_was_cut_off() -> None:
    assert golden_tree(read_result(RUN[:-2]))["stopped_by"] == "killed"
