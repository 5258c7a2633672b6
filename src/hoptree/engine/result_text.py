"""Results as text and HTML, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import (
    MAX_LINE_CHARS,
    MAX_QUOTE_CHARS,
    MAX_VALUE_CHARS,
    shorten,
)
from hoptree.engine.events import SOURCE_WORDS

if TYPE_CHECKING:
    from hoptree.core.values import Passage
    from hoptree.engine.result import Result, TreeNode

_NOT_DESCRIBED = frozenset(
    ("event", "run", "t", "node", "depth", "kind", "value", "raw", "step", "labels", "encoder", "answer")
)
_MAX_ITEMS = 10

MAX_READ = 5  # passages shown that support nothing


def tree_lines(tree: Iterable[TreeNode], depth: int = 0) -> Iterator[str]:
    """Yield a line for each sub-question, indented by its depth."""
    for node in tree:
        source = node.verdict or SOURCE_WORDS.get(node.source, "")
        origin = f" ({source})" if source and node.answer else ""
        yield f"{'  ' * depth}{node.id}. {node.resolved or node.question} → {node.answer or '?'}{origin}"
        yield from tree_lines(node.children, depth + 1)


def result_text(result: Result) -> str:
    """Return a result as text: the sentence, the answer, the tree and the passages."""
    lines = [result.sentence] if result.sentence else []
    lines.append(f"Answer: {result.answer or 'none'}")
    if support := result.support:
        lines.append(f"{support[0].upper()}{support[1:]}.")
    if result.error_message:
        lines.append(f"Failed: {result.error_message}")
    lines += tree_lines(result.tree)
    shown = result.evidence or result.consulted[:MAX_READ]
    for number, passage in enumerate(shown, 1):
        excerpt = result.excerpt(passage, MAX_LINE_CHARS)
        lines.append(f"{f'[{number}]' if result.evidence else 'Read:'} {_name(passage)}: {excerpt}")
    if more := len(result.shown) - len(shown):
        lines.append(f"and {more} more passages")
    return "\n".join([*lines, *(f"Note: {warning}" for warning in result.notes)])


def _name(passage: Passage) -> str:
    """Return the title of a passage with its place: "Red Kite (films.pdf, page 3)"."""
    title = passage.title or passage.id
    return f"{title} ({passage.place})" if passage.place not in ("", title) else title


def result_html(result: Result) -> str:
    """Return a result as HTML for a notebook; every text in it is escaped."""
    from html import escape

    def items(tree: Iterable[TreeNode]) -> str:
        rows = [
            f"<li value='{node.id}'>{escape(node.resolved or node.question)} → <b>{escape(node.answer or '?')}</b> "
            f"<small>{escape(', '.join(node.evidence) or SOURCE_WORDS.get(node.source, node.source))}</small>"
            f"{items(node.children)}</li>"
            for node in tree
        ]
        return f"<ol>{''.join(rows)}</ol>" if rows else ""

    status = result.support or result.error_message
    excerpts = ((passage, result.excerpt(passage, MAX_QUOTE_CHARS)) for passage in result.shown)
    passages = "".join(f"<li><b>{escape(_name(passage))}</b> {escape(excerpt)}</li>" for passage, excerpt in excerpts)
    heading = "Evidence" if result.evidence else "What was read"
    evidence = f"<details open><summary>{heading}</summary><ol>{passages}</ol></details>" if passages else ""
    return (
        f"<div><p>{escape(result.question)}</p>{items(result.tree)}<p>{escape(result.sentence)}</p>"
        f"<p><b>{escape(result.answer or 'No answer')}</b> <small>{escape(status)}</small></p>{evidence}</div>"
    )


def describe_decision(label: str, decision: Mapping[str, Any]) -> str:
    """Put a decision into one line: "way: Retrieval (of Direct, Plan, Retrieval)"."""
    grounds = (_describe_ground(name, value) for name, value in decision.items() if name not in _NOT_DESCRIBED)
    behind = ", ".join(filter(None, grounds))
    return f"{label}: {_describe_value(decision.get('value'))}" + (f" ({behind})" if behind else "")


def _describe_ground(name: str, value: Any) -> str:
    """Describe a ground of a decision; "" if it is long or a plain yes."""
    if isinstance(value, bool):
        return "" if value else f"not {name.replace('_', ' ')}"
    if isinstance(value, Mapping):
        value = [f"{_describe_value(key)} {_describe_value(item)}" for key, item in value.items() if _is_short(item)]
    text = _describe_value(value) if _is_short(value) or isinstance(value, list) else ""
    return f"{name.replace('_', ' ')} {text}" if text else ""


def _describe_value(value: Any) -> str:
    if isinstance(value, list):
        items = [_describe_value(item) for item in value if _is_short(item)]
        more = f" and {len(items) - _MAX_ITEMS} more" if len(items) > _MAX_ITEMS else ""
        return ", ".join(items[:_MAX_ITEMS]) + more
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    return "none" if value is None else shorten(value, MAX_VALUE_CHARS)


def _is_short(value: Any) -> bool:
    return isinstance(value, str | int | float)
