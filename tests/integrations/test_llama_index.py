"""Hoptree as a retriever and as a tool of LlamaIndex, with the real package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integrations.films import QUESTION, films

from hoptree.integrations.engine_thread import Hoptree

pytest.importorskip("llama_index.core")

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine

from hoptree.integrations.llama_index import HoptreeRetriever, hoptree_tool


@pytest.fixture
def hoptree(tmp_path: Path) -> Iterator[Hoptree]:
    with films(tmp_path) as opened:
        yield opened


def test_the_retriever_finds_nodes_with_a_loop_and_without(hoptree: Hoptree) -> None:
    retriever = HoptreeRetriever(hoptree, k=1)
    (node,) = retriever.retrieve("Night Train to Lisbon")
    assert node.node.get_content().startswith("Night Train to Lisbon is a film")
    assert node.node.metadata["title"] == "Night Train to Lisbon" and node.score > 0
    (again,) = asyncio.run(retriever.aretrieve("Night Train to Lisbon"))
    assert again.node.node_id == node.node.node_id


def test_the_retriever_gives_what_an_answer_rests_on(hoptree: Hoptree) -> None:
    nodes = HoptreeRetriever(hoptree, multi_hop=True).retrieve(QUESTION)
    assert {each.node.metadata["title"] for each in nodes} == {"Night Train to Lisbon", "Bille August"}


def test_the_retriever_is_a_part_of_a_query_engine(hoptree: Hoptree) -> None:
    engine = RetrieverQueryEngine.from_args(HoptreeRetriever(hoptree, multi_hop=True), llm=MockLLM())
    response = engine.query(QUESTION)
    assert {node.metadata["title"] for node in response.source_nodes} == {"Night Train to Lisbon", "Bille August"}
    assert "Bille August was born in 1948" in str(response), "the model that only repeats was shown the evidence"


def test_the_tool_answers(hoptree: Hoptree) -> None:
    tool = hoptree_tool(hoptree)
    assert tool.metadata.name == "hoptree" and "question" in tool.metadata.get_parameters_dict()["properties"]
    assert "\nAnswer: 1948" in str(tool.call(question=QUESTION))
    assert "\nAnswer: 1948" in str(asyncio.run(tool.acall(question=QUESTION)))
