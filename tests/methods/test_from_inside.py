"""The methods that hear a model's doubts, with a tiny model of transformers that tells them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.methods.continuation_asked import DUKES, Search
from tests.traced import as_dicts

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tests.models.hf_models import saved

from hoptree.engine.engine import Engine
from hoptree.engine.events import Event
from hoptree.models.hf import HFModel


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("weights"), "plain", context=2048)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("dragin", {"theta": 0.5, "max_tokens": 24}),
        ("mind", {"threshold": "fixed", "theta": 0.5, "stretch": 16, "max_tokens": 24, "retrievals": 2}),
        ("flare", {"max_tokens": 16, "look_ahead": 16}),
        ("seakr", {"samples": 3, "max_steps": 1, "theta": -1e6}),
    ],
)
def test_signals_come_from_the_model_itself(method: str, options: dict[str, Any], weights: Path) -> None:
    events: list[Event] = []

    async def ask() -> None:
        model = HFModel(str(weights), device="cpu")
        async with Engine(
            method=method,
            model=model,
            corpus=Search(*DUKES),
            options={"shots": 0, "k": 1, **options},
            cache=None,
            listeners=(events.append,),
        ) as engine:
            result = await engine.ask("who was his father?")
        await model.aclose()
        assert (result.error_message, result.fidelity) == ("", "exact")

    asyncio.run(ask())
    decided = [event for event in as_dicts(events) if event["event"] == "decision"]
    if method == "seakr":
        assert any(event["kind"] == "step" and event["spread"] is not None for event in decided)
    sentences = [event for event in decided if event["kind"] == "sentence"]
    if method in ("dragin", "mind"):
        words = [word for event in sentences for word in event["words"]]
        assert words and all(entropy is not None for _, entropy, *_ in words)
        assert len({attention for _, _, attention, *_ in words}) > 1
    assert any(event["event"] == "retrieve" for event in as_dicts(events))
