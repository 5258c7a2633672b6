"""Convert a peft adapter to a LoRA file of llama.cpp."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError, InputError, file_errors
from hoptree.core.lazy import import_optional
from hoptree.models.adapters import CARD_KEY
from hoptree.models.catalogue import ADAPTER_FILES, file_digest
from hoptree.training.lora.checkpoint import read_card

_LAYER = re.compile(r"base_model\.model\.(.+)\.lora_([AB])\.weight")
_PERMUTED: dict[str, tuple[str, ...]] = {"llama": ("attn_q.weight", "attn_k.weight"), "qwen2": ()}
"""The supported architectures, and their layers whose rows llama.cpp reorders."""
_NUMPY_TYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8"}
_UNSUPPORTED = ("use_dora", "use_rslora", "modules_to_save", "rank_pattern", "alpha_pattern", "fan_in_fan_out")
"""Settings of peft that a LoRA file of llama.cpp cannot express."""


@dataclass(frozen=True, slots=True)
class _Base:
    """Architecture, heads and tensor shapes of the base."""

    kind: str
    blocks: int
    heads: int
    key_heads: int
    shapes: Mapping[str, tuple[int, int]]


def convert(adapter: Path, base: Path, out: Path) -> dict[str, Any]:
    """Write the adapter for llama.cpp, checked against the base as a GGUF file.

    Every layer must be in the base with the same shape; the base may be quantised differently. Numbers have 16 bits.
    The file records the digests of its base weights, and the prompts that it was trained on.
    """
    gguf = import_optional("gguf", "A LoRA file for llama.cpp", "train")
    settings = _settings(adapter)
    known = _read_base(gguf, base)
    pairs = _pairs(adapter)
    names = gguf.get_tensor_name_map(
        next(kind for kind, name in gguf.MODEL_ARCH_NAMES.items() if name == known.kind), known.blocks
    )
    tensors: dict[str, Any] = {}
    for layer, pair in sorted(pairs.items()):
        name = names.get_name(f"{layer}.weight", try_suffixes=(".weight",))
        if name is None or name not in known.shapes:
            raise InputError(f"{base.name} has no layer {layer}.", "Give --base the model that the adapter is for.")
        if set(pair) != {"A", "B"}:
            raise InputError(f"{adapter} has half an adapter for {layer}.", "Take the folder from where it was made.")
        inward, outward = pair["A"], pair["B"]
        if (outward.shape[0], inward.shape[1]) != known.shapes[name]:
            raise InputError(
                f"{layer} has {outward.shape[0]} x {inward.shape[1]} weights, and that of {base.name} "
                f"{' x '.join(map(str, known.shapes[name]))}.",
                "Give --base the model that the adapter is for.",
            )
        if name.endswith(_PERMUTED[known.kind]):
            # The rows of each head in llama.cpp's order: the two halves of transformers alternate.
            heads = known.heads if name.endswith("attn_q.weight") else known.key_heads
            rows, columns = outward.shape
            outward = outward.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)
        tensors[f"{name}.lora_a"], tensors[f"{name}.lora_b"] = inward, outward
    trained_card = read_card(adapter) or {}
    trained = trained_card.get("base") or {}
    bases = {file_digest(base): base.name}
    if isinstance(trained.get("digest"), str):
        bases.setdefault(trained["digest"], Path(str(trained.get("name"))).name)
    card = {"bases": bases, "templates": sorted(trained_card.get("templates") or ())}
    _write(gguf, out, known.kind, float(settings["lora_alpha"]), card, tensors)
    written = {"out": str(out), "base": str(base), "kind": known.kind, "layers": len(pairs), "rank": settings["r"]}
    return {**written, **card}


def _settings(adapter: Path) -> dict[str, Any]:
    path = adapter / ADAPTER_FILES[0]
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read.", "Give the folder of an adapter of hoptree align train.") from error
    if not isinstance(settings, dict) or not {"r", "lora_alpha"} <= set(settings):
        raise InputError(f"{path} tells of no LoRA adapter.", "Give the folder of an adapter of hoptree align train.")
    if unsupported := [name for name in _UNSUPPORTED if settings.get(name)]:
        cause = f"{adapter} has {', '.join(unsupported)}, for which llama.cpp has no place."
        raise ConfigError(cause, "Use it as hf/NAME?adapter=FOLDER.")
    return settings


def _pairs(adapter: Path) -> dict[str, dict[str, Any]]:
    """Return both matrices of every layer in 32 bits, by transformers' names."""
    files: Any = importlib.import_module("safetensors")
    numpy: Any = importlib.import_module("numpy")
    try:
        tensors = dict(files.deserialize((adapter / ADAPTER_FILES[1]).read_bytes()))
    except Exception as error:  # the library raises errors of several kinds
        raise InputError(f"{adapter / ADAPTER_FILES[1]} cannot be read.", "Give the folder of an adapter.") from error
    pairs: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        if (match := _LAYER.fullmatch(name)) is None:
            raise ConfigError(f"{adapter} has {name}, which is not part of LoRA.", "Use it as hf/NAME?adapter=FOLDER.")
        kind, data = tensor["dtype"], bytes(tensor["data"])
        if kind == "BF16":  # which numpy does not have
            array = (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4")
        elif kind in _NUMPY_TYPES:
            array = numpy.frombuffer(data, _NUMPY_TYPES[kind]).astype("float32")
        else:
            raise ConfigError(f"{adapter} has numbers of the kind {kind}.", "Use it as hf/NAME?adapter=FOLDER.")
        pairs.setdefault(match[1], {})[match[2]] = array.reshape(tensor["shape"])
    return pairs


def _read_base(gguf: Any, base: Path) -> _Base:
    try:
        reader = gguf.GGUFReader(str(base))
        fields = {name: field.contents() for name, field in reader.fields.items() if name.count(".") < 4}
        shapes = {
            str(tensor.name): (int(tensor.shape[1]), int(tensor.shape[0]))
            for tensor in reader.tensors
            if len(tensor.shape) == 2
        }
        kind = str(fields["general.architecture"])
        heads = int(fields[f"{kind}.attention.head_count"])
        blocks = int(fields[f"{kind}.block_count"])
    except Exception as error:  # the library has no specific error
        raise InputError(f"{base} is not a GGUF file of a language model.", "Give --base NAME or FILE.gguf.") from error
    if kind not in _PERMUTED:
        cause = f"{base.name} is a model of the kind {kind}, whose layers are not known here."
        remedy = f"Adapters for {' and '.join(_PERMUTED)} are converted; others are used as hf/NAME?adapter=FOLDER."
        raise ConfigError(cause, remedy)
    return _Base(kind, blocks, heads, int(fields.get(f"{kind}.attention.head_count_kv", heads)), shapes)


def _write(gguf: Any, out: Path, kind: str, alpha: float, card: Mapping[str, Any], tensors: Mapping[str, Any]) -> None:
    fresh = out.with_name(f"{out.name}.new")
    with file_errors(out, "written", "Give another --out."):
        out.parent.mkdir(parents=True, exist_ok=True)
        writer = gguf.GGUFWriter(str(fresh), kind)
        writer.add_type(gguf.GGUFType.ADAPTER)
        writer.add_string(gguf.Keys.Adapter.TYPE, "lora")
        writer.add_float32(gguf.Keys.Adapter.LORA_ALPHA, alpha)
        writer.add_string(CARD_KEY, json.dumps(card))
        for name, tensor in tensors.items():
            writer.add_tensor(name, tensor.astype("float16"))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        fresh.replace(out)
