"""Sub-questions that are made up one after another, each when the answers before it are known."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.schedule import plant
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node


@dataclass(slots=True)
class InTurn:
    """The question, the sub-questions that were asked so far, and their answers; each is a node under the question."""

    ctx: Context
    question: str
    pairs: list[tuple[str, Answer]] = field(default_factory=list)
    root: Node = field(init=False)

    def __post_init__(self) -> None:
        self.root = plant(self.ctx, self.question)
        self.ctx.begin_node(self.root, self.question)

    def begin(self, question: str) -> Node:
        node = Node(len(self.pairs) + 1, question, self.root.id, self.root.depth + 1)
        written = {"id": node.id, "question": question, "parent": self.root.id, "refs": []}
        self.ctx.trace.add("plan", under=self.root.id, nodes=[written], issues=[])
        self.ctx.begin_node(node, question)
        return node

    def end(self, node: Node, answer: Answer, **details: Any) -> None:
        """Take down what a sub-question came to, which is proposed only where it asks the question itself once more.

        What answers a part of a question is no answer to it, also if the budget ends here.
        """
        self.ctx.end_node(node, answer, **details)
        self.pairs.append((node.question, answer))
        if question_key(node.question) == question_key(self.question):
            self.ctx.propose(answer, order=0)

    def conclude(self, answer: Answer) -> Answer:
        """The answer to the question itself, which rests on all that its sub-questions rest on."""
        support = dict.fromkeys(name for _, part in self.pairs if part.known for name in part.support)
        if answer.known and self.pairs:
            answer = replace(answer, source="synthesis", support=tuple(support))
        count = len(self.pairs)
        self.ctx.end_node(self.root, answer, why=f"from {count} sub-question{'' if count == 1 else 's'}")
        return answer
