"""Known answers for the ranking metrics, and a second computation that has to agree."""

from __future__ import annotations

import math
import random

import pytest

from hoptree.evaluation.metrics import score_ranking


def test_known_answers() -> None:
    scores = score_ranking(["a", "b"], ["x", "a", "y", "z", "w", "v", "b"])
    best = 1 + 1 / math.log2(3)
    assert scores == pytest.approx(
        {
            "recall@2": 0.5,
            "recall@5": 0.5,
            "recall@10": 1.0,
            "all@5": 0.0,
            "mrr": 0.5,
            "ndcg@10": (1 / math.log2(3) + 1 / math.log2(8)) / best,
        }
    )


def test_all_at_five_wants_every_gold_passage() -> None:
    found = ["a", "b", "c", "d", "e", "f"]
    assert score_ranking(["a", "e"], found)["all@5"] == 1
    assert score_ranking(["a", "f"], found)["all@5"] == 0
    assert score_ranking(found, found)["all@5"] == 0  # six do not fit into five


def test_nothing_found_is_zero_beside_others() -> None:
    assert set(score_ranking(["a"], ["a"]).values()) == {1}
    assert set(score_ranking(["b", "c", "d"], []).values()) == set(score_ranking(["e"], ["x"]).values()) == {0}


def test_gold_that_is_named_twice_counts_once() -> None:
    assert score_ranking(["a", "a", "b"], ["a", "b"]) == score_ranking(["a", "b"], ["a", "b"])


def test_a_name_that_is_found_twice_is_one_hit_and_fills_both_places() -> None:
    scores = score_ranking(["a", "b"], ["a", "a", "b"])
    assert (scores["recall@2"], scores["recall@5"]) == (0.5, 1.0)
    assert scores["ndcg@10"] == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)))


def test_more_than_ten_gold_passages() -> None:
    gold = [str(number) for number in range(20)]
    scores = score_ranking(gold, gold, k=20)
    assert (scores["recall@10"], scores["recall@20"], scores["ndcg@10"]) == (0.5, 1.0, 1.0)


def test_what_stands_below_k_or_ten_does_not_count() -> None:
    found = [f"x{place}" for place in range(10)] + ["a"]
    assert not any(score_ranking(["a"], found).values())
    deep = score_ranking(["a"], found, k=50)
    assert (deep["recall@50"], deep["recall@10"], deep["mrr"], deep["ndcg@10"]) == (1, 0, 0, 0)


def test_a_second_computation_agrees() -> None:
    draw = random.Random(5)
    names = [f"p{number}" for number in range(30)]
    gold = [draw.sample(names, draw.randint(1, 12)) for _ in range(200)]
    found = [draw.sample(names, draw.randint(0, 10)) for _ in range(200)]
    for wanted, ranking in zip(gold, found, strict=True):
        hits = [name in wanted for name in ranking]
        gain = sum(hit / math.log2(place + 2) for place, hit in enumerate(hits))
        best = sum(1 / math.log2(place + 2) for place in range(min(10, len(wanted))))
        expected = {f"recall@{cut}": sum(hits[:cut]) / len(wanted) for cut in (2, 5, 10)}
        expected["all@5"] = float(set(wanted) <= set(ranking[:5]))
        expected["mrr"] = 1 / (hits.index(True) + 1) if any(hits) else 0.0
        expected["ndcg@10"] = gain / best
        assert score_ranking(wanted, ranking) == pytest.approx(expected)
