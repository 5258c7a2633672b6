"""Splitting a question into a tree of simpler ones."""

from __future__ import annotations

from collections.abc import Sequence

from hoptree.runtime.context import Context
from hoptree.runtime.prompts import prompt_for
from hoptree.steps.planning.demonstrations import Demonstration, copies
from hoptree.steps.planning.telling import tell_plan
from hoptree.steps.reading.parse import JsonReading, read_json
from hoptree.tree import Issue, Node, Plan, hang, make_plan, single_node

__all__ = ["decompose_tree"]

MAX_TOKENS = 512
_UNCLEAR = {"ref_dangling", "ref_cycle"}
_WORTH_TELLING = {*_UNCLEAR, "cap_nodes", "cap_depth"}


async def decompose_tree(
    ctx: Context,
    question: str,
    *,
    demonstrations: Sequence[Demonstration],
    mend_leaks: bool = False,
    titles: Sequence[str] = (),
    under: Node | None = None,
) -> Plan:
    """Ask for a tree with `#queryX` references, once more if it cannot be carried out, and repair what remains.

    A question that yields no tree is its own single node. `titles` are of pages that were found for it, and a prompt
    that shows them has a turn for them before the examples. `under` is the node whose question it is, if of any: the
    plan hangs beneath it, unless it copies an example.
    """
    shots = [({"question": shot.question}, shot.plan) for shot in demonstrations]
    seen = {"titles": "\n".join(titles)} if titles else {}
    prompt = prompt_for(ctx.method, "decompose_seen" if titles else "decompose").fill(
        shots=[({**given, **seen}, plan) for given, plan in shots], question=question, **seen
    )
    reply = (await ctx.generate("decompose", prompt, role="decompose", max_tokens=MAX_TOKENS, node=under)).text
    reading, plan = _read(ctx, reply, question, mend_leaks)
    if complaint := _complaint(reading, plan):
        again = prompt.follow_up(reply, f"That cannot be used: {complaint}. Write the whole JSON again, corrected.")
        second = (await ctx.generate("decompose", again, role="decompose", max_tokens=MAX_TOKENS, node=under)).text
        _, retried = _read(ctx, second, question, mend_leaks)
        plan = retried if retried.nodes else plan
    if not plan.nodes:
        plan = single_node(question, Issue("decompose_failed", 1, "no tree in the reply; the question is its own node"))
        ctx.warn("decompose_failed", "The model's plan could not be read; the question was answered as one piece.")
    for issue in plan.issues:
        if issue.kind in _WORTH_TELLING:
            ctx.warn(issue.kind, f"The model's plan was repaired: {issue.detail}.")
    if under and (len(plan.nodes) < 2 or copies(plan, question, demonstrations)):
        return single_node(question)  # one part is the node's question once more, and a copy is of another
    plan = hang(plan, under) if under else plan
    tell_plan(ctx, plan, under=under)
    return plan


def _read(ctx: Context, reply: str, question: str, mend_leaks: bool) -> tuple[JsonReading, Plan]:
    reading = read_json(reply)
    ctx.trace.add("parse", step="decompose", ok=reading.ok, repairs=list(reading.repairs), error=reading.error)
    return reading, make_plan(reading.value, question, mend_leaks=mend_leaks)


def _complaint(reading: JsonReading, plan: Plan) -> str:
    """What to tell the model about its plan, or nothing."""
    if not reading.ok:
        return f"it is not valid JSON ({reading.error})"
    if not plan.nodes:
        return "it holds no question"
    unclear = [issue for issue in plan.issues if issue.kind in _UNCLEAR]
    return f"{unclear[0].detail.split(';')[0]} in query{unclear[0].node}" if unclear else ""
