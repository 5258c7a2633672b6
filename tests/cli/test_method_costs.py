"""Measured costs are marked as old when a method's prompts or default options change."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest
from tests.methods.another import registered

from hoptree.cli import method_costs
from hoptree.cli.method_costs import made_from
from hoptree.engine.registry import find_method
from hoptree.methods.baselines.direct import direct


def test_shared_prompts_and_worked_examples_count(monkeypatch: pytest.MonkeyPatch) -> None:
    before = made_from(find_method("ircot"))
    monkeypatch.setattr(method_costs, "prompts_digest", lambda name: f"another of {name}")
    assert made_from(find_method("ircot")) != before


def test_a_method_without_source_is_known_by_its_prompts() -> None:
    made_up: Any = FunctionType(direct.__code__, direct.__globals__, "made_up")
    made_up.__module__ = "builtins"
    with registered(made_up) as method:
        assert made_from(method)
