"""REPLUG: read each document alone, and mix token distributions by search score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import OMIT, Decision, decision
from hoptree.engine.prompts import prompt_for, show_passages
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_each, answer_key, note_answer, supporting_ids
from hoptree.methods.steps.chain_of_thought import note_fidelity
from hoptree.models.model import MAX_TOP_LOGPROBS
from hoptree.retrieval.rerank import like_cosines
from hoptree.text.parse_dialogue import read_answer
from hoptree.text.uncertainty import distributions, lsr_shares, mix_distributions, softmax

_ANSWER_TOKENS, _WIDE_TOP = 64, 200


@decision("heaviest", shown_as="heaviest")
class HeaviestChosen(Decision):
    """The answer with the greatest weight, all scores and all weights of documents."""

    value: str
    scores: dict[str, float]
    weights: list[float]


@decision("mixed", shown_as="mixed")
class TokensMixed(Decision):
    """The text, the weights of all documents, and its likelihood by each of them.

    `lsr` is the divergence that LSR trains a retriever to reduce: of its shares from those `preferred` by the model.
    """

    value: str
    weights: list[float]
    likelihoods: list[float]
    lsr: float | None = field(default=None, metadata=OMIT)
    preferred: list[float] = field(default_factory=list, metadata=OMIT)


@method(
    "replug",
    title="Answers of documents read alone",
    paper="REPLUG",
    needs=("corpus", "logprobs"),
    signals=("entropy", "prefix"),
    query="The question itself",
    deviating_options={"mixture=answers": "it takes one call a document, as the released script does for endpoints"},
    shared_prompts=("read",),
)
async def replug(
    question: Question,
    ctx: Context,
    *,
    mixture: Literal["tokens", "answers"] = "tokens",
    k: int = 10,
    temperature: float = 1.0,
    lsr: bool = False,
    titles: bool = False,
) -> Answer:
    """Read each of the k documents alone, and write the tokens that all of them together make likeliest.

    A document weighs the softmax of its retrieval score by `temperature`. Scores that lie more than 1 apart, as cosines
    never do in practice, are scaled to between 0 and 1, and the answer is `approx`. So it is where a model does not
    give its whole distribution (`entropy`): its 20 likeliest tokens count, and where it cannot continue a text, a
    document counts as long as its own reply is what was written. With `mixture=answers` each document's answer counts
    its weight times the geometric mean of its tokens' probabilities, and answers that say the same are added up. `lsr`
    records what LSR trains a retriever by: how its shares of the documents diverge from how likely each makes the
    answer, both at temperature 0.1. The paper has that of right answers (hoptree align build replug-lsr); the training
    itself is not here.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    if temperature <= 0:
        raise ConfigError(f"Scores cannot be divided by {temperature}.", "Set temperature above 0.")
    passages = await ctx.search(question.text, k=k)
    scores, scaled = like_cosines([passage.score for passage in passages])
    if scaled:
        note_fidelity(ctx, ["cosines"])
    weights = softmax(scores, temperature)
    mixed = await _mix(ctx, question.text, passages, weights, titles) if passages and mixture == "tokens" else None
    if mixed is None:
        return _heaviest(ctx, await answer_each(ctx, question.text, passages, titles=titles), weights)
    text, likelihoods = mixed
    _, preferred, differs = lsr_shares(scores, likelihoods)
    shown = [[round(value, 6) for value in values] for values in (weights, likelihoods, preferred if lsr else ())]
    loss = differs if lsr else None
    ctx.emit(TokensMixed(value=text, weights=shown[0], likelihoods=shown[1], lsr=loss, preferred=shown[2]))
    answer = read_answer(text)
    note_answer(ctx, "read", text.strip(), answer.text)
    return replace(answer, source="external", support=supporting_ids(answer.text, passages))


async def _mix(
    ctx: Context, question: str, passages: Sequence[Passage], weights: Sequence[float], titles: bool
) -> tuple[str, list[float]] | None:
    """Return the likeliest text by all documents, and its likelihood by each, or None."""
    shown = [show_passages(ctx, [passage], titles=titles) for passage in passages]
    prompts = [prompt_for(ctx.method, "read").fill(documents=documents, question=question) for documents in shown]
    gives = ctx.model_for("answer").capabilities
    top, continues = _WIDE_TOP if "entropy" in gives else MAX_TOP_LOGPROBS, "prefix" in gives
    text, logs, left = "", [0.0] * len(prompts), _ANSWER_TOKENS
    while left > 0:
        asked: dict[str, Any] = {"prefix": text, "max_tokens": left, "top_logprobs": top, "signals": frozenset({"end"})}
        replies = await together(ctx.generate("read", prompt, part=True, **asked) for prompt in prompts)
        choices = [reply.choices[0] for reply in replies]
        if any(choice.text and not choice.tokens for choice in choices):
            return None
        paths = [distributions(choice.tokens, ended=choice.finish == "stop") for choice in choices]
        tokens, more, ended = mix_distributions(paths, weights, continues=continues)
        logs = [log + added for log, added in zip(logs, more, strict=True)]
        text, left = text + "".join(tokens), left - len(tokens)
        if ended or not continues or not tokens:
            break
    return text, [math.exp(log) for log in logs]


def _heaviest(ctx: Context, answers: Sequence[Answer], weights: Sequence[float]) -> Answer:
    """Return the answer with the greatest sum of weight times likelihood."""
    if any(answer.known and answer.confidence is None for answer in answers):
        name = ctx.model_for("answer").name
        ctx.warn("no_logprobs", f"{name} gave no log-probabilities; documents counted by their retrieval scores alone.")
    scores: dict[str, float] = {}
    voters: dict[str, list[tuple[float, Answer]]] = {}
    for answer, weight in zip(answers, weights, strict=True):
        if answer.known:
            key, score = answer_key(answer.text), weight * (1.0 if answer.confidence is None else answer.confidence)
            scores[key] = scores.get(key, 0.0) + score
            voters.setdefault(key, []).append((score, answer))
    if not scores:
        return Answer("", answers[0].raw if answers else "", "unknown", "external")
    key = max(scores, key=lambda key: scores[key])
    best = max(voters[key], key=lambda voter: voter[0])[1]
    ctx.emit(HeaviestChosen(value=best.text, scores=scores, weights=[round(weight, 4) for weight in weights]))
    support = tuple(passage for _, voter in voters[key] for passage in voter.support)
    return Answer(best.text, best.raw, "answered", "external", support, confidence=scores[key])
