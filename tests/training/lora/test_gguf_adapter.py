"""An adapter as a LoRA file of llama.cpp: names, shapes, the order of rows, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.models.adapters import read_adapter
from hoptree.models.catalogue import ADAPTER_CARD, file_digest
from hoptree.training.lora.gguf import convert

numpy: Any = pytest.importorskip("numpy")
gguf: Any = pytest.importorskip("gguf")
files: Any = pytest.importorskip("safetensors.numpy")

WIDTH, HEADS, KEY_HEADS, RANK = 16, 4, 2, 3
LAYERS = {
    "self_attn.q_proj": ("attn_q", WIDTH),
    "self_attn.k_proj": ("attn_k", WIDTH // 2),
    "mlp.up_proj": ("ffn_up", 2 * WIDTH),
}


def base(folder: Path, kind: str = "llama", *, wide: int = WIDTH) -> Path:
    path = folder / f"{kind}-{wide}.gguf"
    writer = gguf.GGUFWriter(str(path), kind)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    for name, rows in LAYERS.values():
        writer.add_tensor(f"blk.0.{name}.weight", numpy.zeros((rows, wide), dtype="float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def adapter(tmp_path: Path) -> Path:
    folder = tmp_path / "adapter"
    folder.mkdir()
    drawn = numpy.random.default_rng(0)
    tensors = {}
    for layer, (_, rows) in LAYERS.items():
        for side, shape in (("A", (RANK, WIDTH)), ("B", (rows, RANK))):
            tensors[f"base_model.model.model.layers.0.{layer}.lora_{side}.weight"] = drawn.normal(size=shape).astype(
                "float32"
            )
    files.save_file(tensors, str(folder / "adapter_model.safetensors"))
    settings = {"peft_type": "LORA", "r": RANK, "lora_alpha": 6, "use_dora": False}
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def written(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    reader = gguf.GGUFReader(str(path))
    said = {name: field.contents() for name, field in reader.fields.items() if "." in name}
    return said, {one.name: one.data for one in reader.tensors}


def learnt(adapter: Path, layer: str, side: str) -> Any:
    tensors = files.load_file(str(adapter / "adapter_model.safetensors"))
    return tensors[f"base_model.model.model.layers.0.{layer}.lora_{side}.weight"].astype("float16")


def test_llama_cpp_finds_what_it_looks_for(adapter: Path, tmp_path: Path) -> None:
    told = convert(adapter, base(tmp_path, "qwen2"), tmp_path / "new" / "a.gguf")
    said, tensors = written(tmp_path / "new" / "a.gguf")
    assert told["layers"] == 3 and told["rank"] == RANK and told["kind"] == "qwen2"
    wanted = {"general.architecture": "qwen2", "general.type": "adapter", "adapter.type": "lora"}
    assert said.items() >= {**wanted, "adapter.lora.alpha": 6.0}.items()
    for layer, (name, _) in LAYERS.items():
        for side in "AB":
            there = tensors[f"blk.0.{name}.weight.lora_{side.lower()}"]
            assert numpy.array_equal(there, learnt(adapter, layer, side))
    assert len(tensors) == 6 and not list(tmp_path.rglob("*.new"))


def test_it_names_its_bases_and_the_prompts_it_was_trained_on(adapter: Path, tmp_path: Path) -> None:
    file, out = base(tmp_path, "qwen2"), tmp_path / "a.gguf"
    convert(adapter, file, out)
    assert dict(read_adapter(out).bases) == {file_digest(file): file.name} and not read_adapter(out).templates
    card = {"base": {"name": "models/bf16", "digest": "b" * 64}, "templates": {"hop/trained_read@12345678": 7}}
    (adapter / ADAPTER_CARD).write_text(json.dumps(card), encoding="utf-8")
    convert(adapter, file, out)
    read = read_adapter(out)
    assert dict(read.bases) == {file_digest(file): file.name, "b" * 64: "bf16"}
    assert read.templates == {"hop/trained_read@12345678"}
    read.check_base("b" * 64, "hf/bf16")
    with pytest.raises(ConfigError, match=r"belongs to qwen2-16\.gguf \(\w+…\) or bf16 \(b+…\), and hf/other \(cc"):
        read.check_base("c" * 64, "hf/other")


def test_heads_of_llama_have_their_rows_in_another_order(adapter: Path, tmp_path: Path) -> None:
    convert(adapter, base(tmp_path), tmp_path / "a.gguf")
    _, tensors = written(tmp_path / "a.gguf")
    for layer, heads in (("self_attn.q_proj", HEADS), ("self_attn.k_proj", KEY_HEADS)):
        name, rows = LAYERS[layer]
        before, after = learnt(adapter, layer, "B"), tensors[f"blk.0.{name}.weight.lora_b"]
        size = rows // heads
        for head in range(heads):
            for place in range(size // 2):
                first, second = head * size + place, head * size + place + size // 2
                assert numpy.array_equal(after[head * size + 2 * place], before[first])
                assert numpy.array_equal(after[head * size + 2 * place + 1], before[second])
        assert numpy.array_equal(tensors[f"blk.0.{name}.weight.lora_a"], learnt(adapter, layer, "A"))
    assert numpy.array_equal(tensors["blk.0.ffn_up.weight.lora_b"], learnt(adapter, "mlp.up_proj", "B"))


def test_what_llama_cpp_would_not_take_is_refused_and_nothing_written(adapter: Path, tmp_path: Path) -> None:
    out = tmp_path / "a.gguf"
    settings = json.loads((adapter / "adapter_config.json").read_text(encoding="utf-8"))
    refused: list[tuple[Path, dict[str, Any], type[HoptreeError], str]] = [
        (base(tmp_path, "phi3"), settings, ConfigError, "of the kind phi3"),
        (base(tmp_path, wide=32), settings, InputError, "32 x 16 weights, and that of llama-32.gguf 32 x 32"),
        (base(tmp_path), settings | {"use_dora": True}, ConfigError, "use_dora"),
        (base(tmp_path), {"peft_type": "IA3"}, InputError, "no LoRA adapter"),
        (adapter / "adapter_config.json", settings, InputError, "not a GGUF file"),
    ]
    for file, said, error, cause in refused:
        (adapter / "adapter_config.json").write_text(json.dumps(said), encoding="utf-8")
        with pytest.raises(error, match=cause):
            convert(adapter, file, out)
    (adapter / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    tensors = files.load_file(str(adapter / "adapter_model.safetensors"))
    other = {name.replace("up_proj", "side_proj"): tensor for name, tensor in tensors.items()}
    files.save_file(other, str(adapter / "adapter_model.safetensors"))
    with pytest.raises(InputError, match=r"no layer model\.layers\.0\.mlp\.side_proj"):
        convert(adapter, base(tmp_path), out)
    assert not out.exists()


def test_at_the_command_line(adapter: Path, tmp_path: Path) -> None:
    file = base(tmp_path, "qwen2")
    usual = ["align", "gguf", str(adapter), "--out", str(tmp_path / "a.gguf"), "--base"]
    printed = CliRunner().invoke(app, [*usual, str(file)])
    assert printed.exit_code == 0 and "3 layers of rank 3" in printed.output and (tmp_path / "a.gguf").exists()
    folder = CliRunner().invoke(app, [*usual, str(tmp_path)])
    assert isinstance(folder.exception, HoptreeError) and folder.exception.exit_code == 2


def test_weights_of_sixteen_bits_are_read(adapter: Path, tmp_path: Path) -> None:
    file = adapter / "adapter_model.safetensors"
    exact = files.load_file(str(file))
    short = {name: (one.view("uint32") & 0xFFFF0000).view("float32") for name, one in exact.items()}  # as bf16 holds
    head: dict[str, Any] = {}
    data = b""
    for name, one in exact.items():
        told = (one.view("uint32") >> 16).astype("uint16").tobytes()
        head[name] = {"dtype": "BF16", "shape": list(one.shape), "data_offsets": [len(data), len(data) + len(told)]}
        data += told
    written_head = json.dumps(head).encode()
    file.write_bytes(len(written_head).to_bytes(8, "little") + written_head + data)
    convert(adapter, base(tmp_path, "qwen2"), tmp_path / "short.gguf")
    files.save_file(short, str(file))
    convert(adapter, base(tmp_path, "qwen2"), tmp_path / "same.gguf")
    one, other = written(tmp_path / "short.gguf")[1], written(tmp_path / "same.gguf")[1]
    assert one.keys() == other.keys() and all(numpy.array_equal(one[name], other[name]) for name in one)
    file.write_bytes(file.read_bytes().replace(b'"F32"', b'"I32"'))
    with pytest.raises(ConfigError, match="numbers of the kind I32"):
        convert(adapter, base(tmp_path, "qwen2"), tmp_path / "none.gguf")
