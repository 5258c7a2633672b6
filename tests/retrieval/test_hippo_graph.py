"""The walk over the graph of phrases and passages, beside one computed by hand and one computed slowly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Fact
from hoptree.retrieval.hippo_retriever import PhraseGraph
from hoptree.retrieval.hippo_store import fact_key, phrase_of
from hoptree.retrieval.index.tantivy_files import key_of

pytest.importorskip("rustworkx")

Row = tuple[int, int, Fact]


def row(passage: int, subject: str, relation: str, object_: str) -> Row:
    fact = Fact(subject, relation, object_)
    return fact_key(fact), passage, fact


def slowly(
    rows: Sequence[Row],
    synonyms: Sequence[tuple[str, str, float]],
    phrases: Mapping[str, float],
    passages: Mapping[int, float],
    damping: float,
) -> dict[object, float]:
    """Personalised PageRank as it is written down: weights in a table, as many rounds as it takes."""
    weights: dict[tuple[object, object], float] = {}

    def tie(one: object, other: object, weight: float, *, adding: bool) -> None:
        for pair in ((one, other), (other, one)):
            weights[pair] = weight + (weights.get(pair, 0.0) if adding else 0.0)

    for _, passage, fact in rows:
        ends = phrase_of(fact.subject), phrase_of(fact.object)
        for end in ends:
            tie(("passage", passage), end, 1.0, adding=False)
        if ends[0] != ends[1]:
            tie(*ends, 1.0, adding=True)
    for one, other, cosine in synonyms:
        tie(one, other, cosine, adding=True)
    nodes = {node for pair in weights for node in pair} | {("passage", key) for key in passages}
    placed: dict[object, float] = {("passage", key): weight for key, weight in passages.items()}
    placed.update((phrase, weight) for phrase, weight in phrases.items())
    given_weights = {node: placed.get(node, 0.0) for node in nodes}
    start = {node: weight / sum(given_weights.values()) for node, weight in given_weights.items()}
    total = {node: sum(weight for (one, _), weight in weights.items() if one == node) for node in nodes}
    rank = dict(start)
    for _ in range(200):
        lost = sum(rank[node] for node in nodes if not total[node])
        rank = {
            node: (1 - damping + damping * lost) * start[node]
            + damping
            * sum(rank[one] * weight / total[one] for (one, other), weight in weights.items() if other == node)
            for node in nodes
        }
    return rank


def test_a_walk_computed_by_hand() -> None:
    """A passage with one fact is a triangle: a start at one phrase gives (3/5, 1/5, 1/5) with a damping of 1/2."""
    graph = PhraseGraph([row(7, "Ilse", "mother of", "Arne")])
    found = graph.walk({"ilse": 2.0}, {}, damping=0.5)
    assert found == {7: pytest.approx(1 / 5)}
    assert graph.walk({}, {7: 0.1}, damping=0.5) == {7: pytest.approx(3 / 5)}


def test_a_walk_goes_on_to_passages_that_share_a_phrase() -> None:
    rows = [row(1, "The Film", "director", "Arne"), row(2, "Arne", "mother", "Ilse"), row(3, "Other", "is", "Else")]
    found = PhraseGraph(rows).walk({"the film": 1.0}, {}, damping=0.5)
    assert found[1] > found[2] > found[3] == 0.0


def test_a_passage_without_facts_is_where_a_walk_only_starts() -> None:
    rows = [row(1, "a b c", "is", "d e f")]
    found = PhraseGraph(rows).walk({"a b c": 1.0}, {1: 0.5, 9: 0.5}, damping=0.5)
    slow = slowly(rows, [], {"a b c": 1.0}, {1: 0.5, 9: 0.5}, 0.5)
    assert found[1] / found[9] == pytest.approx(slow["passage", 1] / slow["passage", 9])
    assert PhraseGraph(rows).walk({}, {9: 1.0}, damping=0.5) == {9: pytest.approx(0.5)}


def test_a_fact_that_several_passages_state_ties_more() -> None:
    rows = [
        row(1, "hub", "to", "one"),
        row(2, "hub", "to", "one"),
        row(3, "hub", "to", "two"),
        row(4, "one", "is", "x1"),
    ]
    graph = PhraseGraph([*rows, row(5, "two", "is", "x2")])
    found = graph.walk({"hub": 1.0}, {}, damping=0.5)
    assert found[4] > found[5] > 0
    assert (graph.spread_of("hub"), graph.spread_of("one"), graph.spread_of("nobody")) == (3, 3, 0)


def test_synonyms_lead_on_and_those_of_phrases_that_are_gone_do_not() -> None:
    rows = [row(1, "Jim Bob", "occupation", "musician"), row(2, "James Robert Morrison", "born in", "London")]
    same = (key_of("jim bob"), key_of("james robert morrison"), 0.9)
    assert PhraseGraph(rows).walk({"musician": 1.0}, {}, damping=0.5)[2] == 0.0
    assert PhraseGraph(rows, [same, (5, 6, 1.0)]).walk({"musician": 1.0}, {}, damping=0.5)[2] > 0.0


def test_nothing_to_start_from_leads_nowhere() -> None:
    graph = PhraseGraph([row(1, "a b", "is", "c d")])
    assert graph.walk({}, {}, damping=0.5) == {}
    assert graph.walk({"nobody": 1.0}, {}, damping=0.5) == {}


def test_a_phrase_is_the_same_whatever_its_capitals_and_signs() -> None:
    assert phrase_of("The Hague.") == phrase_of("the  hague") == "the hague"
    assert phrase_of("Zu\u0308rich") == phrase_of("Z\u00fcrich")
    assert phrase_of("!!!") == "!!!" != phrase_of("???")


names = st.sampled_from(["ann", "bob", "cid", "dan", "eve", "fay"])
facts = st.lists(st.builds(row, st.integers(1, 4), names, st.just("knows"), names), min_size=1, max_size=9)


@given(
    facts,
    st.lists(st.tuples(names, names, st.floats(0.8, 1.0)), max_size=3),
    st.dictionaries(names, st.floats(0.01, 1.0), min_size=1, max_size=3),
    st.dictionaries(st.integers(1, 6), st.floats(0.01, 1.0), max_size=3),
)
def test_a_walk_is_the_one_that_is_computed_slowly(
    rows: list[Row],
    pairs: list[tuple[str, str, float]],
    phrases: dict[str, float],
    passages: dict[int, float],
) -> None:
    there = {phrase_of(name) for _, _, fact in rows for name in (fact.subject, fact.object)}
    same = {
        (min(one, other), max(one, other)): cosine
        for one, other, cosine in pairs
        if {one, other} <= there and one != other
    }
    synonyms = [(one, other, cosine) for (one, other), cosine in same.items()]
    starts = {name: weight for name, weight in phrases.items() if name in there}
    if not starts:
        return
    numbered = [(key_of(one), key_of(other), cosine) for one, other, cosine in synonyms]
    found = PhraseGraph({key[:2]: key for key in rows}.values(), numbered).walk(starts, passages, damping=0.5)
    slow = slowly(list({key[:2]: key for key in rows}.values()), synonyms, starts, passages, 0.5)
    total = sum(slow["passage", key] for key in found)  # what is rated against each other
    mine = sum(found.values())
    for key, score in found.items():
        assert score / mine == pytest.approx(slow["passage", key] / total, abs=1e-6)
