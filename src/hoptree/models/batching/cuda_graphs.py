"""Steps of writing that an accelerator replays: recorded once, then started by one command instead of a thousand."""

from __future__ import annotations

import importlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hoptree.models.batching.kv_cache import numbers_on

torch: Any = importlib.import_module("torch")
Tensor = Any

# A shape is recorded when it comes for the third time: recording takes as long as a few steps.
SEEN_BEFORE = 2
# Recordings kept; each takes some memory of the device.
RECORDINGS = 64
# Shapes are rounded up so that few are met: rows to a power of two or, if there are more, to a multiple of ROWS.
ROWS = 64
COLUMNS = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """What makes two steps the same work: rows, the columns they look at, and what is told besides the scores."""

    rows: int
    columns: int
    watched: bool
    hidden: bool


@dataclass(frozen=True, slots=True)
class Said:
    """What one step tells of every place: the scores of the next token, attention to all before, a hidden state."""

    logits: Tensor
    weights: Tensor | None
    hidden: Tensor | None


@dataclass(frozen=True, slots=True)
class _Recording:
    graph: Any
    said: Said


class Replays:
    """The steps of one model on CUDA, recorded by their shape.

    A step of a small model keeps the processor busier than the accelerator: it starts a thousand small programs, each
    from Python. A recording starts them all at once. It is bound to the memory that the step read and wrote when it
    was made, so all are forgotten when that changes. What a replay tells is overwritten by the next one.
    """

    def __init__(self, device: str, most_rows: int, write: Callable[[Shape, Tensor, Tensor], Said]) -> None:
        self._write = write
        self._tokens = torch.zeros(most_rows, dtype=torch.long, device=device)
        self._lengths = torch.zeros(most_rows, dtype=torch.long, device=device)
        self._seen: Counter[Shape] = Counter()
        self._recorded: dict[Shape, _Recording] = {}
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._scores: Tensor | None = None
        self._usable = True

    def forget(self) -> None:
        self._seen.clear()
        self._drop()

    def step(self, shape: Shape, tokens: Sequence[int], lengths: Sequence[int]) -> Said:
        """Write one token of each place, as `write` does, or as it did."""
        fed, at = self._tokens[: shape.rows], self._lengths[: shape.rows]
        fed.copy_(numbers_on(fed.device, tokens))
        at.copy_(numbers_on(at.device, lengths))
        recording = self._recorded.get(shape)
        if recording is None and self._is_worth_it(shape):
            recording = self._record(shape, fed, at)
        if recording is None:
            said = self._write(shape, fed, at)
            if self._scores is None:
                self._scores = said.logits.new_empty(len(self._tokens), said.logits.shape[1])
            return said
        recording.graph.replay()
        return recording.said

    def _drop(self) -> None:
        if self._recorded:
            self._recorded.clear()
            # torch takes no more recordings into a pool once its last one is gone.
            self._pool = torch.cuda.graph_pool_handle()

    def _is_worth_it(self, shape: Shape) -> bool:
        self._seen[shape] += 1
        return self._usable and self._seen[shape] > SEEN_BEFORE

    def _record(self, shape: Shape, fed: Tensor, at: Tensor) -> _Recording | None:
        if len(self._recorded) >= RECORDINGS:
            self._drop()
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                # Other threads of the process may go on with what they do on the device.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    said = self._kept(self._write(shape, fed, at))
                finally:
                    graph.capture_end()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if isinstance(error.__context__, torch.OutOfMemoryError):
                raise error.__context__ from None  # of which the end of the recording only complains
            # A model may do what cannot be recorded, such as looking at a number before it goes on.
            logging.getLogger(__name__).info("Steps of this model cannot be recorded: %s", error)
            self._usable = False
            torch.cuda.synchronize()
            return None
        current.wait_stream(self._stream)
        self._recorded[shape] = _Recording(graph, said)
        return self._recorded[shape]

    def _kept(self, said: Said) -> Said:
        """The same with the scores, which are large, in the one place where all recordings leave them."""
        assert self._scores is not None
        scores = self._scores[: len(said.logits)]
        scores.copy_(said.logits)
        return replace(said, logits=scores)


def rounded_rows(rows: int) -> int:
    """The next number of rows that is recorded."""
    return 1 << (rows - 1).bit_length() if rows <= ROWS else -(-rows // ROWS) * ROWS


def rounded_columns(columns: int) -> int:
    """The next number of columns that is recorded."""
    return -(-columns // COLUMNS) * COLUMNS
