"""LLM-as-judge accuracy: does a prediction imply an accepted answer?"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Protocol

from hoptree.core.errors import InputError, ModelError
from hoptree.core.files import JsonlLog, read_lines
from hoptree.engine.calls import Calls
from hoptree.engine.prompts import prompt_for
from hoptree.engine.schedule import together
from hoptree.evaluation.metrics import exact_match, normalise, overlap
from hoptree.models.model import Model, Request

SHOWN = 20
"""Accepted answers the judge sees: the main one and those nearest to the prediction. Some questions have thousands."""

_MAX_TOKENS = 8
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """A prediction and the accepted answers, the main one first."""

    id: str
    question: str
    prediction: str
    golds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one item: `correct` is False wherever there is no clear Yes.

    `asked` is False for a blank prediction, which is wrong without asking. `error` is the class of the failure of a
    call. `em` is exact match, to be compared. Tokens are those of the call, also when the cache answered.
    """

    id: str
    correct: bool
    em: bool
    asked: bool = True
    unparsed: bool = False
    error: str = ""
    reply: str = ""
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def clear(self) -> bool:
        """Whether the judge said Yes or No."""
        return self.asked and not self.unparsed and not self.error


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """The verdicts in the order of the items, who gave them, and how far they can be trusted."""

    model: str
    template: str
    verdicts: tuple[Verdict, ...]

    @property
    def accuracy(self) -> float | None:
        """The share of all items that got a Yes: blank predictions, unreadable replies and failed calls are a No."""
        return _share([verdict.correct for verdict in self.verdicts])

    @property
    def asked(self) -> int:
        return sum(verdict.asked for verdict in self.verdicts)

    @property
    def unparsed(self) -> int:
        return sum(verdict.unparsed for verdict in self.verdicts)

    @property
    def errors(self) -> int:
        return sum(bool(verdict.error) for verdict in self.verdicts)

    @property
    def unparsed_rate(self) -> float | None:
        """The share of the replies that were neither Yes nor No."""
        return _share([verdict.unparsed for verdict in self.verdicts if verdict.asked and not verdict.error])

    @property
    def agreement_with_em(self) -> float | None:
        """The share of the clear verdicts that exact match shares; what counts as No for want of one is left out."""
        return _share([verdict.correct == verdict.em for verdict in self.verdicts if verdict.clear])

    def as_dict(self) -> dict[str, Any]:
        """The figures; `judge_only` and `em_only` count clear verdicts that exact match contradicts.

        Many `em_only` speak against the judge: it turned down the very words of an accepted answer.
        """
        clear = [verdict for verdict in self.verdicts if verdict.clear]
        return {
            "model": self.model,
            "template": self.template,
            "questions": len(self.verdicts),
            "accuracy": self.accuracy,
            "asked": self.asked,
            "judge_unparsed": self.unparsed,
            "unparsed_rate": self.unparsed_rate,
            "errors": self.errors,
            "agreement_with_em": self.agreement_with_em,
            "clear": len(clear),
            "judge_only": sum(verdict.correct and not verdict.em for verdict in clear),
            "em_only": sum(verdict.em and not verdict.correct for verdict in clear),
            "cached_calls": sum(verdict.cached for verdict in self.verdicts),
            "prompt_tokens": sum(verdict.prompt_tokens for verdict in self.verdicts),
            "completion_tokens": sum(verdict.completion_tokens for verdict in self.verdicts),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row an item."""
        return [asdict(verdict) for verdict in self.verdicts]


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two judges say the same, as TAIKC's Table 7 compares them, where both said Yes or No.

    `kappa` is Cohen's: how far that is above what their numbers of Yes would give by chance (0), up to always (1). It
    is None where chance alone would make them agree always.
    """

    questions: int
    rate: float | None
    kappa: float | None


async def _unheard(verdict: Verdict) -> None:
    """Ignore a verdict."""


def template() -> str:
    """Return the name and digest of the judge's prompt."""
    prompt = prompt_for("evaluation", "judge")
    return f"{prompt.name}@{prompt.digest}"


async def judge_all(
    items: Sequence[JudgeItem], model: Model, calls: Calls, on_verdict: Callable[[Verdict], Awaitable[None]] = _unheard
) -> JudgeReport:
    """Judge every prediction concurrently; `on_verdict` is called for each.

    Exact matches are judged too, so that the judge can be compared with exact match. A failed call counts as No; if all
    fail, the error is raised.
    """
    failures: list[ModelError] = []

    async def judge(item: JudgeItem) -> Verdict:
        verdict = await _judge(item, model, calls, failures)
        await on_verdict(verdict)
        return verdict

    verdicts = await together(judge(item) for item in items)
    if failures and len(failures) == sum(verdict.asked for verdict in verdicts):
        raise failures[0]
    return JudgeReport(model.name, template(), tuple(verdicts))


def read_verdict(reply: str) -> bool | None:
    """Return Yes or No by the first word of a reply; None if it is neither."""
    word = _WORD.search(reply)
    return {"yes": True, "no": False}.get(word[0].casefold()) if word else None


def agreement(first: JudgeReport, second: JudgeReport) -> Agreement:
    """Compare two judges of the same predictions by their readable verdicts."""
    theirs = {verdict.id: verdict.correct for verdict in second.verdicts if verdict.clear}
    mine = {verdict.id: verdict.correct for verdict in first.verdicts if verdict.clear}
    pairs = [(said, theirs[name]) for name, said in mine.items() if name in theirs]
    if not pairs:
        return Agreement(0, None, None)
    rate = sum(one == other for one, other in pairs) / len(pairs)
    yes, their_yes = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
    by_chance = yes * their_yes + (1 - yes) * (1 - their_yes)
    return Agreement(len(pairs), rate, (rate - by_chance) / (1 - by_chance) if by_chance < 1 else None)


async def _judge(item: JudgeItem, model: Model, calls: Calls, failures: list[ModelError]) -> Verdict:
    em = exact_match(item.prediction, item.golds)
    if not item.prediction.strip():
        return Verdict(item.id, False, em, asked=False)
    filled = prompt_for("evaluation", "judge").fill(
        question=_line(item.question), prediction=_line(item.prediction), answer=_accepted(item)
    )
    request = Request(filled.messages, max_tokens=_MAX_TOKENS)
    try:
        call = await calls.generate(model, request, step="evaluation/judge", on_retry=lambda error, wait: None)
    except ModelError as error:
        failures.append(error)
        return Verdict(item.id, False, em, error=type(error).__name__)
    said = read_verdict(call.reply.text)
    return Verdict(
        item.id,
        said is True,
        em,
        unparsed=said is None,
        reply=call.reply.text,
        cached=call.cached,
        prompt_tokens=call.reply.usage.prompt,
        completion_tokens=call.reply.usage.completion,
    )


def _accepted(item: JudgeItem) -> str:
    """Return the main answer and the others that differ in more than form."""
    by_form: dict[str, str] = {}
    for gold in item.golds:
        by_form.setdefault(normalise(gold), _line(gold))
    by_form.pop("", None)
    if not by_form:
        raise InputError(f"Question {item.id} has no accepted answer to judge by.", "Give each question its answers.")
    main, *others = by_form.values()
    nearest = sorted(others, key=lambda gold: -overlap(item.prediction, gold).f1)[: SHOWN - 1]
    return " | ".join((main, *nearest))


def _line(text: str) -> str:
    """Put a text on one line, so that it cannot pass for another line of the prompt."""
    return " ".join(text.split())


def _share(values: Sequence[bool]) -> float | None:
    return sum(values) / len(values) if values else None


JUDGEMENTS = "judgements.jsonl"
_VERDICT = frozenset(one.name for one in fields(Verdict))


class Answered(Protocol):
    """A question with what was answered, and what would have been right."""

    @property
    def id(self) -> str: ...

    @property
    def question(self) -> str: ...

    @property
    def answers(self) -> tuple[str, ...]: ...

    @property
    def answer(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Judge:
    """Who judges: a model by its name and identity, and the prompt it is given."""

    name: str
    identity: str
    template: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.identity}\0{self.template}".encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(slots=True)
class Judgements:
    """What one judge said of a run; with each verdict, the digest of the words it was given on."""

    judge: Judge
    verdicts: dict[str, tuple[str, Verdict]] = field(default_factory=dict)

    def on(self, row: Answered) -> Verdict | None:
        """The verdict on an answer, if it was judged as it is now."""
        words, verdict = self.verdicts.get(row.id, ("", None))
        return verdict if verdict is not None and words == words_of(row) else None

    def report(self, rows: Iterable[Answered]) -> JudgeReport:
        """The verdicts on those of the answers that were judged."""
        verdicts = tuple(verdict for row in rows if (verdict := self.on(row)) is not None)
        return JudgeReport(self.judge.name, self.judge.template, verdicts)


def words_of(row: Answered) -> str:
    """Return a digest of question, answer and accepted answers."""
    words = json.dumps([row.question, row.answer, row.answers])
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def read_judgements(folder: Path) -> list[Judgements]:
    """Return all judges of a run with their verdicts, the latest last.

    Verdicts of a judge with other weights or another prompt do not count.
    """
    found: dict[str, Judgements] = {}
    path = folder / JUDGEMENTS
    for number, line in read_lines(path):
        try:
            name, digest = line["judge"], line["digest"]
            if "id" not in line:
                judge = Judge(name, line["identity"], line["template"])
                before = found.pop(name, None)
                found[name] = before if before and before.judge == judge else Judgements(judge)
            elif digest == found[name].judge.digest:
                found[name].verdicts[line["id"]] = (line["words"], _verdict(line))
        except (KeyError, TypeError, AttributeError) as error:
            raise InputError(
                f"Line {number} of {path} is no verdict: {error}.", "Take the line out, and judge the run again."
            ) from error
    return list(found.values())


class JudgementsFile:
    """The file, open for the verdicts of one judge, who is named there with the first of them."""

    def __init__(self, folder: Path, judge: Judge) -> None:
        self._judge = judge
        self._named = False
        self._file = JsonlLog(folder / JUDGEMENTS)

    async def name(self) -> None:
        """Say who judges from here on."""
        if not self._named:
            self._named = True
            about = {"identity": self._judge.identity, "template": self._judge.template}
            await self._file.add({"judge": self._judge.name, "digest": self._judge.digest} | about)

    async def add(self, row: Answered, verdict: Verdict) -> None:
        await self.name()
        about = {"judge": self._judge.name, "digest": self._judge.digest, "words": words_of(row)}
        await self._file.add(about | asdict(verdict))

    def close(self) -> None:
        self._file.close()


def _verdict(line: Mapping[str, Any]) -> Verdict:
    verdict = Verdict(**{name: value for name, value in line.items() if name in _VERDICT})
    if type(verdict.correct) is not bool or not isinstance(verdict.id, str):
        raise TypeError("it is neither right nor wrong")
    return verdict
