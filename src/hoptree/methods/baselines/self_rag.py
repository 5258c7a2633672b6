"""Self-RAG: retrieve if it is needed, answer from each document, and let the model judge which answer does best."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from hoptree.core.values import Answer, Passage, Question, Source
from hoptree.engine.context import Context
from hoptree.engine.events import Decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_each, direct_answer, note_reply
from hoptree.methods.steps.continuation import note_fidelity
from hoptree.methods.steps.evidence import show_passages
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice
from hoptree.text.parse import clean_answer, looks_unanswered
from hoptree.text.parse_labels import (
    NO_RETRIEVE,
    PARAGRAPH,
    RETRIEVE,
    UTILITY_WEIGHTS,
    Critique,
    before_paragraph,
    label_shares,
    read_critique,
    retrieval_probability,
    strip_tokens,
)

_LABEL_TOKENS = 8
_UTILITIES = {str(number): weight for number, weight in enumerate(UTILITY_WEIGHTS, 1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalJudged(Decision):
    """Whether documents are read: the probability that they are needed against a threshold."""

    kind: ClassVar[str] = "retrieve"
    value: bool
    probability: float | None
    threshold: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswersCriticised(Decision):
    """The best answer, the scores of all, and for each the passage, the score and the critique."""

    kind: ClassVar[str] = "critique"
    value: str
    scores: dict[str, float]
    judged: list[list[Any]]


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
    document is, how far that supports it, and how useful it is. Without `checkpoint`, the judgements are asked for one
    by one (role `judge`), and their probabilities are those of the words; where a model gives none, the word counts.
    With it, one model writes answers of up to `max_tokens` with reflection tokens. Probabilities are probabilities: the
    released script puts their logarithms into the ratio of the first. One segment is written, as for short answers.

    Such a model was trained on one text of an instruction and a response, which no chat template may go around: serve
    it at an endpoint with one that writes the message as it is, such as
    vllm serve selfrag/selfrag_llama2_7b --chat-template "{{ bos_token + messages[0]['content'] }}".
    """
    ctx.require_corpus()
    trained = _Trained(ctx, question.text, max_tokens) if checkpoint else None
    needed = await (trained.needs_documents() if trained else _judge_need(ctx, question.text))
    retrieve = needed is None or needed > threshold
    ctx.emit(RetrievalJudged(value=retrieve, probability=needed, threshold=threshold))
    passages = await ctx.search(question.text, k=k) if retrieve else ()
    if not passages:
        return await (trained.answer() if trained else direct_answer(ctx, question.text))
    if trained:
        judged = await together(trained.answer_from(passage) for passage in passages)
    else:
        logprobs = "logprobs" in ctx.model_for("answer").capabilities
        answers = await answer_each(ctx, question.text, passages, titles=titles, logprobs=logprobs)
        pairs = [(answer, passage) for answer, passage in zip(answers, passages, strict=True) if answer.known]
        critiques = await together(_criticise(ctx, question.text, p, a, titles=titles) for a, p in pairs)
        judged = [(answer, critique) for (answer, _), critique in zip(pairs, critiques, strict=True)]
    scored = [(critique.score(w_rel, w_sup, w_use), answer, critique) for answer, critique in judged if answer.known]
    if not scored:
        return Answer("", judged[0][0].raw if judged else "", "unknown", "external")
    _, best, _ = max(scored, key=lambda row: row[0])  # of equals that from the passage found first
    rows = [[*answer.support, answer.text, score, asdict(critique)] for score, answer, critique in scored]
    scores = {answer.text: round(score, 4) for score, answer, _ in sorted(scored, key=lambda row: row[0])}
    ctx.emit(AnswersCriticised(value=best.text, scores=dict(reversed(scores.items())), judged=rows))
    return best


async def _judge_need(ctx: Context, question: str) -> float | None:
    """Return how probable it is, in the model's words, that documents are needed; None if it does not say."""
    shares = await _ask_label(ctx, "need", ("yes", "no"), question=question)
    return shares.get("yes", 0.0) if shares else None


async def _criticise(ctx: Context, question: str, passage: Passage, answer: Answer, *, titles: bool) -> Critique:
    """Ask for three judgements at once; what cannot be read counts 0."""
    values = {
        "documents": show_passages(ctx, [passage], titles=titles),
        "question": question,
        "answer": answer.text,
    }
    asked = {"relevant": ("yes", "no"), "supported": ("full", "part", "no"), "useful": tuple(_UTILITIES)}
    relevant, supported, useful = await together(
        _ask_label(ctx, step, labels, **values) for step, labels in asked.items()
    )
    return Critique(
        relevant.get("yes", 0.0),
        supported.get("full", 0.0) + 0.5 * supported.get("part", 0.0),
        sum(share * _UTILITIES[label] for label, share in useful.items()),
        answer.confidence or 0.0,
    )


async def _ask_label(ctx: Context, step: str, labels: Sequence[str], **values: Any) -> Mapping[str, float]:
    """Return the share of each label in the probability of all, in one call; nothing where no label is given."""
    top = MAX_TOP_LOGPROBS if "logprobs" in ctx.model_for("judge").capabilities else 0
    prompt = prompt_for(ctx.method, step).fill(**values)
    reply = await ctx.generate(step, prompt, role="judge", max_tokens=_LABEL_TOKENS, top_logprobs=top, part=True)
    choice = reply.choices[0]
    shares = label_shares(choice.text, choice.tokens, labels)
    note_reply(ctx, step, "" if shares else f"none of {', '.join(labels)}")
    return shares


class _Trained:
    """One question, put to a Self-RAG model: instruction and response in one text, documents as paragraphs in it."""

    def __init__(self, ctx: Context, question: str, max_tokens: int) -> None:
        ctx.require("logprobs")
        self._ctx, self._question, self._max_tokens = ctx, question, max_tokens

    async def needs_documents(self) -> float | None:
        """Return P([Retrieval]) as the response begins; None if it begins with no such token."""
        ctx, choice = self._ctx, await self._write("need", "")
        needed = retrieval_probability(choice.text, choice.tokens)
        note_reply(ctx, "need", "no retrieval" if needed is None else "")
        note_fidelity(ctx, ["reflection tokens"] if needed is None else [])
        if needed is None:
            ctx.warn(
                "no_reflection",
                f"{ctx.model_for('answer').name} did not begin with a reflection token: it is no Self-RAG model, or "
                "its server puts a chat template around the question (hoptree methods show self_rag says how to serve "
                "one without).",
            )
        ctx.propose(_read_answer(choice, "internal"), order=0)
        return needed

    async def answer(self) -> Answer:
        return _read_answer(await self._write("direct", NO_RETRIEVE), "internal")

    async def answer_from(self, passage: Passage) -> tuple[Answer, Critique]:
        """Return the answer from one document, and the model's own judgement of both."""
        text = strip_tokens(show_passages(self._ctx, [passage], titles=True).removeprefix("passage: "))
        title = " ".join(passage.title.split())
        text = f"{title}\n{text.removeprefix(f'{title}: ')}" if text.startswith(f"{title}: ") else text
        choice = await self._write("read", f"{RETRIEVE}<paragraph>{text}</paragraph>")
        critique, lacking = read_critique(choice.text, choice.tokens)
        # Support is not judged of what is irrelevant, nor utility of a text that was cut.
        note_reply(self._ctx, "read", "no relevance" if "relevance" in lacking else "")
        answer = replace(_read_answer(choice, "external"), support=(passage.id,), confidence=critique.likely)
        self._ctx.propose(answer, order=1)
        return answer, critique

    async def _write(self, step: str, written: str) -> Choice:
        prompt = prompt_for(self._ctx.method, "trained").fill(question=self._question, written=written)
        reply = await self._ctx.generate(
            step, prompt, max_tokens=self._max_tokens, top_logprobs=MAX_TOP_LOGPROBS, stop=(PARAGRAPH,), part=True
        )
        return reply.choices[0]


def _read_answer(choice: Choice, source: Source) -> Answer:
    text = clean_answer(strip_tokens(before_paragraph(choice.text, choice.tokens)))
    known = bool(text) and not looks_unanswered(text)
    return Answer(text if known else "", choice.text, "answered" if known else "unknown", source)
