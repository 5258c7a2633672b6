"""Two things under one name, or one under two: which files they are in, and what to do."""

from __future__ import annotations

from pathlib import Path, PurePath

from hoptree.errors import CorpusError
from hoptree.values import Passage

__all__ = ["around", "conflict", "unclear"]

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
        "Build the index again, which gives each a name of its own, or rename one of the two."
        if named_after_file
        else "Give every passage an id of its own.",
    )


def unclear(name: str, here: Place, there: Place) -> CorpusError:
    """The error for a name that is the path of the file `here`, and in the index that of something in `there`."""
    return CorpusError(
        f"'{name}' is the path of {_path(here)} from here, and in the index the name of what is in {_path(there)}.",
        "Give the whole path of the one that is meant.",
    )


def around(source: str, inner: str, out: Path) -> str:
    """The warning for a new source that lies around another one, under which its documents have other names."""
    return (
        f"{source} holds {inner}, which is a source already: what is named after its file is in the index twice. "
        f"To have it once: hoptree index remove {inner} --out {out}"
    )


def _path(place: Place) -> str:
    source, name = place
    if not source:
        return "the passages of a program"
    # A source that is a file has the name at its end already.
    return source if PurePath(source).name == name else f"{source}/{name}"
