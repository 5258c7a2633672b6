"""Hoptree for DSPy: a retriever, also for `dspy.configure(rm=…)`, and a tool."""

from __future__ import annotations

import dspy

from hoptree.integrations.engine_thread import TOOL_DESCRIPTION, Hoptree


class HoptreeRetriever(dspy.Module):
    """Retrieves `k` passages; with `multi_hop`, those of Hoptree's answer."""

    def __init__(self, hoptree: Hoptree, *, k: int = 5, multi_hop: bool = False) -> None:
        super().__init__()
        self._hoptree, self._k, self._multi_hop = hoptree, k, multi_hop

    def forward(self, query: str, k: int | None = None) -> dspy.Prediction:
        """Return the texts of the passages, with their ids, titles and scores."""
        passages = self._hoptree.passages(query, k=k or self._k, multi_hop=self._multi_hop)
        return dspy.Prediction(
            passages=[passage.text for passage in passages],
            ids=[passage.id for passage in passages],
            titles=[passage.title for passage in passages],
            scores=[passage.score for passage in passages],
        )

    def rm(self, query: str, k: int | None = None) -> list[dspy.Prediction]:
        """Return the passages in the form of `dspy.configure(rm=retriever.rm)`."""
        passages = self._hoptree.passages(query, k=k or self._k, multi_hop=self._multi_hop)
        return [dspy.Prediction(long_text=passage.text, pid=passage.id, title=passage.title) for passage in passages]


def hoptree_tool(hoptree: Hoptree, *, name: str = "hoptree", description: str = TOOL_DESCRIPTION) -> dspy.Tool:
    """Return a tool that answers a question, for dspy.ReAct and other agents."""

    def ask(question: str) -> str:
        return hoptree.as_text(hoptree.ask(question))

    return dspy.Tool(ask, name=name, desc=description)
