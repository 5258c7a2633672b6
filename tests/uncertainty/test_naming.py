"""Which word may begin a name: one that an ordinary sentence begins with does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.names import LexiconTagger, NameTagger, capitalised_names
from hoptree.text.retrieval_triggers import sought_words

TAGGER = LexiconTagger()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Released in 1999, it won.", []),
        ("Actors died in Paris.", ["Paris"]),
        ("Died in 1999.", []),
        ("Answer: no", []),
        ("Answer: Paris", ["Paris"]),
        ("Film one is older.", []),
        ("Born in Vienna, Franz Schubert died.", ["Vienna", "Franz Schubert"]),
        ("Directed by Louis Malle, it won.", ["Louis Malle"]),
        ("Many rivers meet. Rivers are long.", []),
    ],
)
def test_an_ordinary_word_that_begins_a_sentence_is_no_name(text: str, names: list[str]) -> None:
    assert list(capitalised_names(text, NameTagger(TAGGER))) == names


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Paris is a city.", "Paris"),
        ("Alfred in 1940 went to Rome.", "Alfred"),
        ("Mohammed from Fez wrote it.", "Mohammed"),
        ("Kipling was born in Bombay.", "Kipling"),
        ("Film Socialisme is by Godard.", "Film Socialisme"),
        ("It was sung by Born in 1999.", "Born"),
        ("It has Actors in it.", "Actors"),
        ("So the answer is: Queen.", "Queen"),
        ('"Released" is a song.', "Released"),
    ],
)
def test_what_is_a_name_stays_one(text: str, name: str) -> None:
    assert name in capitalised_names(text, NameTagger(TAGGER))


def test_a_word_that_is_no_name_tells_what_is_sought() -> None:
    assert sought_words("Released in Poland, it won.", (), TAGGER) == ("Released", "won")
    assert sought_words("Born in Vienna in 1797.", [(18, 22)], TAGGER) == ("Born",)


@given(st.text(max_size=200))
def test_any_text_has_names_or_none(text: str) -> None:
    assert all(name and name in text for name in capitalised_names(text, NameTagger(TAGGER)))
