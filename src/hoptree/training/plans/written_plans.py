"""Plans written by hand for questions of public data sets, which are not in the package themselves.

PLANS.md says who wrote them, and how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from hoptree.core.errors import InputError
from hoptree.text.question_tree import make_plan, references
from hoptree.training.leakage import Excluded
from hoptree.training.plans.gold_trees import carried_out
from hoptree.training.plans.sub_questions import LeftOut
from hoptree.training.questions import TrainingQuestion

_FIELDS = {"id", "dataset", "plan"}
_ENTRY = {"question", "children"}


@dataclass(frozen=True, slots=True)
class WrittenPlan:
    """The plan of one question, which is named by its data set and id."""

    dataset: str
    id: str
    plan: Mapping[str, Any]

    @property
    def key(self) -> str:
        return f"{self.dataset}/{self.id}"

    @property
    def size(self) -> int:
        """The number of its sub-questions."""
        return len(make_plan(self.plan, "").nodes)


def packaged_plans() -> dict[str, WrittenPlan]:
    """Return the plans that come with Hoptree, by the keys of their questions."""
    text = (files("hoptree.training.plans") / "plans.jsonl").read_text(encoding="utf-8")
    return read_plans(text, Path("plans.jsonl"))


def read_plans(text: str, path: Path) -> dict[str, WrittenPlan]:
    """Return the plans of a file's text, one JSON object a line; errors name the line."""
    plans: dict[str, WrittenPlan] = {}
    for line, row in enumerate(text.splitlines(), 1):
        if not row.strip():
            continue
        plan = _read(row, f"Line {line} of {path}")
        if plan.key in plans:
            raise InputError(f"Line {line} of {path} repeats the plan of '{plan.key}'.", "Keep one of them.")
        plans[plan.key] = plan
    return plans


def check_plans(
    plans: Mapping[str, WrittenPlan], questions: Sequence[TrainingQuestion], excluded: Excluded
) -> dict[str, Any]:
    """Report plans that TAIKC would have to repair, and those whose questions are evaluation questions."""
    asked = {question.key: question for question in questions}
    faults: dict[str, str] = {}
    leaks: dict[str, str] = {}
    for key in plans.keys() & asked.keys():
        try:
            carried_out(plans[key].plan, asked[key].example.question)
        except LeftOut as why:
            faults[key] = str(why)
        if why_not := excluded.why(asked[key]):
            leaks[key] = why_not
    return {
        "checked": len(plans.keys() & asked.keys()),
        "without_question": len(plans.keys() - asked.keys()),
        "faults": dict(sorted(faults.items())),
        "excluded_questions": len(excluded),
        "evaluation_questions": dict(sorted(leaks.items())),
    }


def _read(row: str, where: str) -> WrittenPlan:
    try:
        value = json.loads(row)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where} is no JSON: {error}.", "Write one plan a line.") from error
    if not isinstance(value, dict) or set(value) != _FIELDS:
        raise InputError(f"{where} is no plan.", 'Write {"id": …, "dataset": …, "plan": {"query1": …}}.')
    if not all(isinstance(value[name], str) and value[name] for name in ("id", "dataset")):
        raise InputError(f"{where} has no id or data set.", "Name the question that the plan is for.")
    names: list[str] = []
    _check_entries(value["plan"], where, names)
    if names != [f"query{number}" for number in range(1, len(names) + 1)]:
        raise InputError(f"{where} numbers its entries {', '.join(names)}.", "Number them from top to bottom.")
    return WrittenPlan(value["dataset"], value["id"], value["plan"])


def _check_entries(entries: object, where: str, names: list[str]) -> None:
    """Refuse what is no tree of questions that refer to earlier entries only."""
    if not isinstance(entries, dict) or not entries:
        raise InputError(f"{where} has a plan without entries.", 'Write {"query1": {"question": …}}.')
    for name, entry in entries.items():
        asked = entry.get("question") if isinstance(entry, dict) else None
        if not isinstance(asked, str) or not asked.strip() or not set(entry) <= _ENTRY:
            raise InputError(f"{where}: {name} is no question.", 'Write {"question": …, "children": {…}}.')
        for number in references(asked):
            if f"query{number}" not in names:
                raise InputError(
                    f"{where}: {name} refers to #query{number}, which is not before it.", "Refer to earlier entries."
                )
        names.append(name)
        if "children" in entry:
            _check_entries(entry["children"], where, names)
