"""Two passages that differ under one id: which files they are in, and what to do."""

from __future__ import annotations

from pathlib import PurePath

from hoptree.errors import CorpusError
from hoptree.values import Passage

__all__ = ["conflict"]

Place = tuple[str, str]
"""Source and name of a file."""


def conflict(passage: Passage, here: Place, there: Place) -> CorpusError:
    """The error for a passage of the file `here` whose id another passage has in the file `there`."""
    said = f"Two passages have the id '{passage.id}' and are not the same"
    if here == there:
        return CorpusError(f"{said}; both are in {_path(here)}.", "Give every passage an id of its own.")
    if here[0] == there[0]:
        said = f"{said}: one is in {here[1]}, the other one in {there[1]}"
        return CorpusError(f"{said}.", "Give every passage an id of its own.")
    named_after_file = bool(here[1]) and here[1] in passage.id
    return CorpusError(
        f"{said}: one is in {_path(here)}, the other one in {_path(there)}.",
        "Rename one of the two, or make the index from one folder that holds both."
        if named_after_file
        else "Give every passage an id of its own.",
    )


def _path(place: Place) -> str:
    source, name = place
    if not source:
        return "the passages of a program"
    # A source that is a file has the name at its end already.
    return source if PurePath(source).name == name else f"{source}/{name}"
