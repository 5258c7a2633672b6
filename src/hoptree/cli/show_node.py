"""`hoptree show --node`: everything that happened at one sub-question, in order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from hoptree.cli.console import clean, counted, echo, listed
from hoptree.cli.render import describe_outcome
from hoptree.core.errors import InputError
from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import cut_around, shorten
from hoptree.engine.events import Decision, Event, NodeEvent, NodeSettled, NodeStarted
from hoptree.engine.result import Result, TreeNode
from hoptree.engine.trace import (
    EntitiesFound,
    ExternalCall,
    FactsFound,
    ModelCalled,
    Retrieved,
    TitlesFound,
    events_of,
    passage_of,
)
from hoptree.text.grounding import Quote, find_quote
from hoptree.text.line_breaks import unwrap_lines

_MAX_NODES = 30  # that an error lists
_MAX_ITEMS = 8
_MAX_REPLY_CHARS, _MAX_DECISION_CHARS, _MAX_SNIPPET_CHARS = 400, 300, 240
_INDENT = " " * 22


class NodeRecord:
    """A node of a question's tree with its own events; 0 is the question itself."""

    def __init__(self, result: Result, events: Sequence[Event], name: str) -> None:
        nodes = {node.id: node for top in result.tree for node in top.walk()}
        rests_on = tuple(passage.id for passage in result.evidence)
        question = TreeNode(
            0, result.question, answer=result.answer, state="answered", evidence=rests_on, children=list(result.tree)
        )
        known = {0: question, **nodes}
        wanted = name.strip().rstrip(".")
        if not wanted.isdecimal() or int(wanted) not in known:
            there = [f"{each.id} ({shorten(each.resolved or each.question, 60)})" for each in known.values()]
            cause = f"There is no sub-question '{name}' in the tree."
            raise InputError(cause, f"The tree has these: {listed(there, _MAX_NODES)}.")
        self.result = result
        self.node = known[int(wanted)]
        self.is_question = self.node is question
        self.parent = next((each.id for each in known.values() if self.node in each.children), None)
        self.events = [*_own_events(events, self.node.id)]
        self.passages = _passages(self.events)
        read = result.evidence if self.is_question else self.passages
        in_node = (passage for passage in read if passage.id in self.node.evidence)
        cited = [replace(passage, text=unwrap_lines(passage.text)) for passage in in_node]
        resolved = self.node.resolved or self.node.question
        self.quote: Quote | None = find_quote(self.node.answer, resolved, cited) if self.node.answer else None

    def reasons(self) -> list[str]:
        """Return why the node has its answer: its origin, and the method's decisions."""
        if self.is_question:
            return [line for line in (self.result.support or self.result.sentence, self.result.why) if line]
        decided = (event.reason() for event in self.events if isinstance(event, Decision))
        return [*filter(None, dict.fromkeys((describe_outcome(self.node, self.result), *decided)))]

    def as_dict(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return {
            "question": self.result.question,
            "parent": self.parent,
            "node": {**self.node.as_dict(), "children": [child.id for child in self.node.children]},
            "reasons": self.reasons(),
            "quote": {"passage": self.quote.passage, "text": self.quote.text} if self.quote else None,
            "passages": [passage.as_dict() for passage in self.passages],
            "events": [event.as_dict() for event in self.events],
        }

    def print(self) -> None:
        """Print the record as text."""
        node = self.node
        echo(clean(f"{node.id}. {node.resolved or node.question}"))
        if node.resolved not in ("", node.question):
            echo(clean(f"planned as: {node.question}"))
        if self.parent is not None:
            echo(f"parent: {self.parent}")
        if node.refs:
            echo(f"needs the answer of: {', '.join(map(str, node.refs))}")
        if node.children:
            echo(f"sub-questions: {', '.join(str(child.id) for child in node.children)}")
        echo("")
        for event in self.events:
            for place, line in enumerate(filter(None, _lines(event))):
                echo(clean(f"{event.t:8.3f} s  {line}" if not place else f"{_INDENT}{line}"))
        echo(f"\nAnswer: {clean(node.answer) or 'none'}")
        for reason in self.reasons():
            echo(clean(f"why: {reason}"))
        if self.quote:
            echo(clean(f"quote: “{shorten(self.quote.text, _MAX_SNIPPET_CHARS)}” ({self.quote.passage})"))
        if self.passages:
            echo("\nPassages read")
        for passage in self.passages:
            mark = "*" if passage.id in node.evidence else " "
            text = cut_around(passage.text, node.answer, _MAX_SNIPPET_CHARS, node.resolved or node.question)
            echo(clean(f"{mark} {passage.id}  {passage.title}: {text}"))
        if any(passage.id in node.evidence for passage in self.passages):
            echo("* is cited for the answer")


def _own_events(events: Sequence[Event], number: int) -> Iterator[Event]:
    """Yield the events of a node of the last plan, or of the question itself."""
    own = {id(event) for event in events_of(events, number)}
    for event in events:
        if isinstance(event, NodeStarted | NodeSettled):
            if event.id == number:
                yield event
        elif id(event) in own or (number == 0 and isinstance(event, NodeEvent) and event.node is None):
            yield event


def _passages(events: Sequence[Event]) -> list[Passage]:
    """Return the passages found at a node, each once with its best score."""
    passages: dict[str, Passage] = {}
    for event in events:
        for hit in event.passages if isinstance(event, Retrieved) else ():
            passage = passage_of(hit)
            known = passages.setdefault(passage.id, passage)
            passages[passage.id] = replace(known, score=max(known.score, passage.score))
    return [*passages.values()]


def _lines(event: Event) -> Iterator[str]:
    """Describe an event in a line, and its list, if any, in further lines."""
    cached = " (from the cache)" if isinstance(event, ExternalCall) and event.cached else ""
    if isinstance(event, NodeStarted):
        yield f"asked     {event.resolved}"
    elif isinstance(event, NodeSettled):
        yield f"settled   {event.answer or 'no answer'} [{event.outcome}]"
    elif isinstance(event, ModelCalled):
        tokens = f"{event.prompt_tokens:,} tokens read, {event.completion_tokens:,} written"
        yield f"call      {event.step}, prompt {event.template or 'of its own'}, {tokens}{cached}"
        yield f"→ {shorten(event.reply, _MAX_REPLY_CHARS) or '(nothing)'}"
    elif isinstance(event, Retrieved):
        where = "".join(f", {name} {value}" for name, value in (event.where or {}).items())
        yield f"search    “{event.query}”{where}: {counted(len(event.passages), 'passage')}{cached}"
        for hit in event.passages[:_MAX_ITEMS]:
            yield f"{hit['score']:.2f} {hit['id']}"
    elif isinstance(event, TitlesFound):
        yield f"titles    for {event.name}: {listed(event.titles, _MAX_ITEMS)}{cached}"
    elif isinstance(event, FactsFound):
        yield f"facts     around {event.label or event.entity}: {counted(len(event.facts), 'fact')}{cached}"
        yield from event.facts[:_MAX_ITEMS]
    elif isinstance(event, EntitiesFound):
        entities = [" ".join(each) for each in event.found]
        yield f"entities  for {event.name}: {listed(entities, _MAX_ITEMS) or 'none'}{cached}"
    elif isinstance(event, Decision):
        yield f"decision  {shorten(event.node_line(), _MAX_DECISION_CHARS)}"
