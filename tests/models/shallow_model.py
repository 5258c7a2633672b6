"""SmolLM2 with its first layers alone: the same file format, tokenizer and kernels, in a tenth of the time."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from hoptree.models.catalogue import locate_weights

BLOCKS = 2
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


def write_shallow_model(target: Path) -> Path:
    """Write SmolLM2's tokenizer, embeddings and first layers as a GGUF file."""
    reader = _Reader(locate_weights("smollm").read_bytes())
    reader.at = 8
    tensor_count, field_count = reader.number("Q"), reader.number("Q")
    begin, blocks_at = reader.at, 0
    for _ in range(field_count):
        name, kind = reader.text(), reader.number("I")
        if name == "llama.block_count":
            assert kind == _UINT32
            blocks_at = reader.at
        reader.skip(kind)
    fields = bytearray(reader.data[begin : reader.at])
    struct.pack_into("<I", fields, blocks_at - begin, BLOCKS)
    tensors = []
    for _ in range(tensor_count):
        start = reader.at
        name = reader.text()
        dimensions = reader.number("I")
        reader.at += 8 * dimensions + 4  # and the type
        tensors.append((name, reader.data[start : reader.at], reader.number("Q")))
    base = reader.at + -reader.at % _ALIGNMENT
    ends = {}
    place = len(reader.data) - base
    for _, _, offset in sorted(tensors, key=lambda tensor: -tensor[2]):
        ends[offset], place = place, offset
    kept = [each for each in tensors if not (block := _BLOCK.match(each[0])) or int(block[1]) < BLOCKS]
    head = reader.data[:8] + struct.pack("<QQ", len(kept), field_count) + fields
    data = b""
    for _, described, offset in kept:
        head += described + struct.pack("<Q", len(data))
        content = reader.data[base + offset : base + ends[offset]]
        data += content + b"\0" * (-len(content) % _ALIGNMENT)
    target.write_bytes(head + b"\0" * (-len(head) % _ALIGNMENT) + data)
    return target
