"""Draw a result in the terminal: tree, generated text, answer."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence

from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from hoptree.cli.console import clean, counted, one_line
from hoptree.core.lazy import lazy_re
from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import shorten
from hoptree.engine.events import SOURCE_WORDS
from hoptree.engine.generation_view import Name, Part, ReadFact, SubQuery, Writing
from hoptree.engine.registry import load_method
from hoptree.engine.result import STOPPED, Result, TreeNode
from hoptree.engine.result_text import MAX_READ
from hoptree.engine.sentence_view import LEVELS, SentenceView

_SOURCE_STYLE = {"internal": "cyan", "external": "green", "synthesis": "magenta", "fallback": "yellow", "none": "red"}
_VERDICT_STYLE = {"supported": "green", "refuted": "magenta", "unknown": "yellow"}
_VERDICT_WORDS = {
    "supported": "supported",
    "refuted": "refuted, and corrected",
    "replaced": "refuted; what took its place is not verified",
    "unknown": "not verified",
}
_SNIPPET_CHARS = 160
_FIDELITY = {"approx": ", not exactly as in its paper", "prompted": ", prompted where its paper trained a model"}
_LOOKED_IN = {"graph": "from the graph", "hybrid": "from documents or the graph"}
"""The origin of an answer without evidence, by the method's option `evidence`."""
_MAX_CITED = 3  # passages and facts each that a node names
_SVG_COLUMNS = 118
_EXTERNAL = lazy_re(r"@font-face\s*{[^}]*}|<!--.*?-->", re.DOTALL)


def show_result(console: Console, result: Result, heading: str = "") -> None:
    """Draw the tree or text, the evidence, the answer and the cost."""

    def line(*parts: str | tuple[str, str]) -> None:
        console.print(Text.assemble(*parts), soft_wrap=not console.is_terminal)

    if heading:
        line((clean(heading), "dim"))
    console.print(draw_tree(result))
    if result.writing:
        show_writing(console, result.writing)
    for chain in result.chains:
        line(("reasoning  ", "dim"), clean(chain))
    _show_passages(console, line, result)
    console.print()
    if result.sentence and result.answer:
        line(clean(result.sentence))
    title = "Best answer so far" if result.answer and result.stopped_by else "A guess" if result.guesses else "Answer"
    console.print(Panel(_answer_text(result), title=title, title_align="left", expand=False))
    if support := result.support:
        level, _, reason = support.partition(": ")
        line((f"{level}: ", "dim"), reason)
    for decision in result.decisions:
        name, _, value = clean(decision.shown_line()).partition(": ")
        line((f"{name}: ", "dim"), value)
    if result.why:
        line(("why: ", "dim"), clean(result.why))
    if result.error_message:
        line(("failed: ", "red"), clean(result.error_message))
    for warning in result.notes:
        line(("note: ", "yellow"), clean(warning))
    line((_cost(result), "dim"))


def _show_passages(console: Console, line: Callable[..., None], result: Result) -> None:
    """List cited evidence by number, then passages that support nothing."""
    nodes = [node for top in result.tree for node in top.walk()]
    settled = [node for node in nodes if node.unverified != "unknown"]
    facts = tuple(dict.fromkeys(fact for node in settled for fact in node.facts))
    named = {name for node in settled for name in node.evidence[:_MAX_CITED]}
    rests = {passage.id for passage in (result.consulted if nodes else result.evidence)} | named
    evidence = [passage for passage in result.evidence if passage.id in rests]
    numbers = {passage.id: f"[{number}] " for number, passage in enumerate(result.evidence, 1)}

    def show(passages: Sequence[Passage], style: str) -> None:
        for passage in passages:
            snippet = clean(result.excerpt(passage, _SNIPPET_CHARS))
            number = numbers.get(passage.id, "")
            line(f"  {number}", (one_line(passage.id), style), f"  {one_line(passage.title)}: {snippet}")

    if evidence or facts:
        console.print(Text(f"\n{'Evidence' if result.answer else 'Read'}", style="bold"))
    show(evidence, "green")
    for fact in facts:
        line("  ", ("fact", "green"), f"  {clean(' | '.join(fact))}")
    if read := [passage for passage in result.consulted if passage not in evidence]:
        if result.answer or not facts:
            console.print(Text("\nRead, but no evidence" if result.answer else "\nRead", style="bold"))
        show(read[:MAX_READ], "dim")
        if len(read) > MAX_READ:
            line(f"  and {len(read) - MAX_READ} more")


def draw_svg(results: Sequence[Result], headings: Sequence[str] = ()) -> str:
    """Draw results as one SVG picture, with no reference to anything outside it."""
    console = Console(
        record=True,
        file=io.StringIO(),
        width=_SVG_COLUMNS,
        force_terminal=True,
        color_system="truecolor",
        no_color=False,  # a picture has colours in any terminal
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
        return Text("none: an error stopped it", style="red")
    if result.stopped_by:
        return Text(f"none yet: it was stopped ({result.stopped_by})", style="yellow")
    return Text("none is given" if result.why else result.sentence or "none: no answer was found", style="yellow")


def _cost(result: Result) -> str:
    usage = result.usage
    cached = f" ({usage.cached_calls} from the cache)" if usage.cached_calls else ""
    tokens = f"{usage.prompt_tokens:,} tokens read, {usage.completion_tokens:,} written · " if usage.llm_calls else ""
    money = f" · cost {usage.cost:g}" if usage.cost else ""
    method, paper = load_method(result.method), _FIDELITY.get(result.fidelity, "")
    if result.fidelity == "approx" and not (method and method.paper):
        paper = ""
    return (
        f"{result.method}{paper} · {result.model} · "
        f"{counted(usage.llm_calls, 'model call')}{cached} · {tokens}"
        f"{counted(usage.retrievals, 'search', 'searches')} · {usage.seconds:.1f} s{money}"
    )


def draw_tree(result: Result) -> Tree:
    """Draw the question with its sub-questions and their outcomes."""
    question, nodes = Text(clean(result.question), style="bold"), result.tree
    looked_in = _looked_in(result)
    if nodes and nodes[0].id == 0:  # the question itself is the first node
        question.append_text(_outcome(nodes[0], looked_in))
        nodes = tuple(nodes[0].children)
    tree = Tree(question, guide_style="dim")
    _add(tree, nodes, looked_in)
    return tree


def describe_outcome(node: TreeNode, result: Result) -> str:
    """Describe where the answer of a node comes from, and why."""
    _, bracket, details = _outcome(node, _looked_in(result)).plain.partition("  [")
    return details.removesuffix("]") if bracket else ""


def _looked_in(result: Result) -> str:
    return _LOOKED_IN.get(str(result.options.get("evidence")), SOURCE_WORDS["external"])


def _add(branch: Tree, nodes: Sequence[TreeNode], looked_in: str) -> None:
    for node in nodes:
        label = Text.assemble((f"{node.id}. ", "dim"), clean(node.resolved or node.question))
        _add(branch.add(label.append_text(_outcome(node, looked_in))), node.children, looked_in)


def _outcome(node: TreeNode, looked_in: str) -> Text:
    """Describe what became of a node: answer, source and reason."""
    if node.state == STOPPED:
        style = _SOURCE_STYLE.get(node.source, "yellow")
        origin = f"{_origin(node, looked_in)}{_citations(node)}; " if node.source else ""
        answer = f"so far: {clean(node.answer)}" if node.answer else "not answered"
        return _answered(answer, f"{origin}{node.why}", style)
    if node.state not in ("answered", "unanswered"):
        return _guessed(node)
    if node.verdict:
        return _validated(node)
    details = f"{_origin(node, looked_in)}{_citations(node)}"
    if node.know is not None and node.source != "internal":
        details += "; says that it knows" if node.know else "; says that it does not know"
    details += f"; {node.why}" if node.why else ""
    return _answered(clean(node.answer) or "?", details, _SOURCE_STYLE.get(node.source, ""))


def _answered(answer: str, details: str, style: str) -> Text:
    text = Text("  → ", "not bold dim").append(answer, f"bold {style}")
    return text.append(f"  [{clean(details)}]", f"not bold dim {style}")


def _origin(node: TreeNode, looked_in: str) -> str:
    """Return where an answer comes from, by citation or source."""
    if node.source != "external":
        return SOURCE_WORDS.get(node.source, node.source)
    if node.facts:
        return "from documents and the graph" if node.evidence else "from the graph"
    return SOURCE_WORDS["external"] if node.evidence else looked_in


def _citations(node: TreeNode) -> str:
    """Return the first passages and facts that a node cites."""
    cited = [*node.evidence[:_MAX_CITED], *("-".join(fact) for fact in node.facts[:_MAX_CITED])]
    return f": {', '.join(cited)}" if cited else ""


def _guessed(node: TreeNode) -> Text:
    """Describe a node without an outcome."""
    asking = node.state == "asking"
    text = Text("  …" if asking else "", "yellow")
    if node.hypothesis:
        text.append(" " if asking else "  → ", "not bold dim").append(clean(node.hypothesis), "not bold yellow")
        text.append("  [a guess, not checked]", "not bold dim")
    return text


def _validated(node: TreeNode) -> Text:
    """Describe a hypothesis: struck out ones, verdict and grounds."""
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
    citations = "" if guessed else _citations(node)  # they belong to another answer
    return text.append(f"  [{words}{clean(citations + why)}]", f"not bold dim {style}")


# By level of doubt. Letters have their own colour, to be readable on any background.
_SHADES = ("", "#101010 on #fbeeb8", "#101010 on #f6cf6f", "#101010 on #f0984e", "bold white on #b3261e")
_MARKS = ("", "", "²", "³", "⁴")  # after a word, without colours
_HIT_STYLE = "bold underline"
_LABEL_COLUMNS = 9
_MAX_TITLES = 3
_MAX_HITS = 8
_MAX_CHARS = 240
_ENDS = {
    "answer": "it gives an answer",
    "end": "the model had no more to say",
    "no growth": "nothing new was written",
    "length": "it is as long as it may be",
    "retrievals": "nothing may be searched for any more",
    "steps": "it has as many steps as it may have",
    "documents": "it has as many documents as it may have",
}
_OUTCOMES = {
    "added": ("", ""),
    "surer": ("", "  (surer than before)"),
    "known": ("known already: ", ""),
    "unsure": ("not taken, too unsure: ", ""),
}
"""Texts before and after a fact that was read."""
_Row = tuple[str, Text]


def show_writing(console: Console, writing: Writing) -> None:
    """Print the generated text by sentence, then the memory."""
    colours = console.color_system is not None and not console.no_color
    if console.is_terminal:
        console.print(draw_writing(writing, colours=colours))
        return
    for label, line in _rows(writing, colours=colours):
        console.print(Text.assemble((f"{label:>{_LABEL_COLUMNS}}  ", "dim"), line), soft_wrap=True)


def draw_writing(writing: Writing, *, colours: bool = True) -> Table:
    """Draw the same as rows, wrapped beside their labels."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", no_wrap=True, min_width=_LABEL_COLUMNS)
    table.add_column(overflow="fold")
    for row in _rows(writing, colours=colours):
        table.add_row(*row)
    return table


def _rows(writing: Writing, *, colours: bool) -> Iterator[_Row]:
    yield "", _legend(writing, colours=colours)
    if writing.extracted:
        yield "names", Text(clean(", ".join(writing.extracted)))
    for query in writing.first:
        yield from _asked(query, label="first")
    for part in writing.parts:
        yield from _part(part, colours=colours)
    yield from _end(writing)
    yield from _memory(writing)


def _legend(writing: Writing, *, colours: bool) -> Text:
    """Explain the shades and numbers."""
    legend = Text("How unsure the model was of each word" if writing.told_by else "What the model wrote.", "bold")
    if writing.told_by:
        legend.append(f" ({writing.told_by}, nats): ", "not bold dim")
        for place, name in enumerate(["sure", *(f"≥{level:g}" for level in LEVELS)]):
            if colours or not place:
                legend.append(name, _style("not bold", _SHADES[place])).append("  ")
            elif _MARKS[place]:
                legend.append(f"{name}{_MARKS[place]}  ", "not bold")
    if any(word.hit for part in writing.parts for word in part.said.words):
        legend.append(" [In doubt]", "not bold").append(": what made it look things up.", "not bold dim")
    return legend.append(f" {writing.explained}." if writing.explained else "", "not bold dim")


def _style(*parts: str) -> str:
    return " ".join(filter(None, parts))


def _part(part: Part, *, colours: bool) -> Iterator[_Row]:
    """Yield a sentence; an uncertain one with its search and replacement."""
    text = _shaded(part.said, colours=colours, struck=part.kept is False and not part.replaced)
    yield f"{part.turn}.", text.append("" if part.said.triggered else f"  {part.said.compared}".rstrip(), "dim")
    if part.said.triggered:
        yield from _doubted(part)
    if part.skipped is not None:
        yield "memory", Text.assemble("has it, no search: ", _fact(part.skipped))
    if part.names:
        yield "names", _names(part)
    for query in part.queries:
        yield from _asked(query)
    if part.left_out:
        yield "", Text(clean(f"without its least probable words: {', '.join(part.left_out)}"), "dim")
    if part.tried:
        yield "tried", Text(clean(", ".join(f"{name} {_spread(left)}" for name, left in part.tried)))
    for fact in part.facts:
        before, behind = _OUTCOMES.get(fact.outcome, ("not taken, no passage states it: ", ""))
        text = Text.assemble((before, "dim"), _fact(fact), (behind, "dim"))
        yield "learnt" if fact.outcome in ("added", "surer") else "", text
    if part.again is not None:
        again = _shaded(part.again, colours=colours, struck=part.kept is False)
        yield "⇒", again.append(f"  {part.again.compared}".rstrip(), "dim")
    if part.outcome:
        yield "", Text(part.outcome, "yellow")


def _shaded(sentence: SentenceView, *, colours: bool, struck: bool) -> Text:
    text, line = Text(), "strike" if struck else ""
    for piece, word in sentence.pieces:
        shown = clean(piece)
        if word is None:
            text.append(shown, line)
            continue
        mark, shade = ("", _SHADES[word.level]) if colours else (_MARKS[word.level], "")
        style = _style(line, _HIT_STYLE if word.hit else "", shade)
        text.append(f"[{shown}]{mark}" if word.hit else f"{shown}{mark}", style)
    return text if text.plain else text.append("(nothing)", "dim")


def _doubted(part: Part) -> Iterator[_Row]:
    """Yield the uncertain words with scores, and samples if any."""
    hits = [word for word in part.said.words if word.hit]
    listed = [
        Text.assemble((clean(word.text), "bold"), f" ({word.told})" if word.told else "") for word in hits[:_MAX_HITS]
    ]
    more = f" and {len(hits) - _MAX_HITS} more" if len(hits) > _MAX_HITS else ""
    colon = ": " if hits and part.said.compared else ""
    yield "in doubt", Text.assemble(f"{part.said.compared}{colon}", Text("; ").join(listed), more)
    for sample in part.said.samples:
        yield "sample", Text(shorten(clean(sample), _MAX_CHARS), "dim")


def _names(part: Part) -> Text:
    """List kept and dropped names with confidence and filter."""
    kept = [name for name in part.names if not name.dropped_by]
    dropped = [name for name in part.names if name.dropped_by]
    text = Text.assemble("kept ", (", ".join(map(_named, kept)) or "none", "green"))
    if dropped:
        lost = ", ".join(f"{_named(name)} by {clean(name.dropped_by)}" for name in dropped)
        text.append("; dropped ").append(lost, "magenta")
    return text


def _named(name: Name) -> str:
    return clean(name.name) + ("" if name.confidence is None else f" {name.confidence:.2f}")


def _asked(query: SubQuery, *, label: str = "asked") -> Iterator[_Row]:
    why = " (again)" if query.repeated else ""
    yield label, Text.assemble((f"“{clean(query.query)}”" if query.query else "nothing", "cyan"), (why, "dim"))
    if query.search is not None:
        titles = ", ".join(f"{name} {title}".strip() for name, title in query.passages[:_MAX_TITLES])
        more = len(query.passages) - _MAX_TITLES
        rest = f" and {more} more" if more > 0 else ""
        yield "found", Text(f"{shorten(clean(titles), _MAX_CHARS)}{rest}" if titles else "nothing", "green")


def _fact(fact: ReadFact) -> Text:
    """Show a fact with its confidence and where it stands."""
    text = Text(clean(fact.text))
    text.append("" if fact.confidence is None else f"  confidence {fact.confidence:.2f}", "dim")
    return text.append(clean(f"  {fact.passage} {fact.title}".rstrip()) if fact.passage else "", "dim")


def _end(writing: Writing) -> Iterator[_Row]:
    if writing.missing:
        yield "note", Text(f"the model does not tell {', '.join(map(clean, writing.missing))} itself", "yellow")
    if writing.stopped:
        asked = "; then it was asked for the answer" if writing.asked_for_answer else ""
        yield "end", Text(clean(_ENDS.get(writing.stopped, writing.stopped)) + asked, "dim")
    for way, text, left in writing.answers:
        taken = "  (taken)" if way == writing.taken else ""
        yield "answer", Text(clean(f"from {way}: {text or 'none'}, {_spread(left)}{taken}"))


def _memory(writing: Writing) -> Iterator[_Row]:
    """Yield the remembered facts, their use, and contradictions."""
    used: dict[tuple[str, ...], list[str]] = {}
    for part in writing.parts:
        if part.skipped is not None:
            used.setdefault(part.skipped.fact, []).append(str(part.turn))
    for place, fact in enumerate(writing.facts):
        text = _fact(fact).append(f"  read at {fact.turn}", "dim")
        if fact.fact in used:
            text.append(f", spared the search at {', '.join(used[fact.fact])}", "cyan")
        yield "" if place else "memory", text
    for group in writing.conflicts:
        sides = [f"{' | '.join(parts)} ({passage})" for *parts, passage in group]
        yield "conflict", Text(clean(" ↔ ".join(sides)), "yellow")


def _spread(value: float | None) -> str:
    return "U unknown" if value is None else f"U {value:.2f}"
