"""The paper's Figure 1 as a script: the paternal grandfather of Charles Bretagne Marie de La Trémoille."""

from __future__ import annotations

from tests.methods.continuation_asked import GRANDFATHER, sure

from hoptree.models.scripted import Rule

__all__ = [
    "ARMAND",
    "CHARLES",
    "DOUBTED",
    "EXTRACTED",
    "FACTS",
    "FATHER",
    "JEAN",
    "LAST",
    "SECOND",
    "WRITTEN",
    "figure",
    "unsure",
]

CHARLES = "Charles Bretagne Marie de La Trémoille"
JEAN = "Jean Bretagne Charles de La Trémoille"
ARMAND = "Charles Armand René de La Trémoille"
EXTRACTED = f'{{"entities": ["{CHARLES}"], "relations": ["paternal grandfather"]}}'
FATHER, WRITTEN = f"The father of {CHARLES} is Louis.", f"The father of {CHARLES} is {JEAN}."
DOUBTED, SECOND = f"The father of {JEAN} is Louis.", f"The father of {JEAN} is {ARMAND}."
LAST = f"So the answer is: {ARMAND}."
FACTS = (f"{CHARLES} | father | {JEAN}", f"{JEAN} | father | {ARMAND}")


def unsure(text: str, *, word: str = "Louis", entropy: float = 3.0) -> Rule:
    """A draft that is sure of all but one word."""
    return Rule(text, step="draft", entropy=sure(text, **{word: entropy}), attention=0.2, contains=GRANDFATHER)


def figure(
    *first: Rule, drafts: tuple[str, str, str] = (FATHER, DOUBTED, LAST), needed: str | list[str] = "[1]"
) -> list[Rule]:
    """Each of the two fathers is doubted, looked up and written again."""
    replies = [*drafts]
    entropy = sure(FATHER, Louis=3.0)
    return [
        *first,
        Rule(EXTRACTED, step="extract"),
        Rule(step="restate", entropy=1.0, attention=0.2),
        Rule(needed, step="filter"),
        Rule([*FACTS], step="facts", logprob=-0.05),
        Rule("Louis", step="read", logprob=-2.0),
        Rule(ARMAND, step="final", logprob=-0.01),
        Rule(replies, step="draft", entropy=entropy, attention=0.2),
        Rule([f"{WRITTEN} And so on.", SECOND], step="rewrite", entropy=0.1, attention=0.2),
    ]
