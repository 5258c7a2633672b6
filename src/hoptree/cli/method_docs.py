"""docs/reference/methods.md, made from the docstrings, signatures and measured costs of the methods."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.cli.method_costs import read_costs
from hoptree.cli.method_facts import (
    MethodFacts,
    default_of,
    held_by_corpus,
    how_to_meet,
    notes_of,
    paragraphs,
    prompts_of,
)
from hoptree.engine.registry import Method, list_methods
from hoptree.methods.papers import PAPERS, Paper

_OLD = r" \*"
_HEAD = """# Methods

Made by `hoptree methods docs --out docs/reference/methods.md` from the code: edit that, not this file.
`hoptree methods` prints the table with the fidelity for your model, and `hoptree methods show NAME` one of them.
"""
_FIDELITY = """## How close to their papers

`fidelity` says how close to its paper a run is: `exact`; `approx` without a signal that the paper hears
from the model or has in its corpus, with an option that goes beyond the paper, where something else is always done
than in the paper (its section says what), or where a trained model is asked in other words than it was trained with;
`prompted` where the paper trained a model for the method and another one is asked
in words (with `--set checkpoint=on`, the model given is the trained one). Where both hold, it is `approx`, unless all
that is missing is `prefix`: a model that cannot continue a text is shown it and asked to go on. Where a question
finds out that the model given for a trained one is none (it writes no reflection tokens), `ask` and `show` call its
answer `approx`, too.

`exact` is said of what a method does: which calls follow which, and what becomes of their replies. It is measured by
the paper; where the released code does something else, or this one than it, the section says so. It does not cover
the words of prompts, which are our own, and may ask for a field more than the paper's (TreeQA's verdict also asks for
the right answer), nor the model, the retriever, the encoder and the linker, which are those given to the run: TreeQA's
paper has ReLiK and NV-Embed. Scores are compared with a paper's only where these are its own too.
"""


def as_markdown() -> str:
    """Describe the methods of this package; those of other packages describe themselves."""
    costs = read_costs()
    facts = [
        MethodFacts.gather(method, {}, costs)
        for method in list_methods()
        if method.run.__module__.startswith("hoptree.")
    ]
    methods = [fact.method for fact in facts]
    parts = [_HEAD, _overview(methods), _needs(methods), _FIDELITY, _checkpoints(methods), _costs(facts)]
    parts += [_section(fact) for fact in facts]
    return "\n".join(part for part in parts if part)


def _overview(methods: Sequence[Method]) -> str:
    """The columns of TAIKC's Table 11, and needs."""
    rows = [
        (
            f"[`{method.name}`](#{_anchor(method.name)})",
            method.title,
            method.paper or "–",
            ", ".join(method.needs) or "–",
            "yes" if method.iterative else "no",
            "yes" if method.dynamic else "no",
            method.strategy or "–",
            method.query or "–",
        )
        for method in methods
    ]
    return _table(("method", "title", "paper", "needs", "iterative", "dynamic", "strategy", "query"), rows)


def _needs(methods: Sequence[Method]) -> str:
    needs = dict.fromkeys(need for method in methods for need in (*method.needs, *held_by_corpus(method)))
    rows = [(need, how_to_meet(need)) for need in needs]
    return f"## What they need\n\n{_table(('need', 'how to meet it'), rows)}"


def _checkpoints(methods: Sequence[Method]) -> str:
    trained = [method for method in methods if method.trained and method.trained_by == ("checkpoint", True)]
    reworded = _names([method for method in trained if method.reworded])
    as_trained = _names([method for method in trained if not method.reworded])
    return f"""## Trained checkpoints

With `checkpoint=on`, {_names(trained)} take the model given for the one that the paper trained.
The templates of {reworded} for these checkpoints are in our own words: they have the sections, tags and
names of the training, but other sentences around them, to which a fine-tuned model is sensitive. Those of
{as_trained} have the form of the training.

No run with the real weights of any of these checkpoints has been made. The evidence is scripted: tests look at the
requests, and answer them with replies in the format of the checkpoint.
"""


def _names(methods: Sequence[Method]) -> str:
    *first, last = [f"`{method.name}`" for method in methods]
    return f"{', '.join(first)} and {last}" if first else last


def _linked(paper: Paper) -> str:
    return f"[{paper.title}]({paper.link}), {paper.year}" if paper.link else paper.cited


def _costs(facts: Sequence[MethodFacts]) -> str:
    rows = []
    for fact in facts:
        cost = fact.cost
        if cost is None:
            rows.append((f"`{fact.method.name}`", "not measured", "", "", "", ""))
            continue
        asked = f"{cost.questions}" + (f", {cost.failed} failed" if cost.failed else "")
        asked += f", {cost.stopped} ended by the budget" if cost.stopped else ""
        rows.append(
            (
                f"`{fact.method.name}`" + (_OLD if fact.cost_is_old else ""),
                f"{cost.calls:.1f}",
                f"{cost.prompt_tokens:,.0f} + {cost.completion_tokens:,.0f}",
                f"{cost.retrievals:.1f}",
                asked,
                f"`{cost.command}`",
            )
        )
    heads = ("method", "calls", "tokens (prompt + completion)", "searches", "questions", "by")
    means = "Means on the packaged sample with default options."
    if any(fact.cost_is_old for fact in facts):
        means += f"{_OLD}: measured before the method's code or prompts changed."
    return f"## What a question costs\n\n{means}\n\n{_table(heads, rows)}"


def _section(facts: MethodFacts) -> str:
    method = facts.method
    paper = f" ({method.paper})" if method.paper else ""
    lines = [f"## {method.name}", "", f"**{method.title}**{paper}", ""]
    for part in paragraphs(method):
        lines += [part, ""]
    lines += [f"- Paper: {_linked(cited)}." for cited in PAPERS.get(method.paper, ())]
    lines += [f"- Fidelity: {note.removesuffix('.')}." for note in notes_of(method)]
    held = " and ".join(held_by_corpus(method))
    needs = ", ".join(method.needs) or "nothing but a model"
    lines.append(f"- Needs: {needs}{f', which holds {held}, else it is approx' if held else ''}.")
    if len(method.roles) > 1:
        lines.append(f"- Roles (`--role ROLE=MODEL`): {', '.join(method.roles)}.")
    if own := prompts_of(method):
        lines.append(f"- Prompts of its own: {', '.join(f'`{name}`' for name in own)}.")
    if facts.steps:
        steps = ", ".join(f"`{step}` {calls:g}" for step, calls in facts.steps.items())
        lines.append(f"- Steps that ask the model, with their calls a question: {steps}.")
    lines.append("")
    if method.options:
        rows = [(f"`{option.name}`", f"`{default_of(option)}`", option.describe()) for option in method.options]
        lines += [_table(("option", "default", "takes"), rows)]
    return "\n".join(lines)


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(_cell(cell) for cell in row) + " |" for row in (heads, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(heads), *lines[1:], ""])


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _anchor(name: str) -> str:
    """Return how a heading is linked to: letters, digits, underscores and hyphens stay."""
    return "".join(letter for letter in name.casefold() if letter.isalnum() or letter in "_-")
