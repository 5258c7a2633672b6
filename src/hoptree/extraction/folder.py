"""The folder of an extraction.

    DIR/extraction.json   corpus, model and prompt
    DIR/passages.jsonl    the log: a line for each passage that was read
    DIR/facts.jsonl       the triples of all passages, for hoptree graph load
    DIR/failed.jsonl      the passages that failed in the last run, if any

The log is written first. The triples are derived from it: rewritten at the start of a run, then appended.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

from hoptree.core.errors import HoptreeError, IndexUnavailable, InputError
from hoptree.core.files import FolderLock, JsonlLog, atomic_write, truncate_partial_line
from hoptree.graph.vocabulary import name_id
from hoptree.methods.steps.fact_extraction import StatedFact

# Names that a table of facts would read as ids: a car called Q5 is not Wikidata's Q5.
_LIKE_AN_ID = re.compile(r"[QP][1-9][0-9]*|<[^<>\s]+>")


@dataclass(frozen=True, slots=True)
class Spent:
    """The usage of a passage; `price` is the cost without a cache."""

    calls: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    price: float = 0.0
    cost: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A passage that was read; `key` is a digest of its id, title and text.

    `readable` is False if the reply was not a list of facts. `shortened` passages were truncated in the prompt; in
    those with `orders`, sentences that address a model were removed.
    """

    key: int
    passage: str
    document: str
    facts: tuple[StatedFact, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    readable: bool = True
    cut_off: bool = False
    shortened: bool = False
    orders: bool = False
    spent: Spent = field(default_factory=Spent)

    def as_dict(self) -> dict[str, Any]:
        """Return the entry as a line of the log."""
        data = asdict(self)
        data["facts"] = [[fact.subject, fact.relation, fact.object, fact.sentence] for fact in self.facts]
        return data

    @classmethod
    def read(cls, data: Any) -> Entry:
        """Return the entry of a log line; raise TypeError, ValueError or KeyError."""
        facts = tuple(StatedFact(*map(_text, fact)) for fact in data["facts"])
        left_out = {_text(why): int(count) for why, count in data["left_out"].items()}
        flags = {name: bool(data[name]) for name in ("readable", "cut_off", "shortened", "orders")}
        spent = Spent(**data["spent"])
        if not all(isinstance(value, int | float) for value in asdict(spent).values()):
            raise TypeError("a text where a number belongs")
        passage, document = _text(data["passage"]), _text(data["document"])
        return cls(int(data["key"]), passage, document, facts, left_out, **flags, spent=spent)


_COUNTED = ("without_facts", "unreadable_replies", "replies_cut_off", "shortened_passages", "passages_with_orders")


class Totals:
    """Sums over entries; `counts` has the names of the report."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self.spent: Counter[str] = Counter()

    def add(self, entry: Entry) -> None:
        flags = (not entry.facts, not entry.readable, entry.cut_off, entry.shortened, entry.orders)
        self.counts.update(finished=1, facts=len(entry.facts), **dict(zip(_COUNTED, flags, strict=True)))
        self.left_out.update(entry.left_out)
        self.spent.update(asdict(entry.spent))

    def as_dict(self) -> dict[str, Any]:
        return {
            "finished": self.counts["finished"],
            "facts": self.counts["facts"],
            "left_out": dict(self.left_out.most_common()),
            **{name: self.counts[name] for name in _COUNTED},
            "spent": {name: round(value, 6) for name, value in self.spent.items()},
        }


def fact_rows(entry: Entry) -> Iterator[dict[str, Any]]:
    """Yield the facts of a passage as rows for `hoptree graph load`."""
    for fact in entry.facts:
        places = {"s": fact.subject, "p": fact.relation, "o": fact.object}
        ids = {f"{place}_id": name_id(name) for place, name in places.items() if _LIKE_AN_ID.fullmatch(name)}
        yield {**places, **ids, "src": [entry.passage], "document": entry.document, "sentence": fact.sentence}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where a text belongs")
    return value


RESTS_ON, LOG, FACTS, FAILED = "extraction.json", "passages.jsonl", "facts.jsonl", "failed.jsonl"
_FORMAT = 1
_LEFTOVERS = (FolderLock.NAME, f"{RESTS_ON}.new")  # files of a start that was killed
_COMPARED = ("corpus", "model", "prompt")


class ExtractionFolder:
    """The folder, open for one process; `done` holds the keys of its passages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.done: set[int] = set()
        self.totals = Totals()
        self._lock = FolderLock(path, IndexUnavailable)
        self._log: JsonlLog | None = None
        self._facts: TextIO | None = None

    def begin(
        self, rests_on: Mapping[str, str], *, anyway: bool = False, current: Callable[[], set[int]] = set
    ) -> None:
        """Open or create the folder; one with other settings is an error unless `anyway`.

        `current` returns the keys of the corpus's passages: if the corpus changed, other entries are removed.
        """
        try:
            leftovers = self.path.is_dir() and all(path.name in _LEFTOVERS for path in self.path.iterdir())
            if self.path.exists() and not leftovers and not (self.path / RESTS_ON).exists():
                raise InputError(f"{self.path} exists and holds no extraction.", "Choose a new folder for --out.")
            self.path.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
            known = self._known()
            changed = [name for name in _COMPARED if known and known[name] != rests_on[name]]
            if changed and not anyway:
                raise InputError(
                    f"{self.path} holds the facts of another {' and another '.join(changed)}.",
                    "Give another --out, or --anyway to go on: unchanged passages are not read again.",
                )
            truncate_partial_line(self.path / LOG)
            if "corpus" in changed:
                keys = current()
                kept = (json.dumps(entry.as_dict()) + "\n" for entry in self._entries() if entry.key in keys)
                atomic_write(self.path / LOG, kept)
            before = known.pop("before", [])
            content = {"format": _FORMAT, **rests_on, "before": [*before, known] if changed else before}
            atomic_write(self.path / RESTS_ON, [json.dumps(content, indent=1) + "\n"])
            # The last run may have been killed before it wrote the triples of its last entry.
            atomic_write(self.path / FACTS, (self._count(entry) for entry in self._entries()))
            self._log = JsonlLog(self.path / LOG)
            self._facts = (self.path / FACTS).open("a", encoding="utf-8", errors="replace", newline="\n")
        except OSError as error:
            self.close()
            cause = f"Facts cannot be written to {self.path}: {error.strerror or error}."
            raise InputError(cause, "Choose another --out.") from error
        except BaseException:
            self.close()
            raise

    def _known(self) -> dict[str, Any]:
        """Return the content of `extraction.json`; {} if the folder is new."""
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

    def _entries(self) -> Iterator[Entry]:
        """Yield the distinct entries of the log, which may be larger than memory."""
        path = self.path / LOG
        if not path.exists():
            return
        seen: set[int] = set()
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                try:
                    entry = Entry.read(json.loads(line))
                except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                    cause = f"Line {number} of {path} is damaged."
                    raise InputError(cause, "Take it out: its passage is then read again.") from error
                if entry.key not in seen:
                    seen.add(entry.key)
                    yield entry

    def _count(self, entry: Entry) -> str:
        """Count a passage as done, and return the lines of its triples."""
        self.done.add(entry.key)
        self.totals.add(entry)
        return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in fact_rows(entry))

    async def add(self, entry: Entry) -> None:
        """Write a passage: first to the log, then its triples."""
        assert self._log is not None
        assert self._facts is not None
        await self._log.add(entry.as_dict())
        try:
            self._facts.write(self._count(entry))
            self._facts.flush()
        except OSError as error:
            cause = f"{self.path / FACTS} could not be written: {error.strerror or error}."
            raise HoptreeError(cause, "Nothing is lost: free some space, and give the same command again.") from error

    def name_failed(self, failed: Sequence[Mapping[str, str]]) -> None:
        """Write the passages that failed in this run, replacing earlier ones."""
        path = self.path / FAILED
        if failed:
            atomic_write(path, (json.dumps(failure) + "\n" for failure in failed))
        else:
            path.unlink(missing_ok=True)

    def close(self) -> None:
        for file in (self._log, self._facts):
            if file is not None:
                file.close()
        self._log = self._facts = None
        self._lock.release()
