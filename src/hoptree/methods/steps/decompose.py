"""Splitting a question into a tree of simpler ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.demonstrations import Demonstration, copies
from hoptree.text.loose_json import JsonReading, read_json
from hoptree.text.parse import question_key, read_questions
from hoptree.text.question_tree import Issue, Node, Plan, make_plan, nest_plan, single_node


def tell_plan(ctx: Context, plan: Plan, *, under: Node | None = None) -> None:
    """Write a plan down, and what was wrong with it; `under` is the node of another plan that it hangs under."""
    ctx.trace.add(
        "plan",
        **({"under": under.id} if under else {}),
        nodes=[{"id": n.id, "question": n.question, "parent": n.parent, "refs": list(n.refs)} for n in plan.nodes],
        issues=[{"kind": i.kind, "node": i.node, "detail": i.detail} for i in plan.issues],
    )


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
    plan = nest_plan(plan, under) if under else plan
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


MAX_TOKENS_SPLIT = 256
MAX_SUB_QUESTIONS = 4


async def split_question(
    ctx: Context, question: str, *, linked: bool = False, node: Node | None = None
) -> tuple[str, ...]:
    """The sub-questions a model lists for a question; none where its reply holds none.

    `linked` ones are asked one after another, each with the answers before it, and may refer to these.
    """
    prompt = prompt_for(ctx.method, "decompose_linked" if linked else "decompose").fill(question=question)
    raw = (await ctx.generate("decompose", prompt, role="decompose", max_tokens=MAX_TOKENS_SPLIT, node=node)).text
    questions = read_questions(raw)
    ctx.trace.add("parse", step="decompose", ok=bool(questions), repairs=[], error="" if questions else "no question")
    return questions


def drop_asked(
    ctx: Context,
    questions: Collection[str],
    asked: Collection[str],
    *,
    again: Callable[[str], bool] = lambda question: False,
    node: Node | None = None,
) -> tuple[str, ...]:
    """The first sub-questions that are none of those `asked` on the way down (as keys): a loop would never end.

    `again` says of others that they ask the same in other words.
    """
    new = [question for question in questions if question_key(question) not in asked and not again(question)]
    kept = new[:MAX_SUB_QUESTIONS]
    loops = [question for question in questions if question not in new]
    ctx.decide("split", len(kept), node=node, questions=kept, loops=loops, beyond=new[MAX_SUB_QUESTIONS:])
    return tuple(kept)
