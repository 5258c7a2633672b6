"""How unsure a model was of each word of a sentence, and how much the rest hangs on it (DRAGIN's signal)."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from hoptree.core.values import Token
from hoptree.text.tokens import Span, Word, word_spans
from hoptree.text.word_classes import Tagger

_LEAD = re.compile(
    r"\b(?:(?:so|thus|hence|therefore)\b,?\s{1,9})?(?:(?:the|my|our)\s{1,9})?(?:(?:final|correct|short)\s{1,9})?"
    r"answer\s{1,9}is\b[\s:]*+",
    re.IGNORECASE,
)
_LARGEST = 1e6
"""More than any entropy or attention."""


@dataclass(frozen=True, slots=True)
class ScoredWord:
    """A word with H (None where unknown), a (1 where unknown) and whether it carries content.

    One that only `announces` the answer is no reason to search: its doubt is whether to end now.
    """

    word: Word
    entropy: float | None
    attention: float
    content: bool
    announces: bool = False

    @property
    def score(self) -> float:
        """S = H a s, 0 where there is nothing to tell it from."""
        if not self.content or self.announces or self.entropy is None:
            return 0.0
        return self.entropy * self.attention


def score_words(words: Sequence[Word], tokens: Sequence[Token], content: Sequence[bool]) -> tuple[ScoredWord, ...]:
    """The words of one sentence with H, the mean entropy of their tokens, and a, the attention paid to them.

    Attention is summed over the tokens of a word and then scaled to a mean of 1 over the words that have any; so a long
    sentence has no smaller values than a short one. A number that is written digit by digit gets what many tokens do,
    and so do rare names: that is DRAGIN's measure.
    """
    paid = [_total(tokens[number].attention for number in word.tokens) for word in words]
    return tuple(
        ScoredWord(word, mean(tokens[number].entropy for number in word.tokens), share, carries)
        for word, share, carries in zip(words, scale_to_mean_one(paid), content, strict=True)
    )


def scale_to_mean_one(values: Sequence[float | None]) -> tuple[float, ...]:
    """The values divided by their mean; 1 for each that is unknown, and for all where they are nothing."""
    values = [valid_value(value) for value in values]
    average = mean(values)
    return tuple(1.0 if value is None or not average else value / average for value in values)


def mean(values: Iterable[float | None]) -> float | None:
    """The mean of the values that are known; None of none."""
    counted = [value for value in map(valid_value, values) if value is not None]
    return math.fsum(counted) / len(counted) if counted else None


def valid_value(value: float | None) -> float | None:
    """The value if it can be one: NaN and what is too large tell nothing, and what rounding left below 0 is 0."""
    return max(0.0, value) if value is not None and abs(value) < _LARGEST else None


def token_probability(token: Token) -> float:
    """The probability of a token; one that is no number counts as 0."""
    return 0.0 if math.isnan(token.logprob) else math.exp(min(0.0, token.logprob))


def _total(values: Iterable[float | None]) -> float | None:
    counted = [value for value in map(valid_value, values) if value is not None]
    return math.fsum(counted) if counted else None


_WORD = re.compile(r"\w+")
_TURNS = frozenset(("yes", "no", "not", "never", "neither", "nor", "none"))
"""Words that carry no content and turn what is said into its opposite."""


def token_entropy(token: Token) -> float | None:
    """The entropy of the distribution a token came from, in nats: the model's own, else from its likeliest tokens.

    None where the model told neither.
    """
    if token.entropy is not None:
        return token.entropy
    return entropy_of_top(token) if token.top else None


def entropy_of_top(token: Token) -> float:
    """The entropy of the likeliest tokens and one more outcome, which has all the probability they leave.

    Putting outcomes together loses what they would add among themselves, so it is never above the true entropy.
    """
    known = [logprob for _, logprob in token.top]
    # A token that was sampled from further down is known too; its rivals may hold it under another spelling.
    if all(text != token.text for text, _ in token.top) and token.logprob < min(known, default=0.0):
        known.append(token.logprob)
    probabilities = [math.exp(min(0.0, logprob)) for logprob in known]
    missing = 1.0 - math.fsum(probabilities)
    return math.fsum(-share * math.log(share) for share in (*probabilities, missing) if share > 0)


def agreement(one: str, other: str) -> float:
    """The F1 of the words that two texts share, whatever their case, accents and punctuation; 1 if neither has any."""
    words, others = _words(one), _words(other)
    if not words or not others:
        return float(words == others)
    return 2 * (words & others).total() / (words.total() + others.total())


def disagreement(samples: Sequence[str], tagger: Tagger) -> float:
    """How much samples of one reply differ in what they say; 0 for fewer than two.

    It is 1 less the mean agreement of every two. Words without content agree whatever is said, so they do not count,
    and neither do those of "So the answer is"; yes, no and not do.
    """
    telling = [_telling(sample, tagger) for sample in samples]
    agreed = [agreement(one, other) for one, other in combinations(telling, 2)]
    return 1.0 - math.fsum(agreed) / len(agreed) if agreed else 0.0


def _telling(text: str, tagger: Tagger) -> str:
    """The words of a text that say something; all of them where none does."""
    spans, leads = word_spans(text), answer_lead_spans(text)
    words = [
        text[start:end]
        for (start, end), carries in zip(spans, tagger.content(text, spans), strict=True)
        if (carries or text[start:end].casefold() in _TURNS)
        and not any(first <= start and end <= last for first, last in leads)
    ]
    return " ".join(words) or text


def _words(text: str) -> Counter[str]:
    folded = unicodedata.normalize("NFKD", text.casefold())
    return Counter(_WORD.findall("".join(mark for mark in folded if not unicodedata.combining(mark))))


def answer_lead_spans(text: str) -> tuple[Span, ...]:
    """Where "So the answer is:" stands, which tells nothing of what to search for."""
    return tuple(found.span() for found in _LEAD.finditer(text))
