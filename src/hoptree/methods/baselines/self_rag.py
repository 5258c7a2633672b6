"""Self-RAG: retrieve if it is needed, answer from each document, and let the model judge which answer does best."""

from __future__ import annotations

from dataclasses import asdict

from hoptree.methods.registry import method
from hoptree.runtime.context import Context
from hoptree.runtime.schedule import together
from hoptree.steps.answering.alone import answer_each
from hoptree.steps.answering.answer import direct_answer
from hoptree.steps.judging.critique import criticise, judge_need
from hoptree.steps.judging.reflection import Critique
from hoptree.steps.judging.reflective import Reflective
from hoptree.values import Answer, Question

__all__ = ["self_rag"]


@method(
    "self_rag",
    title="Retrieval and answers that the model judges itself",
    paper="Self-RAG",
    needs=("corpus",),
    signals=("logprobs",),
    dynamic=True,
    strategy="The model's judgement of the question",
    query="The question itself",
    roles=("answer", "judge"),
    trained=True,
)
async def self_rag(
    question: Question,
    ctx: Context,
    *,
    threshold: float = 0.2,
    k: int = 5,
    w_rel: float = 1.0,
    w_sup: float = 1.0,
    w_use: float = 0.5,
    max_tokens: int = 100,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Look up if that is needed, answer from each document alone, and give the answer that is judged best.

    Documents are read if the probability that they are needed exceeds `threshold`, or where the model does not say. An
    answer scores the geometric mean of its tokens' probabilities, and by `w_rel`, `w_sup` and `w_use` how relevant its
    document is, how far that bears it out, and how useful it is. Without `checkpoint`, the judgements are asked for one
    by one (role `judge`), and their probabilities are those of the words; where a model tells none, the word counts.
    With it, one model writes answers of up to `max_tokens` with reflection tokens. Probabilities are probabilities: the
    released script puts their logarithms into the ratio of the first. One segment is written, as for short answers.

    What such a model was trained on is one text of an instruction and a response, which no chat template may go
    around: serve it at an endpoint with one that writes the message as it is, such as
    vllm serve selfrag/selfrag_llama2_7b --chat-template "{{ bos_token + messages[0]['content'] }}".
    """
    ctx.require_corpus()
    trained = Reflective(ctx, question.text, max_tokens) if checkpoint else None
    needed = await (trained.needs_documents() if trained else judge_need(ctx, question.text))
    looks_up = needed is None or needed > threshold
    ctx.decide("retrieve", looks_up, probability=needed, threshold=threshold)
    passages = await ctx.search(question.text, k=k) if looks_up else ()
    if not passages:
        return await (trained.answer() if trained else direct_answer(ctx, question.text))
    if trained:
        judged = await together(trained.answer_from(passage) for passage in passages)
    else:
        told = "logprobs" in ctx.model_for("answer").capabilities
        answers = await answer_each(ctx, question.text, passages, titles=titles, logprobs=told)
        pairs = [(answer, passage) for answer, passage in zip(answers, passages, strict=True) if answer.known]
        critiques = await together(criticise(ctx, question.text, p, a, titles=titles) for a, p in pairs)
        judged = [(answer, critique) for (answer, _), critique in zip(pairs, critiques, strict=True)]
    return _best(ctx, judged, (w_rel, w_sup, w_use))


def _best(ctx: Context, judged: list[tuple[Answer, Critique]], weights: tuple[float, float, float]) -> Answer:
    """The known answer with the highest score; of equals that from the passage found first."""
    scored = [(critique.score(*weights), answer, critique) for answer, critique in judged if answer.known]
    if not scored:
        return Answer("", judged[0][0].raw if judged else "", "unknown", "external")
    _, best, _ = max(scored, key=lambda one: one[0])
    table = [[*answer.support, answer.text, score, asdict(critique)] for score, answer, critique in scored]
    scores = {answer.text: round(score, 4) for score, answer, _ in sorted(scored, key=lambda one: one[0])}
    ctx.decide("critique", best.text, scores=dict(reversed(scores.items())), judged=table)
    return best
