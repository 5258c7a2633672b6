"""Encoders of a few words, made on the spot in the formats of the real ones, and a retriever with fixed results."""

from __future__ import annotations

import importlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hoptree.core.values import Passage

__all__ = ["WORDS", "Fixed", "Store", "save_onnx", "save_static", "save_tokenizer", "save_transformer"]

WORDS: dict[str, tuple[float, ...]] = {
    "[UNK]": (0.0, 0.0, 0.0, 0.0),
    "query": (0.0, 0.0, 0.0, 1.0),
    "passage": (0.0, 0.0, 0.0, -1.0),
    "river": (1.0, 0.0, 0.0, 0.0),
    "water": (0.9, 0.1, 0.0, 0.0),
    "king": (0.0, 1.0, 0.0, 0.0),
    "queen": (0.0, 0.9, 0.3, 0.0),
    "moon": (0.0, 0.0, 1.0, 0.0),
}


@dataclass(slots=True)
class Fixed:
    """A retriever that always finds the same passages."""

    passages: Sequence[Passage]
    kind: str = "fixed"
    identity: str = "fixed:1"
    remote: bool = False
    asked: list[int] = field(default_factory=list)
    closed: bool = False

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append(k)
        wanted = set((where or {}).items())
        fitting = [passage for passage in self.passages if wanted <= set(passage.metadata)]
        return tuple(replace(each, stages=((self.kind, each.score),)) for each in fitting[:k])

    async def aclose(self) -> None:
        self.closed = True


@dataclass(slots=True)
class Store:
    """Passages by key, in memory."""

    passages: dict[int, Passage]
    digest: str = "d1"

    def fetch(self, keys: Sequence[int]) -> dict[int, Passage]:
        return {key: self.passages[key] for key in keys if key in self.passages}


def save_tokenizer(folder: Path) -> None:
    tokenizers = importlib.import_module("tokenizers")
    words = tokenizers.models.WordLevel({word: place for place, word in enumerate(WORDS)}, unk_token="[UNK]")
    tokenizer = tokenizers.Tokenizer(words)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))


def save_static(folder: Path) -> Path:
    """A model2vec folder."""
    import numpy as np

    tokenizers, model2vec = importlib.import_module("tokenizers"), importlib.import_module("model2vec")
    save_tokenizer(folder)
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    model2vec.StaticModel(np.asarray(list(WORDS.values()), dtype=np.float32), tokenizer).save_pretrained(folder)
    return folder


def save_onnx(folder: Path) -> Path:
    """An ONNX model that looks each word up: its states are the words' vectors. Written field by field."""
    save_tokenizer(folder)
    width = len(WORDS["river"])
    raw = b"".join(struct.pack(f"<{width}f", *row) for row in WORDS.values())
    table = _number(1, len(WORDS)) + _number(1, width) + _number(2, 1) + _bytes(8, b"table") + _bytes(9, raw)
    node = _bytes(1, b"table") + _bytes(1, b"input_ids") + _bytes(2, b"states") + _bytes(4, b"Gather")
    graph = _bytes(1, node) + _bytes(2, b"words") + _bytes(5, table)
    graph += _bytes(11, _value(b"input_ids", 7, 2)) + _bytes(12, _value(b"states", 1, 3))
    opset = _bytes(1, b"") + _number(2, 13)
    (folder / "model.onnx").write_bytes(_number(1, 8) + _bytes(7, graph) + _bytes(8, opset))
    return folder


def save_transformer(folder: Path, kind: str, **options: int) -> Path:
    """The smallest BERT there can be, of random weights, in the layout of model hubs."""
    transformers = importlib.import_module("transformers")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(word for word in WORDS if word.isalpha())]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    transformers.BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    config = transformers.BertConfig(vocab_size=len(words), **sizes, **options)
    getattr(transformers, kind)(config).save_pretrained(folder)
    return folder


def _value(name: bytes, kind: int, axes: int) -> bytes:
    shape = b"".join(_bytes(1, _bytes(2, f"axis{axis}".encode())) for axis in range(axes))
    return _bytes(1, name) + _bytes(2, _bytes(1, _number(1, kind) + _bytes(2, shape)))


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes((*out, number))


def _number(tag: int, number: int) -> bytes:
    return _varint(tag << 3) + _varint(number)


def _bytes(tag: int, content: bytes) -> bytes:
    return _varint(tag << 3 | 2) + _varint(len(content)) + content
