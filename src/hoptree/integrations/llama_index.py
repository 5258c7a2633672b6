"""Hoptree for LlamaIndex: a retriever and a tool."""

from __future__ import annotations

from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode
from llama_index.core.tools import FunctionTool

from hoptree.core.values import Passage
from hoptree.integrations.engine_thread import TOOL_DESCRIPTION, Hoptree


class HoptreeRetriever(BaseRetriever):
    """Retrieves `k` passages; with `multi_hop`, those of Hoptree's answer."""

    def __init__(self, hoptree: Hoptree, *, k: int = 5, multi_hop: bool = False) -> None:
        super().__init__()
        self._hoptree, self._k, self._multi_hop = hoptree, k, multi_hop

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        passages = self._hoptree.passages(query_bundle.query_str, k=self._k, multi_hop=self._multi_hop)
        return list(map(_node, passages))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        passages = await self._hoptree.apassages(query_bundle.query_str, k=self._k, multi_hop=self._multi_hop)
        return list(map(_node, passages))


def hoptree_tool(hoptree: Hoptree, *, name: str = "hoptree", description: str = TOOL_DESCRIPTION) -> FunctionTool:
    """Return a tool that answers a question, for agents."""

    def ask(question: str) -> str:
        return hoptree.as_text(hoptree.ask(question))

    async def aask(question: str) -> str:
        return hoptree.as_text(await hoptree.aask(question))

    return FunctionTool.from_defaults(ask, async_fn=aask, name=name, description=description)


def _node(passage: Passage) -> NodeWithScore:
    metadata = {**passage.metadata_by_name(), "title": passage.title}
    return NodeWithScore(node=TextNode(id_=passage.id, text=passage.text, metadata=metadata), score=passage.score)
