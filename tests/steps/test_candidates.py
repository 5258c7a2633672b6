"""Names and relations: found in replies and texts, filtered by confidence, made into a query."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.mind.lookup import Candidate, dropped_by_confidence, dropped_by_reasoning
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.text.names import LexiconTagger, capitalised_names
from hoptree.text.retrieval_triggers import sought_words, sub_query

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
    assert list(capitalised_names(text, TAGGER)) == names


@pytest.mark.parametrize(
    "text",
    [
        "He died on 30 March 1774.",
        "It came out in October.",
        "From June to early September it is warm.",
        "He was shot on Friday, 9 May.",
        "It was January 28, 1974.",
        "On the 3rd of April she left.",
        "It ended on 5 Sept. 1880.",
        "Since May they meet every Monday.",
        "It is closed on Sundays and held each December.",
        "It was the morning of Tuesday, September 11, 2001.",
    ],
)
def test_a_month_and_a_day_of_the_week_are_no_names(text: str) -> None:
    assert capitalised_names(text, TAGGER) == ()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("He wrote Roses in August.", "Roses in August"),
        ("It was sung by June Carter.", "June Carter"),
        ("The director of Friday is Gary Gray.", "Friday"),
        ("Jo March met Paul.", "Jo March"),
        ("The film May was shot by Lucky McKee.", "May"),
        ("Seven Days in May 1964 was long.", "Seven Days in May"),
    ],
)
def test_what_is_called_by_a_month_or_a_day_is_a_name(text: str, name: str) -> None:
    assert name in capitalised_names(text, TAGGER)


@given(st.text(max_size=200))
def test_any_text_has_names_or_none(text: str) -> None:
    assert all(name and name in text for name in capitalised_names(text, TAGGER))


def test_the_least_sure_are_dropped() -> None:
    given = [Candidate("a", confidence=0.2), Candidate("b", confidence=0.9), Candidate("c", confidence=0.5)]
    assert [each.name for each in dropped_by_confidence(given, top_k=2)] == ["a"]
    assert [each.name for each in dropped_by_confidence(given, top_k=2, least=0.95)] == ["c", "a"], (
        "the surest one stays"
    )
    assert dropped_by_confidence([], top_k=2) == dropped_by_confidence([], top_k=2, least=0.1) == []


@pytest.mark.parametrize(
    ("sentence", "hit", "words"),
    [
        ("The father of Jean is Louis.", "Louis", ["father"]),
        ("Jean Bretagne's father was born in Paris.", "Paris", ["father", "born"]),
        ("He died in 1709.", "1709", ["died"]),
        ("Louis.", "Louis", []),
        ("Jean (died 1241)'s father is Louis.", "Louis", ["died", "1241", "father"]),
        ("“Jean”’s father is Louis.", "Louis", ["father"]),
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


@pytest.mark.parametrize(
    ("reply", "dropped"),
    [
        ("[2]", ["a", "c"]),
        ("2 and 3", ["a"]),
        ('["1", "2"]', ["c"]),
        ('{"keep": [3], "drop": [1, 2]}', ["a", "b"]),
        ('{"keep": [], "drop": [1, 2]}', []),
        ("None of them.", []),
    ],
)
def test_names_that_the_model_does_not_need(reply: str, dropped: list[str]) -> None:
    ctx = Context(method="mind", model=ScriptedModel("m", rules=[Rule(reply)]), calls=Calls(None), trace=Trace("names"))
    names = [Candidate(name) for name in "abc"]
    kept_out = asyncio.run(dropped_by_reasoning(ctx, "Who?", "", "It is a.", names))
    assert [candidate.name for candidate in kept_out] == dropped
