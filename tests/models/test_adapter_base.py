"""An adapter that says which weights it belongs to is put on no others; a LoRA of llama.cpp is one, too."""

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
    adapted = peft.get_peft_model(base, config)
    adapted.half().float()  # numbers that 16 bits hold
    adapted.save_pretrained(tmp_path)
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


def digest_of(folder: Path) -> str:
    digest: str = weights.weights_digest(weights.resolve_source(str(folder)))
    return digest


def in_gguf(adapter: Path, kind: str = "qwen2") -> Path:
    """Convert an adapter for a base of llama.cpp with the shapes of the tiny model."""
    gguf: Any = pytest.importorskip("gguf")
    numpy: Any = importlib.import_module("numpy")
    convert = importlib.import_module("hoptree.training.lora.gguf").convert
    base = adapter / "base.gguf"
    writer = gguf.GGUFWriter(str(base), kind)
    writer.add_block_count(2)
    writer.add_head_count(4)
    for block in range(2):
        writer.add_tensor(f"blk.{block}.attn_q.weight", numpy.zeros((32, 32), dtype="float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    convert(adapter, base, adapter / f"{kind}.gguf")
    return adapter / f"{kind}.gguf"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_a_lora_of_llama_cpp_is_the_same_adapter(
    opened: Callable[..., Any], folders: dict[str, Path], adapter: Path, dtype: str
) -> None:
    templates = {"hop/trained_read@12345678": 4}
    card(adapter, {"base": {"name": "plain", "digest": digest_of(folders["plain"])}, "templates": templates})
    file = in_gguf(adapter)
    plain, folder, lora = (
        opened(dtype=dtype, adapter=given, max_batch_tokens=2000) for given in ("none", str(adapter), str(file))
    )
    said = [ask(model, asking(max_tokens=20, top_logprobs=1)).choices[0] for model in (plain, folder, lora)]
    assert said[1].text == said[2].text != said[0].text
    pairs = zip(said[1].tokens, said[2].tokens, strict=True)
    assert all(one.logprob == pytest.approx(other.logprob, abs=1e-3) for one, other in pairs)
    assert folder.trained_on == lora.trained_on == set(templates) and not plain.trained_on
    assert len({model.identity for model in (plain, folder, lora)}) == 3
    assert "+qwen2@" in lora.name and "+" not in plain.name


def test_a_lora_of_llama_cpp_for_others_is_refused(
    opened: Callable[..., Any], folders: dict[str, Path], adapter: Path
) -> None:
    with pytest.raises(ConfigError, match=r"belongs to base\.gguf"):
        ask(opened(adapter=str(in_gguf(adapter))), asking())
    card(adapter, {"base": {"name": "plain", "digest": digest_of(folders["plain"])}})
    with pytest.raises(ConfigError, match="of the kind llama, which transformers orders otherwise"):
        ask(opened(adapter=str(in_gguf(adapter, "llama"))), asking())
