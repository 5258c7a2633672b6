"""Batched generation with transformers models: many requests in one running batch."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import InvalidStateError
from typing import TYPE_CHECKING, Any, TypeAlias

from hoptree.core.errors import EndpointError, HoptreeError, ModelError, RequestTooLong
from hoptree.models.batching.kv_cache import is_out_of_memory
from hoptree.models.batching.rows import Row, next_tokens, note_scores
from hoptree.models.model import first_line

if TYPE_CHECKING:
    from hoptree.models.batching.decoder import DecoderOnly
    from hoptree.models.batching.encoder_decoder import EncoderDecoder

    # A model with the KV cache of its rows: one class for each architecture.
    Passes: TypeAlias = DecoderOnly | EncoderDecoder

torch: Any = importlib.import_module("torch")

# Reading one prompt delays the running rows as long as reading many. So new rows wait until they are at least one in
# _MIN_JOIN_PART of the running ones, or for _MAX_WAIT_STEPS steps.
_MIN_JOIN_PART = 8
_MAX_WAIT_STEPS = 8
# Steps with a smaller batch before a larger one is tried; doubled each time that fails.
CALM_STEPS = 256
_CLOSED = ("The model was closed.", "Open the model again before calling it.")
_SCORES_NOT_FINITE = (
    "The model's scores for the next token are not finite.",
    "Its weights are damaged, or its dtype is too small for it: try hf/NAME?dtype=bf16 or fp32.",
)
_SIGNALS_NOT_FINITE = (
    "The model's attention or hidden state is not finite, though its scores are.",
    "Its dtype may be too small for it: try hf/NAME?dtype=bf16 or fp32.",
)


class Batcher:
    """Runs many rows through a model together, in its own thread.

    `max_batch_tokens` limits rows times the longest of them. It is halved when the device is out of memory; from then
    on only a single row may exceed it. When a growing batch runs out of room, its youngest rows go back into the queue
    with what they have written.
    """

    def __init__(self, passes: Passes, *, end_tokens: frozenset[int], max_batch_tokens: int, max_rows: int) -> None:
        self._passes, self._end_tokens, self._max_rows = passes, end_tokens, max_rows
        self._allowed = self.max_batch_tokens = max_batch_tokens
        self._calm, self._calm_steps, self._grown = 0, CALM_STEPS, False
        self._alone: Row | None = None
        self._waiting: deque[Row] = deque()
        self._live: list[Row] = []
        self._steps_waited = 0
        self._closed = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="hoptree-batch", daemon=True)
        self._thread.start()
        # A thread inside a native library at interpreter exit would crash the process.
        atexit.register(self.close)

    def submit(self, rows: Sequence[Row]) -> None:
        """Queue rows; the future of each is done when its reply is complete."""
        for row in rows:
            if row.longest > self._allowed:
                counts = f"{row.longest} tokens ({row.read} read, {row.max_tokens} written)"
                raise RequestTooLong(
                    f"The request needs {counts}, and there is room for {self._allowed}.",
                    "Raise it (hf/NAME?max_batch_tokens=…), ask for fewer tokens, or read fewer passages (--set k=…).",
                )
        with self._changed:
            if self._closed:
                raise EndpointError(*_CLOSED)
            self._waiting.extend(rows)
            self._changed.notify()

    def close(self) -> None:
        """Stop after the current step; unfinished rows fail."""
        atexit.unregister(self.close)
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        try:
            while self._wait():
                full = False
                try:
                    with torch.inference_mode():
                        self._step()
                    self._grow()
                except Exception as error:
                    full = is_out_of_memory(error)
                    if not full:
                        self._fail(_model_failed(error))
                if full:  # outside the handler, whose error still references memory
                    self._shrink()
        finally:
            with self._changed:
                self._closed = True
            self._fail(EndpointError(*_CLOSED))

    def _wait(self) -> bool:
        """Wait for work; return False when closed."""
        with self._changed:
            while not (self._closed or self._waiting or self._live):
                self._changed.wait()
            for row in [row for row in self._waiting if row.future.cancelled()]:
                self._waiting.remove(row)
            self._live = [row for row in self._live if not row.future.cancelled()]
            return not self._closed

    def _step(self) -> None:
        if joining := self._joining():
            running, self._live = self._live, self._live + joining
            self._passes.join(joining, running, self.max_batch_tokens)
        for row in [row for row in self._live if row.forced is not None]:
            if not self._force(row):
                return
        if not self._live:
            return
        kept = self._passes.make_room(self._live, self.max_batch_tokens)
        with self._changed:
            self._waiting.extendleft(reversed(self._live[kept:]))
        self._live = self._live[:kept]
        tokens = next_tokens(self._passes.write(self._live).float(), self._live)
        still: list[Row] = []
        failed: dict[Row, ModelError] = {}
        for row, token in zip(self._live, tokens, strict=True):
            if token is None:
                failed[row] = EndpointError(*_SCORES_NOT_FINITE)
            elif not row.add(token, self._end_tokens):
                still.append(row)
            elif row.sound:
                _settle(row)
            else:
                failed[row] = EndpointError(*_SIGNALS_NOT_FINITE)
        self._live = still
        if failed:
            self._give_up(failed)

    def _force(self, row: Row) -> bool:
        """Score the forced tokens of a row; return False if it failed."""
        assert row.forced is not None
        row.begin_again()
        for logits in self._passes.force(row):
            known = len(row.logprobs)
            tokens = row.forced[known : known + len(logits)]
            note_scores(logits, [row] * len(tokens), tokens)
            if not logits.amax(-1).isfinite().all():
                self._live.remove(row)
                self._give_up({row: EndpointError(*_SCORES_NOT_FINITE)})
                return False
        self._live.remove(row)
        if not row.sound:
            self._give_up({row: EndpointError(*_SIGNALS_NOT_FINITE)})
            return False
        _settle(row)
        return True

    def _give_up(self, failed: Mapping[Row, ModelError]) -> None:
        """End rows with non-finite results; the others restart on cleared memory.

        NaNs would spread, even through masked columns, to the next row in the same place.
        """
        self._begin_again()
        for row, error in failed.items():
            _settle(row, error)

    def _joining(self) -> list[Row]:
        """Take the queued rows that fit, once they are enough or have waited."""
        chosen: list[Row] = []
        width = max((row.width for row in self._live), default=0)
        with self._changed:
            for row in self._waiting:
                rows = len(self._live) + len(chosen) + 1
                width = max(width, row.width)
                if rows > self._max_rows or (rows > 1 and rows * width > self.max_batch_tokens):
                    break
                chosen.append(row)
            if chosen and _MIN_JOIN_PART * len(chosen) < len(self._live) and self._steps_waited < _MAX_WAIT_STEPS:
                self._steps_waited += 1
                return []
            for _ in chosen:
                self._waiting.popleft()
        self._steps_waited = 0
        return chosen

    def _shrink(self) -> None:
        """Restart with half the tokens; give up a row that has failed alone twice."""
        self._calm_steps *= 2 if self._grown else 1
        self._calm, self._grown = 0, False
        if len(self._live) > 1:
            self.max_batch_tokens = min(self.max_batch_tokens, self._passes.held or self.max_batch_tokens) // 2
            self._passes.read_less()
        elif self._live and self._live[0] is self._alone:
            _settle(self._live.pop(), _no_memory(self._alone))
            self._alone = None
        elif self._live:
            self._alone = self._live[0]
        self._begin_again()

    def _grow(self) -> None:
        """Double the tokens again after enough steps without running out of memory."""
        if self.max_batch_tokens < self._allowed:
            self._calm += 1
            if self._calm >= self._calm_steps:
                self._calm, self._grown = 0, True
                self.max_batch_tokens = min(self._allowed, 2 * max(1, self.max_batch_tokens))

    def _begin_again(self) -> None:
        """Clear the cache; rows keep what they have written and go back into the queue."""
        self._clear()
        with self._changed:
            self._waiting.extendleft(reversed(self._live))
            self._live = []

    def _clear(self) -> None:
        # A lost device refuses this too; the next pass reports it.
        with contextlib.suppress(Exception):
            self._passes.clear()

    def _fail(self, error: HoptreeError) -> None:
        """End every row with an error."""
        with self._changed:
            rows = [*self._live, *self._waiting]
            self._live = []
            self._waiting.clear()
        self._clear()
        for row in rows:
            _settle(row, error)


def _settle(row: Row, error: HoptreeError | None = None) -> None:
    try:
        if error is None:
            row.future.set_result(None)
        else:
            row.future.set_exception(error)
    except InvalidStateError:
        pass  # cancelled in this moment


def _model_failed(error: Exception) -> ModelError:
    cause = f"The model failed with {type(error).__name__}: {first_line(error)}."
    failure = EndpointError(cause, "Try again; another device or dtype may help.")
    failure.__cause__ = error
    return failure


def _no_memory(row: Row) -> ModelError:
    """Return a retryable error: other programs may use the device too."""
    return EndpointError(
        f"The device has no memory for the request ({row.read} tokens read, {row.max_tokens} to write), even alone.",
        "Free some, ask for fewer tokens, read fewer passages (--set k=…), or choose a smaller model or dtype "
        "(hf/NAME?dtype=bf16).",
        retryable=True,
    )
