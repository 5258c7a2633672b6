"""Hoptree for DSPy: a retriever, as a module and as what `dspy.configure(rm=…)` takes, and a tool."""

from __future__ import annotations

import dspy

from hoptree.integrations.engine_thread import TOOL_DESCRIPTION, Hoptree, result_text


class HoptreeRetriever(dspy.Module):
    """The best `k` passages for a query; with `multi_hop` those that Hoptree's answer to it rests on."""

    def __init__(self, hoptree: Hoptree, *, k: int = 5, multi_hop: bool = False) -> None:
        super().__init__()
        self._hoptree, self._k, self._multi_hop = hoptree, k, multi_hop

    def forward(self, query: str, k: int | None = None) -> dspy.Prediction:
        """The passages as texts, with their ids, titles and scores in lists beside them."""
        found = self._hoptree.passages(query, k=k or self._k, multi_hop=self._multi_hop)
        return dspy.Prediction(
            passages=[passage.text for passage in found],
            ids=[passage.id for passage in found],
            titles=[passage.title for passage in found],
            scores=[passage.score for passage in found],
        )

    def rm(self, query: str, k: int | None = None) -> list[dspy.Prediction]:
        """The same as `dspy.Retrieve` wants it from `dspy.configure(rm=retriever.rm)`."""
        found = self._hoptree.passages(query, k=k or self._k, multi_hop=self._multi_hop)
        return [dspy.Prediction(long_text=passage.text, pid=passage.id, title=passage.title) for passage in found]


def hoptree_tool(hoptree: Hoptree, *, name: str = "hoptree", description: str = TOOL_DESCRIPTION) -> dspy.Tool:
    """A tool that answers a question, for dspy.ReAct and the like."""

    def ask(question: str) -> str:
        return result_text(hoptree, hoptree.ask(question))

    return dspy.Tool(ask, name=name, desc=description)
