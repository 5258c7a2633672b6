"""The reference page of the methods, for docs/generate.py."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from string import Template

from hoptree.cli.method_facts import (
    OLD_COST,
    PAPERS,
    MethodFacts,
    cost_cells,
    default_of,
    gather,
    held_by_corpus,
    how_to_meet,
    notes_of,
    overview_cells,
    paragraphs,
)
from hoptree.engine.own_prompts import files_of
from hoptree.engine.registry import Method, list_methods

_OLD = r" \*"


def methods_page() -> str:
    """Return the page of the methods of this package."""
    methods = [method for method in list_methods() if method.run.__module__.startswith("hoptree.")]
    facts = gather(methods, {})
    needs = dict.fromkeys(need for method in methods for need in (*method.needs, *held_by_corpus(method)))
    trained = [method for method in methods if method.trained and method.trained_by == ("checkpoint", True)]
    template = (Path(__file__).parent / "methods_reference.txt").read_text(encoding="utf-8")
    return Template(template).substitute(
        overview=_overview(methods),
        needs=_table(("need", "how to meet it"), [(need, how_to_meet(need)) for need in needs]),
        trained=_names(trained),
        reworded=_names([method for method in trained if method.other_wording]),
        as_trained=_names([method for method in trained if not method.other_wording]),
        costs=_costs(facts),
        sections="\n".join(map(_section, facts)),
    )


def _overview(methods: Sequence[Method]) -> str:
    rows = []
    for method in methods:
        # In the link to a heading, letters, digits, underscores and hyphens stay.
        anchor = "".join(letter for letter in method.name.casefold() if letter.isalnum() or letter in "_-")
        rows.append((f"[`{method.name}`](#{anchor})", *(cell or "–" for cell in overview_cells(method).values())))
    return _table(("method", *overview_cells(methods[0])), rows)


def _names(methods: Sequence[Method]) -> str:
    *first, last = [f"`{method.name}`" for method in methods]
    return f"{', '.join(first)} and {last}" if first else last


def _costs(facts: Sequence[MethodFacts]) -> str:
    rows = []
    for fact in facts:
        cost = fact.cost
        if cost is None:
            rows.append((f"`{fact.method.name}`", "not measured", "", "", "", ""))
            continue
        asked = f"{cost.questions}" + (f", {cost.failed} failed" if cost.failed else "")
        asked += f", {cost.stopped} ended by the budget" if cost.stopped else ""
        name = f"`{fact.method.name}`{_OLD if fact.cost_is_old else ''}"
        rows.append((name, *cost_cells(cost), asked, f"`{cost.command}`"))
    heads = ("method", "calls", "tokens (prompt + completion)", "searches", "questions", "by")
    means = "Means on the packaged sample with default options."
    if any(fact.cost_is_old for fact in facts):
        means += f"{_OLD}: {OLD_COST}."
    return f"{means}\n\n{_table(heads, rows)}"


def _section(facts: MethodFacts) -> str:
    method = facts.method
    paper = f" ({method.paper})" if method.paper else ""
    lines = [f"## {method.name}", "", f"**{method.title}**{paper}", ""]
    for part in paragraphs(method):
        lines += [part, ""]
    for cited in PAPERS.get(method.paper, ()):
        source = f"[{cited.title}]({cited.link}), {cited.year}" if cited.link else cited.cited
        lines.append(f"- Paper: {source}.")
    lines += [f"- Fidelity: {note.removesuffix('.')}." for note in notes_of(method)]
    lines += [] if method.paper else ["- Of no paper."]
    corpus_needs = " and ".join(held_by_corpus(method))
    needs = ", ".join(method.needs) or "nothing but a model"
    lines.append(f"- Needs: {needs}{f', which holds {corpus_needs}, else it is approx' if corpus_needs else ''}.")
    if len(method.roles) > 1:
        lines.append(f"- Roles (`--role ROLE=MODEL`): {', '.join(method.roles)}.")
    if used := files_of(method):
        lines.append(f"- Prompts and demonstrations: {', '.join(f'`{name}`' for name in used)}.")
    if facts.steps:
        steps = ", ".join(f"`{step}` {calls:g}" for step, calls in facts.steps.items())
        lines.append(f"- Steps that ask the model, with their calls a question: {steps}.")
    lines.append("")
    if method.options:
        rows = [(f"`{option.name}`", f"`{default_of(option)}`", option.describe()) for option in method.options]
        lines += [_table(("option", "default", "takes"), rows)]
    return "\n".join(lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:], ""])
