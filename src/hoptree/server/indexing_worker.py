"""The process that reads uploaded files: they may be made to do harm, so it has bounds of its own and no keys.

The first line of standard input is a JSON object that says what to do; a JSON line comes out for every step, and one
at the end. Where standard input ends, the server has, and so does this process: the next server goes on with the work.
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
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.ledger import open_ledger
from hoptree.retrieval.index.manifest import MANIFEST, Settings, read_manifest
from hoptree.retrieval.indexing.check import check_all, check_parts
from hoptree.retrieval.indexing.commands import build_index, check_build, update_index
from hoptree.retrieval.indexing.sources import Listener, Outcome, Progress, Reading, source_name


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
            if is_busy(error) or not (why := _damage(index)):
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


_EVERY = 0.1
_TOLD = 100
_LONGEST = 8_000
_REMEDIES = {
    "OCR": "Recognise its text (OCR), then upload it again.",
    "UTF-8": "Save it as UTF-8, then upload it again.",
    "binary": "Upload it as text, or under a name that ends as its kind does.",
    "password": "Upload it without one.",
    "as PDF": "Save it as PDF again, or upload its text.",
    "JSON": "Mend that line, then upload it again.",
    "larger": "Cut it into smaller ones.",
    "longer": "Cut it into shorter ones.",
    "damaged": "Upload a copy that is whole.",
    "is empty": "Leave it out, or upload one with text in it.",
    "empty text": "Leave it out, or give it a text.",
}
"""What to do about a file, by a word of the sentence that says what is wrong with it."""
_MEND = "Mend it, then upload it again."
_STAYS = "The version that was there before stays."
_COUNTS = """
select files.name, sum(held.count) from files join (
    select file, count(*) as count from passages group by file
    union all select file, count(*) from also group by file
) as held on held.file = files.id group by files.name
"""
_LATER = 10
"""How much more patient than with questions the system may be with this process."""


def main() -> None:
    """Bring an index up to date with its documents."""
    wanted = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    os.nice(_LATER)
    _bound(int(wanted["seconds"]), int(wanted["memory"]))
    try:
        _bring_up_to_date(wanted)
    except MemoryError:
        _tell(CorpusError("Reading the files takes more memory than allowed.", "Upload smaller files."))
    except IndexUnavailable as error:
        if is_busy(error):
            _say(taken=True)  # another process has the lock, and the server waits for it
        else:
            _tell(error)
    except CorpusError as error:
        if is_of_files(error):
            error.remedy = _remedy(error.cause, error.remedy)
            _tell(error)
        else:
            _tell(IndexUnavailable(error.cause, error.remedy))
    except HoptreeError as error:
        _tell(error)
    except Exception as error:
        # Without its message, which may quote what a file holds.
        where = "".join(traceback.format_tb(error.__traceback__))[-_LONGEST:]
        _tell(InternalError(error), kind=type(error).__name__, where=where)


def _end_with_the_server() -> None:
    """An index is the old one or the new one, whenever that comes."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(1)


def _bound(seconds: int, memory: int) -> None:
    """Have the system end this process when it takes too much; the server ends it by the clock in any case."""
    for what, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, memory)):
        with suppress(ValueError, OSError):  # not every system knows both
            resource.setrlimit(what, (most, most))


def _bring_up_to_date(wanted: Mapping[str, Any]) -> None:
    documents, replaced, index = (Path(wanted[name]) for name in ("documents", "replaced", "index"))
    added = [str(name) for name in wanted["added"]]
    unread = unread_versions(documents, replaced, added, reading_of(index))
    if unread and len(unread) == len(added):
        raise _nothing(_passed_over([], {}, added, unread)[0])
    # From here on something of the upload can be read: whatever comes, it is not taken for one that cannot.
    put_back(documents, replaced, unread)
    old = {name: f"{why} {_STAYS}" for name, why in unread.items()}
    outcome, anew = reindex(documents, index, _Listener())
    counts = _counts(documents, index)
    files = _passed_over(outcome.examples, counts, added, old)
    if added and not any(counts.get(name) for name in added if name not in old):
        raise _nothing(files[0])
    atomic_write(Path(wanted["counts"]), [json.dumps(counts)])
    _say(done={**_told(outcome), "files": files, "anew": anew})


def _nothing(first: Mapping[str, str]) -> CorpusError:
    return CorpusError(f"Nothing of what was uploaded can be read: {first['cause']}", first["remedy"])


def _counts(documents: Path, index: Path) -> dict[str, int]:
    """How many passages there are of each document."""
    every = {path.relative_to(documents).as_posix(): 0 for path in documents.rglob("*") if path.is_file()}
    with closing(open_ledger(Index(index).generation / "ledger.sqlite", writable=False)) as ledger:
        return every | dict(ledger.execute(_COUNTS))


def _passed_over(
    sentences: Sequence[str], counts: Mapping[str, int], added: Sequence[str], old: Mapping[str, str]
) -> list[dict[str, str]]:
    """The uploaded files that were not read, or not wholly, with why and what to do; those not read at all first.

    Of some the `old` versions stay, which may well be read.
    """
    said = dict(old)
    for sentence in sentences:
        named = [name for name in added if sentence.startswith(f"{name} ") or f" of {name} " in sentence]
        if named:
            said.setdefault(max(named, key=len), sentence)
    unread = [name for name in added if name in old or not counts.get(name)]
    rest = [name for name in said if name not in unread]
    causes = {name: said.get(name, f"{name} holds nothing that can be read.") for name in (*unread, *rest)}
    told = [{"file": name, "cause": cause, "remedy": _remedy(cause)} for name, cause in causes.items()]
    return told[:_TOLD]


def _remedy(cause: str, otherwise: str = _MEND) -> str:
    return next((remedy for word, remedy in _REMEDIES.items() if word in cause), otherwise)


class _Listener:
    """Tells how far it is, ten times a second at most."""

    def __init__(self) -> None:
        self._last, self._stage = 0.0, ""

    def __call__(self, progress: Progress) -> None:
        now = time.monotonic()
        if now - self._last >= _EVERY or progress.stage != self._stage:
            self._last, self._stage = now, progress.stage
            _say(progress=[progress.stage, progress.done, progress.total, progress.passages])


def _told(outcome: Outcome) -> dict[str, Any]:
    names = ("added", "unchanged", "replaced", "removed", "passed_over")
    return {"passages": outcome.manifest.passages, **{name: getattr(outcome, name) for name in names}}


def _tell(error: HoptreeError, **more: str) -> None:
    _say(error={"class": type(error).__name__, "cause": error.cause, "remedy": error.remedy, **more})


def _say(**line: Any) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
