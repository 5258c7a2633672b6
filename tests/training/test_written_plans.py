"""Plans that were written by hand are sound."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

from hoptree.text.question_tree import make_plan, references
from hoptree.training.plans.gold_trees import packaged_plans


def entries(plan: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return names and questions from top to bottom."""
    listed = []
    for name, entry in plan.items():
        assert set(entry) <= {"question", "children"} and entry["question"].strip()
        listed += [(name, entry["question"]), *entries(entry.get("children", {}))]
    return listed


def test_plans_are_trees_of_questions_that_refer_to_earlier_ones() -> None:
    plans = packaged_plans()
    for plan in plans.values():
        named = entries(plan)
        assert [name for name, _ in named] == [f"query{number}" for number in range(1, len(named) + 1)]
        assert all(reference < place for place, (_, asked) in enumerate(named, 1) for reference in references(asked))
        kinds = {issue.kind for issue in make_plan(plan, "").issues}
        assert kinds <= {"plan_leak"}, "without the question it cannot be told which names it has"
        assert len(named) >= 2
    assert len({json.dumps(plan) for plan in plans.values()}) == len(plans)


def test_the_card_says_how_many_there_are() -> None:
    card = (files("hoptree.training.plans") / "PLANS.md").read_text(encoding="utf-8")
    sizes: dict[str, Counter[int]] = {}
    for key, plan in packaged_plans().items():
        sizes.setdefault(key.partition("/")[0], Counter())[len(entries(plan))] += 1
    for name, counts in sizes.items():
        listed = ", ".join(f"{count} of {size}" for size, count in sorted(counts.items()))
        assert re.search(rf"{name} +{counts.total()}: {listed}\n", card)
    assert f"{len(packaged_plans())} plans, by data set" in card
