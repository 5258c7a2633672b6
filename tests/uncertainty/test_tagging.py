"""Content words: how often the rules agree with tags made by hand, and spaCy where it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.uncertainty.tagged_sentences import SEEN, UNSEEN

from hoptree.core.errors import ConfigError
from hoptree.text import names as tagging
from hoptree.text.names import LexiconTagger, SpacyTagger, Tagger, content_words, open_tagger
from hoptree.text.tokens import find_words, word_spans


def content(text: str, tagger: Tagger | None = None) -> list[str]:
    spans = word_spans(text)
    carries = (tagger or LexiconTagger()).content(text, spans)
    return [text[start:end] for (start, end), carried in zip(spans, carries, strict=True) if carried]


@pytest.mark.parametrize(("name", "cases", "floor"), [("seen", SEEN, 0.98), ("unseen", UNSEEN, 0.97)])
def test_the_rules_agree_with_tags_made_by_hand(name: str, cases: tuple[str, ...], floor: float) -> None:
    right, total, wrong = 0, 0, []
    for case in cases:
        text = case.replace("*", "")
        spans = word_spans(text)
        marked = [word.startswith("*") for word in case.split()]
        for span, tag, is_content in zip(spans, marked, LexiconTagger().content(text, spans), strict=True):
            total, right = total + 1, right + (tag == is_content)
            wrong += [text[slice(*span)]] if tag != is_content else []
    figure = f"{name}: {right} of {total} words agree ({right / total:.1%}), not {wrong}"
    assert right / total >= floor, figure
    assert len(cases) >= 40, figure


def test_names_numbers_and_the_words_between_them() -> None:
    assert content("In May 1990 Will Smith may have met the WHO in The Hague.") == [
        *["May", "1990", "Will", "Smith", "met", "WHO", "Hague"]
    ]
    assert content("It doesn't matter; they're happily married, isn't it so?") == ["matter", "married"]
    assert content("") == []


def test_words_that_one_token_wrote_carry_content_if_one_of_them_does() -> None:
    words = find_words("part of the New York", ["part", " of the", " New York"])
    assert content_words("part of the New York", words, LexiconTagger()) == (True, False, True)


def test_other_languages_go_by_length() -> None:
    assert content("Der König von Rom lebte 12 Jahre am Po.", LexiconTagger("de")) == [
        *["König", "Rom", "lebte", "12", "Jahre", "Po"]
    ]
    assert content("東京 de", open_tagger("rules:ja")) == ["東", "京"]


@pytest.fixture
def _loads_anew() -> Iterator[None]:
    yield
    tagging._spacy_tagger.cache_clear()


@pytest.mark.usefixtures("_loads_anew")
def test_spacy_is_used_where_a_model_of_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    tags = [("Marie", 0, "PROPN"), ("Curie", 6, "PROPN"), ("'s", 11, "PART"), ("is", 14, "AUX"), ("old", 17, "ADJ")]
    read = [SimpleNamespace(text=text, idx=start, pos_=tag) for text, start, tag in tags]

    def load(name: str) -> object:
        if name != "en_here":
            raise OSError(name)
        return lambda text: read

    there = ["de_here", "en_here"]
    util = SimpleNamespace(get_installed_models=lambda: there)
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=load, util=util))
    for spec in ("spacy:en_here", "spacy"):
        assert content("Marie Curie's is old", open_tagger(spec)) == ["Marie", "Curie's", "old"]
        assert open_tagger(spec) is open_tagger(spec), "a model is loaded once"
    with pytest.raises(ConfigError, match="no model en_gone"):
        open_tagger("spacy:en_gone")
    there.pop()
    with pytest.raises(ConfigError, match="no model en_core_web_sm"):
        SpacyTagger()
    monkeypatch.setitem(sys.modules, "spacy", None)
    with pytest.raises(ConfigError, match="not installed"):
        open_tagger("spacy:other")
    assert isinstance(open_tagger(), LexiconTagger)


def test_spacy_is_not_taken_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is asked would depend on the machine."""
    monkeypatch.setitem(sys.modules, "spacy", SimpleNamespace(load=pytest.fail))
    assert content("The old king of Rome") == ["old", "king", "Rome"]
    assert isinstance(open_tagger("rules"), LexiconTagger)
    with pytest.raises(ConfigError, match="no tagger 'verbs'"):
        open_tagger("verbs")


@given(st.text(max_size=80), st.sampled_from(["en", "de"]))
def test_any_text_can_be_tagged(text: str, language: str) -> None:
    spans = word_spans(text)
    assert len(LexiconTagger(language).content(text, spans)) == len(spans)
