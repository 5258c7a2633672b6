"""The process that indexes uploaded files, with limits and without keys.

The files may be hostile. The first line of standard input is a JSON object with the task; each step, and the end, is a
JSON line of output. The process exits with its standard input, which the server holds open; the next server resumes.
"""

from __future__ import annotations

import json
import os
import resource
import sqlite3
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError, HoptreeError, IndexUnavailable, InternalError
from hoptree.core.files import atomic_write, is_busy
from hoptree.corpus.chunk import load_tokenizer
from hoptree.corpus.document import Problems
from hoptree.corpus.files import SourceFile
from hoptree.corpus.read import read_file
from hoptree.retrieval.index.folder import MANIFEST, Index, Settings, read_manifest
from hoptree.retrieval.index.ledger import open_ledger
from hoptree.retrieval.indexing import build_index, check_build, update_index
from hoptree.retrieval.indexing.check import check_all, check_parts
from hoptree.retrieval.indexing.sources import Listener, Outcome, Progress, Reading, source_name

_PROGRESS_INTERVAL_S = 0.1
_MAX_PASSED_OVER = 100
_MAX_TRACEBACK_CHARS = 8_000
_NICENESS = 10  # gives the processes that answer questions precedence
_REMEDIES = {
    "OCR": "Recognise its text (OCR), then upload it again.",
    "UTF-8": "Save it as UTF-8, then upload it again.",
    "binary": "Upload it as text, or under a name that ends as its kind does.",
    "password": "Upload it without one.",
    "as PDF": "Save it as PDF again, or upload its text.",
    "JSON": "Fix that line, then upload it again.",
    "larger": "Cut it into smaller ones.",
    "longer": "Cut it into shorter ones.",
    "damaged": "Upload a copy that is whole.",
    "is empty": "Leave it out, or upload one with text in it.",
    "empty text": "Leave it out, or give it a text.",
}
"""What to do about a file, by a word in the sentence about its problem."""
_DEFAULT_REMEDY = "Fix it, then upload it again."
_NOTHING_READABLE = "Nothing of what was uploaded can be read"
_OLD_VERSION_STAYS = "The version that was there before stays."
_PASSAGE_COUNTS = """
select files.name, sum(held.count) from files join (
    select file, count(*) as count from passages group by file
    union all select file, count(*) from also group by file
) as held on held.file = files.id group by files.name
"""


def main() -> None:
    """Update an index from its documents, and send the outcome."""
    order = json.loads(sys.stdin.readline())
    threading.Thread(target=_exit_with_server, daemon=True).start()
    os.nice(_NICENESS)
    # The system enforces these limits; the server watches the time as well.
    for limit, value in ((resource.RLIMIT_CPU, int(order["seconds"])), (resource.RLIMIT_AS, int(order["memory"]))):
        with suppress(ValueError, OSError):  # not every system knows both
            resource.setrlimit(limit, (value, value))
    try:
        _index(order)
    except MemoryError:
        _send_error(CorpusError("Reading the files takes more memory than allowed.", "Upload smaller files."))
    except CorpusError as error:
        if isinstance(error, IndexUnavailable) and is_busy(error):
            _send(busy=True)  # the server waits for the process that has the lock
        # Only a plain CorpusError that the system did not cause is about the content of files.
        elif type(error) is not CorpusError or isinstance(error.__cause__, OSError | sqlite3.Error):
            _send_error(IndexUnavailable(error.cause, error.remedy))
        else:
            has_remedies = error.cause.startswith(_NOTHING_READABLE)
            _send_error(error if has_remedies else CorpusError(error.cause, _remedy(error.cause, error.remedy)))
    except HoptreeError as error:
        _send_error(error)
    except Exception as error:
        # Without its message, which may quote a file.
        where = "".join(traceback.format_tb(error.__traceback__))[-_MAX_TRACEBACK_CHARS:]
        _send_error(InternalError(error), kind=type(error).__name__, where=where)


def _exit_with_server() -> None:
    """Exit when standard input ends: safe, as an index is replaced atomically."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _index(order: Mapping[str, Any]) -> None:
    documents, replaced, index = (Path(order[name]) for name in ("documents", "replaced", "index"))
    added = [str(name) for name in order["added"]]
    unread = _find_unread(documents, replaced, added, _reading(index))
    if unread and len(unread) == len(added):
        raise _nothing_readable(_passed_over([], {}, added, unread))
    # Some file of the upload can be read, so it is no longer refused as unreadable.
    for name in unread:
        (replaced / name).replace(documents / name)  # restore the old version, atomically: this can be repeated
    stays = {name: f"{why} {_OLD_VERSION_STAYS}" for name, why in unread.items()}
    try:
        outcome, rebuilt = _update_or_rebuild(documents, index, _ProgressSender())
    except CorpusError as error:
        if type(error) is CorpusError and error.__cause__ is None and not (index / MANIFEST).exists():
            whys = {name: _why_unreadable(documents / name, name, _reading(index)) for name in added}
            if whys and all(whys.values()):
                raise _nothing_readable(_passed_over([], {}, added, whys)) from None
        raise
    counts = _count_passages(documents, index)
    files = _passed_over(outcome.examples, counts, added, stays)
    if added and not any(counts.get(name) for name in added if name not in stays):
        raise _nothing_readable(files)
    atomic_write(Path(order["counts"]), [json.dumps(counts)])
    changes = {name: getattr(outcome, name) for name in ("added", "unchanged", "replaced", "removed", "passed_over")}
    _send(done={"passages": outcome.manifest.passages, **changes, "files": files, "rebuilt": rebuilt})


def _nothing_readable(files: Sequence[Mapping[str, str]]) -> CorpusError:
    """Return an error with each kind of problem, for the first file that has it."""
    kinds = {file["remedy"]: file["cause"] for file in reversed(files)}
    causes = " ".join(reversed(kinds.values()))
    return CorpusError(f"{_NOTHING_READABLE}: {causes}", " ".join(reversed(kinds)))


def _update_or_rebuild(documents: Path, index: Path, on_progress: Listener) -> tuple[Outcome, str]:
    """Update an index; return the outcome, and the reason if it was rebuilt instead.

    An index names its source folder. If that is not this one, the corpus was copied or moved, and the index is rebuilt.
    """
    why = ""
    if (index / MANIFEST).exists() and not (why := _why_unusable(documents, index)):
        try:
            return update_index(index, on_progress=on_progress), ""
        except CorpusError as error:
            if is_busy(error) or not (why := _find_damage(index)):
                raise
    settings, reading = Settings(), _reading(index)
    with suppress(CorpusError):
        settings = read_manifest(index).settings
    try:
        check_build(index, settings, reading)
    except CorpusError as error:  # something else lies there
        raise IndexUnavailable(error.cause, error.remedy) from error
    return build_index(documents, index, settings=settings, reading=reading, on_progress=on_progress), why


def _reading(index: Path) -> Reading:
    """Return how documents are read for an index: as before, if that is known."""
    with suppress(CorpusError, ValueError):
        return Reading.restored(read_manifest(index).reading)
    return Reading()


def _why_unusable(documents: Path, index: Path) -> str:
    """Return why a quick check finds that an index cannot be updated; "" if it can."""
    try:
        opened = Index(index)
        check_parts(opened)
    except (CorpusError, OSError, sqlite3.Error) as error:
        return str(error)
    return "" if source_name(documents) in opened.manifest.sources else "it was made from another folder"


def _find_damage(index: Path) -> str:
    """Return the damage of an index that could not be updated; "" if there is none."""
    try:
        check_all(Index(index))
    except IndexUnavailable:
        return ""
    except CorpusError as error:
        return str(error)
    return ""


def _find_unread(documents: Path, replaced: Path, added: Sequence[str], reading: Reading) -> dict[str, str]:
    """Return unreadable new versions, with reasons; all files if none can be read."""
    unread: dict[str, str] = {}
    for name in added:
        if (replaced / name).is_file() and (why := _why_unreadable(documents / name, name, reading)):
            unread[name] = why
    if unread:
        others = {name: _why_unreadable(documents / name, name, reading) for name in added if name not in unread}
        if all(others.values()):
            return unread | others
    return unread


def _why_unreadable(path: Path, name: str, reading: Reading) -> str:
    """Return why nothing can be read from a file; "" if it has a passage."""
    stat = path.stat()
    problems = Problems(reading.skip_broken)
    tokenizer = load_tokenizer(reading.tokenizer) if reading.tokenizer else None
    file = SourceFile(path, name, stat.st_size, stat.st_mtime_ns)
    try:
        for _ in read_file(file, problems=problems, chunking=reading.chunking, tokenizer=tokenizer):
            return ""
    except CorpusError as error:
        return error.cause
    return next(iter((*problems.sentences, *problems.notes)), f"{name} holds nothing that can be read.")


def _count_passages(documents: Path, index: Path) -> dict[str, int]:
    """Count the passages of each document."""
    counts = {path.relative_to(documents).as_posix(): 0 for path in documents.rglob("*") if path.is_file()}
    with closing(open_ledger(Index(index).generation / "ledger.sqlite", writable=False)) as ledger:
        return counts | dict(ledger.execute(_PASSAGE_COUNTS))


def _passed_over(
    sentences: Sequence[str], counts: Mapping[str, int], added: Sequence[str], stays: Mapping[str, str]
) -> list[dict[str, str]]:
    """List uploaded files not read in full, with cause and remedy; unread first."""
    causes = dict(stays)
    for sentence in sentences:
        named = [name for name in added if sentence.startswith(f"{name} ") or f" of {name} " in sentence]
        if named:
            causes.setdefault(max(named, key=len), sentence)
    unread = [name for name in added if name in stays or not counts.get(name)]
    ordered = [*unread, *(name for name in causes if name not in unread)][:_MAX_PASSED_OVER]
    files = [(name, causes.get(name, f"{name} holds nothing that can be read.")) for name in ordered]
    return [{"file": name, "cause": cause, "remedy": _remedy(cause)} for name, cause in files]


def _remedy(cause: str, default: str = _DEFAULT_REMEDY) -> str:
    return next((remedy for word, remedy in _REMEDIES.items() if word in cause), default)


class _ProgressSender:
    """Sends the progress of indexing, at most ten times a second."""

    def __init__(self) -> None:
        self._last, self._stage = 0.0, ""

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= _PROGRESS_INTERVAL_S or progress.stage != self._stage:
            self._last, self._stage = now, progress.stage
            _send(progress=[progress.stage, progress.done, progress.total, progress.passages])


def _send_error(error: HoptreeError, **details: str) -> None:
    _send(error={"class": type(error).__name__, "cause": error.cause, "remedy": error.remedy, **details})


def _send(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
