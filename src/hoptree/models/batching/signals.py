"""What goes on inside a model while it writes: entropy, and attention to what was written before."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

from hoptree.models.batching.kv import mask_of

__all__ = ["Watch", "attention_of_heads", "entropies", "most_attended"]

torch: Any = importlib.import_module("torch")
Tensor = Any

# Rows whose attention is computed together: their keys in one layer are copied for it.
TOGETHER = 32


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
            parts = zip(self.places.split(TOGETHER), self.positions.split(TOGETHER), strict=True)
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
