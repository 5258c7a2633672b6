"""What a tuning came to: each trial's score and cost, the best of them, and what may be said of it."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.statistics import PairedComparison, Scores
from hoptree.evaluation.summary import half_width
from hoptree.evaluation.variations import Trial, as_text

__all__ = ["Outcome", "Tuned"]

_SIGNIFICANCE = 0.05
_PLAIN = re.compile(r"[\w.+-]+(?::[\w.+-]+)*")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A trial with the score of each question it was asked; `usage` is what one of them took on average.

    `against` is the comparison with the defaults, None for these themselves and for what was dropped under way.
    """

    trial: Trial
    folder: Path
    scores: Scores
    failed: int
    usage: Mapping[str, float]
    against: PairedComparison | None = None

    @property
    def applicable(self) -> list[float]:
        return [score for score in self.scores.values() if score is not None]

    @property
    def score(self) -> float:
        return statistics.fmean(self.applicable)

    @property
    def plus_minus(self) -> float:
        return half_width(self.applicable)

    @property
    def rank(self) -> tuple[float, ...]:
        """Sorts what was asked the most questions first, then what scores higher, then what is cheaper."""
        return (-len(self.scores), -self.score, self.usage["tokens"])

    def as_dict(self) -> dict[str, Any]:
        pair = self.against
        kept = ("difference", "interval", "p_value", "adjusted_p", "exact", "wins", "losses", "ties", "detectable")
        told = pair.as_dict() if pair else {}
        return {
            "name": self.trial.name,
            "options": dict(self.trial.values),
            "folder": str(self.folder),
            "questions": len(self.scores),
            "scored": len(self.applicable),
            "failed": self.failed,
            "score": self.score,
            "plus_minus": self.plus_minus,
            "a_question": dict(self.usage),
            "against_defaults": {name: told[name] for name in kept} if pair else None,
        }


@dataclass(frozen=True, slots=True)
class Tuned:
    """All trials beside the defaults, over the questions `ids`; `digest` is that of the whole file.

    There are so many `others` in the file, whose ids are in `others_file`.
    """

    experiment: Experiment
    data_name: str
    digest: str
    ids: tuple[str, ...]
    others: int
    metric: str
    search: str
    folder: Path
    others_file: Path
    defaults: Outcome
    trials: tuple[Outcome, ...]

    @property
    def ranked(self) -> list[Outcome]:
        """The best first; of those that score the same, the defaults are."""
        others = sorted(self.trials, key=lambda one: one.rank)
        place = sum(one.rank[:2] < self.defaults.rank[:2] for one in others)
        return [*others[:place], self.defaults, *others[place:]]

    @property
    def best(self) -> Outcome:
        return self.ranked[0]

    @property
    def better(self) -> bool:
        """Whether the best is better than the defaults by more than the chance that so many trials had."""
        pair = self.best.against
        return pair is not None and pair.interval.low > 0 and pair.adjusted_p < _SIGNIFICANCE

    @property
    def remark(self) -> str:
        """What may be concluded, for people."""
        pair = self.best.against
        tried = f"{len(self.trials):,} combination{'s' if len(self.trials) > 1 else ''}"
        if pair is None:
            return f"Of {tried} none scores higher than the defaults: keep them."
        power = pair.power_note(scale=100, unit=" points")
        if self.better:
            return f"Of {tried} the best is better than the defaults by more than chance. {power}"
        return (
            f"Of {tried} the best is within chance of the defaults: keep these, unless other questions speak against "
            f"them. {power}"
        )

    @property
    def warning(self) -> str:
        """Why this is no result yet, before the commands that make one."""
        where = f"the {self.others:,} other questions of the file" if self.others else "other questions"
        return (
            "A score on the questions that the values were chosen by is no result: what won had luck on its side. Show "
            f"it on {where}:"
        )

    @property
    def commands(self) -> tuple[str, ...]:
        """What shows the best and the defaults on other questions; none where the defaults are the best."""
        if self.best.against is None:
            return ()
        out = str(self.folder).rstrip("/")
        best, defaults = f"{out}-best", f"{out}-defaults"
        return (
            shlex.join(self._run(self.best.trial, best)),
            shlex.join(self._run(self.defaults.trial, defaults)),
            shlex.join(["hoptree", "compare", defaults, best, "--metric", self.metric]),
        )

    @property
    def setting(self) -> str:
        """The values of the best as a run of an experiment file takes them, with those that all trials had."""
        chosen = {**self.experiment.options, **self.best.trial.values}
        return f"options: {{{', '.join(f'{name}: {_yaml(value)}' for name, value in chosen.items())}}}"

    def _run(self, trial: Trial, out: str) -> list[str]:
        wanted = self.experiment
        limits = ",".join(f"{name}={value}" for name, value in asdict(wanted.budget).items() if value is not None)
        prices = f"{wanted.prices.prompt:g}/{wanted.prices.completion:g}" if wanted.prices else ""
        said = {
            "--data": str(wanted.data) if self.others else "OTHER-QUESTIONS",
            "--ids": str(self.others_file) if self.others else "",
            "--corpus": wanted.corpus,
            "--graph": wanted.graph,
            "--retriever": wanted.retriever,
            "--rerank": wanted.rerank,
            "--model": wanted.model,
            "--base-url": wanted.base_url,
            "--budget": limits,
            "--prices": prices,
            "--method": wanted.method,
        }
        named = [part for name, value in said.items() if value for part in (name, value)]
        roles = [part for role, spec in wanted.roles.items() for part in ("--role", f"{role}={spec}")]
        fixed = [f"{name}={as_text(value)}" for name, value in wanted.options.items()]
        settings = [part for setting in (*fixed, *trial.settings) for part in ("--set", setting)]
        return ["hoptree", "run", *named, *roles, *settings, "--out", out]

    def as_dict(self) -> dict[str, Any]:
        """What `tune.json` holds."""
        wanted = self.experiment
        return {
            "format": 1,
            "folder": str(self.folder),
            "method": wanted.method,
            "model": wanted.model,
            "corpus": wanted.corpus,
            "options": dict(wanted.options),
            "varied": list(self.defaults.trial.values),
            "slice": {
                "data": str(wanted.data),
                "name": self.data_name,
                "digest": self.digest,
                "questions": hashlib.sha256("\n".join(self.ids).encode("utf-8", "replace")).hexdigest()[:16],
                "ids": list(self.ids),
                "others": self.others,
            },
            "metric": self.metric,
            "search": self.search,
            "trials": [one.as_dict() for one in self.ranked],
            "defaults": self.defaults.trial.name,
            "best": self.best.trial.name,
            "setting": self.setting,
            "better": self.better,
            "remark": self.remark,
            "warning": self.warning if self.commands else "",
            "show_it": list(self.commands),
        }


def _yaml(value: Any) -> str:
    """A value inside braces; what YAML would read as something else is quoted."""
    text = as_text(value)
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)
