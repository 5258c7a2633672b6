"""Rows of a running batch, and the choice of their next tokens."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.models.batching.kv_cache import align_columns, causal_mask
from hoptree.models.model import Signal

torch: Any = importlib.import_module("torch")
Tensor = Any

# Rows whose attention is computed together: their keys in one layer are copied for it.
_WATCHED_ROWS_PER_STEP = 32


def entropies(logprobs: Tensor) -> Tensor:
    """Return the entropy of each distribution in nats (Equation 1 of MIND)."""
    return torch.special.entr(logprobs.exp()).sum(-1)


def most_attended(weights: Tensor, first: int = 0) -> Tensor:
    """Return the maximum that a later token pays to each token (Equation 2 of MIND).

    Row i of `weights` is what token `first` + i pays to each token, from token 0 on.
    """
    return weights.tril(first - 1).amax(0)


def attention_of_heads(query: Tensor, keys: Tensor, mask: Tensor, scaling: float | None) -> Tensor:
    """Return the mean attention of heads in 32 bits, as fused attention computes it."""
    rows, heads, new, size = query.shape
    query, keys = query.float(), keys.float()
    scores = query.reshape(rows, keys.shape[1], -1, size) @ keys.transpose(2, 3)
    scores = scores.reshape(rows, heads, new, -1) * (size**-0.5 if scaling is None else scaling)
    return (scores + mask).softmax(-1).mean(1)


@dataclass(slots=True, eq=False)
class Watch:
    """Records the attention of some `places` in the last layer of a pass as `weights`.

    They are computed from the layer's queries and keys: fused attention gives no weights, and eager attention would
    make all rows of a pass depend on whether one asks for weights. Other rows cost nothing.
    """

    layer: int
    places: Tensor
    positions: Tensor
    weights: Tensor = None

    def see(self, layer: int, query: Tensor, keys: Tensor, scaling: float | None, window: int | None) -> None:
        if layer == self.layer:
            parts = (part.split(_WATCHED_ROWS_PER_STEP) for part in (self.places, self.positions))
            weights = [
                attention_of_heads(query[places], keys[places], _mask(positions, keys, window), scaling)
                for places, positions in zip(*parts, strict=True)
            ]
            self.weights = torch.cat(weights)


def _mask(positions: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """Return the additive mask for queries at these positions, in the shape of scores."""
    columns = keys.shape[2]
    return causal_mask(positions.flatten(), columns, window, torch.float32).reshape(len(positions), 1, -1, columns)


# Columns allocated for what a row will write; it gets more when needed.
_COLUMNS_AHEAD = 128
# Distributions processed together: each is as long as the vocabulary and copied a few times.
_DISTRIBUTIONS_PER_STEP = 256
# Signals of each token; hidden states are of the last one only.
TOKEN_SIGNALS: frozenset[Signal] = frozenset(("entropy", "attention"))
# Signals that need a pass over the last token.
_LAST_TOKEN_SIGNALS: frozenset[Signal] = frozenset(("attention", "hidden"))


@dataclass(frozen=True, slots=True)
class Logprobs:
    """Log-probabilities of a chosen token and of the likeliest ones, and the entropy."""

    chosen: float
    top: tuple[tuple[int, float], ...]
    entropy: float | None = None


@dataclass(slots=True, eq=False)
class Row:
    """One reply of a batch.

    `future` is done when the reply is complete; cancelling it removes the row. `ends` returns after each token whether
    the reply is complete. `place` is the row's place in the KV cache; `cached` counts the tokens of its prompt that
    were read for another row. `begin` are the first tokens of an encoder-decoder's decoder. A row with `forced` tokens
    generates none: they are scored together, and the attention of those in `looking` to earlier tokens is kept.
    """

    prompt: list[int]
    max_tokens: int
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    top: int = 0
    ends: Callable[[list[int]], bool] | None = None
    begin: list[int] = field(default_factory=list)
    signals: frozenset[Signal] = frozenset()
    forced: list[int] | None = None
    looking: Sequence[range] = ()
    future: Future[None] = field(default_factory=Future)
    output: list[int] = field(default_factory=list)
    logprobs: list[Logprobs] = field(default_factory=list)
    finish: Literal["stop", "length"] = "length"
    complete: bool = False
    cached: int = 0
    place: int = -1
    hidden: Any = None
    looks: list[Any] = field(default_factory=list)
    _attention: Any = None
    _watched: int = 0
    _draws: list[float] = field(default_factory=list)

    @property
    def cut(self) -> bool:
        """Whether top_p or top_k applies."""
        return self.top_p < 1 or self.top_k > 0

    @property
    def tokens(self) -> list[int]:
        return self.prompt + self.output

    @property
    def target(self) -> list[int]:
        """The tokens that the decoder of an encoder-decoder began with and has written."""
        return self.begin + self.output

    @property
    def target_length(self) -> int:
        return len(self.begin) + len(self.output)

    @property
    def last(self) -> int:
        return (self.output or self.begin or self.prompt)[-1]

    @property
    def read(self) -> int:
        """The number of tokens before the reply."""
        return len(self.prompt) + len(self.begin)

    @property
    def length(self) -> int:
        return self.read + len(self.output)

    @property
    def longest(self) -> int:
        return self.read + self.max_tokens

    @property
    def width(self) -> int:
        """The columns that the row needs for now."""
        return align_columns(min(self.longest, self.length + max(_COLUMNS_AHEAD, len(self.forced or ()))))

    @property
    def attention(self) -> list[float]:
        """The maximum attention that later tokens pay to each token that has a later one."""
        return [] if self._watched < 2 else self._attention[: self._watched - 1].tolist()

    @property
    def sound(self) -> bool:
        """Whether its signals are finite."""
        parts = [part for part in (self.hidden, *self.looks) if part is not None]
        if "attention" in self.signals and self._attention is not None:
            parts.append(self._attention)
        return all(bool(part.isfinite().all()) for part in parts)

    def draw(self) -> float:
        """Draw a number from 0 to 1 for the next token from the row's own generator."""
        if not self._draws:
            generator = torch.Generator().manual_seed(self.seed % 2**63)
            self._draws = torch.rand(self.max_tokens, generator=generator, dtype=torch.float64).tolist()
        return self._draws[len(self.output)]

    def add(self, token: int, end_tokens: frozenset[int]) -> bool:
        """Add the next token; return whether the row, signals included, is done."""
        if self.complete:
            return True
        self.output.append(token)
        if token in end_tokens or (self.ends is not None and self.ends(self.output)):
            self.finish = "stop"
            return True
        self.complete = len(self.output) >= self.max_tokens
        return self.complete and _LAST_TOKEN_SIGNALS.isdisjoint(self.signals)

    def begin_again(self) -> None:
        """Reset the results of forced tokens."""
        self.logprobs.clear()
        self.looks = [None] * len(self.looking)
        self._attention, self._watched = None, 0

    def note_attention(self, weights: Any, first: int) -> None:
        """Add the attention of the reply's tokens from `first` on to all before them."""
        if not len(weights):
            return
        if self._attention is None:
            self._attention = torch.zeros(self.max_tokens)
        self._watched = first + len(weights)
        earlier = self._attention[: self._watched - 1]
        end = self.read + self._watched - 1
        torch.maximum(earlier, most_attended(weights[:, self.read : end], first), out=earlier)
        for number, span in enumerate(self.looking):
            for token in range(max(first, span.start), min(self._watched, span.stop)):
                part = weights[token - first, : self.read + span.start] / len(span)
                self.looks[number] = part if token == span.start else self.looks[number] + part


def count_fitting(rows: Sequence[Row], tokens: int) -> int:
    """Return how many of the rows, times the widest of them, fit; at least 1."""
    width = 0
    for number, row in enumerate(rows):
        width = max(width, row.width)
        if number and (number + 1) * width > tokens:
            return number
    return len(rows)


def next_tokens(logits: Any, rows: Sequence[Row]) -> list[int | None]:
    """Return the next tokens, None for scores that are not finite; note signals."""
    best = logits.max(-1)
    # One transfer: each waits for the device.
    chosen, usable = torch.stack((best.indices, best.values.isfinite().long())).tolist()
    sampled = [number for number, row in enumerate(rows) if row.temperature > 0 and not row.complete]
    for cut in (False, True):
        alike = [number for number in sampled if bool(rows[number].cut) is cut]
        for start in range(0, len(alike), _DISTRIBUTIONS_PER_STEP):
            numbers = alike[start : start + _DISTRIBUTIONS_PER_STEP]
            draw = _sample_truncated if cut else _sample
            for number, token in zip(numbers, draw(logits, rows, numbers), strict=True):
                chosen[number] = token
    if asking := [
        number for number, row in enumerate(rows) if (row.top or row.signals & TOKEN_SIGNALS) and not row.complete
    ]:
        picked = logits if len(asking) == len(rows) else logits[torch.tensor(asking, device=logits.device)]
        note_scores(picked, [rows[number] for number in asking], [chosen[number] for number in asking])
    return [token if good else None for token, good in zip(chosen, usable, strict=True)]


def _sample(logits: Any, rows: Sequence[Row], numbers: list[int]) -> list[int]:
    """Draw a token for each row from its full distribution."""
    scores = logits[torch.tensor(numbers, device=logits.device)]
    summed = _apply_temperature(scores, rows, numbers).softmax(-1).cumsum(-1)
    tokens: list[int] = _pick(summed, rows, numbers)[:, 0].tolist()
    return tokens


def _sample_truncated(logits: Any, rows: Sequence[Row], numbers: list[int]) -> list[int]:
    """Draw a token for each row within its `top_k` and `top_p`."""
    scores = logits[torch.tensor(numbers, device=logits.device)]
    size = scores.shape[1]
    most = [min(rows[number].top_k or size, size) for number in numbers]
    best = scores.topk(max(most)) if max(most) < size else scores.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(best.values.shape[1], device=scores.device)
    scaled = _apply_temperature(best.values, rows, numbers)
    chances = scaled.masked_fill(ranks >= _column(most, ranks), float("-inf")).softmax(-1)
    # The likeliest always stays, and all whose predecessors do not reach top_p yet.
    before = chances.cumsum(-1) - chances
    chances[(before >= _column([rows[number].top_p for number in numbers], chances)) & (ranks > 0)] = 0
    tokens: list[int] = best.indices.gather(1, _pick(chances.cumsum(-1), rows, numbers))[:, 0].tolist()
    return tokens


def _apply_temperature(scores: Any, rows: Sequence[Row], numbers: list[int]) -> Any:
    scores = scores.double()
    scores /= _column([rows[number].temperature for number in numbers], scores)
    return scores


def _pick(summed: Any, rows: Sequence[Row], numbers: list[int]) -> Any:
    """Return where each row's draw falls in its cumulative weights."""
    wanted = _column([rows[number].draw() for number in numbers], summed) * summed[:, -1:]
    # The first token whose sum exceeds the draw has a probability above 0.
    return torch.searchsorted(summed, wanted, right=True).clamp(max=summed.shape[1] - 1)


def _column(numbers: Sequence[float], beside: Any) -> Any:
    return torch.tensor(numbers, dtype=beside.dtype, device=beside.device)[:, None]


def note_scores(logits: Any, rows: Sequence[Row], chosen: Sequence[int]) -> None:
    """Note log-probabilities and entropy in the rows that asked for them."""
    for start in range(0, len(rows), _DISTRIBUTIONS_PER_STEP):
        part = slice(start, start + _DISTRIBUTIONS_PER_STEP)
        logprobs = logits[part].float().log_softmax(-1)
        tokens = torch.tensor(chosen[part], device=logits.device)[:, None]
        best = logprobs.topk(min(max(row.top for row in rows[part]), logprobs.shape[1]))
        asked = any("entropy" in row.signals for row in rows[part])
        numbers = [logprobs.gather(1, tokens), *([entropies(logprobs)[:, None]] if asked else []), best.values]
        # Two transfers from the device, each of which is waited for.
        results = zip(rows[part], torch.cat(numbers, 1).tolist(), best.indices.tolist(), strict=True)
        for row, (logprob, *values), rivals in results:
            entropy = values.pop(0) if asked else None
            top = tuple(zip(rivals, values, strict=True))[: row.top]
            row.logprobs.append(Logprobs(logprob, top, entropy if "entropy" in row.signals else None))


# Rows are moved together when more than one in MAX_EMPTY_PART places is empty.
MAX_EMPTY_PART = 4
# Tokens of one pass over prompts: more would not be faster, and would delay the running rows.
_MAX_READ_TOKENS = 16384
# Lower bound after the device ran out of memory; the limit does not grow again.
_MIN_READ_TOKENS = 1024
# Tokens that a pass may attend to, shared prefixes included, for each one it reads.
_MAX_SEEN_PER_READ = 4
# Padding may be one in _MAX_PADDING_PART tokens of a pass; an accelerator may add _FREE_PADDING_TOKENS in any case.
_MAX_PADDING_PART = 8
_FREE_PADDING_TOKENS = 2048


@dataclass(slots=True)
class Portions:
    """Divides prompts among passes: those of similar length together."""

    device: str
    read_tokens: int = _MAX_READ_TOKENS

    def of(self, lengths: Iterable[int], shared: int = 0) -> list[list[int]]:
        """Return the prompt numbers of each pass, longest first, without `shared` tokens."""
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
