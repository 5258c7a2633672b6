"""New versions of documents of which nothing can be read: they do not take the place of the old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from hoptree.corpus.chunk import load_tokenizer
from hoptree.corpus.files import SourceFile
from hoptree.corpus.problems import Problems
from hoptree.corpus.read import read_file
from hoptree.errors import CorpusError
from hoptree.indexing import Reading

__all__ = ["put_back", "unread_versions"]


def unread_versions(documents: Path, replaced: Path, added: Sequence[str], reading: Reading) -> dict[str, str]:
    """The files that have an old version and of which nothing new can be read, each with why.

    Where nothing else of what was added can be read either, these are all of it.
    """
    unread: dict[str, str] = {}
    for name in added:
        if (replaced / name).is_file() and (why := _unreadable(documents / name, name, reading)):
            unread[name] = why
    if unread:
        others = {name: _unreadable(documents / name, name, reading) for name in added if name not in unread}
        if all(others.values()):
            return unread | others
    return unread


def put_back(documents: Path, replaced: Path, names: Mapping[str, str]) -> None:
    """Have the old versions of files in the place of the new ones.

    Each is put there in one step, and no longer in `replaced` then: where this is cut off, it can be done again.
    """
    for name in names:
        (replaced / name).replace(documents / name)


def _unreadable(path: Path, name: str, reading: Reading) -> str:
    """Why nothing can be read of a file; nothing where something can, and then no more than that is read."""
    found = path.stat()
    problems = Problems(reading.skip_broken)
    tokenizer = load_tokenizer(reading.tokenizer) if reading.tokenizer else None
    file = SourceFile(path, name, found.st_size, found.st_mtime_ns)
    try:
        for _ in read_file(file, problems=problems, chunking=reading.chunking, tokenizer=tokenizer):
            return ""
    except CorpusError as error:
        return error.cause
    return next(iter((*problems.sentences, *problems.notes)), f"{name} holds nothing that can be read.")
