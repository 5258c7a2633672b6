"""Training rows for hop from its own runs that are correct by their evidence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from hoptree.core.errors import HoptreeError, InputError
from hoptree.engine.engine import Engine
from hoptree.engine.schedule import SingleFlight, together
from hoptree.evaluation.datasets.examples import digest_of
from hoptree.evaluation.experiment import at_once
from hoptree.evaluation.metrics import contains, normalise
from hoptree.methods.hop.candidates import LISTS
from hoptree.methods.hop.parts import operator_of
from hoptree.models import open_model
from hoptree.models.model import Message
from hoptree.training.chat_rows import ChatRow, MadeRows, Progress, RowJournal, make_row, progress_counter, put_together
from hoptree.training.formats import SetSpec
from hoptree.training.hop_gold import LAST, METHOD, NO_PLAN, NONE, NOT_FOUND, PLAN, READ, SIMPLE, plan_prompt
from hoptree.training.labelled_passages import CLOSED_ANSWERS, ask_all, says, with_answers
from hoptree.training.plans.gold_trees import write_plan
from hoptree.training.questions import TrainingQuestion
from hoptree.training.recording import Sampling, open_recording, record
from hoptree.training.sampled_runs import Gold, SampledPlan, SampledReading, SampledRun, read_run

_PART = "sampled"
_RUNS, _RIGHT, _PLANS, _READINGS = "runs", "right", "plans", "readings"


async def make_sampled(questions: Sequence[TrainingQuestion], spec: SetSpec, on_progress: Progress) -> MadeRows:
    """Sample runs of hop, and make rows of those correct by their evidence."""
    asked = with_answers(questions, "only what led to right ones is kept")
    async with AsyncExitStack() as stack:
        calls = await stack.enter_async_context(open_recording(spec.cache, spec.concurrency))
        model = open_model(spec.model, base_url=spec.base_url)
        stack.push_async_callback(model.aclose)
        options = {"trained": "on", "effort": "high", "k": spec.k}
        settings: dict[str, Any] = {
            "retriever": spec.retriever,
            "rerank": spec.rerank,
            "options": options,
            "calls": calls,
        }
        engines = {
            name: await stack.enter_async_context(Engine(method=METHOD, model=model, corpus=corpus, **settings))
            for name, corpus in spec.corpora.items()
        }
        for name in sorted({question.example.dataset for question in asked} - engines.keys()):
            if "" not in engines:
                raise InputError(f"No corpus is given for the questions of '{name}'.", f"Give --corpus {name}=INDEX.")
        corpora = {name: engine.retriever.identity for name, engine in engines.items() if engine.retriever}
        sampling = [spec.k, spec.samples, spec.temperature, spec.seed or 0, spec.right_f1, model.identity, corpora]
        journal = RowJournal(spec.out, METHOD, ["sampled", *sampling])
        stack.callback(journal.close)
        meta = {"model": model.name, "temperature": spec.temperature}

        async def ask(question: TrainingQuestion) -> tuple[MadeRows | None, HoptreeError | None]:
            if operator_of(question.example.question) in LISTS:
                return MadeRows((), {"questions for a list, which hop asks by untrained prompts": 1}, {}), None
            key = f"{question.key} {digest_of([question.example])}"
            question_rows = journal.get(key)
            if question_rows is None:
                engine = engines.get(question.example.dataset) or engines[""]
                searches = SingleFlight()
                seed = f"{spec.seed or 0}/{question.key}"
                runs = await together(
                    record(engine, question, Sampling(spec.temperature, f"{seed}/{number}", searches))
                    for number in range(spec.samples)
                )
                if failures := [run.failure for run in runs if run.failure is not None]:
                    return None, failures[0]
                maker = _SampledRows(question, spec.right_f1, meta)
                question_rows = maker.make([read_run(run) for run in runs], [run.answer for run in runs])
                await journal.add(key, question_rows)
            return question_rows, None

        slots = min(model.slots, spec.concurrency or model.slots)
        width = max(1, at_once(slots) // spec.samples)
        outcomes = await ask_all(model, asked, ask, progress_counter(len(asked), on_progress), width)
    failed = [question.example.id for question, rows in zip(asked, outcomes, strict=True) if rows is None]
    return _collect(
        [rows for rows in outcomes if rows], spec, failed, len(questions) - len(asked), meta | {"corpora": corpora}
    )


def _collect(
    outcomes: Sequence[MadeRows], spec: SetSpec, failed: list[str], unanswered: int, report: Mapping[str, Any]
) -> MadeRows:
    """Return the rows of all questions in their training shares, with counts."""
    left_out: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for rows in outcomes:
        left_out.update(rows.left_out)
        counts.update(rows.report)
    mixed, dropped = put_together([row for rows in outcomes for row in rows.rows], spec.rows, spec.seed or 0)
    left_out.update(dropped)
    left_out["without an accepted answer"] = unanswered
    left_out["not answered by the model"] = len(failed)
    sampling = {
        **report,
        "samples": spec.samples,
        **{name: counts[name] for name in (_RUNS, _RIGHT, _PLANS, _READINGS)},
    }
    return MadeRows(tuple(mixed), dict(+left_out), {"sampling": sampling, "k": spec.k, "failed": failed})


class _SampledRows:
    """Makes the rows of one question from its samples."""

    def __init__(self, question: TrainingQuestion, right_f1: float | None, meta: Mapping[str, Any]) -> None:
        self._question, self._meta = question, meta
        self._text = question.example.question
        self._gold = Gold(question.example, right_f1)
        self._left_out: Counter[str] = Counter()

    def make(self, runs: Sequence[SampledRun], answers: Sequence[str]) -> MadeRows:
        """Make the rows; `answers` are the final answers of the samples."""
        one_hop = self._question.example.hops == 1
        readings = self._right_readings(runs)
        rows = self._direct(runs, readings)
        plans: list[tuple[int, SampledPlan, str]] = []
        if one_hop:
            if len(readings) == len(runs):
                rows.append(self._plan_row(NO_PLAN, SIMPLE, "one hop", 0))
        else:
            plans = self._right_plans(runs)
            rows += self._planned(plans)
        counts = {
            _RUNS: len(runs),
            _RIGHT: sum(bool(answer) and self._gold.is_right(answer) for answer in answers),
            _PLANS: len(plans),
            _READINGS: len(readings),
        }
        return MadeRows(tuple(rows), dict(self._left_out), counts)

    def _leave_out(self, why: str) -> None:
        self._left_out[f"{self._question.example.dataset}: {why}"] += 1

    def _row(
        self,
        part: str,
        messages: tuple[Message, ...],
        template: str,
        target: str,
        label: str,
        made_from: str,
        sample: int,
    ) -> ChatRow:
        meta = {"made_from": made_from, "template": template, "sample": sample, **self._meta}
        return make_row(self._question, f"{_PART}/{part}", messages, target, label, meta)

    def _reading_row(self, part: str, reading: SampledReading, target: str, label: str, sample: int) -> ChatRow:
        exchange = reading.exchange
        return self._row(part, exchange.messages, exchange.call.template, target, label, "sampled reading", sample)

    def _plan_row(self, target: str, label: str, made_from: str, sample: int) -> ChatRow:
        prompt = plan_prompt(self._text)
        return self._row("plan", prompt.messages, prompt.template, target, label, made_from, sample)

    # Readings of the question itself

    def _right_readings(self, runs: Sequence[SampledRun]) -> list[tuple[int, SampledReading]]:
        readings = []
        for sample, run in enumerate(runs):
            why = self._gold.why_not_reading(run.direct) if run.direct else "without passages"
            if run.direct and not why:
                readings.append((sample, run.direct))
            else:
                self._leave_out(f"samples whose first reading was {why}")
        return readings

    def _direct(self, runs: Sequence[SampledRun], readings: Sequence[tuple[int, SampledReading]]) -> list[ChatRow]:
        """Make the row of the most frequent right reading, or of NOT FOUND."""
        targets = [reading.target(self._gold.answers) for _, reading in readings]
        if targets:
            (target, _), *_ = Counter(targets).most_common(1)
            sample, reading = readings[targets.index(target)]
            return [self._reading_row("read", reading, target, READ, sample)]
        if not (first := runs[0].direct):
            return []
        lacks_gold = self._gold.lacks(first.shown)
        has_answer = any(says(passage, answer) for passage in first.shown for answer in self._gold.answers)
        tells_nothing = lacks_gold if self._gold.closed else not has_answer and (lacks_gold or not self._gold.known)
        return [self._reading_row("none", first, NOT_FOUND, NONE, 0)] if tells_nothing else []

    # Plans, their parts and last readings

    def _right_plans(self, runs: Sequence[SampledRun]) -> list[tuple[int, SampledPlan, str]]:
        """Return the plans of the samples that are correct by their evidence."""
        plans = []
        for sample, run in enumerate(runs):
            if not run.plan:
                self._leave_out("samples without a plan")
                continue
            written = write_plan(run.plan.plan, self._text)
            if why := self._gold.why_not_plan(run.plan) or self._why_not_taught(run.plan, written):
                self._leave_out(f"samples whose plan was {why}")
            else:
                plans.append((sample, run.plan, written))
        return plans

    def _why_not_taught(self, plan: SampledPlan, written: str) -> str:
        if not written:
            return "right, and would be read as another"
        asked = [node.question for node in plan.plan.nodes]
        if normalise(self._text) in map(normalise, asked):
            return "right, and has the whole question as a part"
        answers = [answer for answer in self._gold.answers if not contains(self._text, [answer])]
        if not self._gold.closed and any(contains(text, answers) for text in asked):
            return "right, and gives the answer away"
        return ""

    def _planned(self, plans: Sequence[tuple[int, SampledPlan, str]]) -> list[ChatRow]:
        """Make the rows of the best plan: few parts, frequent."""
        if not plans:
            return []
        times = Counter(written.casefold() for _, _, written in plans)

        def rank(kept: tuple[int, SampledPlan, str]) -> tuple[int, int, int]:
            sample, plan, written = kept
            return len(plan.plan.nodes), -times[written.casefold()], sample

        sample, plan, written = min(plans, key=rank)
        rows = [self._plan_row(written, PLAN, "sampled plan", sample)]
        for part in plan.parts:
            *before, reading = part.readings
            rows.append(self._reading_row(f"read/{part.number}", reading, reading.target(), READ, sample))
            closed = normalise(reading.answer) in CLOSED_ANSWERS
            vain = [other for other in before if not other.answer and not closed]
            if vain and not any(says(passage, reading.answer) for passage in vain[0].shown):
                rows.append(self._reading_row(f"none/{part.number}", vain[0], NOT_FOUND, NONE, sample))
        if plan.last:
            if plan.last.sentence and plan.last.sentence in plan.last.exchange.messages[-1].content:
                target = plan.last.target(self._gold.answers)
                rows.append(self._reading_row("last", plan.last, target, LAST, sample))
            else:
                self._leave_out("no last reading, as its sentence is not shown")
        return rows
