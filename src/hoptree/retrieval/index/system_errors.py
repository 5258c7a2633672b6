"""What an error of the system means that came up while an index was changed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hoptree.errors import CorpusError, IndexUnavailable
from hoptree.retrieval.index.tantivy_folder import FREE_SPACE

__all__ = ["failed_change", "unwritable"]


def failed_change(folder: Path, error: OSError) -> CorpusError:
    """What kept an index from being changed: its own folder, or what it was to be made of."""
    if _in_writing(error, folder):
        return unwritable(folder, error)
    what = error.filename if error.filename is not None else "What the index is to be made of"
    cause = f"{what} cannot be read: {error.strerror or error}; what was in {folder} is as it was."
    return CorpusError(cause, "Give what can be read.")


def _in_writing(error: OSError, folder: Path) -> bool:
    """Whether an error came up in writing: one with a file elsewhere did not, nor one that is not the system's own."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS):
        return True
    named = [Path(os.fsdecode(name)) for name in (error.filename, error.filename2) if isinstance(name, str | bytes)]
    return error.errno is not None and (not named or any(path.is_relative_to(folder) for path in named))


def unwritable(folder: Path, error: OSError) -> CorpusError:
    """An index folder that cannot be written to, with the remedy for it."""
    cause = f"The index cannot be written to {folder}: {error.strerror or error}; what was there is as it was."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return IndexUnavailable(cause, FREE_SPACE)
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return CorpusError(cause, "Allow writing there, or choose another --out.")
    never = isinstance(error, NotADirectoryError | FileExistsError | IsADirectoryError)
    return (CorpusError if never else IndexUnavailable)(cause, "Look at that folder, or choose another --out.")
