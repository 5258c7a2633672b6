"""Hoptree as a retriever and as a tool of DSPy, with the real package."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integrations.films import QUESTION, films

from hoptree.integrations.engine_thread import Hoptree

pytest.importorskip("dspy")

import dspy

from hoptree.integrations.dspy import HoptreeRetriever, hoptree_tool


@pytest.fixture
def hoptree(tmp_path: Path) -> Iterator[Hoptree]:
    with films(tmp_path) as opened:
        yield opened


def test_the_retriever_is_a_module(hoptree: Hoptree) -> None:
    prediction = HoptreeRetriever(hoptree, k=1)(query="Night Train to Lisbon")
    assert prediction.titles == ["Night Train to Lisbon"]
    assert prediction.passages[0].startswith("Night Train to Lisbon is a film") and prediction.scores[0] > 0


def test_the_retriever_gives_what_an_answer_rests_on(hoptree: Hoptree) -> None:
    prediction = HoptreeRetriever(hoptree, multi_hop=True)(query=QUESTION)
    assert set(prediction.titles) == {"Night Train to Lisbon", "Bille August"}


def test_the_retriever_is_what_dspy_retrieve_asks(hoptree: Hoptree) -> None:
    with dspy.context(rm=HoptreeRetriever(hoptree).rm):
        prediction = dspy.Retrieve(k=1)("Night Train to Lisbon")
    assert prediction.passages == ["Night Train to Lisbon is a film of 2013. Bille August directed it."]


def test_the_tool_answers(hoptree: Hoptree) -> None:
    tool = hoptree_tool(hoptree)
    assert set(tool.args) == {"question"}
    assert "\nAnswer: 1948" in tool(question=QUESTION)


def test_an_agent_uses_the_tool(hoptree: Hoptree) -> None:
    thoughts = [
        {"next_thought": "I look it up.", "next_tool_name": "hoptree", "next_tool_args": {"question": QUESTION}},
        {"next_thought": "I know it.", "next_tool_name": "finish", "next_tool_args": {}},
        {"reasoning": "The tool says so.", "answer": "1948"},
    ]
    agent = dspy.ReAct("question -> answer", tools=[hoptree_tool(hoptree)])
    with dspy.context(lm=dspy.utils.DummyLM(thoughts)):
        prediction = agent(question=QUESTION)
    assert prediction.answer == "1948"
    assert "\nAnswer: 1948" in prediction.trajectory["observation_0"]
