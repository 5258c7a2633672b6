"""An index brought up to date with the documents of its corpus, or made anew where that cannot be.

All documents are there, so no damage to an index is for good, and none is the fault of an upload.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from pathlib import Path

from hoptree.errors import CorpusError, IndexUnavailable
from hoptree.indexing import Outcome, Reading, build_index, check_all, check_build, check_parts, update_index
from hoptree.indexing.outcome import Listener
from hoptree.indexing.sources import source_name
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.manifest import MANIFEST, Settings, read_manifest

__all__ = ["is_of_files", "reading_of", "reindex"]


def reindex(documents: Path, index: Path, on_progress: Listener) -> tuple[Outcome, str]:
    """What was done, and why the index that was there was made anew if it was.

    An index names the folder that it was made from: where that is not this one, the corpus was copied or moved, and
    what lies in the other folder is not its own.
    """
    why = ""
    if (index / MANIFEST).exists() and not (why := _unusable(documents, index)):
        try:
            return update_index(index, on_progress=on_progress), ""
        except CorpusError as error:
            if isinstance(error.__cause__, BlockingIOError) or not (why := _damage(index)):
                raise
    settings, reading = _settings(index), reading_of(index)
    try:
        check_build(index, settings, reading)
    except CorpusError as error:  # something else lies there
        raise IndexUnavailable(error.cause, error.remedy) from error
    return build_index(documents, index, settings=settings, reading=reading, on_progress=on_progress), why


def is_of_files(error: CorpusError) -> bool:
    """Whether an error is about what files hold; others are about the index, or of this moment."""
    return type(error) is CorpusError and not isinstance(error.__cause__, OSError | sqlite3.Error)


def reading_of(index: Path) -> Reading:
    """How documents are read for an index: as before, where that is known."""
    with suppress(CorpusError, ValueError):
        return Reading.restored(read_manifest(index).reading)
    return Reading()


def _settings(index: Path) -> Settings:
    with suppress(CorpusError):
        return read_manifest(index).settings
    return Settings()


def _unusable(documents: Path, index: Path) -> str:
    """Why an index cannot be brought up to date, as far as a quick look tells; nothing where it can."""
    try:
        found = Index(index)
        check_parts(found)
    except (CorpusError, OSError, sqlite3.Error) as error:
        return str(error)
    return "" if source_name(documents) in found.manifest.sources else "it was made from another folder"


def _damage(index: Path) -> str:
    """What is wrong with an index that could not be changed; nothing where the index is not to blame."""
    try:
        check_all(Index(index))
    except IndexUnavailable:
        return ""
    except CorpusError as error:
        return str(error)
    return ""
