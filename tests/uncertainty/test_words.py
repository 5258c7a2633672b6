"""From tokens to words: every tokenizer's way of writing pieces, and texts that are not what the pieces say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.text.tokens import find_words, token_spans, word_spans


def written(text: str, pieces: list[str]) -> list[tuple[str, int, int]]:
    return [(word.text, word.first, word.last) for word in find_words(text, pieces)]


def pieced(text: str, pieces: list[str]) -> list[str | None]:
    return [text[place[0] : place[1]] if place else None for place in token_spans(text, pieces)]


TEXT = "Émile Chautard’s film"
EXPECTED = [("Émile", 0, 2), ("Chautard’s", 2, 6), ("film", 6, 7)]


@pytest.mark.parametrize(
    "pieces",
    [
        ["É", "mile", " Ch", "autard", "’", "s", " film"],
        ["Ãī", "mile", "ĠCh", "autard", "âĢĻ", "s", "Ġfilm"],  # byte-level pieces as the vocabulary has them
        ["▁É", "mile", "▁Ch", "autard", "’", "s", "▁film"],
        ["É", "mile", "Ch", "autard", "’", "s", "film"],  # a tokenizer that drops the space of a piece on its own
        ["\ufffd", "mile", " Ch", "autard", "\ufffd", "s", " film"],
        ["bytes:\\xc3\\x89", "mile", " Ch", "autard", "bytes:\\xe2\\x80\\x99", "s", " film"],
    ],
)
def test_words_are_found_however_pieces_are_written(pieces: list[str]) -> None:
    assert written(TEXT, pieces) == EXPECTED


def test_halves_of_a_character_belong_to_its_word() -> None:
    assert written("in Tōkyō 東京", ["in", " T", "\ufffd", "\ufffd", "ky", "ō", " \ufffd", "\ufffd", "\ufffd京"]) == [
        ("in", 0, 1),
        ("Tōkyō", 1, 6),
        ("東京", 6, 9),  # the last token wrote half of one character and all of the next
    ]
    assert written("in Łódź", ["▁in", "▁", "<0xC5>", "<0x81>", "ó", "d", "<0xC5>", "<0xBA>"])[1] == ("Łódź", 2, 8)
    assert written("Łódź.", ["Å", "ģ", "Ã³", "dÅ", "º", "."]) == [("Łódź", 0, 5)]
    # The character comes with its last token; those before it have no text.
    assert written("a 東", ["a", "", "", "東", ""]) == [("a", 0, 1), ("東", 1, 4)]


def test_what_is_not_in_the_text_belongs_to_no_word() -> None:
    assert pieced("Paris is big", ["<s>", " Paris", " is", " big", ".", "\n", "Question", ":", "</s>"]) == [
        *[None, "Paris", "is", "big"],
        *[None] * 5,
    ]
    assert pieced("a b", ["<|im_start|>", "a", "<unk>", " b", "<|im_end|>"]) == [None, "a", None, "b", None]
    assert pieced("a ▁ é", ["▁a", "▁▁", "▁", "<0xC3>", "<0xA9>", "</s>"])[3:] == ["é", "é", None]
    assert pieced("He isn't, no.", ["He", " is", " n't", " ,", " no", " ."]) == ["He", "is", "n't", ",", "no", "."]


def test_what_only_the_text_has_is_walked_past() -> None:
    assert written("So the answer is Paris, France", [" Paris", ",", " France"]) == [
        *[("So", 0, 0), ("the", 0, 0), ("answer", 0, 0), ("is", 0, 0)],
        ("Paris", 0, 1),
        ("France", 2, 3),
    ]
    assert pieced("one THREE four", ["one", " two", " four"]) == ["one", None, "four"]
    assert pieced("one THREE four", ["one", " two", " four", "</s>"]) == ["one", None, "four", None]
    assert pieced("", ["a"]) == [None]
    assert not any(word.tokens for pieces in ([], ["", ""]) for word in find_words("a b", pieces))


def test_words_that_one_token_wrote_are_one() -> None:
    assert written("in New York City", ["in", " New York", " City"]) == [
        ("in", 0, 1),
        ("New York", 1, 2),
        ("City", 2, 3),
    ]
    assert written("and/or 東京都", ["and/or", " 東京", "都"]) == [("and/or", 0, 1), ("東京", 1, 2), ("都", 2, 3)]


def test_what_a_word_is() -> None:
    text = "The well-known 'AT&T' (U.S.) didn’t pay $1,000.50 – J. R. R. Tolkien's end.Next हिन्दी a_b 3.5."
    assert [text[start:end] for start, end in word_spans(text)] == [
        *["The", "well-known", "AT&T", "U.S", "didn’t", "pay", "1,000.50", "J", "R", "R", "Tolkien's"],
        *["end", "Next", "हिन्दी", "a", "b", "3.5"],
    ]


def test_long_texts_that_do_not_fit_take_no_more_than_their_share() -> None:
    with cpu_limit(30):
        find_words("ab " * 5000, ["ba"] * 5000)
        find_words("x" * 5_000, ["\ufffd"] * 5_000)
        find_words("y" * 5_000, ["x"] * 5_000)


_PIECE = st.one_of(
    st.text(max_size=6),
    st.sampled_from(["Ġa", "▁b", "Ã", "©", "\ufffd", "", " ", "<0xC3>", "<0xA9>", "</s>", "bytes:\\xc3", "the", "."]),
)


@given(st.lists(_PIECE, max_size=30), st.one_of(st.none(), st.text(max_size=60)))
def test_every_token_belongs_to_one_word_at_most(pieces: list[str], other: str | None) -> None:
    text = "".join(pieces).strip() if other is None else other
    at = end = 0
    for word in find_words(text, pieces):
        assert end <= word.start < word.end and text[word.start : word.end] == word.text
        assert word.first <= word.last <= len(pieces) and (not word.tokens or word.first >= at)
        at, end = max(at, word.last), word.end


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.data())
def test_pieces_that_are_the_text_are_found_where_they_stand(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    places = list(zip([0, *cuts], [*cuts, len(text)], strict=True))
    spans = token_spans(text, [text[start:end] for start, end in places])
    for (start, end), place in zip(places, spans, strict=True):
        seen = text[start:end]
        if seen and seen.strip() and "\ufffd" not in text and "<0x" not in text and "bytes:" not in text:
            assert place == (start + len(seen) - len(seen.lstrip()), start + len(seen.rstrip()))
