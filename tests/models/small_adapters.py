"""LoRA files of llama.cpp and packages of weights, written without the libraries that make real ones."""

from __future__ import annotations

import array
import hashlib
import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.files import ADAPTER, WEIGHTS_FORMAT, WEIGHTS_MANIFEST, WEIGHTS_PACKAGE, find_weights

_ALIGNMENT = 32
_STRING, _FLOAT32 = 8, 6
WIDE, BLOCKS, INNER, RANK = 576, 30, 1536, 4
"""The shape of SmolLM2 135M, and of the adapters made here for it."""


def lora_file(
    path: Path, card: Mapping[str, Any] | None = None, *, kind: str = "adapter", seed: int = 1, blocks: int = BLOCKS
) -> Path:
    """Write a LoRA on the gates of SmolLM2 135M; `card` is what it says of bases and templates.

    The fewer blocks, the more each changes, so that replies change.
    """
    fields: list[tuple[str, str | float]] = [("general.architecture", "llama"), ("general.type", kind)]
    fields += [("adapter.type", "lora"), ("adapter.lora.alpha", 4.0)]
    if card is not None:
        fields.append(("hoptree.card", json.dumps(card)))
    tensors = _tensors(seed, blocks)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(fields))
    for key, value in fields:
        written = struct.pack("<If", _FLOAT32, value) if isinstance(value, float) else None
        head += _text(key) + (written or struct.pack("<I", _STRING) + _text(str(value)))
    data = b""
    for name, shape, values in tensors:
        head += _text(name) + struct.pack("<IQQIQ", 2, *shape, 0, len(data))
        data += _padded(values)
    path.write_bytes(_padded(head) + data)
    return path


@cache  # the package of weights is made anew for most tests
def _tensors(seed: int, blocks: int) -> list[tuple[str, tuple[int, int], bytes]]:
    """Return name, shape and drawn numbers of each tensor."""
    drawn = random.Random(seed)
    return [
        (
            f"blk.{block}.ffn_gate.weight.lora_{side}",
            shape,
            array.array("f", (drawn.gauss(0, 0.3 * BLOCKS / blocks) for _ in range(shape[0] * shape[1]))).tobytes(),
        )
        for block in range(blocks)
        for side, shape in (("a", (WIDE, RANK)), ("b", (RANK, INNER)))
    ]


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value.encode())) + value.encode()


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNMENT)


Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return what makes a package of weights that can be imported, for bases with these digests."""

    def installed(bases: Mapping[str, str], templates: Sequence[str] = ()) -> Path:
        folder = tmp_path / "site" / WEIGHTS_PACKAGE
        folder.mkdir(parents=True)
        (folder / "__init__.py").touch()
        lora_file(folder / ADAPTER, {"bases": dict(bases), "templates": list(templates)})
        files = {
            file.name: {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}
            for file in folder.iterdir()
            if file.suffix != ".py"
        }
        manifest = {"format": WEIGHTS_FORMAT, "files": files, "bases": dict(bases), "templates": list(templates)}
        (folder / WEIGHTS_MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
        monkeypatch.syspath_prepend(folder.parent)
        forget()
        return folder

    yield installed
    monkeypatch.undo()
    forget()


def forget() -> None:
    """Have the package looked for and read anew."""
    find_weights.cache_clear()
