"""One reply in the making, and the choice of its next token."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.models.batching.kv import aligned

__all__ = ["Logprobs", "Row", "fitting", "next_tokens"]

torch: Any = importlib.import_module("torch")

# Columns kept for what a row will write; it gets more when it needs them.
AHEAD = 128


@dataclass(frozen=True, slots=True)
class Logprobs:
    """The log-probability of a chosen token, and the likeliest tokens with theirs, best first."""

    chosen: float
    top: tuple[tuple[int, float], ...]


@dataclass(slots=True, eq=False)
class Row:
    """One reply: `future` is done when it is complete, and cancelling that takes the row out of the batch.

    `ends` is asked after each token whether the tokens so far complete the reply. `place` is the row's place in the
    batch's memory, `cached` how many tokens of its prompt had been read for another row. Where an encoder reads the
    prompt, `begin` is what the decoder is given before the reply.
    """

    prompt: list[int]
    max_tokens: int
    temperature: float = 0.0
    seed: int = 0
    top: int = 0
    ends: Callable[[list[int]], bool] | None = None
    begin: list[int] = field(default_factory=list)
    future: Future[None] = field(default_factory=Future)
    output: list[int] = field(default_factory=list)
    logprobs: list[Logprobs] = field(default_factory=list)
    finish: Literal["stop", "length"] = "length"
    cached: int = 0
    place: int = -1
    _draws: list[float] = field(default_factory=list)

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.output

    @property
    def target(self) -> list[int]:
        """What a decoder beside an encoder is given, and has written."""
        return self.begin + self.output

    @property
    def target_length(self) -> int:
        return len(self.begin) + len(self.output)

    @property
    def last(self) -> int:
        return (self.output or self.begin or self.prompt)[-1]

    @property
    def read(self) -> int:
        """How many tokens come before the reply."""
        return len(self.prompt) + len(self.begin)

    @property
    def length(self) -> int:
        return self.read + len(self.output)

    @property
    def longest(self) -> int:
        return self.read + self.max_tokens

    @property
    def width(self) -> int:
        """The columns the row needs for now."""
        return aligned(min(self.longest, self.length + AHEAD))

    def draw(self) -> float:
        """A number from 0 to 1 for the next token, from the row's own generator: no other row can change it."""
        if not self._draws:
            generator = torch.Generator().manual_seed(self.seed % 2**63)
            self._draws = torch.rand(self.max_tokens, generator=generator, dtype=torch.float64).tolist()
        return self._draws[len(self.output)]

    def add(self, token: int, end_tokens: frozenset[int]) -> bool:
        """Take the next token; True if it is the last."""
        self.output.append(token)
        if token in end_tokens or (self.ends is not None and self.ends(self.output)):
            self.finish = "stop"
            return True
        return len(self.output) >= self.max_tokens


def fitting(rows: Sequence[Row], tokens: int) -> int:
    """How many rows, from the first on and at least one, times the widest of them are no more than so many tokens."""
    width = 0
    for number, row in enumerate(rows):
        width = max(width, row.width)
        if number and (number + 1) * width > tokens:
            return number
    return len(rows)


def next_tokens(logits: Any, rows: Sequence[Row]) -> list[int]:
    """The next token of each row, whose scores stand in the same order; log-probabilities go to the rows that ask."""
    chosen: list[int] = logits.argmax(-1).tolist()
    if sampled := [number for number, row in enumerate(rows) if row.temperature > 0]:
        for number, token in zip(sampled, _sampled(logits, rows, sampled), strict=True):
            chosen[number] = token
    if asking := [number for number, row in enumerate(rows) if row.top]:
        _note_logprobs(logits, rows, asking, chosen)
    return chosen


def _sampled(logits: Any, rows: Sequence[Row], numbers: list[int]) -> list[int]:
    """One draw a row, looked up in its summed probabilities."""
    scores = logits[torch.tensor(numbers, device=logits.device)].double()
    temperatures = [[rows[number].temperature] for number in numbers]
    draws = [[rows[number].draw()] for number in numbers]
    scores /= torch.tensor(temperatures, dtype=scores.dtype, device=scores.device)
    summed = scores.softmax(-1).cumsum(-1)
    wanted = torch.tensor(draws, dtype=summed.dtype, device=summed.device) * summed[:, -1:]
    # The first token whose sum exceeds the draw has a probability above 0.
    tokens: list[int] = torch.searchsorted(summed, wanted, right=True)[:, 0].clamp(max=logits.shape[1] - 1).tolist()
    return tokens


def _note_logprobs(logits: Any, rows: Sequence[Row], numbers: list[int], chosen: list[int]) -> None:
    logprobs = logits[torch.tensor(numbers, device=logits.device)].float().log_softmax(-1)
    tokens = torch.tensor([[chosen[number]] for number in numbers], device=logits.device)
    best = logprobs.topk(min(max(rows[number].top for number in numbers), logprobs.shape[1]))
    found = zip(
        numbers, logprobs.gather(1, tokens)[:, 0].tolist(), best.indices.tolist(), best.values.tolist(), strict=True
    )
    for number, logprob, rivals, values in found:
        top = tuple(zip(rivals, values, strict=True))[: rows[number].top]
        rows[number].logprobs.append(Logprobs(logprob, top))
