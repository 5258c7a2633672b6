"""The moon landing of TreeQA's Figure 1: a tree with a wrong hypothesis, and the sources that refute it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from tests.methods.asked import Asked
from tests.methods.small_knowledge import Pages, SmallGraph

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.engine.result import TreeNode
from hoptree.models.scripted import Rule

__all__ = [
    "GRAPH",
    "LANDING",
    "MOON",
    "NIXON",
    "PAGES",
    "PRESIDENT",
    "REBUILT",
    "TREE",
    "WRONG_PRESIDENT",
    "Run",
    "asked",
    "node",
    "refutes",
    "rules",
    "says",
    "shape",
    "tree",
    "verdict",
]

MOON = "Who was the President of the United States when humans made their third landing on the Moon?"
LANDING = "When did Apollo astronauts make the third landing on the Moon?"
WRONG_PRESIDENT = "Who was the President of the United States in December 1968?"
PRESIDENT = "Who was the President of the United States on February 5, 1971?"
GRAPH = (
    ("Apollo 14", "followed by", "Apollo 15"),
    ("Apollo 14", "landing date", "5 February 1971"),
    ("Apollo 14", "part of", "Apollo program"),
    ("Moon", "third landing", "Apollo 14"),
    ("United States", "head of government", "Richard Nixon"),
    ("Richard Nixon", "term", "1969 to 1974"),
)
PAGES = (
    Passage("Apollo 14_0_0", "Apollo 14", "Apollo 14 made the third landing on the Moon on February 5, 1971."),
    Passage("Apollo 8_0_0", "Apollo 8", "Apollo 8 flew around the Moon in December 1968 without landing."),
    Passage("Richard Nixon_0_0", "Richard Nixon", "Richard Nixon was President from 1969 to 1974."),
)
NIXON = Passage("Nixon_1_0", "Richard Nixon", "Richard Nixon was President of the United States in 1971.")
"""What bears out that he was what he is asked for as."""


def node(question: str, hypothesis: str, *children: dict[str, Any]) -> dict[str, Any]:
    return {"sub_question": question, "hypothesis_answer": hypothesis} | (
        {"children": list(children)} if children else {}
    )


def tree(*children: dict[str, Any], question: str = MOON, answer: str = "Lyndon Baines Johnson") -> str:
    return json.dumps({"input_question": question, "logic_tree": {"children": list(children)}, "answer": answer})


def verdict(is_true: Any, *refs: str, enough: Any = None, reason: str = "None", correct: str = "") -> str:
    fields = {
        "isTrue": is_true,
        "fact_sufficient": is_true != "unknown" if enough is None else enough,
        "reason": reason,
    }
    return json.dumps(fields | ({"correct_answer": correct} if correct else {}) | {"ref": list(refs)})


SUPPORTED = verdict(True, "T1")
TREE = tree(node(LANDING, "Apollo 8, in December 1968", node(WRONG_PRESIDENT, "Lyndon Baines Johnson")))
REBUILT = json.dumps(node(LANDING, "Apollo 14, on February 5, 1971", node(PRESIDENT, "Richard Nixon")))


def rules(
    *first: Rule,
    build: str | list[str] = TREE,
    validate: str | list[str] = SUPPORTED,
    clue: str | list[str] = '{"new_clue": "Apollo 14"}',
    rebuild: str | list[str] = REBUILT,
    reason: str | list[str] = '{"reason": "It was Apollo 14.", "correct_answer": "Apollo 14"}',
    final: str | list[str] = "Richard Nixon",
    direct: str | list[str] = "a guess",
    latency: float | None = None,
) -> list[Rule]:
    """A rule a step, after those that come first; by default every hypothesis is supported."""
    steps = {"build": build, "validate": validate, "clue": clue, "rebuild": rebuild, "reason": reason}
    steps |= {
        "final": final,
        "direct": direct,
        "mentions": "[]",
        "entities": "[1][2][3]",
        "relations": "[1][2][3]",
    }
    return [*first, *(Rule(reply, step=step, latency=latency) for step, reply in steps.items())]


def refutes(question: str) -> Rule:
    reply = verdict(False, "T1", reason="The third landing was that of Apollo 14.", correct="Apollo 14")
    return Rule(reply, step="validate", contains=f"Question: {question}")


class Run(Asked):
    """One question asked of TreeQA, over the moon's pages and graph unless others are given."""

    shelf: Any

    def __init__(
        self,
        script: list[Rule],
        *,
        question: str = MOON,
        graph: SmallGraph | None = None,
        pages: Pages | None = None,
        budget: Budget | None = None,
        latency: float = 0.0,
        roles: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> None:
        self.graph = SmallGraph(*GRAPH) if graph is None else graph
        shelf: Any = Pages(*PAGES) if pages is None else pages
        super().__init__(
            "treeqa", script, question, shelf, budget=budget, latency=latency, roles=roles, options=options
        )

    def texts(self, step: str) -> list[str]:
        return [text for asked_step, text in self.model.requests if asked_step == f"treeqa/{step}"]

    @property
    def tops(self) -> list[TreeNode]:
        (root,) = self.result.tree
        return root.children

    def verdicts(self, number: int) -> list[str]:
        return [attempt["verdict"] for attempt in self.node(number)["attempts"]]


def shape(nodes: list[TreeNode]) -> list[Any]:
    """What a tree says, without what it took."""
    return [
        (
            node.id,
            node.resolved,
            node.answer,
            node.verdict,
            node.struck,
            node.evidence,
            node.facts,
            shape(node.children),
        )
        for node in nodes
    ]


def says(question: str, reply: str) -> Rule:
    return Rule(reply, step="validate", contains=f"Question: {question}")


def asked(run: Run, step: str = "validate") -> list[str]:
    return [text.rpartition("Question: ")[2].splitlines()[0] for text in run.texts(step)]
