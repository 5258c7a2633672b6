"""What a client is told where a corpus cannot be opened: by its name, and never by where it lies."""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path

from hoptree.errors import CorpusError, IndexUnavailable
from hoptree.indexing import check_parts
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.remote import is_remote
from hoptree.server.mistakes import log_failure
from hoptree.server.refusals import Refusal

__all__ = ["unopened"]

_MEND = "Tell whoever runs the server; of a corpus that was made here, adding or removing a document mends it."


def unopened(error: CorpusError, corpus: str, where: str) -> CorpusError | Refusal:
    """The error in its place: about the way that was chosen, or a fault of the server."""
    if is_remote(where) or isinstance(error, IndexUnavailable):
        return error
    if not _is_sound(Path(where)):
        log_failure(error, what=f"opening the corpus {corpus}")
        return Refusal(500, "CorpusError", f"The index of the corpus '{corpus}' is damaged, or gone.", _MEND)
    places = re.compile(rf"{re.escape(where)}(?:/[^\s'\",;()<>]*)?")
    return CorpusError(places.sub(lambda _: f"'{corpus}'", error.cause), error.remedy)


def _is_sound(index: Path) -> bool:
    try:
        check_parts(Index(index))
    except (CorpusError, OSError, sqlite3.Error):
        return False
    return True
