"""Known answers for the ranking metrics, and a second computation that has to agree."""

from __future__ import annotations

import math
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hoptree.core.errors import MissingExtra
from hoptree.evaluation.metrics import RankingMetrics

pytestmark = pytest.mark.skipif(find_spec("ranx") is None, reason="needs the extra 'eval'")


@pytest.fixture(scope="module")
def metrics() -> RankingMetrics:
    return RankingMetrics()


def one(metrics: RankingMetrics, gold: list[str], found: list[str], k: int = 10) -> dict[str, float]:
    return {name: values[0] for name, values in metrics.score([gold], [found], k=k).items()}


def test_known_answers(metrics: RankingMetrics) -> None:
    scores = one(metrics, ["a", "b"], ["x", "a", "y", "z", "w", "v", "b"])
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


def test_all_at_five_wants_every_gold_passage(metrics: RankingMetrics) -> None:
    found = ["a", "b", "c", "d", "e", "f"]
    assert one(metrics, ["a", "e"], found)["all@5"] == 1
    assert one(metrics, ["a", "f"], found)["all@5"] == 0
    assert one(metrics, found, found)["all@5"] == 0  # six do not fit into five


def test_nothing_found_is_zero_beside_others(metrics: RankingMetrics) -> None:
    scores = metrics.score([["a"], ["b", "c", "d"], ["e"]], [["a"], [], ["x"]])
    assert {name: values for name, values in scores.items() if values != [1, 0, 0]} == {}


def test_gold_that_is_named_twice_counts_once(metrics: RankingMetrics) -> None:
    assert one(metrics, ["a", "a", "b"], ["a", "b"]) == one(metrics, ["a", "b"], ["a", "b"])


def test_a_name_that_is_found_twice_is_one_hit_and_fills_both_places(metrics: RankingMetrics) -> None:
    scores = one(metrics, ["a", "b"], ["a", "a", "b"])
    assert (scores["recall@2"], scores["recall@5"]) == (0.5, 1.0)
    assert scores["ndcg@10"] == pytest.approx((1 + 1 / 2) / (1 + 1 / math.log2(3)))


def test_more_than_ten_gold_passages(metrics: RankingMetrics) -> None:
    gold = [str(number) for number in range(20)]
    scores = one(metrics, gold, gold, k=20)
    assert (scores["recall@10"], scores["recall@20"], scores["ndcg@10"]) == (0.5, 1.0, 1.0)


def test_what_stands_below_k_or_ten_does_not_count(metrics: RankingMetrics) -> None:
    found = [f"x{place}" for place in range(10)] + ["a"]
    assert not any(one(metrics, ["a"], found).values())
    deep = one(metrics, ["a"], found, k=50)
    assert (deep["recall@50"], deep["recall@10"], deep["mrr"], deep["ndcg@10"]) == (1, 0, 0, 0)


def test_a_second_computation_agrees(metrics: RankingMetrics) -> None:
    draw = random.Random(5)
    names = [f"p{number}" for number in range(30)]
    gold = [draw.sample(names, draw.randint(1, 12)) for _ in range(200)]
    found = [draw.sample(names, draw.randint(0, 10)) for _ in range(200)]
    scores = metrics.score(gold, found)
    for row, (wanted, ranking) in enumerate(zip(gold, found, strict=True)):
        hits = [name in wanted for name in ranking]
        gain = sum(hit / math.log2(place + 2) for place, hit in enumerate(hits))
        best = sum(1 / math.log2(place + 2) for place in range(min(10, len(wanted))))
        expected = {f"recall@{cut}": sum(hits[:cut]) / len(wanted) for cut in (2, 5, 10)}
        expected["all@5"] = float(set(wanted) <= set(ranking[:5]))
        expected["mrr"] = 1 / (hits.index(True) + 1) if any(hits) else 0.0
        expected["ndcg@10"] = gain / best
        assert {name: values[row] for name, values in scores.items()} == pytest.approx(expected)


def test_nothing_is_left_in_the_home_directory_and_numba_compiles_for_others(tmp_path: Path) -> None:
    code = (
        "import os; from hoptree.evaluation.metrics import RankingMetrics; RankingMetrics(); import numba;"
        "assert not numba.config.DISABLE_JIT; assert 'IR_DATASETS_HOME' not in os.environ"
    )
    kept = {name: value for name, value in os.environ.items() if name not in ("IR_DATASETS_HOME", "NUMBA_DISABLE_JIT")}
    environment = kept | {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path), "MPLCONFIGDIR": str(tmp_path / "mpl")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / ".ir_datasets").exists()


def test_without_ranx_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ranx.metrics", None)
    with pytest.raises(MissingExtra, match=r"hoptree\[eval\]"):
        RankingMetrics()
