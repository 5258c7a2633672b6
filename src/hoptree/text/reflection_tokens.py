"""Reflection tokens, with which a Self-RAG model judges what it reads and writes."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from hoptree.core.values import Token

RETRIEVE, NO_RETRIEVE = "[Retrieval]", "[No Retrieval]"
PARAGRAPH = "<paragraph>"
"""Where a model begins to write a document of its own."""
UTILITY_WEIGHTS = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""What utilities from 1 to 5 count."""
_RELEVANT = ("[Relevant]", "[Irrelevant]")
_SUPPORT = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
_UTILITY = tuple(f"[Utility:{number}]" for number in range(1, 6))
_ALL = (RETRIEVE, NO_RETRIEVE, "[Continue to Use Evidence]", *_RELEVANT, *_SUPPORT, *_UTILITY)
_TOKENS = re.compile("|".join((*map(re.escape, _ALL), r"</?paragraph>", r"</?s>", "<unk>", "<pad>")), re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Critique:
    """How well an answer from a passage does: from 0 to 1, utility from -1 to 1, and how likely it was written."""

    relevant: float = 0.0
    supported: float = 0.0
    useful: float = 0.0
    likely: float = 0.0

    def score(self, w_rel: float, w_sup: float, w_use: float) -> float:
        """Return the weighted sum by which Self-RAG ranks answers."""
        return self.likely + w_rel * self.relevant + w_sup * self.supported + w_use * self.useful


def retrieval_probability(text: str, tokens: Sequence[Token]) -> float | None:
    """Return P([Retrieval]) against [No Retrieval] where a reply begins; None if neither is among its tokens."""
    shares = _shares(text, tokens, (RETRIEVE, NO_RETRIEVE), at_start=True)
    return shares.get(RETRIEVE, 0.0) if shares else None


def read_critique(text: str, tokens: Sequence[Token]) -> tuple[Critique, tuple[str, ...]]:
    """Return what the tokens of a continuation say of it, and which of the three judgements it lacks.

    Relevance is judged at the start, support and utility at their first token. A judgement that is lacking counts 0,
    and a token that is not among the likeliest has no probability.
    """
    relevant = _shares(text, tokens, _RELEVANT, at_start=True)
    support = _shares(text, tokens, _SUPPORT)
    utility = _shares(text, tokens, _UTILITY)
    critique = Critique(
        relevant.get(_RELEVANT[0], 0.0),
        support.get(_SUPPORT[0], 0.0) + 0.5 * support.get(_SUPPORT[1], 0.0),
        sum(weight * utility.get(label, 0.0) for label, weight in zip(_UTILITY, UTILITY_WEIGHTS, strict=True)),
        math.exp(sum(token.logprob for token in tokens) / len(tokens)) if tokens else 0.0,
    )
    judged = {"relevance": relevant, "support": support, "utility": utility}
    return critique, tuple(name for name, shares in judged.items() if not shares)


def strip_tokens(text: str) -> str:
    """Return a text without reflection tokens and paragraph marks."""
    return " ".join(_TOKENS.sub(" ", text).split())


def before_paragraph(text: str, tokens: Sequence[Token]) -> str:
    """Return what a model wrote before a document of its own, whose mark some servers leave only in the tokens."""
    before = list(takewhile(lambda token: token.text.strip() != PARAGRAPH, tokens))
    if len(before) == len(tokens):
        return text.partition(PARAGRAPH)[0]
    return "".join(token.text for token in before)


def _shares(text: str, tokens: Sequence[Token], labels: Sequence[str], *, at_start: bool = False) -> dict[str, float]:
    """Return the labels' shares of their probability at the first token that is one, or that begins the text.

    Where a server leaves these tokens out of those it tells, the first label in the text counts as certain.
    """
    first = tokens[0] if at_start and tokens else None
    token = next((token for token in tokens if token.text.strip() in labels), first)
    logprobs = (
        {} if token is None else {name.strip(): value for name, value in (*token.top, (token.text, token.logprob))}
    )
    shares = {label: math.exp(logprobs[label]) for label in labels if label in logprobs}
    if total := sum(shares.values()):
        return {label: share / total for label, share in shares.items()}
    places = [(place, label) for label in labels if (place := text.find(label)) >= 0]
    return {min(places)[1]: 1.0} if places else {}
