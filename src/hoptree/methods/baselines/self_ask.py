"""Self-Ask: follow-up questions, one at a time, each looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from, direct_answer
from hoptree.methods.steps.in_turn import InTurn
from hoptree.methods.steps.parse_dialogue import Said, first_line, note_said, read_answer, read_dialogue
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.text.parse import question_key
from hoptree.text.question_tree import Node

LINE_TOKENS = 64
WHOLE_TOKENS = 256
LAST_TOKENS = 20
BETWEEN = "Intermediate answer:"
_NEEDED = "Are follow up questions needed here:"
_LAST = "So the final answer is:"
_NONE_NEEDED = re.compile(r"no\W*", re.IGNORECASE)
# "Are follow up questions needed here:" is no label.
LABELS = re.compile(
    r"(?P<ask>\bfollow[\s-]?ups?(?:\s+questions?)?(?:\s{0,3}\d{1,2})?[\s*]{0,3}:)"
    r"|(?P<reply>\bintermediate\s+answers?(?:\s{0,3}\d{1,2})?[\s*]{0,3}:)"
    r"|(?P<final>\b(?:so|thus|hence|therefore)\b,?\s{1,3}(?:the|my)\s+(?:final\s+)?answer\s+is\b[\s*]{0,3}:?"
    r"|\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:))",
    re.IGNORECASE,
)


async def go_on(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]], *, alone: bool) -> Said:
    """What the model says next: the next follow-up, or `alone` all that it would ask and answer by itself."""
    said = await _write(
        ctx,
        "follow_up",
        question,
        f"{write_dialogue(pairs)}\n" if pairs else _NEEDED,  # else the answer before would be written on
        max_tokens=WHOLE_TOKENS if alone else LINE_TOKENS,
        stop=("\nQuestion:",) if alone else (BETWEEN, "\nQuestion:"),
    )
    found = read_dialogue(said, LABELS, {question_key(asked) for asked, _ in pairs})
    if found.error and _NONE_NEEDED.fullmatch(said.strip().removeprefix(_NEEDED).lstrip()):
        found = Said(idle="No")
    note_said(ctx, "follow_up", found)
    return found


async def final_answer(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> str:
    """What the model gives for the final answer when it is made to."""
    before = write_dialogue(pairs) if pairs else f"{_NEEDED} No."
    said = await _write(ctx, "final", question, f"{before}\n{_LAST}", max_tokens=LAST_TOKENS, stop=("\nQuestion:",))
    found = read_dialogue(said, LABELS).final or first_line(LABELS.split(said, maxsplit=1)[0])
    note_reply(ctx, "final", "" if found else "no answer", ["last words"])
    return found


async def _write(ctx: Context, step: str, question: str, text: str, *, max_tokens: int, stop: tuple[str, ...]) -> str:
    """What comes behind a text; models that cannot continue one are shown it and asked to."""
    prefix = "prefix" in ctx.model_for("answer").capabilities
    shown = "" if prefix or text == _NEEDED else f"\nWritten so far:\n{text.rstrip()}\nWrite only what comes next:"
    filled = prompt_for(ctx.method, "follow_up").fill(question=question, so_far=shown)
    reply = await ctx.generate(step, filled, max_tokens=max_tokens, prefix=text if prefix else "", stop=stop, part=True)
    return reply.text


def write_dialogue(pairs: Sequence[tuple[str, Answer]]) -> str:
    """Follow-ups and their answers as the worked examples have them."""
    lines = [f"{_NEEDED} Yes."]
    for question, answer in pairs:
        lines += [f"Follow up: {question}", f"{BETWEEN} {answer.text if answer.known else 'unknown'}"]
    return "\n".join(lines)


@method(
    "self_ask",
    title="Self-Ask with search",
    paper="Self-Ask",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="Every follow-up question",
    query="Follow-up questions",
)
async def self_ask(
    question: Question,
    ctx: Context,
    *,
    search: bool = True,
    k: int = 5,
    max_follow_ups: int = 5,
    titles: bool = False,
) -> Answer:
    """Ask follow-up questions one at a time, answer each from what it finds, and then the question itself.

    A follow-up whose `k` passages hold no answer is answered from memory, as the paper does where its search engine has
    none. Without `search` the model writes the whole dialogue by itself. A model that does so unasked has all behind
    its first new follow-up thrown away. After `max_follow_ups`, or where a reply is neither a new follow-up nor a final
    answer, the final answer is asked for.
    """
    if search:
        ctx.require_corpus()
    turns = InTurn(ctx, question.text)
    final = ""
    while len(turns.pairs) < max_follow_ups:
        said = await go_on(ctx, question.text, turns.pairs, alone=not search)
        ctx.propose(read_answer(said.final), order=1)
        follow_up, final = said.first, said.final
        if not search:
            _take(turns, said, max_follow_ups)
            follow_up = "" if final or len(turns.pairs) == max_follow_ups else said.open
        if not follow_up:
            break
        node = turns.begin(follow_up)
        turns.end(node, await _answer(ctx, node, search, k, titles))
        final = ""
    final = final or await final_answer(ctx, question.text, turns.pairs)
    return turns.conclude(read_answer(final))


def _take(turns: InTurn, said: Said, limit: int) -> None:
    """Take down the follow-ups that the model answered by itself."""
    for asked, answered in said.pairs[: limit - len(turns.pairs)]:
        turns.end(turns.begin(asked), read_answer(answered))


async def _answer(ctx: Context, node: Node, search: bool, k: int, titles: bool) -> Answer:
    if search:
        found = await ctx.search(node.question, k=k, node=node)
        answer = await answer_from(ctx, node.question, found, node=node, titles=titles)
        if answer.known:
            return answer
    return await direct_answer(ctx, node.question, node=node)
