"""Drawing a result in the terminal: the tree while it grows, and all of it when it is done."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Sequence

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.spinner import Spinner
from rich.text import Text
from rich.tree import Tree

from hoptree.cli.console import clean, counted
from hoptree.cli.render_writing import draw_writing, show_writing
from hoptree.core.lazy import lazy_re
from hoptree.engine.events import GUESS, Event
from hoptree.engine.result import STOPPED, Result, TreeNode, read_result
from hoptree.engine.trace import ModelCalled, Retried

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
_SNIPPET_CHARS = 160
_LOOKED_IN = {"graph": "from the graph", "hybrid": "from documents or the graph"}
"""Where an answer comes from that names no evidence, by the sources that the method was told to ask."""
_MAX_CITED = 3  # passages and facts each that a node names
_SVG_COLUMNS = 118
_EXTERNAL = lazy_re(r"@font-face\s*{[^}]*}|<!--.*?-->", re.DOTALL)


def live_tree(console: Console, events: Sequence[Event]) -> Live:
    """Draw the tree of a question while its events come in."""
    began, spinner = time.monotonic(), Spinner("dots")
    return Live(
        console=console,
        transient=True,
        refresh_per_second=8,
        get_renderable=lambda: draw_progress(events, time.monotonic() - began, spinner),
    )


def draw_progress(events: Sequence[Event], seconds: float, spinner: Spinner) -> Group:
    """Draw what is known of a question that is still being answered."""
    result = read_result(events)
    calls = sum(isinstance(event, ModelCalled) for event in events)
    last = next((event for event in reversed(events) if isinstance(event, Retried | ModelCalled)), None)
    doing = "answering" if result.tree else "writing" if result.writing else "planning"
    if isinstance(last, Retried):
        doing = f"waiting {last.wait:g} s: {last.error}"
    spinner.update(text=Text(f" {clean(doing)} · {counted(calls, 'call')} · {seconds:.0f} s", style="dim"))
    text = [draw_writing(result.writing)] if result.writing else []
    return Group(_draw_tree(result), *text, spinner)


def show_result(console: Console, result: Result, heading: str = "") -> None:
    """Draw the tree with its evidence, or the text with its doubts, the answer, what was decided, and what it cost."""

    def line(*parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble(*parts), soft_wrap=not console.is_terminal)

    if heading:
        line((clean(heading), "dim"))
    console.print(_draw_tree(result))
    if result.writing:
        show_writing(console, result.writing)
    for chain in result.chains:
        line(("chain  ", "dim"), clean(chain))
    nodes = [node for top in result.tree for node in top.walk()]
    answers = {name: node.answer for node in nodes for name in node.evidence}
    settled = [node for node in nodes if node.unverified != "unknown"]
    facts = tuple(dict.fromkeys(fact for node in settled for fact in node.facts))
    named = {name for node in settled for name in node.evidence[:_MAX_CITED]}
    evidence = (*result.evidence, *(passage for passage in result.cited if passage.id in named))
    if evidence or facts:
        label = "Evidence" if result.answer else "Read"
        console.print(Text(f"\n{label}", style="bold"))
    for passage in evidence:
        snippet = _snippet(clean(passage.text), answers.get(passage.id, ""))
        line("  ", (clean(passage.id), "green"), f"  {clean(passage.title)}: {snippet}")
    for fact in facts:
        line("  ", ("fact", "green"), f"  {clean(' | '.join(fact))}")
    console.print()
    title = "Best answer so far" if result.answer and result.stopped_by else "Answer"
    console.print(Panel(_answer_text(result), title=title, title_align="left", expand=False))
    for decision in result.decisions:
        name, _, value = clean(decision.shown_line()).partition(": ")
        line((f"{name}: ", "dim"), value)
    if result.why:
        line(("why: ", "dim"), clean(result.why))
    if result.error_message:
        line(("failed: ", "red"), clean(result.error_message))
    for warning in result.warnings:
        line(("note: ", "yellow"), clean(warning))
    line((_cost(result), "dim"))


def _snippet(text: str, answer: str) -> str:
    """Return as much of a passage as fits, with the answer in it."""
    text = " ".join(text.split())
    place = text.casefold().find(answer.casefold()) if answer else -1
    half = _SNIPPET_CHARS // 2
    start = max(0, min(place - half, len(text) - _SNIPPET_CHARS)) if place > half else 0
    end = start + _SNIPPET_CHARS
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")


def draw_svg(results: Sequence[Result], headings: Sequence[str] = ()) -> str:
    """Draw results as one SVG picture, with no reference to anything outside it."""
    console = Console(
        record=True,
        file=io.StringIO(),
        width=_SVG_COLUMNS,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,  # a picture has colours, whatever this terminal has
    )
    for place, result in enumerate(results):
        if place:
            console.print()
        show_result(console, result, headings[place] if headings else "")
    return _EXTERNAL.sub("", console.export_svg(title="hoptree"))


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
        f"{result.method} · {result.model} · fidelity {result.fidelity} · {counted(usage.llm_calls, 'call')} "
        f"({usage.cached_calls} from the cache) · {usage.prompt_tokens} + {usage.completion_tokens} tokens · "
        f"{counted(usage.retrievals, 'retrieval')} · {usage.seconds:.1f} s "
        f"(critical path {usage.critical_path_seconds:.1f} s){money}"
    )


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
    """Describe what became of a node: its answer, where that comes from, and why from there; else what was guessed."""
    if node.state == STOPPED:
        style = _SOURCE_STYLE.get(node.source, "yellow")
        origin = f"{_origin(node, looked_in)}{_citations(node)}; " if node.source else ""
        answer = f"so far: {clean(node.answer)}" if node.answer else "not answered"
        return _answered(answer, f"{origin}{node.why}", style)
    if node.state not in ("answered", "unanswered"):
        return _guessed(node)
    if node.verdict:
        return _validated(node)
    why = f"{_knowledge(node)}; {node.why}" if node.why else _knowledge(node)
    origin = f"{_origin(node, looked_in)}{_citations(node)}"
    return _answered(clean(node.answer) or "?", f"{origin}{why}", _SOURCE_STYLE.get(node.source, ""))


def _answered(answer: str, details: str, style: str) -> Text:
    text = Text("  → ", "not bold dim").append(answer, f"bold {style}")
    return text.append(f"  [{clean(details)}]", f"not bold dim {style}")


def _origin(node: TreeNode, looked_in: str) -> str:
    """Return where an answer comes from: by what it cites, else by its source and where was looked."""
    if node.source != "external":
        return _SOURCE_WORDS.get(node.source, node.source)
    if node.facts:
        return "from documents and the graph" if node.evidence else "from the graph"
    return _SOURCE_WORDS["external"] if node.evidence else looked_in


def _citations(node: TreeNode) -> str:
    """Return the first passages and facts that a node cites."""
    cited = [*node.evidence[:_MAX_CITED], *("-".join(fact) for fact in node.facts[:_MAX_CITED])]
    return f": {', '.join(cited)}" if cited else ""


def _guessed(node: TreeNode) -> Text:
    """Describe a node without an outcome: whether it is under way, and what was guessed for it."""
    asking = node.state == "asking"
    text = Text("  …" if asking else "", "yellow")
    if node.hypothesis:
        text.append(" " if asking else "  → ", "not bold dim").append(clean(node.hypothesis), "not bold yellow")
        text.append("  [a guess, not checked]", "not bold dim")
    return text


def _validated(node: TreeNode) -> Text:
    """Describe a hypothesis: those that were struck out, the one that stands, the verdict, and its grounds."""
    guessed = node.unverified == "unknown"
    style = _VERDICT_STYLE.get("unknown" if guessed else node.verdict, "")
    words = _VERDICT_WORDS.get("replaced" if guessed and node.verdict == "refuted" else node.verdict, node.verdict)
    if node.verdict == "refuted" and not node.struck:
        words = "refuted"
    text = Text("  → ", "not bold dim")
    for struck in node.struck:
        text.append(clean(struck) or "?", "strike dim red").append(" ⇒ ", "not bold dim")
    text.append(clean(node.answer) or "?", f"bold {style}")
    why = f"; {node.why}" if node.why else ""
    citations = "" if guessed else _citations(node)  # they are those of another answer
    return text.append(f"  [{words}{clean(citations + why)}]", f"not bold dim {style}")


def _knowledge(node: TreeNode) -> str:
    """Return what the model said of its own knowledge, unless the answer comes from there."""
    if node.know is None or node.source == "internal":
        return ""
    return "; says that it knows" if node.know else "; says that it does not know"
