"""Self-RAG: retrieve if it is needed, answer from each document, and let the model judge which answer does best."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace

from hoptree.core.values import Answer, Passage, Question, Source, Token
from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled, prompt_for
from hoptree.engine.registry import method
from hoptree.engine.schedule import together
from hoptree.methods.steps.answer import direct_answer
from hoptree.methods.steps.continuation import note_fidelity
from hoptree.methods.steps.evidence import show_passages
from hoptree.methods.steps.read_alone import answer_each
from hoptree.methods.steps.reflection_tokens import (
    NO_RETRIEVE,
    RETRIEVE,
    WORTH,
    Critique,
    needs_retrieval,
    read_critique,
    without_tokens,
)
from hoptree.methods.steps.reply_notes import note_reply
from hoptree.models.model import MAX_TOP_LOGPROBS, Choice
from hoptree.text.loose_json import MAX_REPLY_CHARS
from hoptree.text.parse import clean_answer, looks_unanswered

MAX_TOKENS = 8
_WORD = re.compile(r"[^\W_]+")
_BEGINS = 4
"""Characters of a label, at least, that other words of its kind begin with: fully, partially; but not now, north."""
_LIKE = {"none": "no", "not": "no", "nothing": "no"}


async def weigh_labels(
    ctx: Context, step: str, prompt: Filled, labels: Sequence[str], *, role: str = "answer"
) -> Mapping[str, float]:
    """The share of each label in the probability of all, in one call; all of it for the one that is said where a model
    does not tell, and none for any where no label is said."""
    told = "logprobs" in ctx.model_for(role).capabilities
    reply = await ctx.generate(
        step, prompt, role=role, max_tokens=MAX_TOKENS, top_logprobs=MAX_TOP_LOGPROBS if told else 0, part=True
    )
    shares = label_shares(reply.choices[0], labels)
    error = "" if shares else f"none of {', '.join(labels)}"
    note_reply(ctx, step, error)
    return shares


def label_shares(choice: Choice, labels: Sequence[str]) -> dict[str, float]:
    """The labels' shares of the probability, at the first word of a reply, that it is one of them."""
    said = read_label(choice.text, labels)
    if not said:
        return {}
    first = next((token for token in choice.tokens if _WORD.search(token.text)), None)
    if first is None or _label_of(first.text, labels) != said:
        return {said: 1.0}
    found = dict.fromkeys(labels, 0.0)
    for text, logprob in _alternatives(first).items():
        if label := _label_of(text, labels):
            found[label] += math.exp(logprob)
    total = sum(found.values())
    return {label: share / total for label, share in found.items()} if total else {said: 1.0}


def read_label(text: str, labels: Sequence[str]) -> str:
    """The label that a reply begins with, or the only one that it names; other words begin with a label, too."""
    words = _WORD.findall(text[:MAX_REPLY_CHARS])
    if words and (label := _label_of(words[0], labels, whole=True)):
        return label
    named = {label for word in words if (label := _label_of(word, labels, whole=True))}
    return named.pop() if len(named) == 1 else ""


def _label_of(text: str, labels: Sequence[str], *, whole: bool = False) -> str:
    """The label that a word begins with, or unless it is `whole`, the only one that begins with it."""
    found = _WORD.search(text)
    word = found[0].casefold() if found else ""
    for label in labels:
        if label in (word, _LIKE.get(word)) or (word.startswith(label) and len(label) >= _BEGINS):
            return label
    begun = [label for label in labels if word and label.startswith(word)]
    return begun[0] if len(begun) == 1 and not whole else ""


def _alternatives(token: Token) -> dict[str, float]:
    return {**dict(token.top), token.text: token.logprob}


_WORTH = {str(number): worth for number, worth in enumerate(WORTH, 1)}


async def judge_need(ctx: Context, question: str) -> float | None:
    """How probably documents are needed to answer a question, by the model's own account; None if it gives none."""
    prompt = prompt_for(ctx.method, "need").fill(question=question)
    shares = await weigh_labels(ctx, "need", prompt, ("yes", "no"), role="judge")
    return shares.get("yes", 0.0) if shares else None


async def criticise(ctx: Context, question: str, passage: Passage, answer: Answer, *, titles: bool) -> Critique:
    """Three judgements at once; what cannot be read counts nothing."""
    documents = show_passages(ctx, [passage], titles=titles)
    asked = (
        ("relevant", ("yes", "no")),
        ("supported", ("full", "part", "no")),
        ("useful", tuple(_WORTH)),
    )
    relevant, supported, useful = await together(
        weigh_labels(
            ctx,
            step,
            prompt_for(ctx.method, step).fill(documents=documents, question=question, answer=answer.text),
            labels,
            role="judge",
        )
        for step, labels in asked
    )
    return Critique(
        relevant.get("yes", 0.0),
        supported.get("full", 0.0) + 0.5 * supported.get("part", 0.0),
        sum(share * _WORTH[label] for label, share in useful.items()),
        answer.confidence or 0.0,
    )


_PARAGRAPH = "<paragraph>"
"""Where a model begins to write a document of its own."""


class Reflective:
    """One question, put to a Self-RAG model: instruction and response in one text, documents as paragraphs in it."""

    def __init__(self, ctx: Context, question: str, max_tokens: int) -> None:
        ctx.require("logprobs")
        self._ctx, self._question, self._max_tokens = ctx, question, max_tokens

    async def needs_documents(self) -> float | None:
        """P([Retrieval]) as the response begins; None if the model says neither that nor [No Retrieval]."""
        choice = await self._write("need", "")
        needed = needs_retrieval(choice)
        self._note("need", () if needed is not None else ("retrieval",))
        note_fidelity(self._ctx, ["reflection tokens"] if needed is None else [])
        if needed is None:
            name = self._ctx.model_for("answer").name
            self._ctx.warn(
                "no_reflection",
                f"{name} did not begin with a reflection token: it is no Self-RAG model, or its server puts a chat "
                "template around the question (hoptree methods show self_rag says how to serve one without).",
            )
        self._ctx.propose(_answer(choice, "internal"), order=0)
        return needed

    async def answer(self) -> Answer:
        return _answer(await self._write("direct", NO_RETRIEVE), "internal")

    async def answer_from(self, passage: Passage) -> tuple[Answer, Critique]:
        """The answer from one document, and what the model itself says of both."""
        shown = without_tokens(show_passages(self._ctx, [passage], titles=True).removeprefix("passage: "))
        title = " ".join(passage.title.split())
        text = f"{title}\n{shown.removeprefix(f'{title}: ')}" if shown.startswith(f"{title}: ") else shown
        choice = await self._write("read", f"{RETRIEVE}<paragraph>{text}</paragraph>")
        critique, lacking = read_critique(choice)
        # Of what is irrelevant support is not judged, and a text that was cut is not judged useful or not.
        self._note("read", tuple(name for name in lacking if name == "relevance"))
        answer = replace(_answer(choice, "external"), support=(passage.id,), confidence=critique.likely)
        self._ctx.propose(answer, order=1)
        return answer, critique

    async def _write(self, step: str, written: str) -> Choice:
        prompt = prompt_for(self._ctx.method, "trained").fill(question=self._question, written=written)
        reply = await self._ctx.generate(
            step, prompt, max_tokens=self._max_tokens, top_logprobs=MAX_TOP_LOGPROBS, stop=(_PARAGRAPH,), part=True
        )
        return reply.choices[0]

    def _note(self, step: str, lacking: tuple[str, ...]) -> None:
        error = f"no {' and no '.join(lacking)}" if lacking else ""
        note_reply(self._ctx, step, error)


def _answer(choice: Choice, source: Source) -> Answer:
    text = clean_answer(without_tokens(_written(choice)))
    known = bool(text) and not looks_unanswered(text)
    return Answer(text if known else "", choice.text, "answered" if known else "unknown", source)


def _written(choice: Choice) -> str:
    """What a model wrote before any document of its own; some servers tell where that begins only among the tokens."""
    before = list(itertools.takewhile(lambda token: token.text.strip() != _PARAGRAPH, choice.tokens))
    whole = len(before) == len(choice.tokens)
    return choice.text.partition(_PARAGRAPH)[0] if whole else "".join(token.text for token in before)


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
