"""Passages to be found by their words."""

from __future__ import annotations

from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25

__all__ = ["PASSAGES", "found"]

PASSAGES = [
    Passage("whiplash", "Whiplash", "Whiplash is a film of 2014 directed by Damien Chazelle."),
    Passage("arrival", "Arrival", "Arrival is a film of 2016 directed by Denis Villeneuve."),
    Passage("obrien", "Flann O'Brien", "Flann O'Brien wrote At Swim-Two-Birds."),
    Passage("lodz", "Łódź", "Łódź is a city in Poland."),
    Passage("tokyo", "東京", "東京 は日本の首都です。"),
    Passage("moscow", "Москва", "Москва — столица России."),
]


def found(index: BM25, query: str, k: int = 3) -> list[str]:
    return [passage.id for passage in index.search_now(query, k)]
