"""What a batch asks of a model, and how prompts are put together in passes."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hoptree.models.batching.rows import Row

torch: Any = importlib.import_module("torch")

# Places of rows that left may stay empty up to this part of all before the others are moved together.
EMPTY_PART = 4
# Tokens of one pass over prompts: more would not make a large accelerator faster, and would hold up the running rows.
READ_TOKENS = 16384
# Where memory was short, no fewer than this: it would stay so when there is enough again.
LEAST_READ = 1024
# Tokens that a pass may look at, beginnings included, for each one it reads.
SEEN_PER_READ = 4
# Padding may be this part of a pass; an accelerator has read so many tokens before it notices more.
PADDING_PART = 8
FREE_PADDING = 2048


class Passes(Protocol):
    """A model with the memory of the rows it works on: one class for each way a model can be built."""

    @property
    def held(self) -> int:
        """The tokens it has memory for, or tried to have: rows times the longest of them, with what they may write."""

    def join(self, joining: Sequence[Row], running: Sequence[Row], tokens: int) -> None:
        """Read the prompts of rows that run beside others from now on, all of them within so many `tokens`."""

    def make_room(self, rows: Sequence[Row], tokens: int) -> int:
        """See to it that rows can write one more token; how many of them, from the first on, is told."""

    def write(self, rows: Sequence[Row]) -> Any:
        """The scores of every row's next token, in the order of the rows, which have all joined.

        What rows asked to be told of the pass itself is noted in them.
        """

    def force(self, row: Row) -> Iterator[Any]:
        """The scores from which each forced token of a row that has joined would be chosen, in portions."""

    def clear(self) -> None:
        """Forget every row."""

    def read_less(self) -> None:
        """Read half as much at once from now on."""


@dataclass(slots=True)
class Portions:
    """How prompts are divided among passes: those of like length together, as many as one may read with padding."""

    device: str
    read_tokens: int = READ_TOKENS

    def of(self, lengths: Iterable[int], shared: int = 0) -> list[list[int]]:
        """The numbers of the prompts in each pass, longest first; `shared` tokens of each are looked at, not read."""
        free = 0 if self.device == "cpu" else FREE_PADDING
        portions: list[list[int]] = []
        longest = real = 0
        for number, length in sorted(enumerate(lengths), key=lambda pair: -pair[1]):
            if portions:
                count, read = len(portions[-1]) + 1, real + length - shared
                padded = count * (longest - shared)
                padding = padded - read
                fits = padded <= self.read_tokens and count * longest <= SEEN_PER_READ * self.read_tokens
                if fits and (padding <= free or PADDING_PART * padding <= padded):
                    portions[-1].append(number)
                    real = read
                    continue
            portions.append([number])
            longest, real = length, length - shared
        return portions

    def read_less(self) -> None:
        self.read_tokens = max(LEAST_READ, self.read_tokens // 2)


def give_back() -> None:
    """Let the device have the memory that nothing uses any more."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
