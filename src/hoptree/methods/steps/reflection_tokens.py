"""Reflection tokens, with which a Self-RAG model judges what it reads and writes, and how probable it thought each."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hoptree.core.values import Token
from hoptree.methods.steps.answer import mean_probability
from hoptree.models.model import Choice

RETRIEVE, NO_RETRIEVE = "[Retrieval]", "[No Retrieval]"
_RELEVANT = ("[Relevant]", "[Irrelevant]")
_SUPPORT = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
_UTILITY = tuple(f"[Utility:{number}]" for number in range(1, 6))
WORTH = (-1.0, -0.5, 0.0, 0.5, 1.0)
"""What utilities from 1 to 5 count."""
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
        return self.likely + w_rel * self.relevant + w_sup * self.supported + w_use * self.useful


def needs_retrieval(choice: Choice) -> float | None:
    """P([Retrieval]) among it and [No Retrieval], where a reply begins; None if neither of them is among its tokens."""
    return _share(_shares(choice, (RETRIEVE, NO_RETRIEVE), begins=True), RETRIEVE)


def read_critique(choice: Choice) -> tuple[Critique, tuple[str, ...]]:
    """What the tokens of a continuation say of it, and which of the three judgements it lacks, which count nothing.

    Relevance is judged where it begins, support and utility where it says so first. A token that is not among the
    likeliest has no probability.
    """
    relevant = _shares(choice, _RELEVANT, begins=True)
    support = _shares(choice, _SUPPORT)
    utility = _shares(choice, _UTILITY)
    critique = Critique(
        relevant.get(_RELEVANT[0], 0.0),
        support.get(_SUPPORT[0], 0.0) + 0.5 * support.get(_SUPPORT[1], 0.0),
        sum(worth * utility.get(label, 0.0) for label, worth in zip(_UTILITY, WORTH, strict=True)),
        mean_probability(choice.tokens) or 0.0,
    )
    there = {"relevance": relevant, "support": support, "utility": utility}
    return critique, tuple(name for name, shares in there.items() if not shares)


def without_tokens(text: str) -> str:
    """A text without reflection tokens and the marks of paragraphs."""
    return " ".join(_TOKENS.sub(" ", text).split())


def _share(shares: dict[str, float], label: str) -> float | None:
    return shares.get(label, 0.0) if shares else None


def _shares(choice: Choice, labels: Sequence[str], *, begins: bool = False) -> dict[str, float]:
    """The labels' shares of their probability at the first token that is one of them, or that `begins` the text.

    Where a server leaves these tokens out of those it tells, what stands in the text counts as certain.
    """
    tokens = choice.tokens
    at = next((token for token in tokens if token.text.strip() in labels), tokens[0] if begins and tokens else None)
    told = {} if at is None else {text.strip(): logprob for text, logprob in _alternatives(at)}
    found = {label: math.exp(told[label]) for label in labels if label in told}
    if total := sum(found.values()):
        return {label: share / total for label, share in found.items()}
    places = [(place, label) for label in labels if (place := choice.text.find(label)) >= 0]
    return {min(places)[1]: 1.0} if places else {}


def _alternatives(token: Token) -> tuple[tuple[str, float], ...]:
    return (*token.top, (token.text, token.logprob))
