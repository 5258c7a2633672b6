"""One question asked of each method that looks up what it doubts: for tests of what is shown of that."""

from __future__ import annotations

import math
from typing import Any

from tests.methods.continuation_asked import DUKES, Run, Search, sure
from tests.methods.mind_asked import CHARLES, FACTS, FATHER, LAST, figure

from hoptree.core.values import Passage
from hoptree.models.scripted import Rule

__all__ = [
    "APART",
    "ARMANDS",
    "asked_dragin",
    "asked_flare",
    "asked_mind",
    "asked_seakr",
    "by_samples",
    "contradicted",
    "from_memory",
]

ARMANDS = "So the answer is: Charles Armand."
APART, NEAR = [1e4, -1e4], [0.1, -0.1]


def asked_mind(script: list[Rule], **options: Any) -> Run:
    return Run("mind", script, shelf=options.pop("shelf", Search(*DUKES)), **options)


def from_memory() -> Run:
    """MIND reads both facts at once; the second doubt is settled by memory."""
    return asked_mind(figure(Rule("\n".join(FACTS), step="facts", logprob=-0.05)), filters="none", k=3)


def contradicted() -> Run:
    """MIND reads that one has two fathers."""
    other = Passage("p4", "Another Trémoille", f"{CHARLES} was the son of Louis Stanislas.", 2.5)
    both = Rule(f"{FACTS[0]}\n{CHARLES} | father | Louis Stanislas", step="facts", logprob=-0.05)
    return asked_mind(figure(both), filters="none", shelf=Search(DUKES[0], other, *DUKES[1:]), k=4)


def by_samples() -> Run:
    """MIND with a model that tells nothing of its doubts."""
    script = figure(Rule(["Louis.", "Jean.", "Henri.", "Max.", "Guy.", *[LAST] * 5], step="sample"), needed="[1]")
    script[-2].reply = [FATHER, LAST]
    return asked_mind(script, without=frozenset({"logprobs", "entropy", "n_samples"}))


def asked_dragin() -> Run:
    """DRAGIN keeps a first sentence and doubts the second."""
    draft = "Charles Bretagne was a duke. His father is Louis."
    script = [
        Rule(step="look_back", attended={"Charles": 0.3, "grandfather": 0.4, "paternal": 0.2}),
        Rule([draft, ARMANDS], step="draft", entropy=sure(f"{draft} {ARMANDS}", Louis=3.0), attention=0.2),
        Rule("His father is Jean.", step="rewrite", entropy=0.1, attention=0.2),
    ]
    return Run("dragin", script, k=2, words=4)


def asked_flare() -> Run:
    """FLARE doubts two words of its first sentence, and leaves one of them out of the query."""
    draft = "His father is Jean Bretagne."
    chances = [math.log(chance) for chance in (0.95, 0.95, 0.95, 0.3, 0.6, 0.95)]
    script = [
        Rule([draft, ARMANDS], step="draft", contains="Context:", logprob=chances),
        Rule(ARMANDS, step="draft"),
        Rule("His father is Charles.", step="rewrite"),
    ]
    return Run("flare", script, k=1)


def asked_seakr() -> Run:
    """SeaKR doubts its first step until the second passage is in view."""
    script = [
        Rule("x", step="sample", hidden=NEAR, contains="[1] Jean Bretagne"),
        Rule("x", step="sample", hidden=APART),
        Rule(f"His father is Charles Armand. {ARMANDS}", step="draft", contains="[1] Jean Bretagne"),
        Rule(f"His father is Jean. {ARMANDS}", step="draft"),
        Rule(": Charles Armand.", step="conclude"),
    ]
    return Run("seakr", script)
