"""A graph whose files are not as they were written: one sentence for it, wherever it shows."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from traceback import clear_frames

from hoptree.graph.errors import GraphError

__all__ = ["anew", "damage", "damaged", "reading"]


def anew(folder: Path) -> str:
    """How a graph that cannot be opened is replaced: a load changes only what it can read."""
    return f"Remove the folder {folder}, then load its files again: hoptree graph load FILE --out {folder}"


def damaged(folder: Path, why: object) -> GraphError:
    return GraphError(f"The graph {folder} is damaged: {str(why).rstrip('. ')}.", anew(folder))


def damage(error: BaseException) -> str | None:
    """What an error of the store says of its files, or None if it is another error."""
    said = " ".join(str(error).split())
    if isinstance(error, RuntimeError):
        return said if "orruption" in said else None
    return said if isinstance(error, OSError) else None


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Tells of damage that shows only when some part of the data is read."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        why = damage(error)
        if why is None:
            raise
        clear_frames(error.__traceback__)  # the store's iterators may only be let go in the thread that made them
        raise damaged(folder, why) from error
