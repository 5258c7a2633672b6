"""Self-RAG: retrieve if it is needed, answer from each document, and let the model judge which answer does best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_each, direct_answer, note_reply
from hoptree.methods.steps.continuation import note_fidelity
from hoptree.methods.steps.evidence import show_passages, show_texts
from hoptree.methods.steps.route import ask_shares
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice
from hoptree.text import parse_labels
from hoptree.text.parse_labels import Critique

_LABELS = {"relevant": ("yes", "no"), "supported": ("full", "part", "no"), "useful": ("1", "2", "3", "4", "5")}


@decision("retrieve")
class RetrievalJudged(Decision):
    """Whether documents are read: the probability that they are needed against a threshold."""

    value: bool
    probability: float | None
    threshold: float


@decision("critique")
class AnswersCriticised(Decision):
    """The best answer, the scores of all, and for each the passage, the score and the critique."""

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
    shared_prompts=("direct", "read"),
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
    model = (_Trained if checkpoint else _Prompted)(ctx, question.text, max_tokens, titles)
    needed = await model.needs_documents()
    retrieve = needed is None or needed > threshold
    ctx.emit(RetrievalJudged(value=retrieve, probability=needed, threshold=threshold))
    passages = await ctx.search(question.text, k=k) if retrieve else ()
    if not passages:
        return await model.answer()
    judged = await model.answer_each(passages)
    scored = [(critique.score(w_rel, w_sup, w_use), answer, critique) for answer, critique in judged if answer.known]
    if not scored:
        return Answer("", judged[0][0].raw if judged else "", "unknown", "external")
    _, best, _ = max(scored, key=lambda row: row[0])  # of equals that from the passage found first
    rows = [[*answer.support, answer.text, score, asdict(critique)] for score, answer, critique in scored]
    scores = {answer.text: round(score, 4) for score, answer, _ in sorted(scored, key=lambda row: row[0])}
    ctx.emit(AnswersCriticised(value=best.text, scores=dict(reversed(scores.items())), judged=rows))
    return best


class _Prompted:
    """Any model, asked for the answers and for each judgement of them."""

    def __init__(self, ctx: Context, question: str, max_tokens: int, titles: bool) -> None:
        self._ctx, self._question, self._max_tokens, self._titles = ctx, question, max_tokens, titles

    async def needs_documents(self) -> float | None:
        """Return how probable it is that documents are needed; None if the model does not say."""
        shares = await self._ask("need", ("yes", "no"))
        return shares.get("yes", 0.0) if shares else None

    async def answer(self) -> Answer:
        return await direct_answer(self._ctx, self._question)

    async def answer_each(self, passages: Sequence[Passage]) -> list[tuple[Answer, Critique]]:
        """Return the answer from each passage that has one, and the judgement of both."""
        logprobs = "logprobs" in self._ctx.model_for("answer").capabilities
        answers = await answer_each(self._ctx, self._question, passages, titles=self._titles, logprobs=logprobs)
        pairs = [(answer, passage) for answer, passage in zip(answers, passages, strict=True) if answer.known]
        return await together(self._criticise(answer, passage) for answer, passage in pairs)

    async def _criticise(self, answer: Answer, passage: Passage) -> tuple[Answer, Critique]:
        """Ask for three judgements at once; what cannot be read counts 0."""
        values = {"documents": show_passages(self._ctx, [passage], titles=self._titles), "answer": answer.text}
        shares = await together(self._ask(step, labels, **values) for step, labels in _LABELS.items())
        return answer, Critique.weighed(shares, list(_LABELS.values()), answer.confidence or 0.0)

    async def _ask(self, step: str, labels: Sequence[str], **values: str) -> dict[str, float]:
        prompt = prompt_for(self._ctx.method, step).fill(shots=(), question=self._question, **values)
        return await ask_shares(self._ctx, step, prompt, labels, role="judge")


class _Trained(_Prompted):
    """A Self-RAG model: instruction and response in one text, documents as paragraphs in it."""

    async def needs_documents(self) -> float | None:
        """Return P([Retrieval]) as the response begins; None if it begins with no such token."""
        ctx, choice = self._ctx, await self._write("need", "")
        needed = parse_labels.retrieval_probability(choice.text, choice.tokens)
        note_reply(ctx, "need", "no retrieval" if needed is None else "")
        note_fidelity(ctx, ["reflection tokens"] if needed is None else [])
        if needed is None:
            ctx.warn(
                "no_reflection",
                f"{ctx.model_for('answer').name} did not begin with a reflection token: it is no Self-RAG model, or "
                "its server puts a chat template around the question (hoptree methods show self_rag says how to serve "
                "one without).",
            )
        ctx.propose(parse_labels.read_reflected(choice.text, choice.tokens), order=0)
        return needed

    async def answer(self) -> Answer:
        choice = await self._write("direct", parse_labels.NO_RETRIEVE)
        return parse_labels.read_reflected(choice.text, choice.tokens)

    async def answer_each(self, passages: Sequence[Passage]) -> list[tuple[Answer, Critique]]:
        return await together(map(self._answer_from, passages))

    async def _answer_from(self, passage: Passage) -> tuple[Answer, Critique]:
        (text,) = show_texts(self._ctx, [passage], titles=True)
        choice = await self._write("read", parse_labels.as_paragraph(passage.title, text))
        critique, lacking = parse_labels.read_critique(choice.text, choice.tokens)
        # Support is not judged of what is irrelevant, nor utility of a text that was cut.
        note_reply(self._ctx, "read", "no relevance" if "relevance" in lacking else "")
        answer = parse_labels.read_reflected(choice.text, choice.tokens)
        answer = replace(answer, source="external", support=(passage.id,), confidence=critique.likely)
        self._ctx.propose(answer, order=1)
        return answer, critique

    async def _write(self, step: str, written: str) -> Choice:
        self._ctx.require("logprobs")
        prompt = prompt_for(self._ctx.method, "trained").fill(question=self._question, written=written)
        sampling: dict[str, Any] = {"max_tokens": self._max_tokens, "top_logprobs": MAX_TOP_LOGPROBS}
        reply = await self._ctx.generate(step, prompt, stop=(parse_labels.PARAGRAPH,), part=True, **sampling)
        return reply.choices[0]
