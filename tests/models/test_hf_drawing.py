"""Tokens that are drawn: from all, from the likeliest k, and from the fewest that are likely enough together."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.models.hf_asking import ask, ask_all, asking, mixed, texts

torch: Any = pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
rows: Any = importlib.import_module("hoptree.models.batching.rows")

SHARES = (0.1, 0.4, 0.05, 0.3, 0.15)


def drawn(shares: Sequence[float], count: int = 4000, **settings: Any) -> list[float]:
    """How often each token is drawn."""
    logits = torch.tensor(shares).log().repeat(count, 1)
    made = [rows.Row([0], 1, seed=seed, **{"temperature": 1.0, **settings}) for seed in range(count)]
    counts = torch.tensor(rows.next_tokens(logits, made)).bincount(minlength=len(shares))
    return [number / count for number in counts.tolist()]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, SHARES),
        ({"top_k": 2}, (0, 4 / 7, 0, 3 / 7, 0)),
        ({"top_k": 1}, (0, 1, 0, 0, 0)),
        ({"top_k": 99}, SHARES),
        ({"top_p": 0.69}, (0, 4 / 7, 0, 3 / 7, 0)),
        ({"top_p": 0.71}, (0, 8 / 17, 0, 6 / 17, 3 / 17)),
        ({"top_p": 1e-9}, (0, 1, 0, 0, 0)),
        ({"top_p": 0.5, "top_k": 2}, (0, 1, 0, 0, 0)),  # of the two that are left, the first has 4/7
        ({"top_p": 0.6, "top_k": 2}, (0, 4 / 7, 0, 3 / 7, 0)),
        # The temperature counts first: squared, the shares are 0.16 and 0.09 of 0.285 and more than 0.85 together.
        ({"top_p": 0.85, "temperature": 0.5}, (0, 0.64, 0, 0.36, 0)),
    ],
)
def test_only_the_likeliest_are_drawn_in_proportion(settings: dict[str, Any], expected: Sequence[float]) -> None:
    found = drawn(SHARES, **settings)
    assert found == pytest.approx(expected, abs=0.03)
    assert [share for share, wanted in zip(found, expected, strict=True) if not wanted] == [0] * expected.count(0)


@given(
    st.lists(st.floats(-8, 8), min_size=2, max_size=30, unique=True),
    st.floats(0.05, 1.0),
    st.integers(0, 40),
    st.floats(0.2, 3.0),
)
def test_what_may_be_drawn_is_what_transformers_would_keep(
    scores: list[float], top_p: float, top_k: int, temperature: float
) -> None:
    logits = torch.tensor([scores], dtype=torch.float64)
    kept = logits / temperature
    if top_k:
        kept = transformers.TopKLogitsWarper(top_k)(None, kept)
    sums = kept[0].softmax(-1).sort(descending=True).values.cumsum(-1)
    assume(float((sums - top_p).abs().min()) > 1e-9)  # there, rounding decides about one token more
    kept = transformers.TopPLogitsWarper(top_p)(None, kept) if top_p < 1 else kept
    allowed = {number for number, score in enumerate(kept[0].tolist()) if score > float("-inf")}
    made = [rows.Row([0], 1, temperature=temperature, top_p=top_p, top_k=top_k, seed=seed) for seed in range(40)]
    found = set(rows.next_tokens(logits.repeat(40, 1), made))
    assert found <= allowed


def test_rows_of_all_kinds_are_drawn_as_if_alone(opened: Callable[..., Any]) -> None:
    model = opened()
    ways: list[dict[str, Any]] = [{}, {"top_k": 5}, {"top_p": 0.4}, {"top_p": 0.8, "top_k": 9}, {"temperature": 0.0}]
    requests = [asking("red hill", **{"temperature": 1.3, "seed": 4, "n": 2, **way}) for way in ways]
    alone = [texts([ask(model, request)]) for request in requests]
    assert len({tuple(one) for one in alone}) == len(ways)
    beside = ask_all(model, [*mixed(4, temperature=0.9, top_k=3), *requests, *mixed(3)])[4:-3]
    assert [texts([reply]) for reply in beside] == alone
    greedy = asking("red hill", temperature=1.3, top_k=1)
    assert ask(model, greedy).text == ask(model, asking("red hill")).text


def test_no_numbers_among_what_is_drawn_fail_their_row_alone() -> None:
    logits = torch.tensor(SHARES).log().repeat(3, 1)
    logits[1] = float("nan")
    made = [rows.Row([0], 1, temperature=1.0, top_k=2, top_p=0.9, seed=seed) for seed in range(3)]
    found = rows.next_tokens(logits, made)
    assert found[1] is None and {found[0], found[2]} <= {1, 3}


def test_more_rows_than_are_looked_at_together_are_told_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(1)
    logits = torch.randn(7, 11)

    def told() -> list[tuple[list[int], Any]]:
        made = [rows.Row([1], 4, top=number % 3, temperature=number % 2, seed=number) for number in range(7)]
        for row in made[::3]:
            row.signals = frozenset(("entropy",))
        chosen = rows.next_tokens(logits, made)
        return [(chosen, row.logprobs) for row in made]

    together = told()
    monkeypatch.setattr(rows, "_DISTRIBUTIONS_PER_STEP", 2)
    assert told() == together
    assert [len(found) for _, found in together] == [1, 1, 1, 1, 1, 1, 1]
    assert [found[0].entropy is not None for _, found in together] == [True, False, False, True, False, False, True]
