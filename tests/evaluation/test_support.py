"""Supporting facts, citations and recall: hand-worked cases of the official definitions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.evaluation.metrics import (
    Overlap,
    Scores,
    joint,
    recall,
    score_citations,
    score_support,
    support,
)

GOLD = [("Tosca", 0), ("Giacomo Puccini", 2)]
NAMES = st.sets(st.sampled_from("abcdef"))


def four(scores: Scores | None) -> tuple[float, float, float, float]:
    assert scores is not None
    return scores.em, scores.f1, scores.precision, scores.recall


def test_supporting_facts_by_hand() -> None:
    # One of three cited sentences is gold, one of two gold ones is cited: P 1/3, R 1/2, F1 2 (1/6) / (5/6) = 0.4.
    cited = [("Tosca", 0), ("Tosca", 1), ("Giacomo Puccini", 0)]
    assert four(support(cited, GOLD)) == pytest.approx((0, 0.4, 1 / 3, 1 / 2))


def test_supporting_facts_all_right_whatever_their_order_and_number() -> None:
    assert four(support([*GOLD[::-1], GOLD[0]], GOLD)) == (1, 1, 1, 1)


def test_all_gold_and_one_more_is_no_exact_match() -> None:
    assert four(support([*GOLD, ("Fidelio", 0)], GOLD)) == pytest.approx((0, 0.8, 2 / 3, 1))


def test_a_sentence_is_its_title_and_its_place() -> None:
    assert four(support([("Tosca", 2), ("Giacomo Puccini", 0)], GOLD)) == (0, 0, 0, 0)


def test_paragraph_ids_as_in_musique() -> None:
    # Cited 4, 7, 9; gold 7, 9, 12, 13: two of three, two of four, F1 2 (1/3) / (7/6) = 4/7.
    assert four(support([4, 7, 9], [7, 9, 12, 13])) == pytest.approx((0, 4 / 7, 2 / 3, 1 / 2))


@pytest.mark.parametrize(("cited", "gold"), [(None, GOLD), (GOLD, None), (GOLD, []), ([], []), (None, None)])
def test_where_there_is_nothing_to_score_there_is_no_score(
    cited: list[tuple[str, int]] | None, gold: list[tuple[str, int]] | None
) -> None:
    assert support(cited, gold) is None
    assert set(score_support("Puccini", ["Puccini"], cited, gold).values()) == {None}


def test_who_could_cite_and_did_not_scores_nothing() -> None:
    assert four(support([], GOLD)) == (0, 0, 0, 0)


def test_joint_scores_by_hand() -> None:
    # Answer P 1/2, R 1; support P 1, R 1/2: products 1/2 and 1/2, F1 1/2; neither is exact.
    assert four(joint(False, Overlap(2 / 3, 1 / 2, 1.0), Scores(0.0, 2 / 3, 1.0, 1 / 2))) == (0, 0.5, 0.5, 0.5)
    assert joint(True, Overlap(1.0, 1.0, 1.0), None) is None


@pytest.mark.parametrize(
    ("prediction", "cited", "expected"),
    [
        ("Giacomo Puccini", GOLD, 1.0),
        ("Giacomo Puccini", GOLD[:1], 0.0),
        ("Puccini himself", GOLD, 0.0),
        ("", [], 0.0),
    ],
)
def test_joint_exact_match_wants_both(prediction: str, cited: list[tuple[str, int]], expected: float) -> None:
    assert score_support(prediction, ["Giacomo Puccini"], cited, GOLD)["joint_em"] == expected


def test_the_scores_of_a_question() -> None:
    # Answer: both words said are right, two of three are said (P 1, R 2/3). Support: P 1/2, R 1/2.
    scores = score_support("Giacomo Puccini", ["Verdi", "Giacomo Puccini junior"], [("Tosca", 0), ("Tosca", 5)], GOLD)
    precision, share = 1 / 2, 1 / 3
    assert scores == pytest.approx(
        {
            "support_em": 0.0,
            "support_f1": 0.5,
            "support_precision": 0.5,
            "support_recall": 0.5,
            "joint_em": 0.0,
            "joint_f1": 2 * precision * share / (precision + share),
            "joint_precision": precision,
            "joint_recall": share,
        }
    )


def test_joint_scores_take_precision_and_recall_from_one_answer() -> None:
    golds = ["Illinois", "Springfield Illinois United States Of America"]  # P 1/2, R 1; P 1, R 2/6
    scores = score_support("Springfield Illinois", golds, GOLD, GOLD)
    assert (scores["joint_precision"], scores["joint_recall"]) == (0.5, 1.0)


def test_citations() -> None:
    assert score_citations(["p1", "p2", "p3", "p1"], ["p1", "p9"]) == {
        "passage_support_f1": pytest.approx(0.4),
        "citation_precision": pytest.approx(1 / 3),
        "citation_recall": 0.5,
    }


@pytest.mark.parametrize(
    ("cited", "gold", "failed", "precision", "share"),
    [
        ([], ["p1"], False, None, 0.0),  # nothing was claimed, so nothing was claimed wrongly
        ([], ["p1"], True, 0.0, 0.0),  # a failed question is a wrong one
        (["p1"], [], False, None, None),
        ([], [], True, None, None),
    ],
)
def test_citations_that_are_not_there(
    cited: list[str], gold: list[str], failed: bool, precision: float | None, share: float | None
) -> None:
    found = score_citations(cited, gold, failed=failed)
    assert (found["citation_precision"], found["citation_recall"]) == (precision, share)


def test_recall() -> None:
    found = ["a", "x", "b", "a"]
    assert [recall(found, gold) for gold in (["a"], ["b", "c"], [], ["d"])] == [1.0, 0.5, None, 0.0]
    assert recall(found, ["a", "b", "c", "c"]) == pytest.approx(2 / 3)
    assert recall([], ["a"]) == 0.0
    assert recall(iter("ab"), ["a", "b"]) == 1.0


@given(NAMES, NAMES)
def test_scores_are_bounded_and_exact_match_means_all_of_them(cited: set[str], gold: set[str]) -> None:
    scores = support(cited, gold)
    assert (scores is None) == (not gold)
    if scores:
        assert all(0 <= score <= 1 for score in four(scores))
        assert (scores.em == 1) == (cited == gold) == (scores.f1 == 1)
        assert min(scores.precision, scores.recall) <= scores.f1 + 1e-12
        assert recall(cited, gold) == scores.recall
        found = joint(True, Overlap(0.5, 0.5, 0.5), scores)
        assert found and found.f1 <= scores.f1 + 1e-12


@given(NAMES, NAMES, NAMES)
def test_another_search_never_lowers_recall(found: set[str], more: set[str], gold: set[str]) -> None:
    assert (recall(found, gold) or 0.0) <= (recall(found | more, gold) or 0.0)
