"""The call cache: replies and search results by all that determines them.

A result is on disk before the method gets it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from hoptree.core.errors import CacheError
from hoptree.core.files import cache_dir, sealed, unsealed
from hoptree.core.values import Attended, Passage, Token
from hoptree.models.model import Choice, Reply, TokenUsage

if TYPE_CHECKING:
    from hoptree.graph.facts import Entity, Fact, Neighbourhood

T = TypeVar("T")

_SCHEMA = """CREATE TABLE IF NOT EXISTS replies
    (key BLOB PRIMARY KEY, reply TEXT NOT NULL, created REAL NOT NULL) WITHOUT ROWID"""


@dataclass(frozen=True, slots=True)
class Form(Generic[T]):
    """How a type of result is written as JSON, and read back."""

    dump: Callable[[T], dict[str, Any]]
    load: Callable[[dict[str, Any]], T]


class Store(Protocol):
    """Where replies are stored; a failure is a CacheError.

    After a `get` without a result, the caller must call `put` or `give_up`: a shared store may let other processes wait
    until then.
    """

    async def get(self, key: bytes, form: Form[T]) -> tuple[T, float] | None: ...

    async def put(self, key: bytes, form: Form[T], value: T, seconds: float) -> None: ...

    def give_up(self, key: bytes) -> None: ...

    def close(self) -> None: ...


def to_text(form: Form[T], value: T, seconds: float) -> str:
    """Return the stored form of a value: JSON with a checksum."""
    return sealed(json.dumps({**form.dump(value), "seconds": round(seconds, 4)})).decode()


def from_text(form: Form[T], text: str) -> tuple[T, float] | None:
    """Return the value and the seconds it took; None if damaged or of another version."""
    try:
        data = json.loads(unsealed(text.encode("utf-8", "surrogatepass")))
        return form.load(data), float(data["seconds"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def default_cache_path() -> Path:
    """Return $HOPTREE_CACHE, or replies.sqlite in the user's cache folder."""
    if named := os.environ.get("HOPTREE_CACHE"):
        return Path(named)
    return cache_dir() / "replies.sqlite"


class Cache:
    """A store in an SQLite file, with one commit for each turn of the event loop.

    `put` returns after the commit, which takes a fraction of a millisecond and therefore no thread. A stored reply
    survives the death of the process; a power failure (synchronous=NORMAL) loses the last ones but never the file.
    """

    def __init__(self, path: Path) -> None:
        import sqlite3  # commands without a cache do not need it

        self.path = path
        self._error = (sqlite3.Error, UnicodeDecodeError)  # the latter from an error message that quotes garbled text
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = sqlite3.connect(path, check_same_thread=False, isolation_level=None, timeout=10)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute(_SCHEMA)
        except (*self._error, OSError) as error:
            raise CacheError(
                f"The cache at {path} cannot be used: {error}.",
                "Set HOPTREE_CACHE to another file, or move this one away.",
            ) from error
        self._waiting: list[tuple[bytes, str, asyncio.Future[None]]] = []

    async def get(self, key: bytes, form: Form[T]) -> tuple[T, float] | None:
        """Return the value stored under a key, and the seconds it took at the time."""
        text = self.text(key)
        return None if text is None else from_text(form, text)

    def text(self, key: bytes) -> str | None:
        """Return the text stored under a key."""
        try:
            row = self._db.execute("SELECT reply FROM replies WHERE key = ?", (key,)).fetchone()
        except self._error as error:
            raise self._unusable(error) from error
        return None if row is None else str(row[0])

    async def put(self, key: bytes, form: Form[T], value: T, seconds: float) -> None:
        await self.put_soon(key, to_text(form, value, seconds))

    def put_soon(self, key: bytes, text: str) -> asyncio.Future[None]:
        """Store a text; the future is done when it is on disk, or has failed."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush)
        self._waiting.append((key, text, done))
        return done

    def give_up(self, key: bytes) -> None:
        """Do nothing: no other process waits for the key."""

    def _flush(self) -> None:
        batch, self._waiting = self._waiting, []
        try:
            self._write([(key, text, time.time()) for key, text, _ in batch])
        except Exception as error:  # of any kind, as no caller may wait for ever
            for _, _, done in batch:
                if not done.done():
                    done.set_exception(self._unusable(error))
        else:
            for _, _, done in batch:
                if not done.done():
                    done.set_result(None)

    def _write(self, rows: list[tuple[bytes, str, float]]) -> None:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._db.executemany("INSERT OR REPLACE INTO replies VALUES (?, ?, ?)", rows)
            self._db.execute("COMMIT")
        except Exception:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise

    def _unusable(self, error: Exception) -> CacheError:
        return CacheError(
            f"The cache at {self.path} cannot be used: {error}.",
            "What it held is safe; free some space or set HOPTREE_CACHE to another file.",
        )

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._db.close()


def _dump_reply(reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    return {
        "choices": [
            [c.text, c.reasoning, c.finish, [_dump_token(token) for token in c.tokens], *_dump_inside(c)]
            for c in reply.choices
        ],
        "usage": [usage.prompt, usage.cached, usage.completion, usage.reasoning],
    }


def _load_reply(data: dict[str, Any]) -> Reply:
    choices = tuple(
        Choice(text, thought, finish, tuple(_load_token(*token) for token in tokens), *_load_inside(*inside))
        for text, thought, finish, tokens, *inside in data["choices"]
    )
    return Reply(choices, TokenUsage(*data["usage"]))


def _dump_token(token: Token) -> list[Any]:
    inside = [] if token.entropy is token.attention is None else [token.entropy, token.attention]
    return [token.text, token.logprob, token.top, *inside]


def _load_token(text: str, logprob: float, top: list[Any], *inside: float | None) -> Token:
    return Token(text, logprob, tuple((rival, value) for rival, value in top), *inside)


def _dump_inside(choice: Choice) -> list[Any]:
    if not choice.hidden and choice.attended is None:
        return []
    seen = choice.attended
    return [_packed(choice.hidden), seen and [seen.text, seen.spans, [_packed(row) for row in seen.weights]]]


def _load_inside(hidden: str = "", seen: list[Any] | None = None) -> tuple[tuple[float, ...], Attended | None]:
    if seen is None:
        return _unpacked(hidden), None
    text, spans, weights = seen
    attended = Attended(text, tuple((start, end) for start, end in spans), tuple(_unpacked(row) for row in weights))
    return _unpacked(hidden), attended


def _packed(numbers: Iterable[float]) -> str:
    """Encode numbers as 32-bit floats in base64, a quarter of their digits' size."""
    return base64.b64encode(array("f", numbers).tobytes()).decode("ascii")


def _unpacked(text: str) -> tuple[float, ...]:
    return tuple(array("f", base64.b64decode(text)))


def _dump_passages(passages: tuple[Passage, ...]) -> dict[str, Any]:
    return {"passages": [asdict(passage) for passage in passages]}


def _load_passages(data: dict[str, Any]) -> tuple[Passage, ...]:
    return tuple(_load_passage(**passage) for passage in data["passages"])


def _load_passage(
    *,
    aliases: list[str],
    metadata: list[Any],
    stages: list[Any],
    anchors: Sequence[str] = (),
    references: Sequence[str] = (),
    **others: Any,
) -> Passage:
    """Build a passage from JSON, turning its lists into tuples."""
    return Passage(
        aliases=tuple(aliases),
        metadata=tuple((name, value) for name, value in metadata),
        stages=tuple((name, score) for name, score in stages),
        anchors=tuple(anchors),
        references=tuple(references),
        **others,
    )


REPLY = Form(_dump_reply, _load_reply)
PASSAGES = Form(_dump_passages, _load_passages)


def _load_entity(data: dict[str, Any]) -> Entity:
    from hoptree.graph.facts import Entity  # a question without a graph does not need it

    return Entity(**{**data, "aliases": tuple(data["aliases"])})


def _load_fact(data: dict[str, Any]) -> Fact:
    from hoptree.graph.facts import Fact, Qualifier, Term

    qualifiers = tuple(Qualifier(Term(**row["relation"]), Term(**row["value"])) for row in data["qualifiers"])
    subject, relation, value = (Term(**data[name]) for name in ("subject", "relation", "object"))
    return Fact(subject, relation, value, qualifiers, tuple(data["sources"]))


def _load_neighbourhood(data: dict[str, Any]) -> Neighbourhood:
    from hoptree.graph.facts import Neighbourhood

    around = data["around"]
    return Neighbourhood(_load_entity(around["entity"]), tuple(map(_load_fact, around["facts"])), around["complete"])


def _dump_neighbourhood(neighbourhood: Neighbourhood) -> dict[str, Any]:
    return {"around": asdict(neighbourhood)}


def _dump_entities(entities: tuple[Entity, ...]) -> dict[str, Any]:
    return {"entities": [asdict(entity) for entity in entities]}


def _load_entities(data: dict[str, Any]) -> tuple[Entity, ...]:
    return tuple(map(_load_entity, data["entities"]))


NEIGHBOURHOOD = Form(_dump_neighbourhood, _load_neighbourhood)
ENTITIES = Form(_dump_entities, _load_entities)
