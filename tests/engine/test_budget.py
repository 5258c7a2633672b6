"""Budgets: how they are written, and when they are spent."""

from __future__ import annotations

import pytest

import hoptree
from hoptree.core.errors import BudgetSpent, ConfigError
from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule, ScriptedModel


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("20", Budget(calls=20)),
        ("calls=20", Budget(calls=20)),
        ("calls=20,seconds=1.5", Budget(calls=20, seconds=1.5)),
        (" tokens = 1000 , cost = 0.25 ", Budget(tokens=1000, cost=0.25)),
        ("seconds=60,", Budget(seconds=60)),
        ("tokens=1e4", Budget(tokens=10_000)),
        ("", Budget()),
    ],
)
def test_a_budget_is_read(text: str, budget: Budget) -> None:
    assert Budget.parse(text) == budget


@pytest.mark.parametrize(
    "text",
    ["many", "calls=", "calls=x", "calls=-1", "cost=nan", "seconds=inf", "money=3", "calls:3", "calls=1=2", "-5"],
)
def test_what_is_no_budget_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match="is not a budget") as caught:
        Budget.parse(f"seconds=9,{text}")
    assert text in str(caught.value)
    assert "--budget calls=20,seconds=60" in caught.value.remedy


def test_a_call_that_goes_beyond_the_budget_is_noted() -> None:
    for tokens, notes in ((3, 1), (10_000, 0)):
        model = ScriptedModel(rules=[Rule("Łódź")])
        result = hoptree.ask("Where did Has die?", model=model, method="direct", budget=f"tokens={tokens}", cache=None)
        assert result.answer == "Łódź" and not result.stopped_by and len(result.warnings) == notes
        assert all("tokens were used of a budget of 3, which is checked before" in note for note in result.warnings)


@pytest.mark.parametrize("text", ["calls=0", "0", "tokens=0.5", "cost=0", "seconds=0.0"])
def test_a_budget_of_nothing_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"A budget of '{text}' allows nothing") as caught:
        Budget.parse(f"seconds=9,{text}")
    assert caught.value.exit_code == 2


def test_whole_things_are_counted_in_whole_numbers() -> None:
    budget = Budget.parse("calls=3,tokens=7")
    assert isinstance(budget.calls, int) and isinstance(budget.tokens, int)


@pytest.mark.parametrize(
    ("budget", "spent", "limit"),
    [
        (Budget(calls=2), (2, 0, 0.0), "calls"),
        (Budget(calls=0), (0, 0, 0.0), "calls"),
        (Budget(tokens=10), (0, 10, 0.0), "tokens"),
        (Budget(cost=0.5), (0, 0, 0.5), "cost"),
        (Budget(calls=9, cost=0.5), (1, 0, 0.6), "cost"),
    ],
)
def test_a_further_call_is_refused_once_a_limit_is_reached(
    budget: Budget, spent: tuple[int, int, float], limit: str
) -> None:
    with pytest.raises(BudgetSpent) as caught:
        budget.check(*spent)
    assert caught.value.limit == limit
    assert f"--budget {limit}=" in str(caught.value)


@pytest.mark.parametrize(
    ("budget", "spent"),
    [
        (Budget(), (10**6, 10**9, 1e6)),
        (Budget(calls=2), (1, 10**9, 0.0)),
        (Budget(tokens=10), (99, 9, 0.0)),
        (Budget(cost=0.5), (0, 0, 0.49)),
    ],
)
def test_a_call_below_every_limit_is_allowed(budget: Budget, spent: tuple[int, int, float]) -> None:
    budget.check(*spent)


@pytest.mark.parametrize("budget", [20, "20", "calls=20", Budget(calls=20)])
def test_python_takes_a_budget_as_the_command_line_does(budget: Budget | str | int) -> None:
    model = ScriptedModel(rules=[Rule("Lund")])
    result = hoptree.ask("Where is it?", model=model, method="direct", budget=budget, cache=None)
    assert result.answer == "Lund" and not result.stopped_by


@pytest.mark.parametrize(("budget", "cause"), [(0, "allows nothing"), ("many", "is not a budget")])
def test_python_refuses_what_is_no_budget(budget: str | int, cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        hoptree.ask("Where is it?", model=ScriptedModel(rules=[]), method="direct", budget=budget, cache=None)
