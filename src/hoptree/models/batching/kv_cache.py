"""Keys and values of a running batch, shared prefixes, and recorded CUDA steps."""

from __future__ import annotations

import errno
import importlib
import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

# Untyped, and only imported if a model of transformers is used.
torch: Any = importlib.import_module("torch")
Tensor = Any

ATTENTION = "hoptree"
# Attention kernels want masks aligned to this, and few different shapes.
_COLUMN_BLOCK = 64


def align_columns(columns: int) -> int:
    """Round up to a multiple of the column block."""
    return -(-columns // _COLUMN_BLOCK) * _COLUMN_BLOCK


def tensor_on(device: Any, numbers: Any) -> Tensor:
    """Return integers as a tensor on the device, without waiting for the device."""
    tensor = torch.tensor(numbers, dtype=torch.long)
    return tensor.pin_memory().to(device, non_blocking=True) if str(device).startswith("cuda") else tensor.to(device)


@dataclass(frozen=True, slots=True, eq=False)
class Prefix:
    """Keys and values of a prefix that several prompts share, one tensor a layer."""

    keys: list[Tensor]
    values: list[Tensor]

    @property
    def length(self) -> int:
        return int(self.keys[0].shape[1])


class KvCache:
    """One tensor a layer: a place for each sequence, with a column for each position.

    Since a sequence's position is its column, a place can be reused without touching the rest, and nothing moves as
    sequences grow. transformers sees it as the cache of the pass that `step` describes.
    """

    def __init__(self) -> None:
        self.places = 0
        self.width = 0
        self.step: Step | None = None
        self.keys: list[Tensor] = []
        self.values: list[Tensor] = []

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """Return 0: every pass gives its positions itself."""
        return 0

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        assert self.step is not None
        return self.step.keep(layer_idx, key_states, value_states)

    def layer(self, number: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tensors of a layer, allocated like the first keys and values."""
        if number == len(self.keys):
            # Zeros: a masked column has no effect only if it is finite.
            for kept, states in ((self.keys, keys), (self.values, values)):
                kept.append(states.new_zeros(self.places, states.shape[1], self.width, states.shape[3]))
        return self.keys[number], self.values[number]

    def resize(self, places: int, width: int, order: Sequence[int]) -> None:
        """Reallocate for `places` sequences of `width` tokens, those in `order` first."""
        columns = min(width, self.width)
        for kept in (self.keys, self.values):
            for number, old in enumerate(kept):
                # Layer by layer, so that only one of them is in memory twice.
                new = old.new_zeros(places, old.shape[1], width, old.shape[3])
                new[: len(order), :, :columns] = old[:, :, :columns].index_select(0, _index(order, old))
                kept[number] = new
        self.places, self.width = places, width

    def move(self, sources: Sequence[int], targets: Sequence[int]) -> None:
        for layer in (*self.keys, *self.values):
            layer.index_copy_(0, _index(targets, layer), layer.index_select(0, _index(sources, layer)))

    def wipe(self, places: Sequence[int]) -> None:
        """Zero these places: a masked column has no effect only if it is finite."""
        for layer in (*self.keys, *self.values):
            layer.index_fill_(0, _index(places, layer), 0)

    def put(self, places: Sequence[int], prefix: Prefix) -> None:
        """Give sequences their shared prefix."""
        for number, (keys, values) in enumerate(zip(prefix.keys, prefix.values, strict=True)):
            kept_keys, kept_values = self.layer(number, keys[None], values[None])
            kept_keys[_index(places, keys), :, : keys.shape[1]] = keys
            kept_values[_index(places, keys), :, : keys.shape[1]] = values

    def copied(self, place: int, length: int) -> Prefix:
        """Copy the first tokens of a sequence as a prefix."""
        keys, values = ([layer[place, :, :length].clone() for layer in kept] for kept in (self.keys, self.values))
        return Prefix(keys, values)

    def clear(self) -> None:
        self.places = self.width = 0
        self.step = None
        self.keys, self.values = [], []


@dataclass(slots=True, eq=False)
class ReadingStep:
    """A pass over right-padded prompts; without `places` their KV is only collected."""

    memory: KvCache
    places: Tensor | None
    prefix: Prefix | None = None
    keys: list[Tensor] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    _masks: dict[int | None, Tensor] = field(default_factory=dict)

    def keep(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self.prefix is not None:
            keys = _after_prefix(self.prefix.keys[layer], keys)
            values = _after_prefix(self.prefix.values[layer], values)
        if self.places is None:
            self.keys.append(keys[0])
            self.values.append(values[0])
        else:
            kept_keys, kept_values = self.memory.layer(layer, keys, values)
            kept_keys[self.places, :, : keys.shape[2]] = keys
            kept_values[self.places, :, : values.shape[2]] = values
        return keys, values

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None, window: int | None) -> Tensor:
        groups = query.shape[1] // keys.shape[1]
        keys, values = keys.repeat_interleave(groups, 1), values.repeat_interleave(groups, 1)
        attention = torch.nn.functional.scaled_dot_product_attention
        new, seen = query.shape[2], keys.shape[2]
        if new == seen and (window is None or seen <= window):
            out = attention(query, keys, values, is_causal=True, scale=scaling)
        else:
            if window not in self._masks:
                positions = torch.arange(seen - new, seen, device=query.device)
                self._masks[window] = causal_mask(positions, seen, window, query.dtype)
            out = attention(query, keys, values, attn_mask=self._masks[window], scale=scaling)
        return out.transpose(1, 2).contiguous()


@dataclass(slots=True, eq=False)
class WritingStep:
    """A pass over one token of each of the first `places`, at the positions `lengths`."""

    memory: KvCache
    places: Tensor
    lengths: Tensor
    columns: int
    _masks: dict[int | None, Tensor] = field(default_factory=dict)

    def keep(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        kept_keys, kept_values = self.memory.layer(layer, keys, values)
        kept_keys[self.places, :, self.lengths] = keys[:, :, 0]
        kept_values[self.places, :, self.lengths] = values[:, :, 0]
        rows = keys.shape[0]
        return kept_keys[:rows, :, : self.columns], kept_values[:rows, :, : self.columns]

    def attend(self, query: Tensor, keys: Tensor, values: Tensor, scaling: float | None, window: int | None) -> Tensor:
        if window not in self._masks:
            self._masks[window] = causal_mask(self.lengths, self.columns, window, query.dtype)[:, None, None]
        # Heads that share keys become further queries, so that no key is copied.
        rows, heads, _, size = query.shape
        query = query.reshape(rows, keys.shape[1], heads // keys.shape[1], size)
        attention = torch.nn.functional.scaled_dot_product_attention
        out = attention(query, keys, values, attn_mask=self._masks[window], scale=scaling)
        return out.reshape(rows, 1, heads, out.shape[3])


Step = ReadingStep | WritingStep  # how one pass stores its keys and values, and how it attends to them


def _index(numbers: Sequence[int], beside: Tensor) -> Tensor:
    return tensor_on(beside.device, numbers)


def _after_prefix(prefix: Tensor, new: Tensor) -> Tensor:
    return torch.cat([prefix[None].expand(new.shape[0], -1, -1, -1), new], dim=2)


def causal_mask(positions: Tensor, columns: int, window: int | None, dtype: Any) -> Tensor:
    """Return the additive mask over `columns` keys for a query at each of `positions`."""
    where = torch.arange(align_columns(columns), device=positions.device)[None]
    hidden = where > positions[:, None]
    if window is not None:
        hidden |= where <= positions[:, None] - window
    mask = torch.zeros(hidden.shape, dtype=dtype, device=positions.device).masked_fill_(hidden, float("-inf"))
    return mask[:, :columns]


def register_attention() -> None:
    """Register `ATTENTION` with transformers, which builds no mask for it."""
    transformers: Any = importlib.import_module("transformers")
    transformers.AttentionInterface.register(ATTENTION, _attend)


def _attend(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    hoptree_step: Step,
    hoptree_watch: Any = None,
    **_: Any,
) -> tuple[Tensor, None]:
    if hoptree_watch is not None:
        hoptree_watch.see(module.layer_idx, query, key, scaling, sliding_window)
    return hoptree_step.attend(query, key, value, scaling, sliding_window), None


_FULL = re.compile(r"out of memory|not enough memory|t allocate memory|ALLOC_FAILED", re.IGNORECASE)
"""Messages of MPS, CUDA, HIP and CPU allocators."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device ran out of memory; only CUDA has an exception for it."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and _FULL.search(str(error)) is not None


@dataclass(frozen=True, slots=True)
class PrefixGroup:
    """Prompts, by number, whose first `length` tokens are equal."""

    members: tuple[int, ...]
    length: int


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return the length of the common prefix of two prompts."""
    low, high = 0, min(len(left), len(right))
    # Comparing slices is many times faster than comparing tokens.
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def group_by_prefix(prompts: Sequence[tuple[int, ...]]) -> list[PrefixGroup]:
    """Group prompts by shared prefixes.

    Two belong together if they share at least half of the longest prefix that either shares with any other prompt.

    Otherwise the few tokens that all prompts of a chat template share would join all of them.
    """
    order = sorted(range(len(prompts)), key=lambda number: prompts[number])
    # Sorted, so that prompts with the longest common prefix are adjacent.
    shared = [_common_length(prompts[left], prompts[right]) for left, right in pairwise(order)]
    longest = [max(shared[max(0, place - 1) : place + 1], default=0) for place in range(len(order))]
    prefix_groups: list[PrefixGroup] = []
    begin = 0
    for place in range(1, len(order) + 1):
        if place < len(order) and 2 * shared[place - 1] >= max(longest[place - 1], longest[place], 1):
            continue
        members = tuple(order[begin:place])
        length = min(shared[begin : place - 1]) if len(members) > 1 else 0
        prefix_groups.append(PrefixGroup(members, length))
        begin = place
    return prefix_groups


# A shape is recorded when it comes for the third time: recording takes as long as a few steps.
_MIN_REPEATS = 2
_MAX_RECORDINGS = 64
# Shapes are rounded up so that there are few: rows to a power of two, or to a multiple of _ROW_BLOCK if there are more.
_ROW_BLOCK = 64
_GRAPH_COLUMN_BLOCK = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """What identifies a recording: rows, columns attended to, and signals computed."""

    rows: int
    columns: int
    watched: bool
    hidden: bool


@dataclass(frozen=True, slots=True)
class StepOutput:
    """Results of a step by place: next-token scores, attention, hidden state."""

    logits: Tensor
    weights: Tensor | None
    hidden: Tensor | None


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
        self._recorded: dict[Shape, tuple[Any, StepOutput]] = {}
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
        if recording is None:
            self._seen[shape] += 1
            if self._usable and self._seen[shape] > _MIN_REPEATS:
                recording = self._record(shape, fed, at)
        if recording is None:
            output = self._write(shape, fed, at)
            if self._scores is None:
                self._scores = output.logits.new_empty(len(self._tokens), output.logits.shape[1])
            return output
        graph, output = recording
        graph.replay()
        return output

    def _drop(self) -> None:
        if self._recorded:
            self._recorded.clear()
            # A pool cannot be used again after its last recording is deleted.
            self._pool = torch.cuda.graph_pool_handle()

    def _record(self, shape: Shape, fed: Tensor, at: Tensor) -> tuple[Any, StepOutput] | None:
        if len(self._recorded) >= _MAX_RECORDINGS:
            self._drop()
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        self._stream.wait_stream(current)
        try:
            with torch.cuda.stream(self._stream):
                # Other threads may use the device meanwhile.
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
            # Some operations cannot be recorded, such as reading a value from the device.
            logging.getLogger(__name__).info("Steps of this model cannot be recorded: %s", error)
            self._usable = False
            torch.cuda.synchronize()
            return None
        current.wait_stream(self._stream)
        self._recorded[shape] = graph, output
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
    return -(-columns // _GRAPH_COLUMN_BLOCK) * _GRAPH_COLUMN_BLOCK
