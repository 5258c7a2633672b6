"""Decoding steps recorded as CUDA graphs and replayed."""

from __future__ import annotations

import importlib
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hoptree.models.batching.kv_cache import tensor_on

torch: Any = importlib.import_module("torch")
Tensor = Any

# A shape is recorded when it comes for the third time: recording takes as long as a few steps.
_MIN_REPEATS = 2
_MAX_RECORDINGS = 64
# Shapes are rounded up so that there are few: rows to a power of two, or to a multiple of _ROW_BLOCK if there are more.
_ROW_BLOCK = 64
_COLUMN_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """What identifies a recording: rows, columns attended to, and the signals that are computed."""

    rows: int
    columns: int
    watched: bool
    hidden: bool


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Results of a step for every place: scores of the next token, attention, hidden state."""

    logits: Tensor
    weights: Tensor | None
    hidden: Tensor | None


@dataclass(frozen=True, slots=True)
class _Recording:
    graph: Any
    output: StepOutput


class Replays:
    """The steps of one model on CUDA, recorded by shape.

    Launching the kernels of a small model takes longer than running them; a recording launches them all at once. It is
    bound to the memory of the step, so all are dropped when that changes. The next replay overwrites an output.
    """

    def __init__(self, device: str, max_rows: int, write: Callable[[Shape, Tensor, Tensor], StepOutput]) -> None:
        self._write = write
        self._tokens = torch.zeros(max_rows, dtype=torch.long, device=device)
        self._lengths = torch.zeros(max_rows, dtype=torch.long, device=device)
        self._seen: Counter[Shape] = Counter()
        self._recorded: dict[Shape, _Recording] = {}
        self._stream = torch.cuda.Stream(device)
        self._pool = torch.cuda.graph_pool_handle()
        self._scores: Tensor | None = None
        self._usable = True

    def forget(self) -> None:
        self._seen.clear()
        self._drop()

    def step(self, shape: Shape, tokens: Sequence[int], lengths: Sequence[int]) -> StepOutput:
        """Write one token of each place, by `write` or by a replay of it."""
        fed, at = self._tokens[: shape.rows], self._lengths[: shape.rows]
        fed.copy_(tensor_on(fed.device, tokens))
        at.copy_(tensor_on(at.device, lengths))
        recording = self._recorded.get(shape)
        if recording is None and self._is_worth_it(shape):
            recording = self._record(shape, fed, at)
        if recording is None:
            output = self._write(shape, fed, at)
            if self._scores is None:
                self._scores = output.logits.new_empty(len(self._tokens), output.logits.shape[1])
            return output
        recording.graph.replay()
        return recording.output

    def _drop(self) -> None:
        if self._recorded:
            self._recorded.clear()
            # A pool takes no more recordings once its last one is gone.
            self._pool = torch.cuda.graph_pool_handle()

    def _is_worth_it(self, shape: Shape) -> bool:
        self._seen[shape] += 1
        return self._usable and self._seen[shape] > _MIN_REPEATS

    def _record(self, shape: Shape, fed: Tensor, at: Tensor) -> _Recording | None:
        if len(self._recorded) >= _MAX_RECORDINGS:
            self._drop()
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                # Other threads may go on using the device.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    output = self._kept(self._write(shape, fed, at))
                finally:
                    graph.capture_end()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if isinstance(error.__context__, torch.OutOfMemoryError):
                raise error.__context__ from None  # the end of the recording hides it
            # A model may do what cannot be recorded, such as reading a value from the device.
            logging.getLogger(__name__).info("Steps of this model cannot be recorded: %s", error)
            self._usable = False
            torch.cuda.synchronize()
            return None
        current.wait_stream(self._stream)
        self._recorded[shape] = _Recording(graph, output)
        return self._recorded[shape]

    def _kept(self, output: StepOutput) -> StepOutput:
        """Copy the (large) scores to the buffer that all recordings share."""
        assert self._scores is not None
        scores = self._scores[: len(output.logits)]
        scores.copy_(output.logits)
        return replace(output, logits=scores)


def round_up_rows(rows: int) -> int:
    """Return the next number of rows that is recorded."""
    return 1 << (rows - 1).bit_length() if rows <= _ROW_BLOCK else -(-rows // _ROW_BLOCK) * _ROW_BLOCK


def round_up_columns(columns: int) -> int:
    """Return the next number of columns that is recorded."""
    return -(-columns // _COLUMN_BLOCK) * _COLUMN_BLOCK
