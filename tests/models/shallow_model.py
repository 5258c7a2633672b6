"""SmolLM2 with its first layers and tokens alone: the same format, tokenizer and kernels, in a tenth of the time."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from hoptree.models.catalogue import locate_weights

BLOCKS = 2
_TOKENS = 4096
_UNMERGED = 252
"""Special tokens and single bytes, which come first; then follows one token for each merge."""
_NUMBERS = {"llama.block_count": BLOCKS, "llama.vocab_size": _TOKENS}
_LISTS = {
    "tokenizer.ggml.tokens": _TOKENS,
    "tokenizer.ggml.token_type": _TOKENS,
    "tokenizer.ggml.merges": _TOKENS - _UNMERGED,
}
_ALIGNMENT = 32
_UINT32, _STRING, _ARRAY = 4, 8, 9
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, _UINT32: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a number of each type of GGUF."""
_BLOCK = re.compile(r"blk\.(\d+)\.")


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, form: str) -> int:
        (value,) = struct.unpack_from(f"<{form}", self.data, self.at)
        self.at += struct.calcsize(form)
        return int(value)

    def text(self) -> str:
        size = self.number("Q")
        self.at += size
        return self.data[self.at - size : self.at].decode()

    def skip(self, kind: int) -> None:
        """Pass over a value of a type."""
        if kind == _STRING:
            size = self.number("Q")
            self.at += size
        elif kind == _ARRAY:
            inner, count = self.number("I"), self.number("Q")
            if inner in _SIZES:
                self.at += count * _SIZES[inner]
            else:
                for _ in range(count):
                    self.skip(inner)
        else:
            self.at += _SIZES[kind]


def _shortened_field(reader: _Reader) -> bytes:
    """Return the next field of the file, with fewer layers or tokens if it counts or lists them."""
    start = reader.at
    name, kind = reader.text(), reader.number("I")
    value = reader.at
    if name in _NUMBERS:
        assert kind == _UINT32
        reader.skip(kind)
        return reader.data[start:value] + struct.pack("<I", _NUMBERS[name])
    if name not in _LISTS:
        reader.skip(kind)
        return reader.data[start : reader.at]
    inner, count = reader.number("I"), reader.number("Q")
    first = reader.at
    for _ in range(_LISTS[name]):
        reader.skip(inner)
    entries = reader.data[first : reader.at]
    reader.at = value
    reader.skip(kind)
    assert count > _LISTS[name]
    return reader.data[start:value] + struct.pack("<IQ", inner, _LISTS[name]) + entries


def write_shallow_model(target: Path) -> Path:
    """Write SmolLM2's first tokens, their embeddings and the first layers as a GGUF file."""
    reader = _Reader(locate_weights("smollm").read_bytes())
    reader.at = 8
    tensor_count, field_count = reader.number("Q"), reader.number("Q")
    fields = b"".join(_shortened_field(reader) for _ in range(field_count))
    tensors = []
    for _ in range(tensor_count):
        start = reader.at
        name = reader.text()
        dimensions = [reader.number("Q") for _ in range(reader.number("I"))]
        reader.at += 4  # the type
        described = reader.data[start : reader.at]
        tensors.append((name, dimensions, described, reader.number("Q")))
    base = reader.at + -reader.at % _ALIGNMENT
    ends = {}
    place = len(reader.data) - base
    for *_, offset in sorted(tensors, key=lambda tensor: -tensor[3]):
        ends[offset], place = place, offset
    kept = [each for each in tensors if not (block := _BLOCK.match(each[0])) or int(block[1]) < BLOCKS]
    head = reader.data[:8] + struct.pack("<QQ", len(kept), field_count) + fields
    data = b""
    for name, dimensions, described, offset in kept:
        content = reader.data[base + offset : base + ends[offset]]
        if name == "token_embd.weight":
            width, rows = dimensions
            described = described.replace(struct.pack("<QQ", width, rows), struct.pack("<QQ", width, _TOKENS))
            content = content[: len(content) // rows * _TOKENS]
        head += described + struct.pack("<Q", len(data))
        data += content + b"\0" * (-len(content) % _ALIGNMENT)
    target.write_bytes(head + b"\0" * (-len(head) % _ALIGNMENT) + data)
    return target
