"""Plans that were written by hand are sound."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from hoptree.evaluation.datasets.examples import Example
from hoptree.text.question_tree import make_plan, references
from hoptree.training.plans import sub_questions
from hoptree.training.plans.gold_trees import packaged_plans, with_written_steps
from hoptree.training.questions import TrainingQuestion


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


def steps_by_id() -> dict[str, list[dict[str, str]]]:
    text = (files("hoptree.training.plans") / "steps.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert {row["dataset"] for row in rows} == {"hotpotqa"}
    by_id = {row["id"]: row["steps"] for row in rows}
    assert len(by_id) == len(rows)
    return by_id


def test_steps_ask_for_one_fact_each_and_give_no_answer_away() -> None:
    for key, steps in steps_by_id().items():
        assert 2 <= len(steps) <= 4, key
        for place, step in enumerate(steps):
            assert set(step) == {"question", "answer", "title"} and all(map(str.strip, step.values())), key
            assert all(1 <= number <= place for number in sub_questions.references(step["question"])), key


def test_steps_become_those_of_their_question_with_the_passages_of_their_titles() -> None:
    key, steps = next(iter(steps_by_id().items()))
    titles = tuple(dict.fromkeys(step["title"] for step in steps))
    ids = tuple(f"p{place}" for place in range(len(titles)))
    example = Example(key, "Who …?", dataset="hotpotqa", supporting_ids=ids, supporting_titles=titles)
    other = Example(key, "Who …?", dataset="musique", supporting_ids=ids, supporting_titles=titles)
    (with_steps, without) = with_written_steps([TrainingQuestion(row, "dev.jsonl") for row in (example, other)])
    assert with_steps.example.decomposition_answers == tuple(step["answer"] for step in steps)
    assert with_steps.example.hop_ids == tuple((ids[titles.index(step["title"])],) for step in steps)
    assert without.example == other


def test_the_card_says_how_many_steps_there_are() -> None:
    card = (files("hoptree.training.plans") / "PLANS.md").read_text(encoding="utf-8")
    steps = steps_by_id()
    assert f"{len(steps)} questions of HotpotQA, {sum(map(len, steps.values())):,} steps" in card


def test_written_questions_end_in_their_answer_and_refer_to_earlier_steps() -> None:
    text = (Path(__file__).resolve().parents[2] / "weights" / "written.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert len({row["id"] for row in rows}) == len(rows) == 1889
    for row in rows:
        steps, answers = row["decomposition"], row["decomposition_answers"]
        assert row["source_split"] == "train" and row["supporting_ids"]
        assert len(steps) == len(answers) == row["hops"]
        given = [int(number) for step in steps for number in re.findall(r"#(\d+)", step)]
        if row["type"] == "bridge":
            assert answers[-1] == row["answers"][0] and given, row["id"]
        for place, step in enumerate(steps, 1):
            assert all(int(number) < place for number in re.findall(r"#(\d+)", step)), row["id"]
