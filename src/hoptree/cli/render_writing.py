"""Drawing a text that was written with doubts: words shaded by them, and what was done about each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table
from rich.text import Text

from hoptree.cli.console import clean
from hoptree.engine.generation_view import Name, Part, ReadFact, SubQuery, Writing
from hoptree.engine.sentence_view import LEVELS, SentenceView

# By level of doubt. Letters have a colour of their own, so that they can be read on any background.
_SHADES = ("", "#101010 on #fbeeb8", "#101010 on #f6cf6f", "#101010 on #f0984e", "bold white on #b3261e")
_MARKS = ("", "", "²", "³", "⁴")  # behind a word, where there are no colours
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
_Row = tuple[str, Text]


def show_writing(console: Console, writing: Writing) -> None:
    """Print the text, sentence by sentence, then what memory held; in a file lines are not broken."""
    if console.is_terminal:
        console.print(draw_writing(writing, colours=_has_colours(console)))
        return
    for label, line in _rows(writing, colours=_has_colours(console)):
        console.print(Text.assemble((f"{label:>{_LABEL_COLUMNS}}  ", "dim"), line), soft_wrap=True)


def draw_writing(writing: Writing, *, colours: bool = True) -> Table:
    """Draw the same as rows, whose lines are broken beside their labels."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(justify="right", style="dim", no_wrap=True, min_width=_LABEL_COLUMNS)
    table.add_column(overflow="fold")
    for row in _rows(writing, colours=colours):
        table.add_row(*row)
    return table


def _has_colours(console: Console) -> bool:
    return console.color_system is not None and not console.no_color


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
    """Yield a sure sentence in one row; one in doubt with what was asked, what was found, and what replaced it."""
    text = _shaded(part.said, colours=colours, struck=part.kept is False and not part.replaced)
    yield f"{part.turn}.", text.append("" if part.said.triggered else _behind(part.said), "dim")
    if part.said.triggered:
        yield from _doubted(part)
    if part.skipped is not None:
        yield "memory", Text.assemble("has it, no search: ", _fact(part.skipped))
    if part.names or part.in_doubt:
        yield "names", _names(part)
    for query in part.queries:
        yield from _asked(query)
    if part.left_out:
        yield "", Text(clean(f"without its least probable words: {', '.join(part.left_out)}"), "dim")
    if part.tried:
        yield "tried", Text(clean(", ".join(f"{name} {_spread(left)}" for name, left in part.tried)))
    for fact in part.facts:
        yield "learnt" if fact.outcome in ("added", "surer") else "", _learnt(fact)
    if part.again is not None:
        again = _shaded(part.again, colours=colours, struck=not part.surer or part.kept is False)
        yield "⇒" if part.surer else "again", again.append(_behind(part.again), "dim")
    if part.outcome:
        yield "", Text(part.outcome, "yellow")


def _behind(sentence: SentenceView) -> str:
    return f"  {sentence.compared}" if sentence.compared else ""


def _shaded(sentence: SentenceView, *, colours: bool, struck: bool) -> Text:
    text = Text()
    line = "strike" if struck else ""
    for piece, word in sentence.pieces:
        shown = clean(piece)
        if word is None:
            text.append(shown, line)
            continue
        mark = "" if colours else _MARKS[word.level]
        shade = _SHADES[word.level] if colours else ""
        hit_style = _HIT_STYLE if word.hit else ""
        text.append(f"[{shown}]{mark}" if word.hit else f"{shown}{mark}", _style(line, hit_style, shade))
    return text if text.plain else text.append("(nothing)", "dim")


def _doubted(part: Part) -> Iterator[_Row]:
    """Yield what exceeds its threshold, the words in doubt with their numbers, and the samples if any."""
    hits = [word for word in part.said.words if word.hit]
    listed = [
        Text.assemble((clean(word.text), "bold"), f" ({word.told})" if word.told else "") for word in hits[:_MAX_HITS]
    ]
    more = f" and {len(hits) - _MAX_HITS} more" if len(hits) > _MAX_HITS else ""
    colon = ": " if hits and part.said.compared else ""
    yield "in doubt", Text.assemble(f"{part.said.compared}{colon}", Text("; ").join(listed), more)
    for sample in part.said.samples:
        yield "sample", Text(_short(sample), "dim")


def _names(part: Part) -> Text:
    """List names kept and names dropped, each with its confidence and the filter that dropped it."""
    kept = [name for name in part.names if not name.dropped_by]
    dropped = [name for name in part.names if name.dropped_by]
    text = Text.assemble("kept ", (", ".join(map(_named, kept)) or "none", "green"))
    if dropped:
        lost = ", ".join(f"{_named(name)} by {clean(name.dropped_by)}" for name in dropped)
        text.append("; dropped ").append(lost, "magenta")
    if part.in_doubt:
        text.append(f"; sought, as it is in doubt: {clean(', '.join(part.in_doubt))}")
    return text


def _named(name: Name) -> str:
    return clean(name.name) + ("" if name.confidence is None else f" {name.confidence:.2f}")


def _asked(query: SubQuery, *, label: str = "asked") -> Iterator[_Row]:
    why = " (names dropped before)" if query.again else " (again)" if query.repeated else ""
    yield label, Text.assemble((f"“{clean(query.query)}”" if query.query else "nothing", "cyan"), (why, "dim"))
    if query.search is not None:
        titles = ", ".join(f"{name} {title}".strip() for name, title in query.passages[:_MAX_TITLES])
        more = len(query.passages) - _MAX_TITLES
        yield (
            "found",
            Text(_short(titles) + (f" and {more} more" if more > 0 else "") if titles else "nothing", "green"),
        )


def _fact(fact: ReadFact) -> Text:
    """Show a fact with its confidence and where it stands."""
    text = Text(clean(fact.text))
    text.append("" if fact.confidence is None else f"  confidence {fact.confidence:.2f}", "dim")
    return text.append(f"  {_source(fact)}" if fact.passage else "", "dim")


def _source(fact: ReadFact) -> str:
    return clean(f"{fact.passage} {fact.title}".strip())


def _learnt(fact: ReadFact) -> Text:
    labels = {
        "added": "",
        "surer": "  (surer than before)",
        "known": "known already: ",
        "unsure": "not taken, too unsure: ",
    }
    words = labels.get(fact.outcome, "not taken, no passage states it: ")
    before, behind = (words, "") if words.endswith(": ") else ("", words)
    return Text.assemble((before, "dim"), _fact(fact), (behind, "dim"))


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
    """Yield the facts at the end, where they were read, which of them spared a search, and contradictions."""
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
        yield "conflict", Text(" ↔ ".join(_sided(fact) for fact in group), "yellow")


def _sided(fact: Iterable[str]) -> str:
    *parts, passage = fact
    return clean(f"{' | '.join(parts)} ({passage})")


def _spread(value: float | None) -> str:
    return "U unknown" if value is None else f"U {value:.2f}"


def _short(text: str) -> str:
    text = clean(text)
    return text if len(text) <= _MAX_CHARS else f"{text[:_MAX_CHARS]}…"
