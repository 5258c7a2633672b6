"""What an index calls its sources and their documents, so that every source keeps its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path, PurePath

from hoptree.errors import CorpusError
from hoptree.retrieval.index.ledger import Ledger
from hoptree.retrieval.index.manifest import read_manifest

__all__ = ["prefix_for", "source_name", "sources_of"]


def source_name(source: Path) -> str:
    """What an index calls a source, from wherever it is named."""
    name = os.path.realpath(source)  # a link that leads in a circle, which Path refuses, is told where it is read
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(source).decode("utf-8", "backslashreplace")
        raise CorpusError(f"The path {shown} is not written in UTF-8.", "Rename what is called so on it.") from error
    return name


def sources_of(out: Path) -> list[Path]:
    """The sources of an index; an error if it has none, or one of them is gone."""
    paths = [Path(source) for source in read_manifest(out).sources]
    if not paths:
        raise CorpusError(f"The index {out} was not made from files.", "Add to it, or build it again.")
    for path in paths:
        try:
            path.stat()
        except PermissionError as error:
            raise CorpusError(
                f"The source {path} of the index cannot be reached: {error.strerror}.",
                "Allow entering the folders above it.",
            ) from error
        except OSError as error:
            raise CorpusError(
                f"The source {path} of the index is gone.",
                f"Put it back, or take its documents out: hoptree index remove {path} --out {out}",
            ) from error
    return paths


def prefix_for(source: str, ledger: Ledger) -> str:
    """What the names of a new source's documents begin with.

    The first source needs nothing. A further folder brings its own name along, since two folders may well hold a
    readme.txt each, and a file does so where another has its name; as many folders above are named as it takes to tell
    it from what is there. What lies inside another source is called what it is called there: it is the same.
    What lies around another source is a further folder, and what it holds of that one has two names.
    """
    known = ledger.sources()
    path = PurePath(source)
    is_folder = os.path.isdir(source)  # noqa: PTH112 - what may not be reached, which Path refuses, is told there
    folder = path if is_folder else path.parent
    for other in known:
        if path.is_relative_to(other):
            return "/".join(filter(None, (ledger.prefix_of(other), *folder.relative_to(other).parts)))
    if not known or not (is_folder or ledger.files_named(path.name)):
        return ""
    for prefix in _prefixes(folder):
        if not (ledger.has_below(prefix) if is_folder else ledger.files_named(f"{prefix}/{path.name}")):
            return prefix
    raise AssertionError("there is always another number")


def _prefixes(folder: PurePath) -> Iterator[str]:
    """The last folder of a path, the last two, …, then the last one with numbers."""
    parts = folder.parts[1:] or ("root",)
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[-length:])
    yield from (f"{parts[-1]}~{number}" for number in count(2))
