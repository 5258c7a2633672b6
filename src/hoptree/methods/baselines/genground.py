"""GenGround: answer simple questions from memory, and correct them by documents."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for, show_passages
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import direct_answer, note_reply, supporting_ids, synthesise
from hoptree.methods.steps.decompose import FollowUps, note_turn
from hoptree.text.parse import question_key
from hoptree.text.parse_dialogue import DialogueTurn, read_answer
from hoptree.text.parse_method_replies import PROSE, CitedAnswer, cited_passage, read_cited, read_deduced
from hoptree.text.question_tree import Node

_MAX_TOKENS = 128


@decision("cited")
class PassageCited(Decision):
    """The passage of a batch that the model cites for its answer."""

    value: str | None
    answer: str
    citation: str
    of: list[str]


@decision("revised")
class AnswerRevised(Decision):
    """The corrected answer instead of the `guess`; not `grounded` if unchanged."""

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
    shared_prompts=("direct", "read"),
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
    """Ask the next simple question, answer it from memory, and revise the answer by passages that a reader cites.

    Of `k` passages, read in batches of `batch`, those that an answer was cited from are kept, until one batch is left.
    The answer is revised by it, in at most `tries` attempts, or else left unchanged. A turn that is neither a new
    question nor FINISH ends the loop, as `max_turns` do; then the question is answered from the turns, where the
    released code gives up. Any model grounds; the paper can also distil a small one for it.
    """
    ctx.require_corpus()
    if batch < 2:
        raise ConfigError("Of a batch of one passage nothing is left out: no end.", "Set batch to 2 or more.")
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
        kept = await narrow_down(ctx, node, passages, batch, titles)
        turns.end(node, await revise(ctx, node, read_answer(turn.guess), kept, tries, titles))
    if not answer.known:
        known = [f"{asked} {part.text}" for asked, part in turns.pairs if part.known]
        answer = await (synthesise(ctx, question.text, known) if known else direct_answer(ctx, question.text))
    return turns.conclude(answer)


async def deduce(ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]]) -> DialogueTurn:
    """Return the next question with the model's own answer, or the final answer."""
    steps = [
        f"Thought {number}: {asked}\nAnswer {number}: {answer.text if answer.known else 'unknown'}"
        for number, (asked, answer) in enumerate(pairs, 1)
    ]
    prompt = prompt_for(ctx.method, "deduce").fill(question=question, steps="\n".join(steps) or "none")
    stop = ("\nQuestion:", f"\nThought {len(pairs) + 2}:")
    reply = await ctx.generate("deduce", prompt, role="decompose", max_tokens=_MAX_TOKENS, stop=stop, part=True)
    return note_turn(ctx, "deduce", read_deduced(reply.text, [asked for asked, _ in pairs]))


async def narrow_down(ctx: Context, node: Node, passages: Sequence[Passage], batch: int, titles: bool) -> list[Passage]:
    """Return at most a batch of passages; each batch's cited one is queued again."""
    queue = deque(passages)
    while len(queue) > batch:
        count = -(-(len(queue) - batch) // batch)  # these batches are read in any case, so at once
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
    prose = "neither an answer nor words of the documents" if not passage and cited.repairs == PROSE else ""
    note_reply(ctx, "cite", cited.error or prose, cited.repairs)
    name, shown = passage.id if passage else None, [passage.id for passage in passages]
    ctx.emit(PassageCited(value=name, answer=cited.answer, citation=cited.citation, of=shown), node=node)
    return passage


async def revise(ctx: Context, node: Node, guess: Answer, kept: Sequence[Passage], tries: int, titles: bool) -> Answer:
    """Return the guess as passages correct it; unchanged if no reply can be used."""
    shown = show_passages(ctx, kept, titles=titles)
    prompt = prompt_for(ctx.method, "revise").fill(documents=shown, question=node.question, guess=guess.text or "none")
    cited = CitedAnswer()
    for _ in range(tries if kept else 0):
        raw = (await ctx.generate("revise", prompt, max_tokens=_MAX_TOKENS, node=node)).text
        cited = read_cited(raw, bare=True)
        note_reply(ctx, "revise", cited.error, cited.repairs)
        if not cited.error:
            break
        prompt = prompt.follow_up(raw, f"That cannot be used: {cited.error}. Reply with the JSON object alone.")
    answer, passage = guess, cited_passage(cited, kept) if cited.citation else None
    if cited.answer and (passage or question_key(cited.answer) != question_key(guess.text)):
        support = (passage.id,) if passage else supporting_ids(cited.answer, kept)
        answer = Answer(cited.answer, cited.answer, source="external", support=support)
    revised = AnswerRevised(value=answer.text, guess=guess.text, citation=cited.citation, grounded=answer is not guess)
    ctx.emit(revised, node=node)
    return answer
