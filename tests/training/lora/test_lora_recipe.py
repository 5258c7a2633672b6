"""What a training is told, and the learning rate that follows from it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from hoptree.core.errors import ConfigError
from hoptree.training.lora.dataset import Pace, Recipe
from hoptree.training.lora.train import Order


def test_the_rate_rises_and_falls_to_nothing() -> None:
    recipe = Recipe(learning_rate=1.0, warmup=0.1)
    rates = [recipe.rate(step, 100) for step in range(100)]
    assert rates[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert all(before > after for before, after in pairwise(rates[9:][1:]))
    assert rates[10] == 1.0 and rates[55] == pytest.approx(0.5) and 0 < rates[99] < 0.001
    assert Recipe(warmup=0).rate(0, 1) == Recipe().learning_rate


def test_each_epoch_takes_every_example_once_in_an_order_of_its_own() -> None:
    recipe = Recipe(epochs=3, batch=2, accumulation=2)
    order = Order(10, recipe)
    steps = [order.of(step) for step in range(recipe.steps(10))]
    assert [len(step) for step in steps] == [4, 4, 2] * 3
    epochs = [[place for step in steps[begin : begin + 3] for place in step] for begin in (0, 3, 6)]
    assert all(Counter(epoch) == Counter(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    assert Order(10, recipe).of(7) == steps[7], "a step does not rest on those before it"
    assert Order(10, Recipe(epochs=3, batch=2, accumulation=2, seed=1)).of(0) != steps[0]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"rank": 0}, "rank is 0"),
        ({"max_length": 0}, "max_length is 0"),
        ({"learning_rate": 0.0}, "learning rate is 0"),
        ({"learning_rate": float("nan")}, "learning rate is nan"),
        ({"dropout": 1.0}, "dropout is 1"),
        ({"warmup": -0.1}, "warmup is -0.1"),
        ({"targets": " ,"}, "No layers"),
        ({"dtype": "fp16"}, "no dtype fp16"),
    ],
)
def test_what_cannot_be_told(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Recipe(**options)
    with pytest.raises(ConfigError, match="save_every"):
        Pace(save_every=0)
