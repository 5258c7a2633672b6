"""The folder of an extraction: what it rests on, a log of the passages that are done, and the triples.

    DIR/extraction.json   corpus, model and prompt
    DIR/passages.jsonl    one line a passage that was read: the truth, on disk before anything else
    DIR/facts.jsonl       the triples of all of them, as hoptree graph load reads them
    DIR/failed.jsonl      the passages that failed the last time, if any did

The triples follow from the log: they are written anew when a run begins, and grow with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from hoptree.errors import HoptreeError, IndexUnavailable, InputError
from hoptree.evaluation.lines import LineFile, mend
from hoptree.extraction.entries import Entry, Totals, fact_rows
from hoptree.lock import WriteLock
from hoptree.whole_files import write_whole

__all__ = ["FACTS", "FAILED", "LOG", "RESTS_ON", "ExtractionFolder"]

RESTS_ON, LOG, FACTS, FAILED = "extraction.json", "passages.jsonl", "facts.jsonl", "failed.jsonl"
_FORMAT = 1
_FIRST = (WriteLock.NAME, f"{RESTS_ON}.new")
"""All that a run may leave which was killed before it wrote what it rests on."""
_COMPARED = ("corpus", "model", "prompt")


class ExtractionFolder:
    """A folder that one process at a time adds passages to; `done` holds the keys of those that are there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: set[int] = set()
        self.totals = Totals()
        self._lock = WriteLock(path, IndexUnavailable)
        self._log: LineFile | None = None
        self._facts: TextIO | None = None

    def begin(
        self, rests_on: Mapping[str, str], *, anyway: bool = False, current: Callable[[], set[int]] = set
    ) -> None:
        """Take the folder up, or make it; refuse one that rests on something else, unless that is wanted `anyway`.

        `current` tells the keys of the corpus's passages: where the corpus is another one, what stands there of
        passages that it does not have is taken out.
        """
        try:
            self._check_place()
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.take()
            known = self._known()
            changed = [name for name in _COMPARED if known and known[name] != rests_on[name]]
            if changed and not anyway:
                raise InputError(
                    f"{self.path} holds the facts of another {' and another '.join(changed)}.",
                    "Give another --out, or --anyway to go on: passages that are done and the same are not read again.",
                )
            mend(self.path / LOG)
            if "corpus" in changed:
                self._keep_only(current())
            self._note(rests_on, known, changed=bool(changed))
            self._take_up()
            self._log = LineFile(self.path / LOG)
            self._facts = (self.path / FACTS).open("a", encoding="utf-8", errors="replace", newline="\n")
        except OSError as error:
            self.close()
            raise InputError(
                f"Facts cannot be written to {self.path}: {error.strerror or error}.", "Choose another --out."
            ) from error
        except BaseException:
            self.close()
            raise

    def _check_place(self) -> None:
        if not self.path.exists():
            return
        if not self.path.is_dir() or not (
            (self.path / RESTS_ON).exists() or all(one.name in _FIRST for one in self.path.iterdir())
        ):
            raise InputError(f"{self.path} exists and holds no extraction.", "Choose a new folder for --out.")

    def _known(self) -> dict[str, Any]:
        """What the folder rests on; nothing if it is new."""
        path = self.path / RESTS_ON
        if not path.exists():
            return {}
        try:
            known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            fits = known["format"] == _FORMAT and isinstance(known["before"], list) and set(_COMPARED) <= known.keys()
        except (ValueError, KeyError, TypeError, RecursionError):
            fits = False
        if not fits:
            raise InputError(f"{path} is damaged, or of another version of Hoptree.", "Give another --out.")
        return known

    def _note(self, rests_on: Mapping[str, str], known: dict[str, Any], *, changed: bool) -> None:
        """Write what the folder rests on, and on what it rested before that was changed."""
        before = known.pop("before", [])
        whole = {"format": _FORMAT, **rests_on, "before": [*before, known] if changed else before}
        write_whole(self.path / RESTS_ON, [json.dumps(whole, indent=1) + "\n"])

    def _keep_only(self, keys: set[int]) -> None:
        """Take passages out of the log that the corpus does not have, or not any more as they were."""
        kept = (json.dumps(entry.as_dict()) + "\n" for entry in self._entries() if entry.key in keys)
        write_whole(self.path / LOG, kept)

    def _take_up(self) -> None:
        """Learn what is done, and write the triples of it anew: a kill may have come before those of the last ones."""

        def rows() -> Iterator[str]:
            for entry in self._entries():
                self._count(entry)
                yield _lines(entry)

        write_whole(self.path / FACTS, rows())

    def _entries(self) -> Iterator[Entry]:
        """The passages of the log, each once; it may be longer than memory."""
        path = self.path / LOG
        if not path.exists():
            return
        seen: set[int] = set()
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = Entry.read(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                    raise InputError(
                        f"Line {number} of {path} is damaged.", "Take it out: its passage is then read again."
                    ) from error
                if entry.key not in seen:
                    seen.add(entry.key)
                    yield entry

    def _count(self, entry: Entry) -> None:
        self.done.add(entry.key)
        self.totals.add(entry)

    async def add(self, entry: Entry) -> None:
        """Put a passage on disk: first in the log, then its triples."""
        assert self._log is not None
        assert self._facts is not None
        await self._log.add(entry.as_dict())
        self._count(entry)
        try:
            self._facts.write(_lines(entry))
            self._facts.flush()
        except OSError as error:
            raise HoptreeError(
                f"{self.path / FACTS} could not be written: {error.strerror or error}.",
                "Nothing is lost: free some space, and give the same command again.",
            ) from error

    def name_failed(self, failed: Sequence[Mapping[str, str]]) -> None:
        """List the passages that failed, in the place of those of the last time."""
        path = self.path / FAILED
        if failed:
            write_whole(path, (json.dumps(one) + "\n" for one in failed))
        else:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        for file in (self._log, self._facts):
            if file is not None:
                file.close()
        self._log = self._facts = None
        self._lock.give_back()


def _lines(entry: Entry) -> str:
    """The triples of a passage, one a line."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in fact_rows(entry))
