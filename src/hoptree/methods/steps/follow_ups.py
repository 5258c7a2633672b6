"""Sub-questions that a model asks itself one after another, each when the answers before it are known."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from hoptree.core.values import Answer
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, Planned
from hoptree.engine.schedule import plant
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import DialogueTurn
from hoptree.text.question_tree import Node


@dataclass(frozen=True, slots=True, kw_only=True)
class NothingNew(Decision):
    """What a reply has in place of a new sub-question."""

    kind: ClassVar[str] = "nothing_new"
    value: str
    step: str


class FollowUps:
    """The sub-questions asked so far with their answers (`pairs`); each is a node under the question."""

    def __init__(self, ctx: Context, question: str) -> None:
        self._ctx, self.question = ctx, question
        self.pairs: list[tuple[str, Answer]] = []
        self._root = plant(ctx, question)
        ctx.begin_node(self._root, question)

    def begin(self, question: str) -> Node:
        """Begin a sub-question as a node of the tree."""
        node = Node(len(self.pairs) + 1, question, self._root.id, self._root.depth + 1)
        row = {"id": node.id, "question": question, "parent": self._root.id, "refs": []}
        self._ctx.emit(Planned(under=self._root.id, nodes=[row]))
        self._ctx.begin_node(node, question)
        return node

    def end(self, node: Node, answer: Answer) -> None:
        """Keep the answer to a sub-question.

        It is proposed, in case the budget ends, only if the sub-question is the question itself.
        """
        self._ctx.end_node(node, answer)
        self.pairs.append((node.question, answer))
        if question_key(node.question) == question_key(self.question):
            self._ctx.propose(answer, order=0)

    def conclude(self, answer: Answer) -> Answer:
        """Return the answer to the question itself, which rests on all that its sub-questions rest on."""
        support = dict.fromkeys(name for _, part in self.pairs if part.known for name in part.support)
        if answer.known and self.pairs:
            answer = replace(answer, source="synthesis", support=tuple(support))
        count = len(self.pairs)
        self._ctx.end_node(self._root, answer, why=f"from {count} sub-question{'' if count == 1 else 's'}")
        return answer


def note_turn(ctx: Context, step: str, turn: DialogueTurn) -> None:
    """Record whether a reply could be read, and what it says if it brings nothing new."""
    note_reply(ctx, step, turn.error)
    if not turn.error and not turn.first and not turn.final:
        ctx.emit(NothingNew(value=turn.idle, step=step))
