"""Answer from memory or passages, combine answers, and choose among them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from functools import lru_cache
from typing import Any

from hoptree.core.values import Answer, Passage, Source, Token
from hoptree.engine.answer_sentence import shorten
from hoptree.engine.context import Context
from hoptree.engine.events import OMIT, Decision, ReplyParsed, decision
from hoptree.engine.prompts import Filled, prompt_for, show_passages
from hoptree.engine.schedule import together
from hoptree.text.parse import clean_answer, find_refusal, join_words, question_key, retrieval_trigger
from hoptree.text.question_tree import Node


def note_reply(ctx: Context, step: str, error: str = "", repairs: Sequence[str] = ()) -> None:
    """Record that a reply was parsed, after `repairs`, or the `error`."""
    ctx.emit(ReplyParsed(step=step, ok=not error, repairs=list(repairs), error=error))


def note_answer(ctx: Context, step: str, raw: str, answer: str) -> None:
    """Record whether a reply was a bare answer, or had other words."""
    shortened = answer and answer != raw and question_key(answer) != question_key(raw)
    note_reply(ctx, step, "" if answer else "no answer", ["other words left out"] if shortened else [])


def note_written(ctx: Context, step: str, new: str, text: str) -> None:
    """Record whether a reply continued the text; one that did not ended it."""
    note_reply(ctx, step, "" if new or text else "no sentence", [] if new or not text else ["ended"])


MAX_CITED_PASSAGES = 2  # passages of each part's answer in the last reading
MAX_FURTHER_PASSAGES = 3  # passages that the last reading sees beyond those the question itself finds
_ANSWER_TOKENS = 64
_SUMMARY_TOKENS = 256


@decision("confident")
class Confident(Decision):
    """Whether the model was sure; `identifier_hit` is its request to look up."""

    value: bool
    identifier_hit: str | None = None
    raw: str = ""

    def node_line(self) -> str:
        if self.value:
            return "the model is sure of the answer"
        return "the model does not know the answer" if self.identifier_hit == "soft" else "the model asks to look it up"

    def node_record(self) -> dict[str, Any]:
        return {"confident_raw": self.raw, "identifier_hit": self.identifier_hit}


@decision("answered")
class Answered(Decision):
    """Whether a reader found an answer; `continuation_hit` says that there is none."""

    value: bool
    step: str
    passage: str = field(default="", metadata=OMIT)
    continuation_hit: str | None = None
    raw: str = ""

    def node_line(self) -> str:
        words = f" in {self.passage}" if self.passage else ""
        return f"answered: {'yes' if self.value else 'no'}{words}" + (
            f" ({self.continuation_hit})" if self.continuation_hit else ""
        )

    def node_record(self) -> dict[str, Any]:
        return {"reader_raw": self.raw, "continuation_hit": self.continuation_hit}


async def confident_answer(ctx: Context, question: str, *, node: Node | None = None, strict: bool = False) -> Answer:
    """Return the model's answer if sure, else a refusal (`strict`: identifiers only)."""
    prompt = prompt_for(ctx.method, "confident").fill(question=question)
    raw = (await ctx.generate("confident", prompt, role="know", max_tokens=_ANSWER_TOKENS, node=node)).text
    note_answer(ctx, "confident", raw, clean_answer(raw))
    trigger = retrieval_trigger(raw)
    if trigger == "soft" and strict:
        trigger = ""
    ctx.emit(Confident(value=not trigger, identifier_hit=trigger or None, raw=raw), node=node)
    if trigger:
        return Answer("", raw, "refused")
    return Answer(clean_answer(raw), raw, source="internal")


async def direct_answer(ctx: Context, question: str, *, node: Node | None = None, logprobs: bool = False) -> Answer:
    """Return the model's own answer; with `logprobs`, with its confidence."""
    prompt = prompt_for(ctx.method, "direct").fill(question=question)
    top = 1 if logprobs else 0
    reply = await ctx.generate("direct", prompt, max_tokens=_ANSWER_TOKENS, node=node, top_logprobs=top)
    text = clean_answer(reply.text)
    note_answer(ctx, "direct", reply.text, text)
    known = bool(text) and not find_refusal(reply.text)
    confidence = least_probability(reply.choices[0].tokens) if logprobs else None
    if logprobs and confidence is None:
        name = ctx.model_for("answer").name
        ctx.warn("no_logprobs", f"{name} gave no log-probabilities; its own answers could not be trusted.")
    return Answer(text, reply.text, "answered" if known else "unknown", "internal", confidence=confidence)


async def answer_from(
    ctx: Context,
    question: str,
    passages: Sequence[Passage],
    *,
    prompt: str = "read",
    node: Node | None = None,
    titles: bool = False,
    logprobs: bool = False,
) -> Answer:
    """Return the answer that documents hold, or unknown."""
    if not passages:
        ctx.emit(Answered(value=False, step="read", continuation_hit="no passages"), node=node)
        return Answer("", "", "unknown", "external")
    documents = show_passages(ctx, passages, titles=titles)
    filled = prompt_for(ctx.method, prompt).fill(documents=documents, question=question)
    confidence = least_probability if logprobs else None
    answer = await _ask(ctx, "read", filled, "external", node=node, confidence=confidence)
    return replace(answer, support=supporting_ids(answer.text, passages) if answer.known and answer.text else ())


async def answer_each(
    ctx: Context, question: str, passages: Sequence[Passage], *, titles: bool = False, logprobs: bool = True
) -> list[Answer]:
    """Return the answer in each passage, read alone; propose the best one."""

    async def read(rank: int, passage: Passage) -> Answer:
        documents = show_passages(ctx, [passage], titles=titles)
        filled = prompt_for(ctx.method, "read").fill(documents=documents, question=question)
        confidence = mean_probability if logprobs else None
        answer = await _ask(ctx, "read", filled, "external", confidence=confidence, passage=passage.id)
        answer = replace(answer, support=(passage.id,))
        ctx.propose(answer, order=len(passages) - rank)
        return answer

    return await together(read(rank, passage) for rank, passage in enumerate(passages))


async def synthesise(ctx: Context, question: str, statements: Sequence[str], *, prompt: str = "read") -> Answer:
    """Return the answer that follows from statements, by the reading prompt."""
    filled = prompt_for(ctx.method, prompt).fill(documents="\n".join(statements), question=question)
    return await _ask(ctx, "final", filled, "synthesis")


async def combine_answers(
    ctx: Context, question: str, pairs: Sequence[tuple[str, Answer]], *, node: Node | None = None
) -> Answer:
    """Return the answer from sub-questions with answers."""
    lines = [
        f"{number}. {asked}\n{answer.text if answer.known else '[unknown]'}"
        for number, (asked, answer) in enumerate(pairs, 1)
    ]
    filled = prompt_for(ctx.method, "combine").fill(pairs="\n".join(lines), question=question)
    return await _ask(ctx, "combine", filled, "synthesis", node=node)


async def _ask(
    ctx: Context,
    step: str,
    prompt: Filled,
    source: Source,
    *,
    node: Node | None = None,
    confidence: Callable[[Sequence[Token]], float | None] | None = None,
    passage: str = "",
) -> Answer:
    top = 1 if confidence else 0
    reply = await ctx.generate(step, prompt, max_tokens=_ANSWER_TOKENS, node=node, top_logprobs=top)
    text = clean_answer(reply.text)
    note_answer(ctx, step, reply.text, text)
    refusal = find_refusal(reply.text)
    decision = Answered(value=not refusal, step=step, passage=passage, continuation_hit=refusal or None, raw=reply.text)
    ctx.emit(decision, node=node)
    sure = confidence(reply.choices[0].tokens) if confidence else None
    return Answer(text, reply.text, "unknown" if refusal else "answered", source, confidence=sure)


async def summarise_chain(ctx: Context, path: Sequence[tuple[int, str, str]]) -> str:
    """Summarise a chain of (id, question, answer) in one sentence."""
    nested: dict[str, object] = {}
    for node_id, question, answer in reversed(path):
        entry: dict[str, object] = {"question": question, "answer": answer}
        if nested:
            entry["children"] = nested
        nested = {f"query{node_id}": entry}
    prompt = prompt_for(ctx.method, "summarise").fill(pairs=json.dumps(nested, ensure_ascii=False))
    reply = await ctx.generate("summarise", prompt, role="summarise", max_tokens=_SUMMARY_TOKENS)
    chain = " ".join(reply.text.split())
    note_reply(ctx, "summarise", "" if chain else "no sentence")
    return chain


def least_probability(tokens: Sequence[Token]) -> float | None:
    """Return the probability of the least likely token, or None."""
    visible = [token.logprob for token in tokens if token.text.strip()]
    return math.exp(min(visible)) if visible else None


def mean_probability(tokens: Sequence[Token]) -> float | None:
    """Return the geometric mean of the tokens' probabilities; None without tokens."""
    return math.exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else None


def supporting_ids(answer: str, passages: Sequence[Passage]) -> tuple[str, ...]:
    """Return the ids of passages that hold the answer, or all ids if none does."""
    words = _words(answer)
    first = words.partition(" ")[0]
    likely = [p for p in passages if first and (first in p.text.casefold() or first in p.title.casefold())]
    holding = [p.id for p in likely if f" {words} " in f" {_words(p.title, p.text)} "]
    return tuple(holding or (p.id for p in passages))


@lru_cache(maxsize=4096)
def _words(*texts: str) -> str:
    return join_words(" ".join(texts), lambda part: re.findall(r"\w+", part.casefold()), underscores=True)


_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_ROUNDING = 1e-9


_MAX_QUOTE_CHARS = 60


@decision("surest")
class SurestChosen(Decision):
    """The answer that was taken, and how sure each was; in old traces of many methods."""

    value: int
    when: str
    answers: list[str] = field(default_factory=list)
    confidence: list[float | None] = field(default_factory=list)
    named: list[str] = field(default_factory=list)

    def weighed(self) -> str:
        """List the answers with confidence, the chosen one first."""
        pairs = list(zip(self.answers, self.confidence, strict=True))
        text, confidence = pairs.pop(self.value)
        taken = "" if confidence is not None else f"“{shorten(text, _MAX_QUOTE_CHARS)}”"
        others = [f"“{shorten(other, _MAX_QUOTE_CHARS)}”{_format_confidence(sure)}" for other, sure in pairs if other]
        return f"{taken}{_format_confidence(confidence)}".strip() + f" against {', '.join(others)}"

    def reason(self) -> str:
        if self.when != "final":
            return ""
        readings = [" ".join(answer.casefold().split()) for answer in self.answers if answer]
        if len(set(readings)) == 1:
            return f"all {len(readings)} readings agree"
        of = f", that of {self.named[self.value]}" if self.named else ""
        rated = any(confidence is not None for confidence in self.confidence)
        return f"{'surest' if rated else 'taken'} of {len(readings)} readings{of}: {self.weighed()}"


def _format_confidence(confidence: float | None) -> str:
    return "" if confidence is None else f" {confidence:.2f}"


@decision("majority")
class MajorityCounted(Decision):
    """The share of the most frequent answer; `votes` are answers with counts."""

    value: float
    when: str
    answer: str = ""
    votes: list[list[Any]] = field(default_factory=list)
    unknown: int = 0


@decision("agreement", shown_as="agreement")
class AgreementChecked(Decision):
    """Whether at least the share `least` of all chains gives the same answer."""

    value: bool
    share: float
    least: float
    chains: int
    answer: str


def majority(ctx: Context, answers: Sequence[Answer], *, when: str) -> tuple[Answer, float]:
    """Return the most frequent answer, of equals the surest voter's, and its share."""
    groups = votes(answers)
    answer = groups[0][0] if groups else next(iter(answers), Answer("", status="unknown"))
    share = len(groups[0]) / len(answers) if groups else 0.0
    ctx.emit(
        MajorityCounted(
            value=round(share, 4),
            when=when,
            answer=answer.text if groups else "",
            votes=[[group[0].text, len(group)] for group in groups],
            unknown=sum(not answer.known for answer in answers),
        )
    )
    return answer, share


def votes(answers: Sequence[Answer]) -> list[list[Answer]]:
    """Group equal answers: the most frequent group first, surest first inside."""
    groups: dict[str, list[Answer]] = {}
    for answer in answers:
        if answer.known:
            groups.setdefault(answer_key(answer.text), []).append(answer)
    for group in groups.values():
        group.sort(key=lambda answer: -(answer.confidence or 0.0))
    return sorted(groups.values(), key=lambda group: (-len(group), -(group[0].confidence or 0.0)))


def answer_key(answer: str) -> str:
    """Return an answer without case, punctuation and articles, for comparing."""
    words = question_key(answer)
    return " ".join(_ARTICLES.sub(" ", words).split()) or words or " ".join(answer.casefold().split())


def agreement_gate(ctx: Context, chains: Sequence[Answer], *, least: float) -> tuple[Answer, bool]:
    """Return the answer of most chains, and whether enough agree."""
    answer, share = majority(ctx, chains, when="gate")
    passed = answer.known and share + _ROUNDING >= least
    share = round(share, 4)
    ctx.emit(AgreementChecked(value=passed, share=share, least=least, chains=len(chains), answer=answer.text))
    ctx.propose(answer, order=1)
    return answer, passed
