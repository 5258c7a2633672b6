"""REPLUG: every document is read alone, and counts as much as the search thought of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.registry import method
from hoptree.methods.steps.choose import answer_key
from hoptree.methods.steps.read_alone import answer_each
from hoptree.retrieval.fusion import normalised


@method(
    "replug",
    title="Answers of documents read alone",
    paper="REPLUG",
    needs=("corpus", "logprobs"),
    query="The question itself",
    differs="documents weigh by the scores of whatever search there is, where the paper has cosines, and their "
    "probabilities are not mixed token by token",
)
async def replug(
    question: Question, ctx: Context, *, k: int = 10, temperature: float = 1.0, titles: bool = False
) -> Answer:
    """Read each of the k documents alone, and give the answer that most of their weight speaks for.

    A document weighs what its retrieval score is worth by softmax over all of them; its answer counts that much times
    the geometric mean of its tokens' probabilities, and answers that say the same are added up. So the released script
    answers questions with models behind an endpoint, but that it adds up only what is spelled the same. The paper's
    other form, which mixes the documents' probabilities token by token, is not done, nor is the retriever trained. A
    document in which the model finds no answer does not vote. Scores that lie more than 1 apart, as cosines never
    do in practice, are brought to between 0 and 1 (those of BM25 as they are would let the first document decide
    alone); all are divided by `temperature`.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    if temperature <= 0:
        raise ConfigError(f"Scores cannot be divided by {temperature}.", "Set temperature above 0.")
    passages = await ctx.search(question.text, k=k)
    answers = await answer_each(ctx, question.text, passages, titles=titles)
    return _heaviest(ctx, answers, _weights(passages, temperature))


def _weights(passages: Sequence[Passage], temperature: float) -> list[float]:
    """The softmax of the retrieval scores, which sums to 1."""
    scores = [passage.score for passage in passages]
    best = max(scores, default=0.0)
    if best - min(scores, default=0.0) > 1:
        scores, best = normalised(scores), 1.0
    weights = [math.exp((score - best) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def _heaviest(ctx: Context, answers: Sequence[Answer], weights: Sequence[float]) -> Answer:
    """The answer with the greatest sum of weight times likelihood, as its heaviest document spells it."""
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
    taken = max(voters[key], key=lambda voter: voter[0])[1]
    ctx.decide("heaviest", taken.text, scores=scores, weights=[round(weight, 4) for weight in weights])
    support = tuple(passage for _, voter in voters[key] for passage in voter.support)
    return Answer(taken.text, taken.raw, "answered", "external", support, confidence=scores[key])
