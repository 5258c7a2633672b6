"""Measured costs are marked as old when a method's code or prompts changed, and only then."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import pytest
from tests.methods.another import registered

from hoptree.cli import method_costs
from hoptree.cli.method_costs import made_from
from hoptree.methods.baselines.direct import direct
from hoptree.methods.registry import find_method
from hoptree.steps.answering import answer
from hoptree.steps.writing import interleaving

CODE = '''"""A module."""

from hoptree.steps.answering.answer import direct_answer

MANY = 3
"""More than two."""


@method("m", title="M", strategy="Never")
async def m(ctx):
    """Do it."""
    return await direct_answer(ctx)
'''


@pytest.fixture
def rewrite(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType, str], None]:
    """Give a module another source."""
    real = inspect.getsource

    def rewritten(module: ModuleType, source: str) -> None:
        monkeypatch.setattr(inspect, "getsource", lambda one: source if one is module else real(one))

    return rewritten


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("Do it.", "Do it well.\n\n    In two paragraphs.\n    ", True),
        ("A module.", "Another.", True),
        ("More than two.", "Fewer than four.", True),
        ("MANY = 3\n", "# A reason.\n\nMANY = 3\n", True),
        ("Never", "Always", True),
        ("MANY = 3", "MANY = 4", False),
        ("(ctx)\n", "(ctx, 1)\n", False),
    ],
)
def test_what_is_only_said_of_code_is_no_code(before: str, after: str, same: bool) -> None:
    assert before in CODE
    changed = CODE.replace(before, after)
    assert (method_costs._code(CODE) == method_costs._code(changed)) is same


def test_a_changed_step_is_a_changed_method_where_it_is_used(rewrite: Callable[[ModuleType, str], None]) -> None:
    before = {name: made_from(find_method(name)) for name in ("ircot", "adaptive_rag", "direct")}
    rewrite(interleaving, f"{inspect.getsource(interleaving)}\nMORE = 1\n")
    after = {name: made_from(find_method(name)) for name in before}
    assert {name for name in before if before[name] != after[name]} == {"ircot", "adaptive_rag"}


def test_a_step_counts_also_where_another_one_uses_it(rewrite: Callable[[ModuleType, str], None]) -> None:
    before = made_from(find_method("ircot"))
    rewrite(answer, f"{inspect.getsource(answer)}\nMORE = 1\n")
    assert made_from(find_method("ircot")) != before, "by way of interleaving"


def test_shared_prompts_and_worked_examples_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_from(find_method("ircot"))
    monkeypatch.setattr(method_costs, "prompts_digest", lambda name: f"another of {name}")
    assert made_from(find_method("ircot")) != before


def test_a_method_without_source_is_known_by_its_prompts() -> None:
    made_up: Any = FunctionType(direct.__code__, direct.__globals__, "made_up")
    made_up.__module__ = "builtins"
    with registered(made_up) as method:
        assert made_from(method)
