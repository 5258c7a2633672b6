"""Label passages, and ask questions from memory or of a teacher."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from hoptree.core.backoff import CircuitBreaker
from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.values import Passage
from hoptree.engine.calls import Calls, open_calls
from hoptree.engine.context import Context
from hoptree.engine.engine import Engine
from hoptree.engine.events import Finished, ReplyParsed
from hoptree.engine.registry import Method
from hoptree.engine.schedule import together
from hoptree.engine.trace import Trace
from hoptree.evaluation.datasets.examples import Example
from hoptree.evaluation.datasets.rows import spaced
from hoptree.evaluation.experiment import at_once
from hoptree.evaluation.metrics import best_overlap, contains, exact_match, normalise, yes_no
from hoptree.models import open_model
from hoptree.models.model import Model
from hoptree.retrieval.index.folder import Index, sample_index
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.retriever import TITLE, is_remote, open_retriever
from hoptree.text.parse import clean_answer
from hoptree.training.chat_rows import Progress, progress_counter
from hoptree.training.formats import SetSpec
from hoptree.training.plans.gold_trees import GoldStep
from hoptree.training.plans.sub_questions import is_named
from hoptree.training.questions import TrainingQuestion

CLOSED_ANSWERS = ("yes", "no")


class JudgedPassages(NamedTuple):
    """The passages of a question by relevance; `missing` are ids of gold passages."""

    relevant: list[Passage]
    irrelevant: list[Passage]
    unclear: list[Passage]
    missing: list[str]


class PassageFinder:
    """Searches one corpus, and looks up gold passages in it."""

    def __init__(self, corpus: str, retriever: str, *, rerank: str, k: int) -> None:
        where = str(sample_index()) if corpus == "sample" else corpus
        self._index = None if is_remote(where) else Index(Path(where))
        self._retriever = open_retriever(where, retriever, rerank=rerank)
        self._calls = Calls(None)
        self.identity, self.aclose, self.k = self._retriever.identity, self._retriever.aclose, k

    async def search(self, text: str, *, k: int = 0, title: str = "") -> tuple[Passage, ...]:
        """Return the best `k` passages, only of pages with `title` if given."""
        where = {TITLE: title} if title else None
        call = await self._calls.search(self._retriever, text, k=k or self.k, where=where, on_retry=lambda *_: None)
        return call.reply

    def gold(self, ids: Sequence[str]) -> list[Passage]:
        """Return the passages of the corpus with these ids, in this order."""
        if self._index is None:
            return []
        by_id = {passage.id: passage for passage in self._index.texts.fetch([key_of(name) for name in ids]).values()}
        return [by_id[name] for name in ids if name in by_id]

    async def judge(self, example: Example) -> JudgedPassages:
        """Judge passages: gold ones are relevant, other hits are not."""
        results = await self.search(example.question)
        ids = example.supporting_ids
        titles = () if ids else example.supporting_titles
        gold = {passage.id: passage for passage in (*results, *self.gold(ids)) if passage.id in ids}
        by_title = [passage for passage in results if spaced(passage.title) in titles]
        relevant = [gold[name] for name in ids if name in gold] or by_title
        relevant_ids = {passage.id for passage in relevant}
        others = [passage for passage in results if passage.id not in relevant_ids]
        answers = [answer for answer in example.answers if normalise(answer) not in CLOSED_ANSWERS]
        unclear = [passage for passage in others if contains(f"{passage.title} | {passage.text}", answers)]
        irrelevant = [passage for passage in others if passage not in unclear]
        return JudgedPassages(relevant, irrelevant, unclear, [name for name in ids if name not in gold])

    async def find(self, example: Example, step: GoldStep, key: str) -> tuple[Passage, tuple[Passage, ...]] | None:
        """Return a gold passage of a step and the passages to show, or None."""
        telling = [passage for passage in self.gold(ids_of_step(example, step)) if says(passage, step.answer)]
        if not telling:
            return None
        results = await self.search(step.asked)
        telling_ids = {passage.id for passage in telling}
        if gold := next((passage for passage in results if passage.id in telling_ids), None):
            return gold, results
        shown = list(results[: self.k - 1])
        shown.insert(drawn(key) % (len(shown) + 1), telling[0])
        return telling[0], tuple(shown)


def drawn(key: str) -> int:
    """Return a number from 0 to 255 derived from a key."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()[0]


def ids_of_step(example: Example, step: GoldStep) -> Sequence[str]:
    """Return the ids of a step's gold passages, by the data set or by titles."""
    steps = len(example.decomposition) or len(example.hop_ids)
    if len(example.hop_ids) == steps and step.place < steps:
        return example.hop_ids[step.place]
    ids, titles = example.supporting_ids, example.supporting_titles
    if example.decomposition and len(ids) == steps and step.place < steps:
        return ids[step.place : step.place + 1]
    if len(titles) != len(ids):
        return ()
    return [name for name, title in zip(ids, titles, strict=True) if is_named(title.partition(" (")[0], step.asked)]


def says(passage: Passage, answer: str) -> bool:
    """Return whether a passage contains all words of an answer, in any order."""
    words = set(normalise(f"{passage.title} {passage.text}").split())
    return set(normalise(answer).split()) <= words


T = TypeVar("T")

RIGHT_F1 = 0.8  # least F1 of a correct answer: "Barack Obama" for "Barack Hussein Obama"


async def ask_all(
    model: Model,
    questions: Sequence[TrainingQuestion],
    ask: Callable[[TrainingQuestion], Awaitable[tuple[T, HoptreeError | None]]],
    on_done: Callable[[], None],
    width: int | None = None,
) -> list[T]:
    """Return the results of `ask` for all questions, asking `width` concurrently.

    `ask` returns a result and a failure, if any. If the first questions all fail, the failure is raised.
    """
    results: dict[int, T] = {}
    waiting = iter(range(len(questions)))
    breaker = CircuitBreaker()
    failures: list[HoptreeError] = []

    async def work() -> None:
        for place in waiting:
            results[place], failure = await ask(questions[place])
            if failure is None:
                breaker.success()
            else:
                failures.append(failure)
                if not breaker.succeeded:
                    breaker.failure(failure)
            on_done()

    await together(work() for _ in range(min(width or at_once(model.slots), len(questions))))
    if failures and not breaker.succeeded:
        raise failures[0]
    return [results[place] for place in range(len(questions))]


def with_answers(questions: Sequence[TrainingQuestion], why: str) -> list[TrainingQuestion]:
    """Return the questions with accepted answers, or raise an error that gives `why`."""
    if not (answerable := [question for question in questions if question.example.answers]):
        raise InputError("No question has an accepted answer.", f"Give a file with answers: {why}.")
    return answerable


class MemoryAnswers(NamedTuple):
    """A model's answers from memory, failed ids, and counts left out."""

    model: str
    identity: str
    answered: list[tuple[TrainingQuestion, str]]
    failed: list[str]
    left_out: Counter[str]


NewContext = Callable[[], Context]  # makes a new context for a step


@dataclass(frozen=True, slots=True)
class Taught(Generic[T]):
    """The labels of a teacher, with counts of questions left out."""

    results: list[T]
    left_out: Counter[str]
    report: dict[str, Any]


async def ask_teacher(
    questions: Sequence[TrainingQuestion],
    spec: SetSpec,
    method: str,
    label: Callable[[NewContext, TrainingQuestion], Awaitable[T]],
    on_progress: Progress,
) -> Taught[T]:
    """Have the model label every question by the steps of a method."""

    def context() -> Context:
        return Context(method=method, model=model, calls=calls, trace=Trace(method))

    async def ask(question: TrainingQuestion) -> tuple[list[T], HoptreeError | None]:
        try:
            return [await label(context, question)], None
        except ConfigError:
            raise  # all questions would meet it
        except HoptreeError as error:
            return [], error

    async with aclosing(open_model(spec.model, base_url=spec.base_url)) as model:
        with closing(open_calls(spec.cache, concurrency=spec.concurrency)) as calls:
            results = await ask_all(model, questions, ask, progress_counter(len(questions), on_progress))
    failed = [question.example.id for question, result in zip(questions, results, strict=True) if not result]
    labelled = [item for result in results for item in result]
    report = {"teacher": model.name, "solved": len(labelled), "failed": failed}
    return Taught(labelled, Counter({"not answered by the model": len(failed)}), report)


def last_reply_was_read(ctx: Context) -> bool:
    """Return whether there was a reply, and the last one could be parsed."""
    replies = [event.ok for event in ctx.trace.events if isinstance(event, ReplyParsed)]
    return bool(replies) and replies[-1]


async def answer_from_memory(
    questions: Sequence[TrainingQuestion], spec: SetSpec, method: str, on_progress: Progress
) -> MemoryAnswers:
    """Ask the model all questions with an accepted answer, from memory."""
    asked = with_answers(questions, "labels come from them")

    async def ask(question: TrainingQuestion) -> tuple[str | None, HoptreeError | None]:
        events, failure = await engine.trace(question.example.as_question())
        # A text that reads like a refusal may be a correct answer: take the raw reply.
        replies = [clean_answer(event.raw) for event in events if isinstance(event, Finished)]
        return (replies[-1] if failure is None else None), failure

    async with Engine(
        method="direct", model=spec.model, base_url=spec.base_url, cache=spec.cache, concurrency=spec.concurrency
    ) as engine:
        engine.method = Method(method, "Answers from memory", engine.method.run, ())
        name, identity = engine.model.name, engine.model.identity
        answers = await ask_all(engine.model, asked, ask, progress_counter(len(asked), on_progress))
    pairs = list(zip(asked, answers, strict=True))
    failed = [question.example.id for question, answer in pairs if answer is None]
    left_out = {"without an accepted answer": len(questions) - len(asked), "not answered by the model": len(failed)}
    answered = [(question, answer) for question, answer in pairs if answer is not None]
    return MemoryAnswers(name, identity, answered, failed, Counter(left_out))


def is_right(answer: str, golds: Sequence[str], *, f1: float = RIGHT_F1) -> bool:
    """Return whether an answer is an accepted one, or its F1 reaches `f1`."""
    verdict = yes_no(answer, golds)
    if verdict is not None:
        return verdict > 0
    return exact_match(answer, golds) or best_overlap(answer, golds).f1 >= f1
