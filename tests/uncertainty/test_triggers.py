"""Scores, thresholds and triggers on numbers worked out by hand."""

from __future__ import annotations

import math
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Token
from hoptree.text.names import LexiconTagger
from hoptree.text.retrieval_triggers import DynamicThreshold, FixedThreshold, improbable_sentence, judge_sentences
from hoptree.text.tokens import find_words
from hoptree.text.uncertainty import scale_to_mean_one, score_words

NAN = math.nan


def token(text: str, entropy: float | None = None, attention: float | None = None, p: float = 1.0) -> Token:
    return Token(text, math.log(p), (), entropy, attention)


# "Paris" is two tokens: H = (1 + 3) / 2 = 2, and 0.1 + 0.3 of a total of 0.8 over four words is a = 2.
PARIS = [
    token("The", 0.5, 0.1),
    token(" capital", 1.0, 0.2),
    token(" is", 0.2, 0.1),
    token(" Par", 1.0, 0.1),
    token("is", 3.0, 0.3),
    token(".", 9.0, 9.0),
]
# One token a word, all with the same attention: S = H.
ROME = [token(" So", 0.1, 0.2), token(" Rome", 0.5, 0.2), token(" lost", 0.1, 0.2), token(".", 0.0)]


def text_of(tokens: list[Token]) -> str:
    return "".join(token.text for token in tokens).strip()


def test_scores_of_words() -> None:
    words = find_words("The capital is Paris.", [token.text for token in PARIS])
    scored = score_words(words, PARIS, [False, True, False, True])
    assert [word.entropy for word in scored] == pytest.approx([0.5, 1.0, 0.2, 2.0])
    assert [word.attention for word in scored] == pytest.approx([0.5, 1.0, 0.5, 2.0])
    assert [word.score for word in scored] == pytest.approx([0.0, 1.0, 0.0, 4.0])


def test_what_is_unknown_weighs_as_much_as_the_mean() -> None:
    tokens = [token("old", 1.0, NAN), token(" red", 2.0, 0.4), token(" big", NAN, 0.2), token(" hat", None, 1e308)]
    words = find_words("old red big hat", [each.text for each in tokens])
    scored = score_words(words, tokens, [True] * 4)
    assert [word.attention for word in scored] == pytest.approx([1.0, 4 / 3, 2 / 3, 1.0])
    assert [word.entropy for word in scored] == [1.0, 2.0, None, None]
    assert [word.score for word in scored] == pytest.approx([1.0, 8 / 3, 0.0, 0.0])
    assert scale_to_mean_one([]) == () and scale_to_mean_one([0.0, 0.0, None]) == (1.0, 1.0, 1.0)


def test_a_dynamic_threshold_over_the_sentence() -> None:
    (judged,) = judge_sentences(
        text_of(PARIS), PARIS, LexiconTagger(), DynamicThreshold(alpha=1.5, beta=0.2, scaled=True)
    )
    assert judged.theta == pytest.approx(1.5 * (1.0 + 2.0) / 2 + 0.2 * 1)  # 2.45
    assert judged.highest == pytest.approx(4.0) and judged.triggers
    assert [word.word.text for word in judged.hit_words] == ["Paris"]


def test_a_dynamic_threshold_has_the_attention_that_is_paid() -> None:
    """Equation 3 with Equation 2: the more a later token attends to, the higher; scaled, it is always the same."""

    def theta(attention: float | None, *, scaled: bool = False) -> float:
        tokens = [token("Rome", 0.5, attention), token(" lost", 0.1, attention)]
        (judged,) = judge_sentences("Rome lost", tokens, LexiconTagger(), DynamicThreshold(1.5, 0.2, scaled=scaled))
        return judged.theta

    assert [theta(paid) for paid in (0.9, 0.001)] == pytest.approx([0.45 + 0.18, 0.45 + 0.0002])
    assert [theta(paid, scaled=True) for paid in (0.9, 0.001)] == pytest.approx([0.65, 0.65])
    assert theta(None) == pytest.approx(0.65), "as where no attention is known"


@pytest.mark.parametrize("over", ["sentence", "history"])
def test_the_words_that_lead_to_an_answer_do_not_lower_a_dynamic_threshold(
    over: Literal["sentence", "history"],
) -> None:
    """They are always sure: of an answer of one word they would halve the mean."""
    tokens = [token(text, 0.0, 0.2) for text in ("So", " the", " answer", " is", ":")] + [token(" Spain", 2.0, 0.2)]
    (judged,) = judge_sentences(text_of(tokens), tokens, LexiconTagger(), DynamicThreshold(1.5, 0.2, over, scaled=True))
    assert judged.theta == pytest.approx(1.5 * 2.0 + 0.2) and not judged.triggers


def test_a_dynamic_threshold_over_the_history() -> None:
    tokens = [*ROME, *PARIS]
    text = text_of(ROME) + " " + text_of(PARIS)
    first, second = judge_sentences(text, tokens, LexiconTagger(), DynamicThreshold(2, 0.2, "history", scaled=True))
    assert first.theta == pytest.approx(2 * (0.5 + 0.1) / 2 + 0.2) and not first.triggers
    assert second.theta == pytest.approx(2 * (0.5 + 0.1 + 1.0 + 2.0) / 4 + 0.2) and second.triggers
    (alone,) = judge_sentences(
        text_of(PARIS), PARIS, LexiconTagger(), DynamicThreshold(2, 0.2, "history", scaled=True), before=first.words
    )
    assert alone.theta == second.theta


def test_the_first_sentence_that_triggers_is_the_last_that_is_judged() -> None:
    text = f"{text_of(ROME)} {text_of(PARIS)} {text_of(ROME)}"
    judged = judge_sentences(text, [*ROME, *PARIS, *ROME], LexiconTagger(), FixedThreshold(1.0))
    assert [(text[judgement.start : judgement.end], judgement.triggers) for judgement in judged] == [
        ("So Rome lost.", False),
        ("The capital is Paris.", True),
    ]
    assert judged[1].hits == (3,)  # "capital" has exactly 1
    judged = judge_sentences(text, [*ROME, *PARIS, *ROME], LexiconTagger(), FixedThreshold(4.0))
    assert [judgement.triggers for judgement in judged] == [False, False, False]


def test_only_content_words_hit() -> None:
    tokens = [token("It", 9.0, 0.1), token(" is", 9.0, 0.1), token(" not", 9.0, 0.1)]
    for threshold in (FixedThreshold(0.0), DynamicThreshold(), DynamicThreshold(0, -1)):
        (judged,) = judge_sentences("It is not", tokens, LexiconTagger(), threshold)
        assert not judged.triggers and judged.highest == 0
    assert judge_sentences("", [], LexiconTagger(), DynamicThreshold()) == ()
    assert not judge_sentences("Rome lost", [Token("Rome lost", -1.0)], LexiconTagger(), FixedThreshold(0.0))[
        0
    ].triggers


def test_an_improbable_token() -> None:
    tokens = [
        token("Rome", p=0.9),
        token(" lost", p=0.8),
        token(". ", p=0.99),
        token("Who", p=0.79),
        token("</s>", p=0.1),
    ]
    assert improbable_sentence("Rome lost. Who", tokens) == (11, 14)
    assert improbable_sentence("Rome lost. Who", tokens, theta=0.9) == (0, 10)
    assert improbable_sentence("Rome lost. Who", tokens, theta=0.7) is None
    assert improbable_sentence("", []) is None
    assert improbable_sentence("Rome", [Token("Rome", NAN)], theta=0.1) == (0, 4)


_NUMBER = st.one_of(st.none(), st.floats())
_TOKENS = st.lists(
    st.builds(Token, st.text(max_size=5), st.floats(), st.just(()), entropy=_NUMBER, attention=_NUMBER), max_size=20
)


@given(_TOKENS, st.sampled_from([FixedThreshold(0.5), DynamicThreshold(), DynamicThreshold(over="history")]))
def test_no_numbers_break_it(tokens: list[Token], threshold: FixedThreshold | DynamicThreshold) -> None:
    text = text_of(tokens)
    for judged in judge_sentences(text, tokens, LexiconTagger(), threshold):
        assert not math.isnan(judged.theta) and not math.isnan(judged.highest)
        assert all(word.content for word in judged.hit_words)
    improbable_sentence(text, tokens)


# Unsure everywhere, and alike: S = H = 5 for each word.
LOST = [token(text, 5.0, 0.2) for text in ("Omar", " Karim", " directed", " Silent", " Rivers")] + [token(".", 0.1)]


def test_a_sentence_that_is_unsure_everywhere_stays_below_the_threshold() -> None:
    def judged(threshold: DynamicThreshold) -> tuple[float, int]:
        (sentence,) = judge_sentences(text_of(LOST), LOST, LexiconTagger(), threshold)
        return round(sentence.theta, 6), len(sentence.hits)

    assert judged(DynamicThreshold(1.5, 0.2, scaled=True)) == (7.7, 0)
    assert judged(DynamicThreshold(0.1, 0.2, scaled=True)) == (0.7, 5)
