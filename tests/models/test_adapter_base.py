"""An adapter that says which weights it belongs to is put on no others."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_asking import ask, asking

from hoptree.core.errors import ConfigError
from hoptree.models.catalogue import ADAPTER_CARD

torch: Any = pytest.importorskip("torch")
peft: Any = pytest.importorskip("peft")
transformers: Any = pytest.importorskip("transformers")
weights: Any = importlib.import_module("hoptree.models.hf_weights")


@pytest.fixture
def adapter(folders: dict[str, Path], tmp_path: Path) -> Path:
    torch.manual_seed(1)
    base = transformers.AutoModelForCausalLM.from_pretrained(folders["plain"])
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    peft.get_peft_model(base, config).save_pretrained(tmp_path)
    return tmp_path


def card(adapter: Path, value: Any) -> None:
    (adapter / ADAPTER_CARD).write_text(json.dumps(value), encoding="utf-8")


def test_only_the_weights_that_its_card_names(
    opened: Callable[..., Any], folders: dict[str, Path], adapter: Path
) -> None:
    here, other = (weights.weights_digest(weights.resolve_source(str(folders[kind]))) for kind in ("plain", "windowed"))
    card(adapter, {"base": {"name": "smallest", "digest": here}})
    assert ask(opened(adapter=str(adapter)), asking()).text
    with pytest.raises(ConfigError, match="was trained on smallest") as refused:
        ask(opened("windowed", adapter=str(adapter)), asking())
    assert here[:24] in refused.value.cause and other[:24] in refused.value.cause
    assert "hf/smallest?adapter=" in refused.value.remedy and refused.value.exit_code == 2


@pytest.mark.parametrize("value", [[], {"base": "plain"}, {"base": {"name": "plain"}}])
def test_a_card_that_names_no_base(opened: Callable[..., Any], adapter: Path, value: Any) -> None:
    card(adapter, value)
    with pytest.raises(ConfigError, match="does not name the base"):
        ask(opened(adapter=str(adapter)), asking())


def test_an_adapter_without_a_card_is_taken(opened: Callable[..., Any], adapter: Path) -> None:
    assert ask(opened(adapter=str(adapter)), asking()).text
