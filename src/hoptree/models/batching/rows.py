"""One reply in the making, and the choice of its next token."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Literal

from hoptree.models.batching.kv_cache import aligned, mask_of
from hoptree.models.model import Signal

Tensor = Any

# Rows whose attention is computed together: their keys in one layer are copied for it.
TOGETHER_SIGNALS = 32


def entropies(logprobs: Tensor) -> Tensor:
    """The entropy of each distribution, in nats (Equation 1 of MIND); what is impossible adds nothing."""
    return torch.special.entr(logprobs.exp()).sum(-1)


def most_attended(weights: Tensor, first: int = 0) -> Tensor:
    """The most that a later token pays to each token (Equation 2 of MIND): the maximum of a column below the diagonal.

    Row i of `weights` is what token `first` + i pays to each token, from token 0 on.
    """
    return weights.tril(first - 1).amax(0)


def attention_of_heads(query: Tensor, keys: Tensor, mask: Tensor, scaling: float | None) -> Tensor:
    """The attention of every query to every key, as the mean over heads; several heads may share keys.

    With 32 bits whatever the model computes with: fused attention does not round its scores in between, either.
    """
    rows, heads, new, size = query.shape
    query, keys = query.float(), keys.float()
    scores = query.reshape(rows, keys.shape[1], -1, size) @ keys.transpose(2, 3)
    scores = scores.reshape(rows, heads, new, -1) * (size**-0.5 if scaling is None else scaling)
    return (scores + mask).softmax(-1).mean(1)


@dataclass(slots=True, eq=False)
class Watch:
    """What some `places` of a pass pay attention to in its last layer: `weights`, once the pass is done.

    They are computed from the layer's own queries and keys: fused attention tells no weights, and eager attention in
    its place would make the pass depend on who asks. One more product of a few queries, in one layer of many, is exact
    and costs next to nothing; rows that do not ask pay nothing, and only the weights of the pass are ever held.
    """

    layer: int
    places: Tensor
    positions: Tensor
    weights: Tensor = None

    def see(self, layer: int, query: Tensor, keys: Tensor, scaling: float | None, window: int | None) -> None:
        if layer == self.layer:
            parts = zip(self.places.split(TOGETHER_SIGNALS), self.positions.split(TOGETHER_SIGNALS), strict=True)
            self.weights = torch.cat(
                [
                    attention_of_heads(query[places], keys[places], _mask(positions, keys, window), scaling)
                    for places, positions in parts
                ]
            )


def _mask(positions: Tensor, keys: Tensor, window: int | None) -> Tensor:
    """What is added to the scores of all keys for queries at these positions, in the shape of scores."""
    columns = keys.shape[2]
    return mask_of(positions.flatten(), columns, window, torch.float32).reshape(len(positions), 1, -1, columns)


torch: Any = importlib.import_module("torch")

# Columns kept for what a row will write; it gets more when it needs them.
AHEAD = 128
# Distributions that are looked at together: each is as long as the vocabulary, and a few copies are made of it.
TOGETHER = 256
# Signals that are told of each token; hidden states are of the last one alone.
OF_TOKENS: frozenset[Signal] = frozenset(("entropy", "attention"))
# Signals that the pass over the last token tells too.
_OF_THE_LAST: frozenset[Signal] = frozenset(("attention", "hidden"))


@dataclass(frozen=True, slots=True)
class Logprobs:
    """The log-probability of a chosen token, the likeliest tokens with theirs, best first, and the entropy of all."""

    chosen: float
    top: tuple[tuple[int, float], ...]
    entropy: float | None = None


@dataclass(slots=True, eq=False)
class Row:
    """One reply: `future` is done when it is complete, and cancelling that takes the row out of the batch.

    `ends` is asked after each token whether the tokens so far complete the reply. `place` is the row's place in the
    batch's memory, `cached` how many tokens of its prompt had been read for another row. Where an encoder reads the
    prompt, `begin` is what the decoder is given before the reply. A row with `forced` tokens writes none: it is read
    with them in one go, as if they were its reply, and `looking` names those whose attention to all before is kept.
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
        """Whether unlikely tokens are never drawn."""
        return self.top_p < 1 or self.top_k > 0

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
        return aligned(min(self.longest, self.length + max(AHEAD, len(self.forced or ()))))

    @property
    def attention(self) -> list[float]:
        """The most that later tokens pay to each token that has a later one."""
        return [] if self._watched < 2 else self._attention[: self._watched - 1].tolist()

    @property
    def sound(self) -> bool:
        """Whether what it tells of its inside are numbers."""
        told = [part for part in (self.hidden, *self.looks) if part is not None]
        if "attention" in self.signals and self._attention is not None:
            told.append(self._attention)
        return all(bool(part.isfinite().all()) for part in told)

    def draw(self) -> float:
        """A number from 0 to 1 for the next token, from the row's own generator: no other row can change it."""
        if not self._draws:
            generator = torch.Generator().manual_seed(self.seed % 2**63)
            self._draws = torch.rand(self.max_tokens, generator=generator, dtype=torch.float64).tolist()
        return self._draws[len(self.output)]

    def add(self, token: int, end_tokens: frozenset[int]) -> bool:
        """Take the next token; True if the row is done.

        One that was cut off and tells what it looks at stays for a pass over its last token, which writes no more.
        """
        if self.complete:
            return True
        self.output.append(token)
        if token in end_tokens or (self.ends is not None and self.ends(self.output)):
            self.finish = "stop"
            return True
        self.complete = len(self.output) >= self.max_tokens
        return self.complete and _OF_THE_LAST.isdisjoint(self.signals)

    def begin_again(self) -> None:
        """Forget what forced tokens told so far."""
        self.logprobs.clear()
        self.looks = [None] * len(self.looking)
        self._attention, self._watched = None, 0

    def note_attention(self, weights: Any, first: int) -> None:
        """Take what tokens of the reply, from `first` on, pay to all that was read."""
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


def fitting(rows: Sequence[Row], tokens: int) -> int:
    """How many rows, from the first on and at least one, times the widest of them are no more than so many tokens."""
    width = 0
    for number, row in enumerate(rows):
        width = max(width, row.width)
        if number and (number + 1) * width > tokens:
            return number
    return len(rows)


def next_tokens(logits: Any, rows: Sequence[Row]) -> list[int | None]:
    """The next token of each row, whose scores stand in the same order; None where these are no numbers.

    What rows asked to be told of the scores is noted in them.
    """
    best = logits.max(-1)
    chosen, usable = torch.stack(
        (best.indices, best.values.isfinite().long())
    ).tolist()  # the device is waited for once
    sampled = [number for number, row in enumerate(rows) if row.temperature > 0 and not row.complete]
    for cut in (False, True):
        alike = [number for number in sampled if bool(rows[number].cut) is cut]
        for start in range(0, len(alike), TOGETHER):
            numbers = alike[start : start + TOGETHER]
            draw = _sampled_of_the_likeliest if cut else _sampled
            for number, token in zip(numbers, draw(logits, rows, numbers), strict=True):
                chosen[number] = token
    if asking := [
        number for number, row in enumerate(rows) if (row.top or row.signals & OF_TOKENS) and not row.complete
    ]:
        picked = logits if len(asking) == len(rows) else logits[torch.tensor(asking, device=logits.device)]
        note_scores(picked, [rows[number] for number in asking], [chosen[number] for number in asking])
    return [token if good else None for token, good in zip(chosen, usable, strict=True)]


def _sampled(logits: Any, rows: Sequence[Row], numbers: list[int]) -> list[int]:
    """One draw a row, looked up in its summed probabilities."""
    scores = logits[torch.tensor(numbers, device=logits.device)]
    summed = _scaled(scores, rows, numbers).softmax(-1).cumsum(-1)
    tokens: list[int] = _drawn(summed, rows, numbers)[:, 0].tolist()
    return tokens


def _sampled_of_the_likeliest(logits: Any, rows: Sequence[Row], numbers: list[int]) -> list[int]:
    """One draw a row from its `top_k` likeliest tokens, and of these the fewest that are `top_p` likely together."""
    scores = logits[torch.tensor(numbers, device=logits.device)]
    size = scores.shape[1]
    most = [min(rows[number].top_k or size, size) for number in numbers]
    best = scores.topk(max(most)) if max(most) < size else scores.sort(dim=-1, descending=True, stable=True)
    ranks = torch.arange(best.values.shape[1], device=scores.device)
    scaled = _scaled(best.values, rows, numbers)
    chances = scaled.masked_fill(ranks >= _column(most, ranks), float("-inf")).softmax(-1)
    # The likeliest always stays, and with it all whose betters do not make up top_p yet.
    before = chances.cumsum(-1) - chances
    chances[(before >= _column([rows[number].top_p for number in numbers], chances)) & (ranks > 0)] = 0
    tokens: list[int] = best.indices.gather(1, _drawn(chances.cumsum(-1), rows, numbers))[:, 0].tolist()
    return tokens


def _scaled(scores: Any, rows: Sequence[Row], numbers: list[int]) -> Any:
    scores = scores.double()
    scores /= _column([rows[number].temperature for number in numbers], scores)
    return scores


def _drawn(summed: Any, rows: Sequence[Row], numbers: list[int]) -> Any:
    """Where each row's draw falls in its summed chances, which need not reach 1."""
    wanted = _column([rows[number].draw() for number in numbers], summed) * summed[:, -1:]
    # The first token whose sum exceeds the draw has a probability above 0.
    return torch.searchsorted(summed, wanted, right=True).clamp(max=summed.shape[1] - 1)


def _column(numbers: Sequence[float], beside: Any) -> Any:
    return torch.tensor(numbers, dtype=beside.dtype, device=beside.device)[:, None]


def note_scores(logits: Any, rows: Sequence[Row], chosen: Sequence[int]) -> None:
    """Note in each row what it asked to be told of the scores from which a token was chosen."""
    for start in range(0, len(rows), TOGETHER):
        part = slice(start, start + TOGETHER)
        logprobs = logits[part].float().log_softmax(-1)
        tokens = torch.tensor(chosen[part], device=logits.device)[:, None]
        best = logprobs.topk(min(max(row.top for row in rows[part]), logprobs.shape[1]))
        asked = any("entropy" in row.signals for row in rows[part])
        numbers = [logprobs.gather(1, tokens), *([entropies(logprobs)[:, None]] if asked else []), best.values]
        # What is told comes from the device in two parts: each of them has to be waited for.
        found = zip(rows[part], torch.cat(numbers, 1).tolist(), best.indices.tolist(), strict=True)
        for row, (logprob, *told), rivals in found:
            entropy = told.pop(0) if asked else None
            top = tuple(zip(rivals, told, strict=True))[: row.top]
            row.logprobs.append(Logprobs(logprob, top, entropy if "entropy" in row.signals else None))
