"""Uncertainty of words, and disagreement of samples."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from hoptree.core.lazy import import_optional
from hoptree.core.values import Token
from hoptree.text.names import Tagger
from hoptree.text.tokens import Span, Word, overlaps, word_spans

_LEAD = re.compile(
    r"\b(?:(?:so|thus|hence|therefore)\b,?\s{1,9})?(?:(?:the|my|our)\s{1,9})?(?:(?:final|correct|short)\s{1,9})?"
    r"answer\s{1,9}is\b[\s:]*+",
    re.IGNORECASE,
)
_MIN_PROBABILITY = 1e-9  # of a token that is not among the likeliest
_MAX_VALUE = 1e6  # larger than any entropy or attention
_MAX_STATE = 1e100  # larger than any number of a hidden state, and its square is finite


@dataclass(frozen=True, slots=True)
class ScoredWord:
    """A word with entropy H, attention a, and whether it has content.

    `raw` is the unscaled attention: the most that a later token pays to one of its tokens (None if unknown). A word
    that only `announces` the answer does not count: the model's doubt there is whether to end now.
    """

    word: Word
    entropy: float | None
    attention: float
    content: bool
    announces: bool = False
    raw: float | None = None

    @property
    def score(self) -> float:
        """S = H a s; 0 if unknown."""
        if not self.content or self.announces or self.entropy is None:
            return 0.0
        return self.entropy * self.attention


def score_words(words: Sequence[Word], tokens: Sequence[Token], content: Sequence[bool]) -> tuple[ScoredWord, ...]:
    """Score the words of a sentence by entropy and attention.

    Attention is summed over the tokens of a word and scaled to a mean of 1 over the words that have any, so that the
    length of a sentence does not matter. As in DRAGIN, words of many tokens (numbers, rare names) get more.
    """
    paid = [_valid(tokens[number].attention for number in word.tokens) for word in words]
    shares = scale_to_mean_one([math.fsum(parts) if parts else None for parts in paid])
    return tuple(
        ScoredWord(
            word, mean(tokens[number].entropy for number in word.tokens), share, carries, raw=max(parts, default=None)
        )
        for word, parts, share, carries in zip(words, paid, shares, content, strict=True)
    )


def scale_to_mean_one(values: Sequence[float | None]) -> tuple[float, ...]:
    """Divide values by their mean; unknown values, or all if the mean is 0, become 1."""
    values = [valid_value(value) for value in values]
    average = mean(values)
    return tuple(1.0 if value is None or not average else value / average for value in values)


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None without any."""
    counted = _valid(values)
    return math.fsum(counted) / len(counted) if counted else None


def _valid(values: Iterable[float | None]) -> list[float]:
    return [value for value in map(valid_value, values) if value is not None]


def valid_value(value: float | None) -> float | None:
    """Return a value of at least 0; None for NaN, infinity and absurdly large ones."""
    return max(0.0, value) if value is not None and abs(value) < _MAX_VALUE else None


def token_probability(token: Token) -> float:
    """Return the probability of a token; 0 for NaN."""
    return _probability(token.logprob)


_WORD = re.compile(r"\w+")
_TURNS = frozenset(("yes", "no", "not", "never", "neither", "nor", "none"))  # reverse a statement


def entropy_of_top(token: Token) -> float:
    """Return a lower bound of the entropy from the likeliest tokens."""
    known = [logprob for _, logprob in token.top]
    # The sampled token is known too, even if it is not among the likeliest; these may spell it differently.
    if all(text != token.text for text, _ in token.top) and token.logprob < min(known, default=0.0):
        known.append(token.logprob)
    probabilities = [math.exp(min(0.0, logprob)) for logprob in known]
    missing = 1.0 - math.fsum(probabilities)
    return math.fsum(-share * math.log(share) for share in (*probabilities, missing) if share > 0)


def agreement(left: str, right: str) -> float:
    """Return the word F1 of two folded texts; 1 if both are empty."""
    left_words, right_words = _words(left), _words(right)
    if not left_words or not right_words:
        return float(left_words == right_words)
    return 2 * (left_words & right_words).total() / (left_words.total() + right_words.total())


def disagreement(samples: Sequence[str], tagger: Tagger) -> float:
    """Return 1 minus the mean pairwise agreement of samples in content words."""
    contents = [_content_words(sample, tagger) for sample in samples]
    agreed = [agreement(left, right) for left, right in combinations(contents, 2)]
    return 1.0 - math.fsum(agreed) / len(agreed) if agreed else 0.0


def _content_words(text: str, tagger: Tagger) -> str:
    """Return the content words of a text; all words if there are none."""
    spans, leads = word_spans(text), answer_lead_spans(text)
    words = [
        text[start:end]
        for (start, end), carries in zip(spans, tagger.content(text, spans), strict=True)
        if (carries or text[start:end].casefold() in _TURNS) and not overlaps((start, end), leads)
    ]
    return " ".join(words) or text


def _words(text: str) -> Counter[str]:
    folded = unicodedata.normalize("NFKD", text.casefold())
    return Counter(_WORD.findall("".join(mark for mark in folded if not unicodedata.combining(mark))))


def answer_lead_spans(text: str) -> tuple[Span, ...]:
    """Return the spans of "So the answer is:"."""
    return tuple(match.span() for match in _LEAD.finditer(text))


def state_spread(states: Sequence[Sequence[float]], *, alpha: float = 1e-3) -> float | None:
    """Return U = (1/k) logdet(Z J Z^T + alpha I) for k samples' states.

    J = I - (1/d) 1 1^T subtracts from each state the mean of its numbers, as in INSIDE's EigenScore (Chen et al. 2024),
    which SeaKR uses. Empty states and states with NaN are left out; None if none remain.
    """
    rows = _centred(states)
    if rows is None:
        return None
    numpy = import_optional("numpy", "The spread of states", "dense")
    _, determinant = numpy.linalg.slogdet(rows @ rows.T + alpha * numpy.eye(len(rows)))  # J J = J
    return float(determinant) / len(rows)


def least_spread(count: int, *, square: float, alpha: float = 1e-3) -> float:
    """Return the least possible U: all samples end in one state."""
    return ((count - 1) * math.log(alpha) + math.log(alpha + count * square)) / count


def smallest_square(states: Sequence[Sequence[float]]) -> float | None:
    """Return the least squared length of centred states, or None."""
    rows = _centred(states)
    return None if rows is None else float((rows**2).sum(axis=1).min())


def _centred(states: Sequence[Sequence[float]]) -> Any:
    known = [state for state in states if len(state) and all(abs(number) < _MAX_STATE for number in state)]
    if len({len(state) for state in known}) > 1:
        raise ValueError("The states of samples must come from one layer of one model.")
    numpy = import_optional("numpy", "The spread of states", "dense")
    rows = numpy.asarray(known, dtype=numpy.float64)
    return rows - rows.mean(axis=1, keepdims=True) if known else None


def distributions(tokens: Sequence[Token], *, ended: bool) -> list[dict[str, float]]:
    """Return the next-token distribution at each place of a reply.

    The end of a reply is the text "". If the model does not give its probability, it is 1 for a reply that `ended`. A
    token without text, such as a part of a character, has no place.
    """
    places: list[dict[str, float]] = []
    for number, token in enumerate(tokens, 1):
        if token.text or (ended and number == len(tokens)):
            rivals: dict[str, float] = {}
            for text, logprob in token.top:
                rivals[text] = rivals.get(text, 0.0) + _probability(logprob)
            places.append({token.text: _probability(token.logprob)} | rivals)
    if ended and not (places and next(iter(places[-1])) == ""):
        places.append({"": 1.0})
    return places


def mix_distributions(
    paths: Sequence[Sequence[dict[str, float]]], weights: Sequence[float], *, continues: bool
) -> tuple[list[str], list[float], bool]:
    """Mix replies; return the likeliest tokens, their log-likelihoods and if they end.

    If the model cannot be asked to go on from the first disagreement (`continues`), the replies with the chosen token
    are followed further.
    """
    tokens: list[str] = []
    logs, voters = [0.0] * len(paths), list(range(len(paths)))
    while voters and all(len(paths[voter]) > len(tokens) for voter in voters):
        places = {voter: paths[voter][len(tokens)] for voter in voters}
        totals: dict[str, float] = {}
        for voter, place in places.items():
            for token in place if continues else list(place)[:1]:
                totals[token] = totals.get(token, 0.0) + weights[voter] * place[token]
        chosen = max(totals, key=lambda token: totals[token])
        chances = (places.get(voter, {}).get(chosen, 0.0) for voter in range(len(paths)))
        logs = [log + math.log(max(chance, _MIN_PROBABILITY)) for log, chance in zip(logs, chances, strict=True)]
        if not chosen:
            return tokens, logs, True
        tokens.append(chosen)
        voters = [voter for voter, place in places.items() if next(iter(place)) == chosen]
        if continues and len(voters) < len(paths):
            break
    return tokens, logs, False


def _probability(logprob: float) -> float:
    return 0.0 if math.isnan(logprob) else math.exp(min(0.0, logprob))


def softmax(scores: Sequence[float], temperature: float = 1.0) -> list[float]:
    """Return shares of 1 by the exponentials of scores."""
    best = max(scores, default=0.0)
    weights = [math.exp((score - best) / temperature) for score in scores]
    return [weight / sum(weights) for weight in weights]


def divergence(shares: Sequence[float], others: Sequence[float]) -> float:
    """Return the Kullback-Leibler divergence of two shares, in nats."""
    pairs = zip(shares, others, strict=True)
    return sum(share * math.log(share / max(other, _MIN_PROBABILITY)) for share, other in pairs if share > 0)


_LSR_TEMPERATURE = 0.1


def lsr_shares(scores: Sequence[float], likelihoods: Sequence[float]) -> tuple[list[float], list[float], float]:
    """Return LSR's shares of retriever and model, and their divergence."""
    shares, preferred = softmax(scores, _LSR_TEMPERATURE), softmax(likelihoods, _LSR_TEMPERATURE)
    return shares, preferred, divergence(shares, preferred)
