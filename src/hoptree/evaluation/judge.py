"""LLM-as-judge accuracy: does a prediction imply an accepted answer?"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import InputError, ModelError
from hoptree.core.files import JsonlLog, read_lines
from hoptree.engine.calls import Calls
from hoptree.engine.prompts import Filled, prompt_for
from hoptree.engine.schedule import together
from hoptree.evaluation.datasets.rows import spaced
from hoptree.evaluation.metrics import exact_match, normalise, overlap
from hoptree.evaluation.statistics import mean_of
from hoptree.models.model import Model, Request

if TYPE_CHECKING:
    from hoptree.evaluation.run_folder import Row

SHOWN = 20  # accepted answers that the judge sees, of possibly thousands: the main one and the most similar
JUDGEMENTS = "judgements.jsonl"
_MAX_TOKENS = 8
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class JudgeItem:
    """A prediction to judge, and the accepted answers, the main one first."""

    id: str
    question: str
    prediction: str
    golds: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class YesNoReply:
    """A model's reply to a yes-or-no question, with its `error`."""

    asked: bool = True
    unparsed: bool = False
    error: str = ""
    reply: str = ""
    cached: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0


async def ask_yes_no(
    prompt: Filled, model: Model, calls: Calls, *, step: str, failures: list[ModelError]
) -> tuple[bool | None, dict[str, Any]]:
    """Ask for Yes or No; return None if the reply is neither, or the call failed."""
    request = Request(prompt.messages, max_tokens=_MAX_TOKENS)
    try:
        call = await calls.generate(model, request, step=step, on_retry=lambda error, wait: None)
    except ModelError as error:
        failures.append(error)
        return None, {"error": type(error).__name__}
    verdict, usage = read_verdict(call.reply.text), call.reply.usage
    reply = {"unparsed": verdict is None, "reply": call.reply.text, "cached": call.cached}
    return verdict, reply | {"prompt_tokens": usage.prompt, "completion_tokens": usage.completion}


def summarise_replies(replies: Sequence[YesNoReply]) -> dict[str, Any]:
    """Count calls, failures, tokens and unreadable replies."""
    received = [reply for reply in replies if reply.asked and not reply.error]
    return {
        "asked": sum(reply.asked for reply in replies),
        "unparsed": sum(reply.unparsed for reply in received),
        "unparsed_rate": mean_of([reply.unparsed for reply in received]),
        "errors": sum(bool(reply.error) for reply in replies),
        "cached_calls": sum(reply.cached for reply in replies),
        "prompt_tokens": sum(reply.prompt_tokens for reply in replies),
        "completion_tokens": sum(reply.completion_tokens for reply in replies),
    }


@dataclass(frozen=True, slots=True)
class Verdict(YesNoReply):
    """The outcome of one item; `correct` needs a clear Yes."""

    id: str
    correct: bool
    em: bool

    @property
    def clear(self) -> bool:
        """Whether the judge said Yes or No."""
        return self.asked and not self.unparsed and not self.error


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """The verdicts in the order of the items, and who gave them."""

    model: str
    template: str
    verdicts: tuple[Verdict, ...]

    @property
    def accuracy(self) -> float | None:
        """The share of items that got a Yes."""
        return mean_of([verdict.correct for verdict in self.verdicts])

    @property
    def clear_verdicts(self) -> dict[str, bool]:
        """The readable verdicts by item id."""
        return {verdict.id: verdict.correct for verdict in self.verdicts if verdict.clear}

    def as_dict(self) -> dict[str, Any]:
        """The figures, with disagreements between judge and exact match."""
        clear = [verdict for verdict in self.verdicts if verdict.clear]
        replies = summarise_replies(self.verdicts)
        return {
            "model": self.model,
            "template": self.template,
            "questions": len(self.verdicts),
            "accuracy": self.accuracy,
            "judge_unparsed": replies.pop("unparsed"),
            **replies,
            "agreement_with_em": mean_of([verdict.correct == verdict.em for verdict in clear]),
            "clear": len(clear),
            "judge_only": sum(verdict.correct and not verdict.em for verdict in clear),
            "em_only": sum(verdict.em and not verdict.correct for verdict in clear),
        }


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often two judges agree (TAIKC, Table 7), with Cohen's kappa."""

    questions: int
    rate: float | None
    kappa: float | None  # 0: agreement by chance, 1: full agreement; None if chance alone would agree fully


def template() -> str:
    """Return the name and digest of the judge's prompt."""
    return prompt_for("evaluation", "judge").template


async def judge_all(
    items: Sequence[JudgeItem],
    model: Model,
    calls: Calls,
    on_verdict: Callable[[Verdict], Awaitable[None]] | None = None,
) -> JudgeReport:
    """Judge all predictions at once, exact matches too; a failed call counts as No."""
    failures: list[ModelError] = []

    async def judge(item: JudgeItem) -> Verdict:
        verdict = await _judge(item, model, calls, failures)
        if on_verdict is not None:
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


def agreement(mine: Mapping[str, bool], theirs: Mapping[str, bool]) -> Agreement:
    """Return the agreement of two judges over the items that both judged."""
    pairs = [(verdict, theirs[name]) for name, verdict in mine.items() if name in theirs]
    if not pairs:
        return Agreement(0, None, None)
    rate = sum(first == second for first, second in pairs) / len(pairs)
    yes, their_yes = (sum(side) / len(pairs) for side in zip(*pairs, strict=True))
    by_chance = yes * their_yes + (1 - yes) * (1 - their_yes)
    return Agreement(len(pairs), rate, (rate - by_chance) / (1 - by_chance) if by_chance < 1 else None)


async def _judge(item: JudgeItem, model: Model, calls: Calls, failures: list[ModelError]) -> Verdict:
    em = exact_match(item.prediction, item.golds)
    if not item.prediction.strip():
        return Verdict(item.id, False, em, asked=False)
    # Each text is put on one line, so that it cannot imitate another line of the prompt.
    filled = prompt_for("evaluation", "judge").fill(
        question=spaced(item.question), prediction=spaced(item.prediction), answer=_accepted(item)
    )
    verdict, reply = await ask_yes_no(filled, model, calls, step="evaluation/judge", failures=failures)
    return Verdict(item.id, verdict is True, em, **reply)


def _accepted(item: JudgeItem) -> str:
    """Return the main answer and the most similar others, without equal forms."""
    by_form = {normalise(gold): spaced(gold) for gold in reversed(item.golds)}
    by_form = {normal: by_form[normal] for normal in map(normalise, item.golds) if normal}
    if not by_form:
        raise InputError(f"Question {item.id} has no accepted answer to judge by.", "Give each question its answers.")
    main, *others = by_form.values()
    nearest = sorted(others, key=lambda gold: -overlap(item.prediction, gold).f1)[: SHOWN - 1]
    return " | ".join((main, *nearest))


@dataclass(frozen=True, slots=True)
class Judge:
    """A judge: the model's name and identity, and its prompt."""

    name: str
    identity: str
    template: str

    @property
    def digest(self) -> str:
        return hashlib.sha256(f"{self.identity}\0{self.template}".encode("utf-8", "replace")).hexdigest()[:12]


@dataclass(slots=True)
class Judgements:
    """The verdicts of one judge on a run, each with a digest of what it judged."""

    judge: Judge
    verdicts: dict[str, tuple[str, Verdict]] = field(default_factory=dict)

    def on(self, row: Row) -> Verdict | None:
        """Return the verdict on a row; None if the row has none or has changed since."""
        digest, verdict = self.verdicts.get(row.id, ("", None))
        return verdict if verdict is not None and digest == _digest_of(row) else None

    def report(self, rows: Iterable[Row]) -> JudgeReport:
        """Return the verdicts on the rows that were judged."""
        verdicts = tuple(verdict for row in rows if (verdict := self.on(row)) is not None)
        return JudgeReport(self.judge.name, self.judge.template, verdicts)


def _digest_of(row: Row) -> str:
    """Return a digest of question, answer and accepted answers."""
    texts = json.dumps([row.question, row.answer, row.answers])
    return hashlib.sha256(texts.encode()).hexdigest()[:16]


def read_judgements(folder: Path) -> list[Judgements]:
    """Return the verdicts of all judges of a run, the latest judge last."""
    judges: dict[str, Judgements] = {}
    path = folder / JUDGEMENTS
    known = {part.name for part in fields(Verdict)}
    for number, line in read_lines(path):
        try:
            name, digest = line["judge"], line["digest"]
            if "id" not in line:
                judge = Judge(name, line["identity"], line["template"])
                before = judges.pop(name, None)
                judges[name] = before if before and before.judge == judge else Judgements(judge)
            elif digest == judges[name].judge.digest:
                verdict = Verdict(**{key: value for key, value in line.items() if key in known})
                if type(verdict.correct) is not bool or not isinstance(verdict.id, str):
                    raise TypeError("it is neither right nor wrong")
                judges[name].verdicts[verdict.id] = (line["words"], verdict)
        except (KeyError, TypeError, AttributeError) as error:
            cause = f"Line {number} of {path} is not a verdict: {error}."
            raise InputError(cause, "Take the line out, and judge the run again.") from error
    return list(judges.values())


class JudgementsFile:
    """The file of verdicts, open for one judge."""

    def __init__(self, folder: Path, judge: Judge) -> None:
        self._judge, self._named = judge, False
        self._file = JsonlLog(folder / JUDGEMENTS)
        self.close = self._file.close

    async def name(self) -> None:
        """Write a line that names the judge of the lines after it."""
        if not self._named:
            self._named = True
            await self._write({"identity": self._judge.identity, "template": self._judge.template})

    async def add(self, row: Row, verdict: Verdict) -> None:
        await self.name()
        await self._write({"words": _digest_of(row), **asdict(verdict)})

    async def _write(self, values: dict[str, Any]) -> None:
        await self._file.add({"judge": self._judge.name, "digest": self._judge.digest, **values})
