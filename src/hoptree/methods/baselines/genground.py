"""GenGround: the model answers the next simple question by itself, and documents correct it."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import direct_answer, note_reply, supporting_ids, synthesise
from hoptree.methods.steps.decompose import FollowUps, note_turn
from hoptree.methods.steps.evidence import show_passages
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import DialogueTurn, read_answer, read_dialogue
from hoptree.text.parse_method_replies import PROSE, CitedAnswer, cited_passage, read_cited
from hoptree.text.question_tree import Node

_MAX_TOKENS = 128
_LABELS = re.compile(
    r"(?P<final>\bFINISH(?:ED)?\b[\s*]{0,3}[\[({:]?|(?im:^)\W{0,4}(?i:finish)[\s*]{0,3}[\[({:]"
    r"|(?i:\bfinal\s+answer(?:\s+is\b[\s*]{0,3}:?|[\s*]{0,3}:)))"
    r"|(?P<ask>(?i:\bthought[\s*]{0,3}:|\b(?:thought|step|question)\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
    r"|(?P<reply>(?i:\banswer[\s*]{0,3}:|\banswer\s{0,3}\d{1,2}[\s*]{0,3}[:.)]))"
)
_BRACKETS = {"]": "[", ")": "(", "}": "{"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PassageCited(Decision):
    """The passage of a batch that the model cites for its answer."""

    kind: ClassVar[str] = "cited"
    value: str | None
    answer: str
    citation: str
    of: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRevised(Decision):
    """The model's own answer (`guess`) as passages correct it; not `grounded` if it stays as it was."""

    kind: ClassVar[str] = "revised"
    value: str
    guess: str
    citation: str
    grounded: bool


@method(
    "genground",
    title="Generate, then ground",
    paper="GenGround",
    needs=("corpus",),
    iterative=True,
    strategy="Every sub-question",
    query="Sub-questions deduced one after another",
    roles=("decompose", "answer"),
)
async def genground(
    question: Question,
    ctx: Context,
    *,
    k: int = 9,
    batch: int = 3,
    max_turns: int = 7,
    tries: int = 3,
    titles: bool = False,
) -> Answer:
    """Deduce the next simple question with an answer from memory, and revise that by the passages a reader cites.

    Of `k` passages, read in batches of `batch`, those that an answer was cited from are kept, until one batch is left.
    By it the answer is revised, which is asked for `tries` times at most and else left as it was. A turn that is
    neither a new question nor FINISH ends the loop, as `max_turns` do; then the question is answered from the turns,
    where the released code gives up. Any model grounds; the paper can also distil a small one for it.
    """
    ctx.require_corpus()
    if batch < 2:
        raise ConfigError(
            "Of a batch of one passage nothing is ever left out, so reading would not end.", "Set batch to 2 or more."
        )
    turns = FollowUps(ctx, question.text)
    answer = Answer("", status="unknown")
    for _ in range(max_turns):
        turn = await deduce(ctx, question.text, turns.pairs)
        if not turn.first or (turn.final and not turn.pairs):
            answer = read_answer(turn.final)
            break
        ctx.propose(read_answer(turn.final), order=1)
        node = turns.begin(turn.first)
        passages = await ctx.search(turn.first, k=k, node=node)
        kept = await narrow_down(ctx, node, passages, batch=batch, titles=titles)
        turns.end(node, await revise(ctx, node, read_answer(turn.guess), kept, tries=tries, titles=titles))
    if not answer.known:
        known = [f"{asked} {part.text}" for asked, part in turns.pairs if part.known]
        answer = await (synthesise(ctx, question.text, known) if known else direct_answer(ctx, question.text))
    return turns.conclude(answer)


async def deduce(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> DialogueTurn:
    """Return the next question and the model's own answer to it, or the final answer, after these steps."""
    steps = [
        f"Thought {number}: {asked}\nAnswer {number}: {answer.text if answer.known else 'unknown'}"
        for number, (asked, answer) in enumerate(pairs, 1)
    ]
    prompt = prompt_for(ctx.method, "deduce").fill(question=question, steps="\n".join(steps) or "none")
    stop = ("\nQuestion:", f"\nThought {len(pairs) + 2}:")
    reply = await ctx.generate("deduce", prompt, role="decompose", max_tokens=_MAX_TOKENS, stop=stop, part=True)
    turn = read_deduced(reply.text, [asked for asked, _ in pairs])
    note_turn(ctx, "deduce", turn)
    return turn


def read_deduced(text: str, asked: Sequence[str] = ()) -> DialogueTurn:
    """Read the thoughts of a reply that were not `asked` before, with their answers, up to FINISH[answer]."""
    turn = read_dialogue(text, _LABELS, {question_key(question) for question in asked})
    depth = dict.fromkeys(_BRACKETS.values(), 0)  # the answer may hold brackets in pairs
    for place, char in enumerate(turn.final):
        if char in depth:
            depth[char] += 1
        elif opening := _BRACKETS.get(char):
            if not depth[opening]:
                return replace(turn, final=turn.final[:place].strip(" \"'“”"))
            depth[opening] -= 1
    return turn


async def narrow_down(
    ctx: Context, node: Node, passages: Sequence[Passage], *, batch: int, titles: bool
) -> list[Passage]:
    """Return at most a batch of passages: batches are read in turn, and of each only the cited passage is kept.

    Cited passages go to the queue's end, and are read again while there is more than a batch. Batches that will be read
    whatever the others hold are read at once.
    """
    queue = deque(passages)
    while len(queue) > batch:
        count = -(-(len(queue) - batch) // batch)
        batches = [[queue.popleft() for _ in range(min(batch, len(queue)))] for _ in range(count)]
        cited = await together(_cite(ctx, node, shown, titles) for shown in batches)
        queue.extend(passage for passage in cited if passage)
    return list(queue)


async def _cite(ctx: Context, node: Node, passages: Sequence[Passage], titles: bool) -> Passage | None:
    """Return the passage of a batch that the model cites for its answer."""
    documents = show_passages(ctx, passages, titles=titles)
    prompt = prompt_for(ctx.method, "cite").fill(documents=documents, question=node.question)
    cited = read_cited((await ctx.generate("cite", prompt, max_tokens=_MAX_TOKENS, node=node)).text)
    passage = cited_passage(cited, passages)
    error = cited.error
    if not error and not passage and cited.repairs == PROSE:
        error = "neither an answer nor words of the documents"
    note_reply(ctx, "cite", error, cited.repairs)
    name, shown = passage.id if passage else None, [passage.id for passage in passages]
    ctx.emit(PassageCited(value=name, answer=cited.answer, citation=cited.citation, of=shown), node=node)
    return passage


async def revise(
    ctx: Context, node: Node, guess: Answer, passages: Sequence[Passage], *, tries: int, titles: bool
) -> Answer:
    """Return the guess as passages correct it; as it was where no reply can be used, or none of them says."""
    documents = show_passages(ctx, passages, titles=titles)
    prompt = prompt_for(ctx.method, "revise").fill(
        documents=documents, question=node.question, guess=guess.text or "none"
    )
    cited = CitedAnswer()
    for _ in range(tries if passages else 0):
        raw = (await ctx.generate("revise", prompt, max_tokens=_MAX_TOKENS, node=node)).text
        cited = read_cited(raw, bare=True)
        note_reply(ctx, "revise", cited.error, cited.repairs)
        if not cited.error:
            break
        prompt = prompt.follow_up(raw, f"That cannot be used: {cited.error}. Reply with the JSON object alone.")
    answer, passage = guess, cited_passage(cited, passages) if cited.citation else None
    repeats = question_key(cited.answer) == question_key(guess.text)
    if cited.answer and (passage or not repeats):
        support = (passage.id,) if passage else supporting_ids(cited.answer, passages)
        answer = Answer(cited.answer, cited.answer, source="external", support=support)
    revised = AnswerRevised(value=answer.text, guess=guess.text, citation=cited.citation, grounded=answer is not guess)
    ctx.emit(revised, node=node)
    return answer
