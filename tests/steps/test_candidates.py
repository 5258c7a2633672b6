"""Names and relations: found in replies and texts, filtered by confidence, made into a query."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.steps.facts.candidates import Candidate, choose_by_confidence, names_in
from hoptree.steps.facts.sub_query import sought_words, sub_query
from hoptree.uncertainty import LexiconTagger

TAGGER = LexiconTagger()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("The father of Jean Bretagne is Louis.", ["Jean Bretagne", "Louis"]),
        ("In Paris he met Louis's wife. So he stayed.", ["Paris", "Louis"]),
        ("He was born. It was cold.", []),
        ("The Hague is in the Netherlands.", ["Hague", "Netherlands"]),
        ("", []),
    ],
)
def test_names_in_a_text(text: str, names: list[str]) -> None:
    assert list(names_in(text, TAGGER)) == names


@given(st.text(max_size=200))
def test_any_text_has_names_or_none(text: str) -> None:
    assert all(name and name in text for name in names_in(text, TAGGER))


def test_the_surest_stay_in_their_order() -> None:
    given = [Candidate("a", confidence=0.2), Candidate("b", confidence=0.9), Candidate("c", confidence=0.5)]
    found = choose_by_confidence(given, top_k=2)
    assert [one.name for one in found.kept] == ["b", "c"] and [one.name for one in found.dropped] == ["a"]
    assert [one.name for one in choose_by_confidence(given, top_k=2, least=0.95).kept] == ["b"]
    assert choose_by_confidence([], top_k=2).kept == choose_by_confidence([], top_k=2, least=0.1).kept == ()


@pytest.mark.parametrize(
    ("sentence", "hit", "words"),
    [
        ("The father of Jean is Louis.", "Louis", ["father"]),
        ("Jean Bretagne's father was born in Paris.", "Paris", ["father", "born"]),
        ("He died in 1709.", "1709", ["died"]),
        ("Louis.", "Louis", []),
    ],
)
def test_what_is_sought_is_in_no_name_and_not_in_doubt(sentence: str, hit: str, words: list[str]) -> None:
    at = sentence.index(hit)
    assert list(sought_words(sentence, [(at, at + len(hit))], TAGGER)) == words


def test_a_query_says_each_word_once_and_no_more_than_so_many() -> None:
    assert sub_query(["Jean de La Trémoille", "La Tremoille"], ["father", "Jean"], limit=25) == (
        "Jean de La Trémoille father"
    )
    assert sub_query(["a b c"], ["d"], limit=3) == "a b c" and sub_query([], [], limit=25) == ""
