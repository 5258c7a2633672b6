"""A sentence that names two things states what it has a word for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.relation_words import states_relation


@pytest.mark.parametrize(
    ("relation", "said", "sentence"),
    [
        ("father", "Jean", "Charles was the eldest son of Jean."),
        ("mother", "Anna", "Charles was born in Paris to Anna and Jean."),
        ("child", "Charles", "Jean was the father of Charles."),
        ("paternal grandfather", "Jean", "Charles was a grandson of Jean."),
        ("sibling", "Jean", "He was the half-brother of Jean."),
        ("uncle", "Jean", "His father's brother was Jean."),
        ("spouse", "Alice Mak", "Another is Alice Mak, his colleague-turned-wife."),
        ("wife", "Anna", "In 1892 he married Anna."),
        ("date of birth", "7 May 1859", "Jean( 7 May 1859 in Paris – 1 June 1934) was a painter."),
        ("place of death", "New York", "Jean (1889, Paris (France) – 1984, New York) was an actor."),
        ("date_of_death", "1934", "Jean died in 1934."),
        ("director", "Leo Fong", "Blood Street is a 1988 film co-directed by Leo Fong."),
        ("director", "Matthias Drawe", "It is a 1990 German film by Matthias Drawe."),
        ("composer", "Fred Fisher", "It is a 1937 song by Fred Fisher."),
        ("author", "Anna", "It was written by Anna."),
        ("nationality", "French", "Jean was a French painter."),
        ("citizenship", "France", "Jean was a citizen of France."),
        ("cause of death", "fever", "Jean died of fever."),
        ("production company", "Warner", "It is a production of Warner."),
        ("father-in-law", "Robert", "Louis married Agnes, the daughter of Robert."),
        ("father in law", "Robert", "Robert was the father-in-law of Louis."),
        ("son", "Charles", "Charles was the eldest son of Jean."),
        ("father of", "Jean", "Louis is the father of Jean."),
        ("brother", "Jean", "He was the half-brother of Jean."),
        ("producer", "Leo Fong", "It was produced by Leo Fong."),
        ("opponent", "Joe Frazier", "It was a match between Muhammad Ali and Joe Frazier."),
    ],
)
def test_what_is_stated(relation: str, said: str, sentence: str) -> None:
    assert states_relation(relation, said, sentence)


@pytest.mark.parametrize(
    ("relation", "said", "sentence"),
    [
        ("spouse", "Li Junmin", "It is a 2014 family film directed by Brian Tse and Li Junmin."),
        ("date of death", "1957", "Three Violent People is a 1957 film directed by Rudolph Maté."),
        ("date of birth", "1990", "The King (German: Der König) is a 1990 film by Matthias Drawe."),
        ("place of birth", "Paris", "It was shot in Paris."),
        ("father", "John Wayne", "He is known for films with Randolph Scott and John Wayne."),
        ("paternal grandfather", "Jean", "Charles was the son of Jean."),
        ("composer", "Julio Iglesias", "Chiquilla is a ballad sung by Julio Iglesias."),
        ("father-in-law", "Robert", "Robert is the father of Louis."),
        ("father", "Robert", "Robert was the father-in-law of Louis."),
        ("father", "Jean", "Louis is the father of Jean."),
        ("father", "Anna", "The mother of Louis is Anna."),
        ("grandfather", "Anna", "Louis was the nephew of a grandmother, Anna."),
        ("great-grandfather", "Jean", "Louis was a grandson of Jean."),
        ("father of", "Louis", "Louis is the father of Jean."),
        ("director", "Neil Connery", "It is about a spy, played by Neil Connery."),
    ],
)
def test_what_is_only_named(relation: str, said: str, sentence: str) -> None:
    assert not states_relation(relation, said, sentence)


@given(st.text(max_size=60), st.text(max_size=60), st.text(max_size=200))
def test_any_texts_can_be_asked_about(relation: str, said: str, sentence: str) -> None:
    assert states_relation(relation, said, sentence) in (True, False)
