"""Drawing a result in the terminal: the tree while it grows, and the whole when it is done."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

from hoptree.cli.console import clean
from hoptree.cli.outcome import Outcome
from hoptree.cli.uncertainty import doubt_line, draw_writing, show_writing
from hoptree.engine.events import GUESS, Decision, Event, NodeSettled, Started
from hoptree.engine.registry import Decisions, Explanation, explanation_of
from hoptree.engine.result import STOPPED, Result, TreeNode, read_result

_SOURCE_STYLE = {
    "internal": "cyan",
    "external": "green",
    "synthesis": "magenta",
    "fallback": "yellow",
    "none": "red",
}
_SOURCE_WORDS = {
    "internal": "from the model's own knowledge",
    "external": "from documents",
    "synthesis": "from its sub-questions",
    "fallback": f"{GUESS}: the documents do not say",
    "none": "no answer found",
}
_VERDICT_STYLE = {"supported": "green", "refuted": "magenta", "unknown": "yellow"}
_VERDICT_WORDS = {
    "supported": "supported",
    "refuted": "refuted, and corrected",
    "replaced": "refuted; what took its place is not verified",
    "unknown": "not verified",
}
_SNIPPET = 160
_LOOKED_IN = {"graph": "from the graph", "hybrid": "from documents or the graph"}
"""Where an answer comes from that names no evidence, by the sources that the method was told to ask."""
_CITED = 3
"""Passages and facts each that a node names."""
_SVG_WIDTH = 118
_OUTSIDE = re.compile(r"@font-face\s*{[^}]*}|<!--.*?-->", re.DOTALL)


class GrowingTree:
    """A listener that draws the tree as events come in: live on a terminal, a line an event elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._events: list[Event] = []
        self._planned: set[int] = set()
        self._decided: dict[int, list[Decision]] = {}
        self._explain = Explanation()
        self._said: set[str] = set()
        self._began = time.monotonic()
        self._spinner = Spinner("dots")
        self._live = Live(console=console, transient=True, refresh_per_second=8, get_renderable=self._draw)

    def __enter__(self) -> GrowingTree:
        if self._console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._console.is_terminal:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        self._events.append(event)
        if event["event"] == "plan":
            self._planned.update(node["id"] for node in event["nodes"])
        if isinstance(event, Started):
            self._explain = explanation_of(event.method)
        if isinstance(event, Decision) and event.node is not None:
            self._decided.setdefault(event.node, []).append(event)
        line = "" if self._console.is_terminal else _line(event, self._decided, self._explain)
        if line and self._is_news(event, line):
            self._console.print(Text(line), soft_wrap=True)

    def _is_news(self, event: Event, line: str) -> bool:
        """Whether a line tells something: not of a question begun twice, nor of one that never got into the tree."""
        if event["event"] != "node":
            return True
        new = line not in self._said
        if event["id"] in self._planned:
            self._said.add(line)
        return new and (event["id"] in self._planned or not self._planned)

    def _draw(self) -> Group:
        result = read_result(self._events)
        calls = sum(event["event"] == "llm" for event in self._events)
        waiting: Mapping[str, object] = next((e for e in reversed(self._events) if e["event"] in ("retry", "llm")), {})
        doing = "answering" if result.tree else "writing" if result.writing else "planning"
        if waiting.get("event") == "retry":
            doing = f"waiting {waiting['wait']:g} s: {waiting['error']}"
        seconds = time.monotonic() - self._began
        self._spinner.update(text=Text(f" {clean(doing)} · {_count(calls, 'call')} · {seconds:.0f} s", style="dim"))
        text = [draw_writing(result.writing)] if result.writing else []
        return Group(_draw_tree(result), *text, self._spinner)


def show_result(console: Console, result: Result, heading: str = "", decided: Sequence[str] = ()) -> None:
    """The tree with its evidence, or the text with its doubts, the answer, what was decided, and what it cost."""
    whole_lines = not console.is_terminal
    if heading:
        console.print(Text(clean(heading), style="dim"), soft_wrap=whole_lines)
    console.print(_draw_tree(result))
    if result.writing:
        show_writing(console, result.writing)
    for chain in result.chains:
        console.print(Text.assemble(("chain  ", "dim"), clean(chain)), soft_wrap=whole_lines)
    answers = {name: node.answer for node in _nodes(result.tree) for name in node.evidence}
    told = [node for node in _nodes(result.tree) if node.unverified != "unknown"]
    facts = tuple(dict.fromkeys(fact for node in told for fact in node.facts))
    drawn = {name for node in told for name in node.evidence[:_CITED]}
    evidence = (*result.evidence, *(passage for passage in result.cited if passage.id in drawn))
    if evidence or facts:
        console.print(Text("\nEvidence", style="bold"))
    for passage in evidence:
        cut = _snippet(clean(passage.text), answers.get(passage.id, ""))
        line = Text.assemble("  ", (clean(passage.id), "green"), f"  {clean(passage.title)}: {cut}")
        console.print(line, soft_wrap=whole_lines)
    for fact in facts:
        console.print(Text.assemble("  ", ("fact", "green"), f"  {clean(' | '.join(fact))}"), soft_wrap=whole_lines)
    console.print()
    console.print(Panel(_answer_text(result), title=_answer_title(result), title_align="left", expand=False))
    for decision in decided:
        name, _, said = clean(decision).partition(": ")
        console.print(Text.assemble((f"{name}: ", "dim"), said), soft_wrap=whole_lines)
    if result.why:
        console.print(Text.assemble(("why: ", "dim"), clean(result.why)), soft_wrap=whole_lines)
    if result.error_message:
        console.print(Text.assemble(("failed: ", "red"), clean(result.error_message)), soft_wrap=whole_lines)
    for warning in result.warnings:
        console.print(Text.assemble(("note: ", "yellow"), clean(warning)), soft_wrap=whole_lines)
    console.print(Text(_cost(result), style="dim"), soft_wrap=whole_lines)


def _nodes(tree: Sequence[TreeNode]) -> Iterator[TreeNode]:
    """All nodes, each before those below it."""
    for node in tree:
        yield node
        yield from _nodes(node.children)


def _snippet(text: str, answer: str) -> str:
    """As much of a passage as fits, with the answer in it."""
    text = " ".join(text.split())
    place = text.casefold().find(answer.casefold()) if answer else -1
    start = max(0, min(place - _SNIPPET // 2, len(text) - _SNIPPET)) if place > _SNIPPET // 2 else 0
    cut = text[start : start + _SNIPPET]
    return ("…" if start else "") + cut + ("…" if start + _SNIPPET < len(text) else "")


def draw_svg(outcomes: Sequence[Outcome], headings: Sequence[str] = ()) -> str:
    """The same drawing as an SVG picture, with no reference to anything outside it."""
    console = Console(
        record=True,
        file=io.StringIO(),
        width=_SVG_WIDTH,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,  # a picture has colours, whatever this terminal has
    )
    for place, outcome in enumerate(outcomes):
        if place:
            console.print()
        show_result(console, outcome.result, headings[place] if headings else "", outcome.lines)
    return _OUTSIDE.sub("", console.export_svg(title="hoptree"))


def _answer_title(result: Result) -> str:
    return "Best answer so far" if result.answer and result.stopped_by else "Answer"


def _answer_text(result: Result) -> Text:
    if result.answer:
        return Text(clean(result.answer), style="bold")
    if result.error:
        return Text("none: the run failed", style="red")
    if result.stopped_by:
        return Text(f"none yet: the run was stopped ({result.stopped_by})", style="yellow")
    return Text("none is given" if result.why else "none: no answer was found", style="yellow")


def _cost(result: Result) -> str:
    usage = result.usage
    money = f" · cost {usage.cost:g}" if usage.cost else ""
    return (
        f"{result.method} · {result.model} · fidelity {result.fidelity} · {_count(usage.llm_calls, 'call')} "
        f"({usage.cached_calls} from the cache) · {usage.prompt_tokens} + {usage.completion_tokens} tokens · "
        f"{_count(usage.retrievals, 'retrieval')} · {usage.seconds:.1f} s "
        f"(critical path {usage.critical_path_seconds:.1f} s){money}"
    )


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'' if number == 1 else 's'}"


def _draw_tree(result: Result) -> Tree:
    question, nodes = Text(clean(result.question), style="bold"), result.tree
    looked_in = _LOOKED_IN.get(str(result.options.get("evidence")), _SOURCE_WORDS["external"])
    if nodes and nodes[0].id == 0:  # the question itself is the first node
        question.append_text(_outcome(nodes[0], looked_in))
        nodes = tuple(nodes[0].children)
    tree = Tree(question, guide_style="dim")
    _add(tree, nodes, looked_in)
    return tree


def _add(branch: Tree, nodes: Sequence[TreeNode], looked_in: str) -> None:
    for node in nodes:
        label = Text.assemble((f"{node.id}. ", "dim"), clean(node.resolved or node.question))
        _add(branch.add(label.append_text(_outcome(node, looked_in))), node.children, looked_in)


def _outcome(node: TreeNode, looked_in: str) -> Text:
    """What became of a node: its answer, where that comes from, and why from there; else what was guessed."""
    if node.state == STOPPED:
        return _ended(node, looked_in)
    if node.state not in ("answered", "unanswered"):
        return _guessed(node)
    if node.verdict:
        return _validated(node)
    style = _SOURCE_STYLE.get(node.source, "")
    why = f"{_knowing(node)}; {node.why}" if node.why else _knowing(node)
    said = Text("  → ", "not bold dim")
    said.append(clean(node.answer) or "?", f"bold {style}")
    return said.append(f"  [{_origin(node, looked_in)}{clean(_grounds(node) + why)}]", f"not bold dim {style}")


def _ended(node: TreeNode, looked_in: str) -> Text:
    """What a node had come to when a budget ended it."""
    style = _SOURCE_STYLE.get(node.source, "yellow")
    origin = f"{_origin(node, looked_in)}{_grounds(node)}; " if node.source else ""
    said = Text("  → ", "not bold dim")
    said.append(f"so far: {clean(node.answer)}" if node.answer else "not answered", f"bold {style}")
    return said.append(f"  [{clean(origin + node.why)}]", f"not bold dim {style}")


def _origin(node: TreeNode, looked_in: str) -> str:
    """Where an answer comes from: what it cites tells, else what it says of itself and where was looked."""
    if node.source != "external":
        return _SOURCE_WORDS.get(node.source, node.source)
    if node.facts:
        return "from documents and the graph" if node.evidence else "from the graph"
    return _SOURCE_WORDS["external"] if node.evidence else looked_in


def _grounds(node: TreeNode) -> str:
    """The first passages and facts that a node cites."""
    cited = [*node.evidence[:_CITED], *("-".join(fact) for fact in node.facts[:_CITED])]
    return f": {', '.join(cited)}" if cited else ""


def _guessed(node: TreeNode) -> Text:
    """A node without an outcome: whether it is under way, and what was guessed for it."""
    asking = node.state == "asking"
    said = Text("  …" if asking else "", "yellow")
    if node.hypothesis:
        said.append(" " if asking else "  → ", "not bold dim")
        said.append(clean(node.hypothesis), "not bold yellow")
        said.append("  [a guess, not checked]", "not bold dim")
    return said


def _validated(node: TreeNode) -> Text:
    """What became of a hypothesis: those that were struck out, the one that stands, the verdict, and its grounds."""
    guessed = node.unverified == "unknown"
    style = _VERDICT_STYLE.get("unknown" if guessed else node.verdict, "")
    words = _VERDICT_WORDS.get("replaced" if guessed and node.verdict == "refuted" else node.verdict, node.verdict)
    if node.verdict == "refuted" and not node.struck:
        words = "refuted"
    said = Text("  → ", "not bold dim")
    for struck in node.struck:
        said.append(clean(struck) or "?", "strike dim red")
        said.append(" ⇒ ", "not bold dim")
    said.append(clean(node.answer) or "?", f"bold {style}")
    why = f"; {node.why}" if node.why else ""
    grounds = "" if guessed else _grounds(node)  # they are those of another answer
    return said.append(f"  [{words}{clean(grounds + why)}]", f"not bold dim {style}")


def _knowing(node: TreeNode) -> str:
    """What the model said of its own knowledge, unless the answer comes from there."""
    if node.know is None or node.source == "internal":
        return ""
    return "; says that it knows" if node.know else "; says that it does not know"


def _line(event: Event, decided: Decisions, explain: Explanation) -> str:
    """An event in one line, for logs and pipes."""
    if event["event"] == "plan":
        count = sum(node["id"] > 0 for node in event["nodes"])
        where = f"plan of {event['under']}" if event.get("under") else "plan"
        return f"{where}: {_count(count, 'sub-question')}" if count else ""
    if event["event"] == "node" and event["state"] == "asking":
        return clean(f"  {event['id']}. {event['resolved']}")
    if isinstance(event, NodeSettled):
        why = f"; {told}" if (told := explain.explain_node(event, decided)) else ""
        source = GUESS if event.source == "fallback" else event.source
        return clean(f"  {event.id}. → {event.answer or '?'} [{event.verdict or source}{why}]")
    if event["event"] == "retry":
        return clean(f"  waiting {event['wait']:g} s: {event['error']}")
    return clean(doubt_line(event)) if event["event"] == "decision" else ""
