"""Hoptree for LangChain: a retriever and a tool."""

from __future__ import annotations

from typing import Any

from langchain_core.documents import Document
from langchain_core.retrievers import BaseRetriever
from langchain_core.tools import StructuredTool, ToolException

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.result import Result
from hoptree.integrations.engine_thread import TOOL_DESCRIPTION, Hoptree


class HoptreeRetriever(BaseRetriever):
    """Retrieves `k` passages; with `multi_hop`, those of Hoptree's answer."""

    hoptree: Hoptree
    k: int = 5
    multi_hop: bool = False

    def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(map(_document, self.hoptree.passages(query, k=self.k, multi_hop=self.multi_hop)))

    async def _aget_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
        return list(map(_document, await self.hoptree.apassages(query, k=self.k, multi_hop=self.multi_hop)))


def hoptree_tool(hoptree: Hoptree, *, name: str = "hoptree", description: str = TOOL_DESCRIPTION) -> StructuredTool:
    """Return a tool that answers a question; its artifact is that of `ask --json`."""

    def reply(result: Result) -> tuple[str, dict[str, Any]]:
        return hoptree.as_text(result), result.as_dict()

    def ask(question: str) -> tuple[str, dict[str, Any]]:
        try:
            return reply(hoptree.ask(question))
        except HoptreeError as error:
            raise ToolException(str(error)) from error

    async def aask(question: str) -> tuple[str, dict[str, Any]]:
        try:
            return reply(await hoptree.aask(question))
        except HoptreeError as error:
            raise ToolException(str(error)) from error

    return StructuredTool.from_function(
        ask, aask, name=name, description=description, response_format="content_and_artifact", handle_tool_error=True
    )


def _document(passage: Passage) -> Document:
    metadata = {**passage.metadata_by_name(), "title": passage.title, "score": passage.score}
    if passage.document:
        metadata |= {"document": passage.document, "start": passage.start, "end": passage.end}
    return Document(id=passage.id, page_content=passage.text, metadata=metadata)
