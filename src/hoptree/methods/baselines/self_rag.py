"""Self-RAG: retrieve if needed, answer from each document, and judge the answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.events import Decision, decision
from hoptree.engine.prompts import prompt_for, show_passages, show_texts
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import answer_each, direct_answer, note_reply
from hoptree.methods.steps.chain_of_thought import adds_text, note_fidelity
from hoptree.methods.steps.route import ask_shares
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice
from hoptree.text import parse_labels
from hoptree.text.parse_dialogue import read_answer
from hoptree.text.parse_labels import Critique

_LABELS = {"relevant": ("yes", "no"), "supported": ("full", "part", "no"), "useful": ("1", "2", "3", "4", "5")}
_NOTHING, _UNJUDGED = Answer(""), Critique()


@decision("retrieve", shown_as="retrieve")
class RetrievalJudged(Decision):
    """Whether documents are read: the probability of need against a threshold."""

    value: bool
    probability: float | None
    threshold: float


@decision("critique", shown_as="critique")
class AnswersCriticised(Decision):
    """The best answer, all scores, and rows of passage, text, score and critique."""

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
    bounds={"segments": (1, math.inf), "beam": (1, math.inf)},
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
    segments: int = 1,
    beam: int = 2,
    max_tokens: int = 100,
    titles: bool = False,
    checkpoint: bool = False,
) -> Answer:
    """Retrieve if needed, answer from each document alone, and give the answer that is judged best.

    Documents are read if the probability that they are needed exceeds `threshold`, or is unknown. A segment scores the
    geometric mean of its tokens' probabilities, and by `w_rel`, `w_sup` and `w_use` how relevant its document is, how
    far that supports it, and how useful it is. Without `checkpoint`, the answer is one segment and the judgements are
    asked for one by one (role `judge`); where a model gives no probabilities of the words, they count. With it, one
    model writes up to `max_tokens` with reflection tokens. Short answers have one segment, as in the paper; with more
    `segments` (7 there, for long ones) it goes on where it wants further documents, which are searched for with the
    last segment, and the `beam` texts with the best mean score are kept.

    Such a model was trained on plain text without a chat template: serve it at an endpoint as vllm serve
    selfrag/selfrag_llama2_7b --chat-template "{{ bos_token + messages[0]['content'] }}".
    """
    ctx.require_corpus()
    model = (_Trained if checkpoint else _Prompted)(ctx, question.text, max_tokens, titles)
    needed = await model.needs_documents()
    retrieve = needed is None or needed > threshold
    ctx.emit(RetrievalJudged(value=retrieve, probability=needed, threshold=threshold))
    beams = [_Text()]
    for _ in range(segments if retrieve else 0):
        grown = list[_Text]()
        for text in (text for text in beams if text.more):
            grown += await model.extend(text, await ctx.search(f"{question.text} {text.segment}".strip(), k=k))
        beams = beams if beams[0].scores or not grown else grown[:1]  # what was read, where none has an answer
        known = [text for text in grown if text.answer.known]
        if not known:
            break
        known = [replace(text, scores=(*text.scores, text.critique.score(w_rel, w_sup, w_use))) for text in known]
        ended = [text for text in beams if text.scores and not text.more]
        beams = sorted([*ended, *known], key=lambda text: -text.score)[:beam]  # of equals, the passage found first
        rows = [[text.answer.support[-1], text.segment, text.scores[-1], asdict(text.critique)] for text in known]
        scores = {text.answer.text: round(text.score, 4) for text in sorted(known, key=lambda text: text.score)}
        ctx.emit(AnswersCriticised(value=beams[0].answer.text, scores=dict(reversed(scores.items())), judged=rows))
    return beams[0].answer if beams[0].answer is not _NOTHING else await model.answer()


@dataclass(frozen=True, slots=True)
class _Text:
    """The text so far, its last segment and its scores; the model continues `raw`."""

    raw: str = ""
    plain: str = ""
    segment: str = ""
    answer: Answer = _NOTHING
    critique: Critique = _UNJUDGED
    scores: tuple[float, ...] = ()
    more: bool = True

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores)


class _Prompted:
    """Asks any model for answers, and for each judgement of them."""

    def __init__(self, ctx: Context, question: str, max_tokens: int, titles: bool) -> None:
        self._ctx, self._question, self._max_tokens, self._titles = ctx, question, max_tokens, titles

    async def needs_documents(self) -> float | None:
        """Return the probability that documents are needed; None if unknown."""
        shares = await self._ask("need", ("yes", "no"))
        return shares.get("yes", 0.0) if shares else None

    async def answer(self) -> Answer:
        return await direct_answer(self._ctx, self._question)

    async def extend(self, text: _Text, passages: Sequence[Passage]) -> list[_Text]:
        """Return the answer from each passage, with its critique."""
        logprobs = "logprobs" in self._ctx.model_for("answer").capabilities
        answers = await answer_each(self._ctx, self._question, passages, titles=self._titles, logprobs=logprobs)
        return await together(map(self._criticise, answers, passages))

    async def _criticise(self, answer: Answer, passage: Passage) -> _Text:
        """Ask for the three judgements of a known answer; an unreadable one counts 0."""
        if not answer.known:
            return _Text(answer=answer, more=False)
        values = {"documents": show_passages(self._ctx, [passage], titles=self._titles), "answer": answer.text}
        shares = await together(self._ask(step, labels, **values) for step, labels in _LABELS.items())
        critique = Critique.weighed(shares, list(_LABELS.values()), answer.confidence or 0.0)
        return _Text("", answer.text, answer.text, answer, critique, more=False)

    async def _ask(self, step: str, labels: Sequence[str], **values: str) -> dict[str, float]:
        prompt = prompt_for(self._ctx.method, step).fill(shots=(), question=self._question, **values)
        return await ask_shares(self._ctx, step, prompt, labels)


class _Trained(_Prompted):
    """Asks a Self-RAG model: instruction, response and documents are one text."""

    async def needs_documents(self) -> float | None:
        """Return P([Retrieval]) at the start of the response; None without such a token."""
        ctx, choice = self._ctx, await self._write("need", "")
        needed = parse_labels.retrieval_probability(choice.text, choice.tokens)
        note_reply(ctx, "need", "no retrieval" if needed is None else "")
        note_fidelity(ctx, ["reflection tokens"] if needed is None else [])
        if needed is None:
            ctx.warn(
                "no_reflection",
                f"{ctx.model_for('answer').name} did not begin with a reflection token: it is not a Self-RAG model, or "
                "its server puts a chat template around the question (hoptree methods show self_rag says how to serve "
                "one without).",
            )
        ctx.propose(parse_labels.read_reflected(choice.text, choice.tokens), order=0)
        return needed

    async def answer(self) -> Answer:
        choice = await self._write("direct", parse_labels.NO_RETRIEVE)
        return parse_labels.read_reflected(choice.text, choice.tokens)

    async def extend(self, text: _Text, passages: Sequence[Passage]) -> list[_Text]:
        return await together(self._go_on(text, passage) for passage in passages)

    async def _go_on(self, text: _Text, passage: Passage) -> _Text:
        """Write a segment with a passage, up to the next [Retrieval]."""
        (shown,) = show_texts(self._ctx, [passage], titles=True)
        given = f"{text.raw}{parse_labels.as_paragraph(passage.title, shown)}"
        choice = await self._write("read", given)
        critique, lacking = parse_labels.read_critique(choice.text, choice.tokens)
        # The model does not judge support of an irrelevant passage, nor utility of a cut text.
        note_reply(self._ctx, "read", "no relevance" if "relevance" in lacking else "")
        raw = parse_labels.before_paragraph(choice.text, choice.tokens)
        head, more, _ = raw.partition(parse_labels.RETRIEVE)
        segment = parse_labels.strip_tokens(head)
        new = adds_text(segment, text.plain)
        plain, support = f"{text.plain} {segment if new else ''}".strip(), (*text.answer.support, passage.id)
        answer = replace(read_answer(plain), raw=choice.text, source="external", support=support)
        answer = replace(answer, confidence=critique.likely)
        self._ctx.propose(answer, order=1)
        return _Text(f"{given}{head}", plain, segment, answer, critique, text.scores, bool(more and new))

    async def _write(self, step: str, written: str) -> Choice:
        self._ctx.require("logprobs")
        prompt = prompt_for(self._ctx.method, "trained").fill(question=self._question, written=written)
        sampling: dict[str, Any] = {"max_tokens": self._max_tokens, "top_logprobs": MAX_TOP_LOGPROBS}
        reply = await self._ctx.generate(step, prompt, stop=(parse_labels.PARAGRAPH,), part=True, **sampling)
        return reply.choices[0]
