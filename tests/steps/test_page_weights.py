"""Pages weigh by their passages among the best of all, and sentences by the words they share with a query."""

from __future__ import annotations

import math

import pytest

from hoptree.core.values import Passage
from hoptree.methods.baselines.tog2 import weigh_pages
from hoptree.retrieval.bm25_memory import best_sentences


def page(name: str, *scores: float) -> list[Passage]:
    return [Passage(f"{name}{number}", name, "", score) for number, score in enumerate(scores)]


def test_each_passage_counts_less_by_its_rank_among_all() -> None:
    weights = weigh_pages({"a": page("a", 5, 1), "b": page("b", 3)})
    assert weights["a"] == pytest.approx(5 + math.exp(-1.6))
    assert weights["b"] == pytest.approx(3 * math.exp(-0.8))


def test_only_ten_passages_count() -> None:
    weights = weigh_pages({"a": page("a", *[2.0] * 10), "b": page("b", 1.0), "c": []})
    assert weights["b"] == weights["c"] == 0 and weights["a"] > 0


def test_negative_scores_begin_at_their_lowest() -> None:
    weights = weigh_pages({"a": page("a", -1.0), "b": page("b", -3.0, -3.0)})
    assert weights["a"] > weights["b"] == 0


def test_the_best_sentences_come_first_and_know_where_they_stand() -> None:
    passages = [
        Passage("1", "Rome", "It is old. The city of Rome has a river."),
        Passage("2", "Oslo", "A harbour lies there. Snow falls."),
        Passage("1", "Rome", "It is old. The city of Rome has a river."),
    ]
    sentences = best_sentences("Which river flows through Rome?", passages, keep=3)
    assert (sentences[0].id, sentences[0].text, len(sentences)) == ("1", "The city of Rome has a river.", 3)
    assert best_sentences("Rome", [], keep=3) == () and best_sentences("Rome", passages, keep=0) == ()
