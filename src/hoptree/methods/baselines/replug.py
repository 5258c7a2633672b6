"""REPLUG: every document is read alone, and counts by its retrieval score."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hoptree.core.errors import ConfigError
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.registry import method
from hoptree.methods.steps.answer import answer_each
from hoptree.methods.steps.choose import answer_key
from hoptree.retrieval.rerank import normalise_scores


@decision("heaviest")
class HeaviestChosen(Decision):
    """The answer with the greatest weight, the scores of all answers and the weights of all documents."""

    value: str
    scores: dict[str, float]
    weights: list[float]


@method(
    "replug",
    title="Answers of documents read alone",
    paper="REPLUG",
    needs=("corpus", "logprobs"),
    query="The question itself",
    differs="documents weigh by the scores of whatever search there is, where the paper has cosines, and their "
    "probabilities are not mixed token by token",
    shared_prompts=("read",),
)
async def replug(
    question: Question, ctx: Context, *, k: int = 10, temperature: float = 1.0, titles: bool = False
) -> Answer:
    """Read each of the k documents alone, and give the answer with the most weight.

    A document weighs the softmax of its retrieval score. Its answer counts that times the geometric mean of its tokens'
    probabilities, and answers that say the same are added up; the released script, for models behind an endpoint, adds
    up only what is spelled the same. The paper's other form, which mixes the documents' probabilities token by token,
    is not done, nor is the retriever trained. A document in which the model finds no answer does not vote. Scores that
    lie more than 1 apart, as cosines never do in practice, are scaled to between 0 and 1: with those of BM25 as they
    are, the first document would decide alone. All are divided by `temperature`.
    """
    ctx.require_corpus()
    ctx.require("logprobs")
    if temperature <= 0:
        raise ConfigError(f"Scores cannot be divided by {temperature}.", "Set temperature above 0.")
    passages = await ctx.search(question.text, k=k)
    answers = await answer_each(ctx, question.text, passages, titles=titles)
    return _heaviest(ctx, answers, _weights(passages, temperature))


def _weights(passages: Sequence[Passage], temperature: float) -> list[float]:
    """Return the softmax of the retrieval scores, which sums to 1."""
    scores = [passage.score for passage in passages]
    best = max(scores, default=0.0)
    if best - min(scores, default=0.0) > 1:
        scores, best = normalise_scores(scores), 1.0
    weights = [math.exp((score - best) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def _heaviest(ctx: Context, answers: Sequence[Answer], weights: Sequence[float]) -> Answer:
    """Return the answer with the greatest sum of weight times likelihood, as its heaviest document spells it."""
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
