"""Finding the files of a corpus: below one folder, never outside it, in an order that repeats."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hoptree.corpus.problems import Problems
from hoptree.errors import CorpusError

__all__ = ["SUFFIXES", "SourceFile", "find_files", "suffix_of"]

SUFFIXES = (".txt", ".md", ".markdown", ".html", ".htm", ".xhtml", ".pdf", ".jsonl", ".ndjson", ".json", ".tsv")
_INDEX = "hoptree-index.json"
"""The file by which a folder shows that it is an index."""
_CORPUS, _QUESTIONS = (tuple(f"{name}.jsonl{packed}" for packed in ("", ".gz")) for name in ("corpus", "queries"))
"""The files of a BEIR folder: passages, and the questions to them."""
_SAY = f"Documents end in {', '.join(SUFFIXES)}; all but .pdf may be packed with gzip (.gz)."


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file of a corpus; `name` is its path below the corpus folder, with / between the parts."""

    path: Path
    name: str
    size: int
    modified_ns: int


def suffix_of(name: str) -> str:
    """The suffix that tells how to read a file (".jsonl" for "a.JSONL.gz"), or "" if it is of no known kind."""
    suffix = os.path.splitext(name.lower().removesuffix(".gz"))[1]  # noqa: PTH122 - a name, not a path
    return "" if suffix not in SUFFIXES or (suffix == ".pdf" and name.lower().endswith(".gz")) else suffix


def find_files(
    source: Path, *, problems: Problems | None = None, may_be_empty: bool = False, never: Path | None = None
) -> Iterator[SourceFile]:
    """The readable files of a folder in the order of their names, or the one file that `source` is.

    Hidden files, files of other kinds, pipes, sockets and devices, the questions of a BEIR folder and folders that are
    an index are left out; it is an error if nothing is left, unless the folder `may_be_empty`. A link to a folder is
    not followed: what it names inside the corpus is read there, and nothing outside is read. A link to a file is
    followed if that lies inside. `never` is a folder that is not looked into, such as the index that is being made.
    """
    problems = problems or Problems()
    try:
        found = source.stat()
    except PermissionError as error:
        raise CorpusError(f"{source} cannot be reached: {error.strerror}.", "Allow reading it.") from error
    except (OSError, ValueError) as error:
        raise CorpusError(f"{_why_not(source, error)}.", "Give a folder or a file with documents.") from error
    if stat.S_ISREG(found.st_mode):
        if not suffix_of(source.name):
            raise CorpusError(f"{source} is no document of a known kind.", _SAY)
        yield SourceFile(source, _name(source.name), found.st_size, found.st_mtime_ns)
        return
    if not stat.S_ISDIR(found.st_mode):
        raise CorpusError(
            f"{source} is {_special(found.st_mode)} and no document.",
            "Write what comes from there to a file, and give that.",
        )
    if os.path.lexists(source / _INDEX):
        raise CorpusError(f"{source} is an index and no document.", "Give the folder or file it was made from.")
    nothing, noted = True, len(problems.notes)
    for file in _walk(source.resolve(), problems, str(never.resolve()) if never else ""):
        nothing = False
        yield file
    if nothing and not may_be_empty:
        why = "".join(f" ({note.removesuffix('.')})" for note in problems.notes[noted : noted + 1])
        raise CorpusError(f"{source} holds no document{why}.", _SAY)


def _special(mode: int) -> str:
    """What a file is that may never end, or never begin, when it is read."""
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"


def _why_not(source: Path, error: Exception) -> str:
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return f"{source} is a link that leads in a circle"
    return f"There is no {'reading ' if os.path.lexists(source) else ''}{source}"


def _walk(root: Path, problems: Problems, never: str) -> Iterator[SourceFile]:
    """Depth first, with a stack of its own, so that no nesting is too deep; one folder's names are held at a time."""
    stack = [("", _entries(root, "", problems))]
    while stack:
        above, entries = stack[-1]
        entry = next(entries, None)
        if entry is None:
            stack.pop()
            continue
        name = above + entry.name
        if entry.path == never:
            continue
        try:
            if entry.is_symlink() and not _leads_to_file_inside(entry.path, root):
                problems.note("links not followed", f"{_name(name)} is a link that is not followed.")
            elif entry.is_dir():
                stack.append((f"{name}/", _entries(Path(entry.path), name, problems)))
            elif not entry.is_file():
                said = f"{_name(name)} is {_special(entry.stat().st_mode)} and not read."
                problems.note("pipes, sockets and devices", said)
            elif not suffix_of(entry.name):
                problems.note("files of an unknown kind", f"{_name(name)} is no document of a known kind.")
            else:
                found = entry.stat()
                yield SourceFile(Path(entry.path), _name(name), found.st_size, found.st_mtime_ns)
        except OSError as error:
            problems.unlisted.append(_name(name))
            problems.add("unreadable files", f"{_name(name)} cannot be read: {error.strerror}.")


def _entries(folder: Path, name: str, problems: Problems) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: (entry.name.startswith("."), entry.name))
    except OSError as error:
        if not name:  # an update would take a corpus that cannot be read for one that is gone
            raise CorpusError(f"{folder} cannot be read: {error.strerror}.", "Allow reading it.") from error
        problems.unlisted.append(_name(name))
        problems.add("unreadable files", f"The folder {_name(name)} cannot be read: {error.strerror}.")
        return
    if any(entry.name == _INDEX for entry in entries):
        problems.note("indexes", f"{_name(name)} is an index and not read.")
        return
    corpus = next((entry.name for entry in entries if entry.name in _CORPUS), "")
    for entry in entries:
        said = _name(f"{name}/{entry.name}".removeprefix("/"))
        if entry.name.startswith("."):
            problems.note("hidden files and folders", f"{said} is hidden and not read.")
        elif corpus and entry.name in _QUESTIONS:
            problems.note("files of questions", f"{said} holds the questions to {corpus} and is not read.")
        else:
            yield entry


def _leads_to_file_inside(path: str, root: Path) -> bool:
    try:
        target = Path(os.path.realpath(path, strict=True))  # a loop is an error here
        return target.is_relative_to(root) and target.is_file()
    except OSError:
        return False


def _name(path: str) -> str:
    """The name with bytes that are no UTF-8 spelled out, so that it can be stored anywhere."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")
