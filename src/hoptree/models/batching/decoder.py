"""Passes through a decoder-only model."""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any

from hoptree.models.batching.kv_cache import (
    KvCache,
    Prefix,
    ReadingStep,
    Replays,
    Shape,
    Step,
    StepOutput,
    WritingStep,
    align_columns,
    group_by_prefix,
    round_up_columns,
    round_up_rows,
    tensor_on,
)
from hoptree.models.batching.rows import MAX_EMPTY_PART, Portions, Row, Watch, count_fitting, free_device_memory

torch: Any = importlib.import_module("torch")

# A shared prefix is read once if it has this many tokens.
_MIN_SHARED_TOKENS = 64
# A separate pass must save an accelerator this many tokens: small passes take as long as larger ones.
_MIN_SAVED_TOKENS = 4096
# Running rows that new rows are compared with.
_MAX_COMPARED_ROWS = 64
# Cached prefixes may take one in _PREFIX_PART of the batch's tokens.
_PREFIX_PART = 8
# Each forced token has as many scores as the vocabulary has words.
_FORCED_TOKENS_PER_PASS = 64


class DecoderOnly:
    """A model with one KV cache for its rows, each at its own position.

    The last token of a prompt is not read with the others but fed like a written one: so every pass for a next token
    has a single token of each row.
    """

    def __init__(self, model: Any, device: Any, max_rows: int) -> None:
        self._model, self._device, self._max_rows = model, device, max_rows
        self._prefixes: OrderedDict[tuple[int, ...], Prefix] = OrderedDict()
        self._min_saved = 0 if str(device) == "cpu" else _MIN_SAVED_TOKENS
        self._portions = Portions(str(device))
        self._memory = KvCache()
        self._layers = int(model.config.get_text_config().num_hidden_layers)
        self._replays: Replays | None = None
        if str(device).startswith("cuda"):
            self._replays = Replays(str(device), max_rows, self._write)
            # cuDNN plans each new shape of attention, which takes as long as reading 16,000 tokens.
            torch.backends.cuda.enable_cudnn_sdp(False)

    @property
    def held(self) -> int:
        """The tokens of the allocation, also of one that failed: rows times width."""
        return self._memory.places * self._memory.width

    def clear(self) -> None:
        self._memory.clear()
        self._prefixes.clear()
        self._forget_replays()
        free_device_memory()

    def read_less(self) -> None:
        self._portions.read_less()

    def join(self, joining: Sequence[Row], running: Sequence[Row], tokens: int) -> None:
        """Read the prompts of rows that join the running ones, all within `tokens`."""
        everyone = [*running, *joining]
        rows, width = len(everyone), max(row.width for row in everyone)
        if rows > self._memory.places or width > self._memory.width:
            if rows * self._memory.width <= tokens:
                width = max(width, self._memory.width)
            places = rows * 5 // 4
            if self._replays is not None:  # recordings are lost with the old memory, so it should grow seldom
                width = round_up_columns(width) if rows * round_up_columns(width) <= tokens else width
                places = round_up_rows(places)
            self._resize(max(rows, min(places, tokens // width, self._max_rows)), width, running)
        taken = {row.place for row in running}
        free = (place for place in range(self._memory.places) if place not in taken)
        for row, place in zip(joining, free, strict=False):
            row.place = place
        self._memory.wipe([row.place for row in joining])
        self._read_all(joining, running)
        while sum(map(len, self._prefixes)) > tokens // _PREFIX_PART:
            self._prefixes.popitem(last=False)  # the least recently used

    def make_room(self, rows: Sequence[Row], tokens: int) -> int:
        """Make room for one more token a row; return how many of the rows fit."""
        if max(row.length for row in rows) <= self._memory.width:
            return len(rows)
        kept = rows[: count_fitting(rows, tokens)]
        if max(row.length for row in kept) > self._memory.width:
            width = max(row.width for row in kept)
            self._resize(max(len(kept), min(self._memory.places, tokens // width)), width, kept)
        return len(kept)

    def write(self, rows: Sequence[Row]) -> Any:
        """Return the scores of every row's next token; note signals in the rows."""
        self._move_together(rows)
        looking = [row for row in rows if "attention" in row.signals and len(row.output) > 1]
        asking = [row for row in rows if "hidden" in row.signals]
        shape = self._shape(rows, watched=bool(looking), hidden=bool(asking))
        tokens, lengths = [0] * shape.rows, [0] * shape.rows
        for row in rows:
            tokens[row.place] = row.last
            lengths[row.place] = row.length - 1
        if self._replays is None:
            watched = self._tensor([row.place for row in looking])
            output = self._write(shape, self._tensor(tokens), self._tensor(lengths), watched)
            seen = output.weights
        else:
            output = self._replays.step(shape, tokens, lengths)
            seen = self._select_rows(looking, output.weights) if looking else None
        if seen is not None:
            for row, weights in zip(looking, seen.cpu(), strict=True):
                row.note_attention(weights, len(row.output) - 1)
        if asking:
            for row, state in zip(asking, self._select_rows(asking, output.hidden), strict=True):
                row.hidden = state
        return self._select_rows(rows, output.logits)

    def force(self, row: Row) -> Iterator[Any]:
        """Yield the scores of each forced token of a row that has joined, in portions."""
        assert row.forced is not None
        fed = [*row.prompt[-1:], *row.forced]
        for start in range(0, len(fed), _FORCED_TOKENS_PER_PASS):
            part = fed[start : start + _FORCED_TOKENS_PER_PASS]
            at = row.read - 1 + start
            positions = torch.arange(at, at + len(part), device=self._device)[None]
            known = self._memory.copied(row.place, at) if at else None
            step = ReadingStep(self._memory, self._tensor([row.place]), known)
            looks = "attention" in row.signals or row.looking
            watch = Watch(self._layers - 1, self._tensor([0]), positions) if looks else None
            hidden = "hidden" in row.signals
            done = self._pass(self._tensor([part]), positions, step, watch, scores=len(part), hidden=hidden)
            if watch is not None:
                # The first token that is fed is the prompt's last.
                row.note_attention(watch.weights[0].cpu()[0 if start else 1 :], max(0, start - 1))
            if hidden:
                row.hidden = self._middle_state(done)[0]
            yield done.logits[0, : len(row.forced) - start]

    def _shape(self, rows: Sequence[Row], *, watched: bool, hidden: bool) -> Shape:
        places, columns = max(row.place for row in rows) + 1, align_columns(max(row.length for row in rows))
        if self._replays is not None:
            places, columns = min(round_up_rows(places), self._memory.places), round_up_columns(columns)
        return Shape(places, min(columns, self._memory.width), watched, hidden)

    def _write(self, shape: Shape, tokens: Any, lengths: Any, watched: Any = None) -> StepOutput:
        """Feed a token to each of the first places; `watched` ones record attention."""
        places = torch.arange(shape.rows, device=self._device)
        watched = places if watched is None else watched
        watch = Watch(self._layers - 1, watched, lengths[watched, None]) if shape.watched else None
        step = WritingStep(self._memory, places, lengths, shape.columns)
        done = self._pass(tokens[:, None], lengths[:, None], step, watch, hidden=shape.hidden)
        return StepOutput(
            done.logits[:, -1], watch.weights if watch else None, self._middle_state(done) if shape.hidden else None
        )

    def _select_rows(self, rows: Sequence[Row], values: Any) -> Any:
        """Return a copy of the values of these rows' places."""
        return values[self._tensor([row.place for row in rows])]

    def _middle_state(self, done: Any) -> Any:
        return done.hidden_states[self._layers // 2][:, -1]

    def _resize(self, places: int, width: int, running: Sequence[Row]) -> None:
        self._forget_replays()
        self._memory.resize(places, width, [row.place for row in running])
        free_device_memory()  # the old tensors
        for place, row in enumerate(running):
            row.place = place

    def _forget_replays(self) -> None:
        if self._replays is not None:
            self._replays.forget()

    def _move_together(self, running: Sequence[Row]) -> None:
        top = max(row.place for row in running) + 1
        rows = len(running)
        if MAX_EMPTY_PART * (top - rows) <= top:
            return
        taken = {row.place for row in running}
        behind = [row for row in running if row.place >= rows]
        free = [place for place in range(rows) if place not in taken]
        self._memory.move([row.place for row in behind], free)
        for row, place in zip(behind, free, strict=True):
            row.place = place

    def _read_all(self, rows: Sequence[Row], running: Sequence[Row]) -> None:
        """Read the prompts of rows that have their places; shared prefixes are read once."""
        prompts = [tuple(row.tokens[:-1]) for row in rows]
        beside = running[-_MAX_COMPARED_ROWS:]
        everyone = [*prompts, *(tuple(row.prompt[:-1]) for row in beside)]
        fresh: set[tuple[int, ...]] = set()
        for group in group_by_prefix(everyone):
            worth = group.length >= _MIN_SHARED_TOKENS and len(group.members) * group.length >= self._min_saved
            if min(group.members) < len(rows) and worth:
                older = [beside[member - len(rows)] for member in group.members if member >= len(rows)]
                fresh.add(self._cache_prefix(everyone[group.members[0]][: group.length], older))
        for shared, same in self._by_prefix(rows, prompts).items():
            for row in same:
                if not row.output:
                    row.cached = 0 if shared in fresh else len(shared)
                fresh.discard(shared)  # the first row has read it, the others reuse it
            alone, twins = _split_twins(same)
            for part in self._portions.of((row.length for row in alone), len(shared)):
                self._read([alone[number] for number in part], self._prefixes.get(shared))
            if twins:
                self._memory.move([first.place for first, _ in twins], [row.place for _, row in twins])

    def _by_prefix(self, rows: Sequence[Row], prompts: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], list[Row]]:
        """Group rows by the cached prefix they use; () if the gain is too small."""
        by_prefix: dict[tuple[int, ...], list[Row]] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            by_prefix.setdefault(self._longest_known(prompt), []).append(row)
        for shared in [shared for shared, same in by_prefix.items() if len(shared) * len(same) < self._min_saved]:
            if shared and len(by_prefix) > 1:
                by_prefix.setdefault((), []).extend(by_prefix.pop(shared))
        return by_prefix

    def _pass(
        self,
        tokens: Any,
        positions: Any,
        step: Step,
        watch: Watch | None = None,
        *,
        scores: int = 1,
        hidden: bool = False,
    ) -> Any:
        """Run one pass; compute next-token scores for the last `scores` tokens."""
        self._memory.step = step
        return self._model(
            input_ids=tokens,
            position_ids=positions,
            past_key_values=self._memory,
            use_cache=True,
            logits_to_keep=scores,
            output_hidden_states=hidden,
            hoptree_step=step,
            hoptree_watch=watch,
        )

    def _cache_prefix(self, shared: tuple[int, ...], older: list[Row]) -> tuple[int, ...]:
        """Cache a prefix unless half of it is cached; return it if it had to be read."""
        if 2 * len(self._longest_known(shared)) >= len(shared):
            return ()
        if older:
            self._prefixes[shared] = self._memory.copied(older[0].place, len(shared))
            return ()
        step = ReadingStep(self._memory, None)
        self._pass(self._tensor([shared]), torch.arange(len(shared), device=self._device)[None], step)
        self._prefixes[shared] = Prefix(step.keys, step.values)
        return shared

    def _longest_known(self, prompt: tuple[int, ...]) -> tuple[int, ...]:
        known = (key for key in self._prefixes if len(key) <= len(prompt) and key == prompt[: len(key)])
        best = max(known, key=len, default=())
        if best:
            self._prefixes.move_to_end(best)
        return best

    def _read(self, rows: list[Row], prefix: Prefix | None) -> None:
        shared = prefix.length if prefix else 0
        texts = [row.tokens[shared:-1] for row in rows]
        longest = max(map(len, texts))
        places = [row.place for row in rows]
        if longest == 0:
            if prefix is not None:
                self._memory.put(places, prefix)
            return
        tokens = self._tensor([text + [0] * (longest - len(text)) for text in texts])
        positions = torch.arange(shared, shared + longest, device=self._device).expand(len(rows), -1)
        self._pass(tokens, positions, ReadingStep(self._memory, self._tensor(places), prefix))

    def _tensor(self, numbers: Any) -> Any:
        return tensor_on(self._device, numbers)


def _split_twins(rows: Sequence[Row]) -> tuple[list[Row], list[tuple[Row, Row]]]:
    """Separate rows with distinct texts from their twins: samples of one prompt."""
    first: dict[tuple[int, ...], Row] = {}
    twins = []
    for row in rows:
        text = tuple(row.tokens[:-1])
        if text in first:
            twins.append((first[text], row))
            row.cached = row.cached if row.output else len(text)
        else:
            first[text] = row
    return list(first.values()), twins
