"""What was cut or dropped from a tree, in sentences for whoever reads the answer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hoptree.runtime.trace import Event

__all__ = ["losses"]

_CUT = ("cap_nodes", "cap_depth")
_WITHOUT_CHILDREN = {
    "rebuild_unreadable": "could not be read",
    "rebuild_noop": "repeated what was refuted",
}
_SMALLER = {
    "rebuild_deeper": "was too deep: what lay deepest was dropped.",
    "rebuild_siblings": "had several first nodes: all but one were dropped.",
    "cap_nodes": "was too large: what came last was dropped.",
    "cap_depth": "was too deep: what lay deepest was dropped.",
}


def losses(events: Iterable[Event]) -> Iterator[str]:
    """A sentence for each thing that the last plan, or a tree rebuilt in it, lost; the same one may come twice.

    Rebuilt trees are told of by the nodes that were settled with them: others were made in vain.
    """
    said: list[str] = []
    for event in events:
        if event["event"] == "plan":
            if event.get("under") is None:
                said = []
            told = (issue for issue in event.get("issues", ()) if issue["kind"] in _CUT)
            # In the words in which other methods warn of it, so that nobody reads it twice.
            said += [f"The model's plan was repaired: {issue['detail']}." for issue in told]
        elif event["event"] == "node":
            said += _rebuilt(event)
    yield from said


def _rebuilt(event: Event) -> Iterator[str]:
    subject = f"What the model wrote anew for sub-question {event['id']}"
    for kind in event.get("rebuild_issues", ()):
        if kind in _WITHOUT_CHILDREN and event.get("size_before", 0) > 1:
            yield f"{subject} {_WITHOUT_CHILDREN[kind]}: all that stood below it was dropped."
        elif kind in _SMALLER:
            yield f"{subject} {_SMALLER[kind]}"
