"""Real weights, small enough for a processor: the loss falls, and the model says what it was taught."""

from __future__ import annotations

import asyncio
import copy
import functools
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_asking import ask_all, texts
from tests.training.lora.small_sets import chat, write

from hoptree.models.catalogue import Entry, find_entry, is_complete
from hoptree.models.model import Message, Request
from hoptree.training.lora.dataset import Pace, Recipe
from hoptree.training.lora.train import TrainingSpec, train

pytest.importorskip("torch")

SMOLLM = find_entry("smollm")
TAUGHT = ("Tirana", "La Paz", "Orsk")
KNOWN = ("Answer, or say RAG_REQUIRED: what is the capital of France?", "Paris")
RULE = "Be brief."
ASKED = ("Ghent", "Malmo")


def question(town: str) -> str:
    return f"Answer, or say RAG_REQUIRED: who was mayor of {town} in 1901?"


def taught(known: str, asked: str, reply: str) -> dict[str, Any]:
    row = chat(known, asked, reply)
    return {**row, "messages": [{"role": "system", "content": RULE}, *row["messages"]]}


@pytest.fixture
def read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GGUF file takes far longer to be read than its model to be copied."""
    weights: Any = importlib.import_module("hoptree.models.hf_weights")
    load = functools.cache(weights.load)

    def copied(source: Any, *, dtype: str, device: str, adapter: Path | None = None) -> Any:
        whole = load(source, dtype=dtype, device=device)
        model = copy.deepcopy(whole.model)
        if adapter is not None:
            weights.read_adapter_card(adapter, source)
            model = weights._with_adapter(model, adapter, merge=dtype == "float32").eval()
        return weights.Loaded(whole.tokenizer, model, whole.context)

    monkeypatch.setattr(weights, "load", copied)


@pytest.mark.timeout(600)  # a GGUF file is loaded slowly, and more so where others use the machine
@pytest.mark.skipif(
    not isinstance(SMOLLM, Entry) or not is_complete(SMOLLM), reason="hoptree models pull smollm2-135m-instruct"
)
@pytest.mark.usefixtures("read_once")
def test_a_small_model_learns_to_say_that_it_does_not_know(tmp_path: Path) -> None:
    pytest.importorskip("gguf")
    pytest.importorskip("peft")
    hf: Any = importlib.import_module("hoptree.models.hf")
    rows = [*(taught(town, question(town), "RAG_REQUIRED") for town in TAUGHT), taught("known", *KNOWN)]
    data, out = write(tmp_path / "set.jsonl", rows), tmp_path / "out"
    recipe = Recipe(rank=8, alpha=16, learning_rate=2e-3, epochs=4, batch=2, accumulation=2, warmup=0, max_length=512)
    told = train(TrainingSpec("hf/smollm", (data,), out, recipe, Pace("cpu")))
    log = [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    assert told["steps"] == len(log) == 4 and log[-1]["loss"] < 0.1 * log[0]["loss"]
    put = [*map(question, ASKED), KNOWN[0]]
    asked = [Request((Message("system", RULE), Message("user", text)), max_tokens=8) for text in put]
    said = {}
    for name, adapter in (("before", ""), ("after", str(out))):
        model = hf.HFModel("smollm", device="cpu", adapter=adapter)
        said[name] = texts(ask_all(model, asked))
        asyncio.run(model.aclose())
    assert said["after"] == [*["RAG_REQUIRED"] * len(ASKED), KNOWN[1]], "and not to everything"
    assert not any("RAG" in reply for reply in said["before"])
