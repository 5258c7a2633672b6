"""How TreeQA comes to its answer beyond its paper (`robust`): by readings of passages, and of a tree that holds.

Of the paper's own form, only whether the answer is a guess.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hoptree.methods.treeqa.evidence import SEARCHED, Kinds
from hoptree.methods.treeqa.nodes import Branch
from hoptree.methods.treeqa.revision import resting
from hoptree.methods.treeqa.told import MODEL_SAYS, told, unmarked
from hoptree.methods.treeqa.walk import Walk
from hoptree.runtime.context import Context
from hoptree.steps.answering.answer import synthesise
from hoptree.steps.answering.choose import surest
from hoptree.steps.answering.compare import chooses, compare_pairs
from hoptree.steps.answering.evidence import show_passages
from hoptree.steps.answering.glances import GLANCES, glances
from hoptree.steps.answering.grounds import NONE_HOLDS, called_guess
from hoptree.steps.hypotheses.agreement import agree, tells
from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.steps.hypotheses.substitution import parts_of
from hoptree.steps.reading.answer_kinds import other_kind
from hoptree.steps.reading.parse import question_key
from hoptree.values import Answer, Passage

__all__ = ["conclude", "read_own", "told_as_guess"]

_SHOWN = 8
"""Passages that the last reading sees beside the tree: those that verdicts cite, then others that were looked at."""


async def read_own(ctx: Context, question: str, evidence: Kinds) -> list[Answer]:
    """What the passages say that the question itself finds; nothing where only facts are to be looked at.

    What the model says that they say, and they do not hold, is a guess.
    """
    if evidence == "graph":
        return []
    passages = await ctx.search(question, k=SEARCHED)
    return [called_guess(reading, passages) for reading in await glances(ctx, question, passages)]


async def conclude(ctx: Context, question: str, walk: Walk, own: list[Answer]) -> Answer:
    """What a comparison comes to in code, or else the surest of the readings, with what it rests on.

    The tree is read only if evidence bears out all of it and the passages' readings differ, or nothing else is known: a
    model is as sure of its own guesses as of what it has read, so that their reading would be the surest for no good
    reason. Nor is it read beside them where it is but the question itself, answered from passages as well. What its
    nodes cite is cited for the answer only where that comes from the tree, and it is a guess where one of them is.
    """
    branches = [one for top in walk.tops for one in (top, *top.below())]
    moot = resting(walk, question)
    kept = [one for one in branches if one.node.id not in moot]
    # What evidence says alone is compared: a guess is nothing to compare by.
    verified = [one for one in kept if walk.outcomes[one.node.id].checked]
    said = [Answer(one.hypothesis, support=tuple(passage.id for passage in _cited(walk, one))) for one in verified]
    if compared := compare_pairs(
        ctx, question, [(one.node.question, answer) for one, answer in zip(verified, said, strict=True)]
    ):
        return compared
    whole = len(verified) == len(branches)
    borne_out = said if whole else []
    known = [answer for answer in own if answer.known]
    if known and (not whole or _agreed(known) or _echoes(walk, question)):
        return _checked(ctx, surest(ctx, own, when="final", named=GLANCES), borne_out)
    cited = [passage for one in verified for passage in _cited(walk, one)]
    seen = [
        passage for one in kept for attempt in walk.outcomes[one.node.id].attempts for passage in attempt.box.passages
    ]
    shown = tuple({passage.id: passage for passage in (*cited, *seen)}.values())[:_SHOWN]
    statements = list(told(ctx, walk.tops, walk.outcomes, texts=False, says=MODEL_SAYS, resting=moot))
    documents = [show_passages(ctx, shown, titles=True)] if shown else []
    sure = "logprobs" in ctx.model_for("answer").capabilities
    last = unmarked(await synthesise(ctx, question, [*statements, *documents], logprobs=sure))
    if last.known:
        grounds = _grounds(last.text, question, walk, kept, shown)
        says = bool(grounds) or any(tells(answer.text, last.text) for answer in said)
        fits = not other_kind(question, last.text)
        # What is chosen stands there whatever is right, and what one node says may be said of another's guess.
        if whole and fits and (says or chooses(question)):
            ids = dict.fromkeys(passage.id for passage in (*cited, *shown) if passage in cited or passage.id in grounds)
            last = replace(last, support=tuple(ids))
        elif known:  # what stands nowhere is no answer where there is one that was read
            return _checked(ctx, surest(ctx, own, when="final", named=GLANCES), borne_out)
        else:
            return _guess(ctx, last, verified=len(verified), of=len(branches))
    taken = surest(ctx, [*own, last], when="final", named=(*(GLANCES if own else ()), "the tree and what it cites"))
    return _checked(ctx, taken, borne_out)


def told_as_guess(ctx: Context, walk: Walk, answer: Answer) -> Answer:
    """The answer of the paper's form, called a guess where nothing read holds it and no verified node says it."""
    if not answer.known:
        return answer
    boxes = [attempt.box for outcome in walk.outcomes.values() for attempt in outcome.attempts]
    facts = [Passage(fact.text, "", fact.text) for box in boxes for fact in box.facts]
    judged = called_guess(answer, [*(passage for box in boxes for passage in box.passages), *facts])
    branches = [one for top in walk.tops for one in (top, *top.below())]
    verified = [one for one in branches if walk.outcomes[one.node.id].checked]
    if not verified:
        ctx.warn("unsupported", "None of the answers below was verified; this one is put together from guesses.")
    elif any(tells(one.hypothesis, answer.text) for one in verified):
        return answer
    elif judged.source == "fallback":
        ctx.warn("unsupported", NONE_HOLDS)
    return replace(answer, source=judged.source)


def _checked(ctx: Context, taken: Answer, borne_out: Sequence[Answer]) -> Answer:
    """The reading that was taken: a guess where its passages do not hold it, unless it is `borne_out` by the tree."""
    if taken.source != "fallback":
        return taken
    if any(tells(one.text, taken.text) for one in borne_out):
        support = dict.fromkeys(name for one in borne_out for name in one.support)
        return replace(taken, source="synthesis", support=tuple(support))
    ctx.warn("unsupported", NONE_HOLDS)
    return taken


def _guess(ctx: Context, answer: Answer, *, verified: int, of: int) -> Answer:
    """The answer of a tree, called a guess: so many `of` its nodes are `verified`."""
    why = "The answer is a guess: it stands in nothing that was found, and in no answer that was verified."
    if not verified:
        why = "The answer is put together from guesses that nothing found confirms."
    elif verified < of:
        why = "The answer is a guess: not all that it rests on is verified."
    ctx.warn("unsupported", why)
    return replace(answer, source="fallback")


def _echoes(walk: Walk, question: str) -> bool:
    """Whether the tree is but one node that asks the question itself."""
    tops = [one for one in walk.tops if question_key(one.node.question) == question_key(question)]
    return len(tops) == len(walk.tops) == 1 and not tops[0].children


def _cited(walk: Walk, branch: Branch) -> tuple[Passage, ...]:
    return walk.outcomes[branch.node.id].verdict.cited.passages


def _agreed(answers: Sequence[Answer]) -> bool:
    """Whether there are several answers that say the same."""
    return len(answers) > 1 and all(agree(one.text, other.text) for one in answers for other in answers)


def _grounds(
    answer: str, question: str, walk: Walk, kept: Sequence[Branch], shown: tuple[Passage, ...]
) -> frozenset[str]:
    """What holds an answer beside a name from the question or one below it: texts of facts, and ids of passages."""
    facts = [fact for one in kept for attempt in walk.outcomes[one.node.id].attempts for fact in attempt.box.facts]
    box = EvidenceBox(shown, tuple(dict.fromkeys(facts)))
    below = [one.node.question for one in kept if parts_of(one.node.question.partition(" ")[2])]
    return frozenset(ground for asked in (question, *below) for ground in box.supporting(answer, asked))
