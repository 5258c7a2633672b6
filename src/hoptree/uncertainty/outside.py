"""How unsure a model was, from what any model tells: the likeliest tokens, or several samples."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from hoptree.models.model import Token
from hoptree.uncertainty.queries import answer_leads
from hoptree.uncertainty.tagging import Tagger
from hoptree.uncertainty.words import word_spans

__all__ = ["agreement", "disagreement", "entropy_of", "entropy_of_top"]

_WORD = re.compile(r"\w+")
_TURNS = frozenset(("yes", "no", "not", "never", "neither", "nor", "none"))
"""Words that carry no content and turn what is said into its opposite."""


def entropy_of(token: Token) -> float | None:
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
    spans, leads = word_spans(text), answer_leads(text)
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
