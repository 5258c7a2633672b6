"""Hoptree as a retriever and as a tool of LangChain, with the real package."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.integrations.films import QUESTION, broken, films

from hoptree.integrations.engine_thread import Hoptree

pytest.importorskip("langchain_core")

from langchain_core.runnables import RunnableLambda

from hoptree.integrations.langchain import HoptreeRetriever, hoptree_tool


@pytest.fixture
def hoptree(tmp_path: Path) -> Iterator[Hoptree]:
    with films(tmp_path) as opened:
        yield opened


def test_the_retriever_finds_documents_with_a_loop_and_without(hoptree: Hoptree) -> None:
    retriever = HoptreeRetriever(hoptree=hoptree, k=1)
    (document,) = retriever.invoke("Night Train to Lisbon")
    assert document.page_content.startswith("Night Train to Lisbon is a film")
    assert document.id and document.metadata["title"] == "Night Train to Lisbon" and document.metadata["score"] > 0
    assert asyncio.run(retriever.ainvoke("Night Train to Lisbon")) == [document]


def test_the_retriever_gives_what_an_answer_rests_on(hoptree: Hoptree) -> None:
    documents = HoptreeRetriever(hoptree=hoptree, multi_hop=True).invoke(QUESTION)
    assert {document.metadata["title"] for document in documents} == {"Night Train to Lisbon", "Bille August"}


def test_the_retriever_is_a_part_of_a_chain(hoptree: Hoptree) -> None:
    chain = HoptreeRetriever(hoptree=hoptree, k=2) | RunnableLambda(len)
    assert chain.invoke("film") == 2


def test_the_tool_answers_with_words_and_the_whole_result(hoptree: Hoptree) -> None:
    tool = hoptree_tool(hoptree)
    assert set(tool.args) == {"question"}
    call = {"name": tool.name, "args": {"question": QUESTION}, "id": "1", "type": "tool_call"}
    for message in (tool.invoke(call), asyncio.run(tool.ainvoke(call))):
        assert "\nAnswer: 1948" in message.content
        assert message.artifact["tree"][0]["answer"] == "Bille August"


def test_an_agent_is_told_of_a_failure() -> None:
    with broken() as hoptree:
        call = {"name": "hoptree", "args": {"question": QUESTION}, "id": "1", "type": "tool_call"}
        message = hoptree_tool(hoptree).invoke(call)
    assert message.status == "error" and "Set OPENAI_API_KEY" in message.content
