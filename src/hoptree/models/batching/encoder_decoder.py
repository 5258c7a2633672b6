"""Passes through an encoder-decoder model, such as T5 or BART."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hoptree.models.batching.rows import MAX_EMPTY_PART, Portions, Row, count_fitting, free_device_memory

torch: Any = importlib.import_module("torch")
Tensor = Any


class EncoderDecoder:
    """An encoder-decoder with the KV of every row, used like `DecoderOnly`.

    Replies end in the same column, and the columns before a shorter one are masked. Relative positions are not
    affected; a decoder with learned positions gets each row's own.
    """

    def __init__(self, model: Any, device: Any) -> None:
        self._model, self._device = model, device
        self._encoder = model.get_encoder()
        self._portions = Portions(str(device))
        self._rows: Sequence[Row] = ()
        self._block: _Block | None = None
        self._new: list[tuple[Row, Tensor]] = []
        self._positions: Tensor | None = None
        counted = getattr(model.get_decoder(), "embed_positions", None)
        if counted is not None:
            counted.register_forward_hook(self._own_positions)

    @property
    def held(self) -> int:
        return len(self._rows) * max((row.width for row in self._rows), default=0)

    def clear(self) -> None:
        self._rows = ()
        self._block = None
        self._new = []
        free_device_memory()

    def read_less(self) -> None:
        self._portions.read_less()

    def join(self, joining: Sequence[Row], running: Sequence[Row], tokens: int) -> None:
        self._rows = [*running, *joining]
        self._leave(running, at_once=True)
        # Equal prompts are encoded once.
        encoded: dict[tuple[int, ...], Tensor] = dict.fromkeys((tuple(row.prompt) for row in joining), None)
        prompts = list(encoded)
        for part in self._portions.of(map(len, prompts)):
            encoded.update(self._encode([prompts[number] for number in part]))
        first: set[tuple[int, ...]] = set()
        for row in joining:
            prompt = tuple(row.prompt)
            if not row.output:
                row.cached = len(prompt) if prompt in first else 0
            first.add(prompt)
            self._new.append((row, encoded[prompt]))

    def make_room(self, rows: Sequence[Row], tokens: int) -> int:
        return count_fitting(rows, tokens)

    def write(self, rows: Sequence[Row]) -> Any:
        self._rows = rows
        self._leave(rows)
        blocks, scores = [], []
        if self._block is not None:
            blocks.append(self._block)
            scores.append(self._go_on(self._block))
        wanted = set(rows)
        new = [(row, states) for row, states in self._new if row in wanted]
        self._new = []
        # Rows that begin together mostly have targets of equal length, which need no mask.
        for length in sorted({row.target_length for row, _ in new}):
            block, first_scores = self._begin([pair for pair in new if pair[0].target_length == length])
            blocks.append(block)
            scores.append(first_scores)
        self._block = _merge_blocks(blocks)
        places = {row: place for place, row in enumerate(self._block.rows)}
        return torch.cat(scores)[self._tensor([places[row] for row in rows])]

    def force(self, row: Row) -> Iterator[Any]:
        assert row.forced is not None
        states = next(states for new, states in self._new if new is row)
        self._new = [pair for pair in self._new if pair[0] is not row]
        if row.forced:
            tokens = self._tensor([[*row.begin, *row.forced[:-1]]])
            with self._at_positions(torch.arange(tokens.shape[1], device=self._device)[None]):
                done = self._model(encoder_outputs=(states[None],), decoder_input_ids=tokens, use_cache=False)
            yield done.logits[0, len(row.begin) - 1 :]

    def _leave(self, rows: Sequence[Row], *, at_once: bool = False) -> None:
        """Drop all rows but these, if enough of them are gone."""
        if self._block is None:
            return
        wanted = set(rows)
        kept = [place for place, row in enumerate(self._block.rows) if row in wanted]
        gone = len(self._block.rows) - len(kept)
        if not kept:
            self._block = None
        elif gone and (at_once or MAX_EMPTY_PART * gone > len(self._block.rows)):
            self._block.keep(kept, self._tensor(kept))

    def _encode(self, prompts: list[tuple[int, ...]]) -> dict[tuple[int, ...], Tensor]:
        longest = max(map(len, prompts))
        tokens = self._tensor([[*prompt, *[0] * (longest - len(prompt))] for prompt in prompts])
        mask = _length_mask(self._tensor([len(prompt) for prompt in prompts]), longest)
        states = self._encoder(input_ids=tokens, attention_mask=mask).last_hidden_state
        return {prompt: states[number, : len(prompt)] for number, prompt in enumerate(prompts)}

    def _begin(self, new: list[tuple[Row, Tensor]]) -> tuple[_Block, Tensor]:
        """Run the first pass of rows with equally long targets; it adds the prompts' KV."""
        rows = [row for row, _ in new]
        states = torch.nn.utils.rnn.pad_sequence([states for _, states in new], batch_first=True)
        tokens = self._tensor([row.target for row in rows])
        with self._at_positions(torch.arange(tokens.shape[1], device=self._device).expand(len(rows), -1)):
            done = self._model(
                encoder_outputs=(states,),
                attention_mask=_length_mask(self._prompt_lengths(rows), states.shape[1]),
                decoder_input_ids=tokens,
                use_cache=True,
            )
        return _Block(rows, done.past_key_values), done.logits[:, -1]

    def _go_on(self, block: _Block) -> Tensor:
        """Run a pass over one more token of each row."""
        rows = block.rows
        written = self._tensor([row.target_length - 1 for row in rows])
        # Only its shape is used: its keys and values are cached.
        states = torch.zeros((), dtype=self._model.dtype, device=self._device).expand(len(rows), block.prompt, 1)
        with self._at_positions(written[:, None]):
            done = self._model(
                encoder_outputs=(states,),
                attention_mask=_length_mask(self._prompt_lengths(rows), block.prompt),
                decoder_input_ids=self._tensor([row.last for row in rows])[:, None],
                decoder_attention_mask=_length_mask(written + 1, block.target + 1).flip(1),
                past_key_values=block.cache,
                use_cache=True,
            )
        return done.logits[:, -1]

    @contextmanager
    def _at_positions(self, positions: Tensor) -> Iterator[None]:
        self._positions = positions
        try:
            yield
        finally:
            self._positions = None

    def _own_positions(self, table: Any, _inputs: Any, _output: Tensor) -> Tensor | None:
        """Return each row's position embeddings; the decoder assumes equal ones."""
        if self._positions is None:
            return None
        return torch.nn.functional.embedding(self._positions + getattr(table, "offset", 0), table.weight)

    def _prompt_lengths(self, rows: Sequence[Row]) -> Tensor:
        return self._tensor([len(row.prompt) for row in rows])

    def _tensor(self, numbers: Any) -> Any:
        return torch.tensor(numbers, dtype=torch.long, device=self._device)


@dataclass(slots=True)
class _Block:
    """Rows in order, with the keys and values of their prompts and targets.

    Prompts begin in the first column, targets end in the last one. A row that is gone may stay for a while.
    """

    rows: list[Row]
    cache: Any

    @property
    def prompt(self) -> int:
        return int(self.cache.cross_attention_cache.layers[0].keys.shape[2])

    @property
    def target(self) -> int:
        return int(self.cache.self_attention_cache.layers[0].keys.shape[2])

    def keep(self, places: Sequence[int], index: Tensor) -> None:
        """Drop all rows but those in `places`, and columns that only others needed."""
        self.rows = [self.rows[place] for place in places]
        prompt = max(len(row.prompt) for row in self.rows)
        target = max(row.target_length - 1 for row in self.rows)
        cross, own = self.cache.cross_attention_cache, self.cache.self_attention_cache
        for cache, columns in ((cross, slice(prompt)), (own, slice(-target, None))):
            for layer in cache.layers:
                layer.keys = layer.keys[:, :, columns].index_select(0, index)
                layer.values = layer.values[:, :, columns].index_select(0, index)


def _merge_blocks(blocks: list[_Block]) -> _Block:
    """Merge blocks layer by layer, so that only one layer is in memory twice."""
    if len(blocks) == 1:
        return blocks[0]
    for name, at_end in (("cross_attention_cache", False), ("self_attention_cache", True)):
        for layers in zip(*(getattr(block.cache, name).layers for block in blocks), strict=True):
            layers[0].keys = _stack([layer.keys for layer in layers], at_end=at_end)
            layers[0].values = _stack([layer.values for layer in layers], at_end=at_end)
    return _Block([row for block in blocks for row in block.rows], blocks[0].cache)


def _stack(parts: list[Tensor], *, at_end: bool) -> Tensor:
    """Stack parts, padding narrower ones with zeros: masked columns must be finite."""
    first = parts[0]
    width = max(part.shape[2] for part in parts)
    stacked = first.new_zeros(sum(part.shape[0] for part in parts), first.shape[1], width, first.shape[3])
    top = 0
    for part in parts:
        left = width - part.shape[2] if at_end else 0
        stacked[top : top + part.shape[0], :, left : left + part.shape[2]] = part
        top += part.shape[0]
    return stacked


def _length_mask(lengths: Tensor, columns: int) -> Tensor:
    """Return a mask of the first `lengths` columns of each row."""
    return (torch.arange(columns, device=lengths.device) < lengths[:, None]).long()
