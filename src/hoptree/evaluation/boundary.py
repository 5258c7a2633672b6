"""Knowledge-boundary awareness of a model, measured: TAIKC's appendices C and D (Table 4, Figures 5 and 7 to 11).

FOLDER/DATA/…                the run of one data set, as of `hoptree run`
FOLDER/DATA/…/boundary.json  what it came to
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from hoptree.errors import InputError
from hoptree.evaluation.boundary_asking import EVENT
from hoptree.evaluation.boundary_verdict import standing_of
from hoptree.evaluation.calibration import (
    Attempt,
    BoundaryAwareness,
    Decision,
    average,
    boundary,
    calibrate,
    decisions_of,
    score_attempt,
)
from hoptree.evaluation.judge import JudgeItem, JudgeReport, judge_all
from hoptree.evaluation.run_folder import TRACES, read_rows
from hoptree.models.model import Model
from hoptree.runtime.calls import Calls
from hoptree.runtime.trace import Event, read_events

__all__ = [
    "BOUNDARY",
    "Judgement",
    "Pair",
    "judge_pairs",
    "measure",
    "measure_several",
    "read_pairs",
]

BOUNDARY = "boundary.json"
_ANSWERED_ABOVE = 0.5
"""Least token probability from which an answer counts as kept, as `taikc` has it with source=probability."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A question with both answers: `confident` is None where the model refused.

    A question that `failed` has a blank direct answer, which is wrong. What it would have said in the other setting is
    not known: it is neither among those the model was sure of nor among those it refused.
    """

    id: str
    question: str
    golds: tuple[str, ...]
    direct: str
    confident: str | None
    confidence: float | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Judgement:
    """A judge's word on direct answers, on confident answers, and on whether the two mean the same."""

    direct: JudgeReport
    confident: JudgeReport
    same: JudgeReport

    def as_dict(self) -> dict[str, Any]:
        return {"direct": self.direct.as_dict(), "confident": self.confident.as_dict(), "same": self.same.as_dict()}


def read_pairs(folder: Path) -> list[Pair]:
    """Both answers to every question of a run that has an outcome."""
    said = _events(folder / TRACES)
    pairs = []
    for row in read_rows(folder):
        if row.error or row.stopped_by:
            pairs.append(Pair(row.id, row.question, row.answers, "", "", failed=True))
            continue
        event = said.get(row.trace)
        try:
            if event is None:
                raise KeyError(row.trace)
            confident = None if event["refused"] else str(event["confident"])
            confidence = None if event["confidence"] is None else float(event["confidence"])
            pair = Pair(row.id, row.question, row.answers, str(event["direct"]), confident, confidence)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(
                f"{folder / TRACES} does not tell both answers to question {row.id}.", "Measure it into a new folder."
            ) from error
        pairs.append(pair)
    return pairs


def _events(path: Path) -> dict[str, Event]:
    if not path.exists() or not path.stat().st_size:
        return {}
    return {event["run"]: event for event in read_events(path) if event["event"] == EVENT}


async def judge_pairs(pairs: Sequence[Pair], model: Model, calls: Calls) -> Judgement:
    """Have all answers judged, and all pairs of them; the blank answer to a failed question is judged unasked."""
    kept = [(pair, pair.confident) for pair in pairs if pair.confident is not None and not pair.failed]
    direct = [JudgeItem(pair.id, pair.question, pair.direct, pair.golds) for pair in pairs]
    confident = [JudgeItem(pair.id, pair.question, said, pair.golds) for pair, said in kept]
    # Nothing means the same as a blank answer: such a pair is a No without asking.
    same = [
        JudgeItem(pair.id, pair.question, said if pair.direct.strip() else "", (pair.direct,)) for pair, said in kept
    ]
    return Judgement(
        await judge_all(direct, model, calls),
        await judge_all(confident, model, calls),
        await judge_all(same, model, calls),
    )


def measure(pairs: Sequence[Pair], judged: Judgement | None = None) -> dict[str, Any]:
    """Everything that is known of a model from these questions, as `boundary.json` has it; shares are of 1.

    Failed questions are wrong in Direct QA and in no other figure; while there are any, there is no verdict.
    """
    asked = [pair for pair in pairs if not pair.failed]
    failed = len(pairs) - len(asked)
    direct, confident = _attempts(asked, judged)
    found = _awareness(pairs, judged)
    decided = calibrate(decisions_of(direct, confident))
    standing = standing_of(direct, confident)
    by_id = {pair.id: pair for pair in pairs}
    flips = [
        {**asdict(flip), "question": by_id[flip.id].question, "answers": list(by_id[flip.id].golds[:5])}
        for flip in found.flips
    ]
    return {
        **found.as_dict(),
        "failed": failed,
        "refused_share": found.gap.questions / len(asked) if asked else None,
        "gap_f1_plus_minus": standing.gap_around,
        "precision": decided.precision,
        "overconfident": decided.overconfident,
        "underconfident": decided.underconfident,
        "probability": _probability(asked, direct),
        "judge": judged.as_dict() if judged else None,
        "usable": None if failed else standing.usable,
        "verdict": f"{failed:,} failed: --retry-failed first." if failed else standing.verdict,
        "flips": flips,
    }


def measure_several(
    sets: Mapping[str, Sequence[Pair]], judged: Mapping[str, Judgement] | None = None
) -> tuple[dict[str, Any], dict[str, float | None]]:
    """All questions of several data sets together, and the mean of the data sets, each counting the same."""
    parts = [_awareness(pairs, judged[name] if judged else None) for name, pairs in sets.items()]
    pooled = [replace(pair, id=f"{name}/{pair.id}") for name, pairs in sets.items() for pair in pairs]
    together = _merged(judged) if judged else None
    return measure(pooled, together), average(parts)


def _awareness(pairs: Sequence[Pair], judged: Judgement | None) -> BoundaryAwareness:
    """Both settings of what was asked, beside Direct QA of everything."""
    same = {verdict.id: verdict.correct for verdict in judged.same.verdicts} if judged else None
    found = boundary(*_attempts([pair for pair in pairs if not pair.failed], judged), same)
    direct, _ = _attempts(pairs, judged)
    return replace(found, direct=boundary(direct, dict.fromkeys(direct)).direct)


def _attempts(pairs: Sequence[Pair], judged: Judgement | None) -> tuple[dict[str, Attempt], dict[str, Attempt | None]]:
    plain = {verdict.id: verdict.correct for verdict in judged.direct.verdicts} if judged else {}
    sure = {verdict.id: verdict.correct for verdict in judged.confident.verdicts} if judged else {}
    direct = {pair.id: score_attempt(pair.direct, pair.golds, judged=plain.get(pair.id)) for pair in pairs}
    confident = {
        pair.id: None if pair.confident is None else score_attempt(pair.confident, pair.golds, judged=sure.get(pair.id))
        for pair in pairs
    }
    return direct, confident


def _merged(judged: Mapping[str, Judgement]) -> Judgement:
    """Several judgements as one, under the ids of the questions taken together."""
    kinds = []
    for kind in ("direct", "confident", "same"):
        reports = [(name, getattr(one, kind)) for name, one in judged.items()]
        verdicts = [replace(found, id=f"{name}/{found.id}") for name, report in reports for found in report.verdicts]
        kinds.append(replace(reports[0][1], verdicts=tuple(verdicts)))
    return Judgement(*kinds)


def _probability(pairs: Sequence[Pair], direct: Mapping[str, Attempt]) -> dict[str, Any] | None:
    """The same decision by the least token probability of the direct answer; None where the model tells none."""
    if all(pair.confidence is None for pair in pairs):
        return None
    decisions = [
        Decision((pair.confidence or 0.0) >= _ANSWERED_ABOVE, direct[pair.id].correct, pair.confidence)
        for pair in pairs
    ]
    return calibrate(decisions).as_dict() | {"threshold": _ANSWERED_ABOVE}
