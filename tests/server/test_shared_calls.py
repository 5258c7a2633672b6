"""Engines that share one way to models: one cache, one flight for the same call, closed by whoever opened it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from hoptree.engine.calls import open_calls
from hoptree.engine.engine import Engine
from hoptree.models.scripted import Rule, ScriptedModel


@pytest.mark.parametrize("remembered", [True, False])
def test_engines_that_share_calls_pay_once(tmp_path: Path, remembered: bool) -> None:
    model = ScriptedModel(rules=[Rule("Ada")], latency=0.05)

    async def ask_both() -> list[str]:
        calls = open_calls(tmp_path / "replies.sqlite" if remembered else None)
        engines = [Engine(method="direct", model=model, calls=calls) for _ in range(2)]
        results = await asyncio.gather(*(engine.ask("Who wrote the first program?") for engine in engines))
        paid = len(model.requests)
        await engines[0].aclose()
        again = await engines[1].ask("Who wrote the first program?")  # what they share is still open
        assert (len(model.requests) == paid) is remembered
        assert not again.warnings
        calls.close()
        return [result.answer for result in results]

    assert asyncio.run(ask_both()) == ["Ada", "Ada"]
    assert len(model.requests) == (1 if remembered else 2)
