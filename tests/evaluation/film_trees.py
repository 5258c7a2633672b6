"""Questions about a film and its director, with the traces of the trees that answered them."""

from __future__ import annotations

from typing import Any

from tests.evaluation.hypothesis_runs import Asked, checked, llm, looked_up, planned

__all__ = ["BOTH", "CORRECTED", "FACT", "PAGE", "SUPPORTED", "TITLES", "WHERE", "WHO", "film", "hand_made"]

PAGE = ("a1", "Ann Dee (director)", "Ann Dee was born in Oslo.")
FACT = "Film N (1999 film) | director | Ann Dee (start time: 1999)"


TITLES = ("Film N", "Ann Dee (director)")
BOTH: dict[str, Any] = {"shown": ["a1"], "facts_shown": [FACT]}
"""What shows both gold pages: one in text, the other in a fact."""
WHO, WHERE = "Who directed film N?", "Where was the director of film N born?"
SUPPORTED = checked(1, WHO, "Ann Dee", "supported", **BOTH)
CORRECTED = checked(1, WHO, "Ann Dee", "unknown", "refuted", struck=["Bob Gee"], **BOTH)


def film(name: str, answer: str, *events: Any, **more: Any) -> Asked:
    """A question whose answer is Rome; without any events of its own, its one hypothesis is supported."""
    beside = (
        [(2, "Where was Bob Gee born?", "Rome")] if any(event["id"] == 2 for event in events if "id" in event) else []
    )
    plan = planned((0, WHERE, "Rome"), (1, WHO, "Ann Dee"), *beside)
    told = [plan, looked_up(PAGE), *(events or (SUPPORTED,))]
    return Asked(name, answer, **{"titles": TITLES, "question": WHERE, "events": told, **more})


def hand_made() -> list[Asked]:
    """One that is right, one of each class of errors (two of some), and one that failed before it had a tree."""
    replanned = planned((101, "Where was Ann Dee born?", "Oslo"), under=1)
    child = checked(101, "Where was Ann Dee born?", "Oslo", "supported", path=[0, 1, 101], **BOTH)
    beside = checked(2, "Where was Bob Gee born?", "Rome", "unknown", "unknown", **BOTH)
    asks_for_bob = checked(1, "Did Bob Gee direct film N?", "Yes", "unknown", facts_shown=[FACT])
    first = [llm("build", 100), llm("entities", 10, node=1), llm("relations", 5, node=1), llm("validate", 40, node=1)]
    second = [llm("clue", 7, node=1), llm("validate", 50, node=1), llm("rebuild", 30, node=1), llm("final", 8)]
    return [
        film("right", "Rome", *first, SUPPORTED, llm("conditions", 6)),
        film("words", "It is Rome.", *second, CORRECTED, replanned, child),
        film("order", "Dee Ann Maria", answers=["Ann Maria Dee"]),
        film("lost", "Oslo", asks_for_bob, titles=["Film N", "Bob Gee"]),
        film("unasked", "Oslo", titles=["Film N", "Zed (band)"]),
        film("beside", "Oslo", CORRECTED, beside),
        film("several", "Oslo", answers=["Rome", "Turin"]),
        film("model", "Oslo"),
        Asked("failed", "", error="EndpointError", titles=["Film N"], events=[llm("build", 20)]),
    ]
