"""Whether something holds of both things that a question names: each is looked at alone, and code joins the two."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence

from hoptree.core.values import Answer, Passage
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.methods.steps.compare import decide_by
from hoptree.methods.steps.decompose import tell_plan
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.comparison import read_yes_no
from hoptree.text.comparison_questions import detect_comparison
from hoptree.text.names import fold
from hoptree.text.question_tree import Node, Plan

Search = Callable[[str, Node], Awaitable[Sequence[Passage]]]
_PAGES = 2
"""Passages of a thing's own page that are shown."""
_MAX_TOKENS = 8
_BRACKETS = re.compile(r"\([^)]*\)")
_ARTICLE = re.compile(r"^the\s+")
_WHOLE = 1000
"""The order of an answer to the question itself."""
_WHY = {
    "Yes": "its own page says so",
    "No": "its own page does not say so, which counts as no",
    "": "the reply was neither yes nor no",
}


async def both_hold(ctx: Context, question: str, search: Search, *, offered: bool = True) -> Answer | None:
    """Yes or no to "Are A and B both …?", or None: another question, or what was found of one of them does not tell.

    A small model that is asked of both at once says yes to nearly everything, even with a text before it that says no.
    What a thing's own page does not say of it counts as no. A no of one is `offered` for the case that the budget ends
    before the other is looked at, unless whoever asks weighs answers before giving them.
    """
    comparison = detect_comparison(question)
    if comparison is None or comparison.kind != "both":
        return None
    claim = comparison.claim
    nodes = [Node(number, f"Is it true of {name}: {claim}?") for number, name in enumerate(comparison.operands, 1)]
    tell_plan(ctx, Plan(tuple(nodes)))
    checked = await together(
        _check(ctx, name, claim, node, search, offered) for name, node in zip(comparison.operands, nodes, strict=True)
    )
    # A no of one is a no of both, whatever the other is.
    facts = {name: one.text or "unknown" for name, one in zip(comparison.operands, checked, strict=True)}
    return decide_by(ctx, comparison, facts, checked)


async def _check(ctx: Context, name: str, claim: str, node: Node, search: Search, offered: bool) -> Answer:
    ctx.begin_node(node, node.question)
    pages = _own(name, await search(name, node))
    answer = Answer("", status="unknown", source="external")
    if pages:
        shown = show_passages(ctx, pages, titles=True)
        prompt = prompt_for(ctx.method, "bear_out").fill(documents=shown, name=name, claim=claim)
        said = (await ctx.generate("bear_out", prompt, max_tokens=_MAX_TOKENS, node=node)).text
        holds = read_yes_no(said)
        note_reply(ctx, "bear_out", "" if holds is not None else "neither yes nor no")
        ctx.decide("borne_out", holds, node=node, raw=said, passages=[page.id for page in pages])
        if holds is not None:
            answer = Answer("Yes" if holds else "No", said, "answered", "external", tuple(page.id for page in pages))
    if offered and answer.text == "No":
        ctx.propose(Answer("no", answer.raw, source="synthesis", support=answer.support), order=_WHOLE)
    ctx.end_node(node, answer, why=_WHY[answer.text] if pages else "no page of its own was found")
    return answer


def _own(name: str, passages: Sequence[Passage]) -> list[Passage]:
    """The passages of the thing's own page: that another page does not say something of it means nothing.

    What stands in brackets tells things of one name apart; where only one of name and title has it, it tells nothing.
    """
    wanted, meant = _parts(name)
    fitting = [passage for passage in passages if _fits(_parts(passage.title), wanted, meant)]
    return [passage for passage in fitting if passage.title == fitting[0].title][:_PAGES]


def _fits(title: tuple[str, str], name: str, meant: str) -> bool:
    return title[0] == name and not (title[1] and meant and title[1] != meant)


def _parts(text: str) -> tuple[str, str]:
    """A name without case, accents and article, and what stands in brackets in it."""
    outside, inside = _BRACKETS.sub(" ", text), " ".join(_BRACKETS.findall(text))
    return _ARTICLE.sub("", _words(outside)), _words(inside)


def _words(text: str) -> str:
    return " ".join(re.findall(r"\w+", fold(text)))
