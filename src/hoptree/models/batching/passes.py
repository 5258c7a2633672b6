"""The Protocol between a batch and its model, and how prompts are divided into passes."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hoptree.models.batching.rows import Row

torch: Any = importlib.import_module("torch")

# Up to one in so many places may be empty before rows are moved together.
MAX_EMPTY_PART = 4
# Tokens of one pass over prompts: more would not be faster, and would hold up the running rows.
_MAX_READ_TOKENS = 16384
# The minimum after memory was short: it does not grow again.
_MIN_READ_TOKENS = 1024
# Tokens that a pass may attend to, shared prefixes included, for each one it reads.
_MAX_SEEN_PER_READ = 4
# Padding may be one in so many tokens of a pass; on an accelerator so much is free.
_MAX_PADDING_PART = 8
_FREE_PADDING_TOKENS = 2048


class Passes(Protocol):
    """A model with the KV cache of its rows: one class for each architecture."""

    @property
    def held(self) -> int:
        """The tokens that are (or were tried to be) allocated: rows times the longest of them."""

    def join(self, joining: Sequence[Row], running: Sequence[Row], tokens: int) -> None:
        """Read the prompts of rows that join the running ones, all within `tokens`."""

    def make_room(self, rows: Sequence[Row], tokens: int) -> int:
        """Make room for one more token a row; return how many rows, from the first on, fit."""

    def write(self, rows: Sequence[Row]) -> Any:
        """Return the scores of every row's next token, in order; signals of the pass are noted in the rows."""

    def force(self, row: Row) -> Iterator[Any]:
        """Yield the scores of each forced token of a row that has joined, in portions."""

    def clear(self) -> None:
        """Forget every row."""

    def read_less(self) -> None:
        """Read half as much at once from now on."""


@dataclass(slots=True)
class Portions:
    """Divides prompts among passes: those of similar length together."""

    device: str
    read_tokens: int = _MAX_READ_TOKENS

    def of(self, lengths: Iterable[int], shared: int = 0) -> list[list[int]]:
        """Return the numbers of the prompts of each pass, longest first; `shared` tokens of each are not read."""
        free = 0 if self.device == "cpu" else _FREE_PADDING_TOKENS
        portions: list[list[int]] = []
        longest = real = 0
        for number, length in sorted(enumerate(lengths), key=lambda pair: -pair[1]):
            if portions:
                count, read = len(portions[-1]) + 1, real + length - shared
                padded = count * (longest - shared)
                padding = padded - read
                fits = padded <= self.read_tokens and count * longest <= _MAX_SEEN_PER_READ * self.read_tokens
                if fits and (padding <= free or _MAX_PADDING_PART * padding <= padded):
                    portions[-1].append(number)
                    real = read
                    continue
            portions.append([number])
            longest, real = length, length - shared
        return portions

    def read_less(self) -> None:
        self.read_tokens = max(_MIN_READ_TOKENS, self.read_tokens // 2)


def free_device_memory() -> None:
    """Return unused memory to the device."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
