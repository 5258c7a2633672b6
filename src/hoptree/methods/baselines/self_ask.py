"""Self-Ask: follow-up questions, one at a time, each looked up."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hoptree.core.values import Answer, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_from, direct_answer, note_reply
from hoptree.methods.steps.decompose import FollowUps, note_turn
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import DialogueTurn, first_line, read_answer, read_dialogue
from hoptree.text.question_tree import Node

_LINE_TOKENS = 64
_DIALOGUE_TOKENS = 256
_FINAL_TOKENS = 20
_INTERMEDIATE = "Intermediate answer:"
_NEEDED = "Are follow up questions needed here:"
_FINAL = "So the final answer is:"
_NEXT_QUESTION = "\nQuestion:"
_NONE_NEEDED = re.compile(r"no\W*", re.IGNORECASE)
# "Are follow up questions needed here:" must not match.
LABELS = re.compile(
    r"(?P<ask>\bfollow[\s-]?ups?(?:\s+questions?)?(?:\s{0,3}\d{1,2})?[\s*]{0,3}:)"
    r"|(?P<reply>\bintermediate\s+answers?(?:\s{0,3}\d{1,2})?[\s*]{0,3}:)"
    r"|(?P<final>\b(?:so|thus|hence|therefore)\b,?\s{1,3}(?:the|my)\s+(?:final\s+)?answer\s+is\b[\s*]{0,3}:?"
    r"|\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:))",
    re.IGNORECASE,
)


@method(
    "self_ask",
    title="Self-Ask with search",
    paper="Self-Ask",
    needs=("corpus",),
    signals=("prefix",),
    iterative=True,
    strategy="Every follow-up question",
    query="Follow-up questions",
    shared_prompts=("direct", "follow_up", "read"),
)
async def self_ask(
    question: Question, ctx: Context, *, search: bool = True, k: int = 5, max_follow_ups: int = 5, titles: bool = False
) -> Answer:
    """Ask follow-up questions one at a time, answer each from what it finds, and then the question itself.

    A follow-up whose `k` passages hold no answer is answered from memory, as the paper does where its search engine has
    none. Without `search` the model writes the whole dialogue by itself; if it does so unasked, what follows its first
    new follow-up is thrown away. After `max_follow_ups`, or where a reply is neither a new follow-up nor a final
    answer, the final answer is asked for.
    """
    if search:
        ctx.require_corpus()
    turns = FollowUps(ctx, question.text)
    final = ""
    while len(turns.pairs) < max_follow_ups:
        turn = await _continue(ctx, question.text, turns.pairs, alone=not search)
        ctx.propose(read_answer(turn.final), order=1)
        follow_up, final = turn.first, turn.final
        if not search:
            for asked, answered in turn.pairs[: max_follow_ups - len(turns.pairs)]:
                turns.end(turns.begin(asked), read_answer(answered))
            follow_up = "" if final or len(turns.pairs) == max_follow_ups else turn.open
        if not follow_up:
            break
        node = turns.begin(follow_up)
        turns.end(node, await _answer(ctx, node, search, k, titles))
        final = ""
    final = final or await _ask_final(ctx, question.text, turns.pairs)
    return turns.conclude(read_answer(final))


async def _answer(ctx: Context, node: Node, search: bool, k: int, titles: bool) -> Answer:
    if search:
        passages = await ctx.search(node.question, k=k, node=node)
        answer = await answer_from(ctx, node.question, passages, node=node, titles=titles)
        if answer.known:
            return answer
    return await direct_answer(ctx, node.question, node=node)


async def _continue(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]], *, alone: bool) -> DialogueTurn:
    """Return the next follow-up, or with `alone` the rest of the dialogue."""
    # The line end after the last answer keeps the model from continuing that answer.
    text = f"{write_dialogue(pairs)}\n" if pairs else _NEEDED
    stop = (_NEXT_QUESTION,) if alone else (_INTERMEDIATE, _NEXT_QUESTION)
    max_tokens = _DIALOGUE_TOKENS if alone else _LINE_TOKENS
    reply = await _write(ctx, "follow_up", question, text, max_tokens=max_tokens, stop=stop)
    turn = read_dialogue(reply, LABELS, {question_key(asked) for asked, _ in pairs})
    if turn.error and _NONE_NEEDED.fullmatch(reply.strip().removeprefix(_NEEDED).lstrip()):
        turn = DialogueTurn(idle="No")
    return note_turn(ctx, "follow_up", turn)


async def _ask_final(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> str:
    """Make the model give its final answer."""
    before = write_dialogue(pairs) if pairs else f"{_NEEDED} No."
    reply = await _write(
        ctx, "final", question, f"{before}\n{_FINAL}", max_tokens=_FINAL_TOKENS, stop=(_NEXT_QUESTION,)
    )
    final = read_dialogue(reply, LABELS).final or first_line(LABELS.split(reply, maxsplit=1)[0])
    note_reply(ctx, "final", "" if final else "no answer", ["last words"])
    return final


async def _write(ctx: Context, step: str, question: str, text: str, *, max_tokens: int, stop: tuple[str, ...]) -> str:
    """Return the continuation of a text, if need be by asking for it in the prompt."""
    prefix = "prefix" in ctx.model_for("answer").capabilities
    shown = "" if prefix or text == _NEEDED else f"\nWritten so far:\n{text.rstrip()}\nWrite only what comes next:"
    prompt = prompt_for(ctx.method, "follow_up").fill(question=question, so_far=shown)
    reply = await ctx.generate(step, prompt, max_tokens=max_tokens, prefix=text if prefix else "", stop=stop, part=True)
    return reply.text


def write_dialogue(pairs: Sequence[tuple[str, Answer]]) -> str:
    """Return follow-ups and answers in the form of the worked examples."""
    lines = [f"{_NEEDED} Yes."]
    for question, answer in pairs:
        lines += [f"Follow up: {question}", f"{_INTERMEDIATE} {answer.text if answer.known else 'unknown'}"]
    return "\n".join(lines)
