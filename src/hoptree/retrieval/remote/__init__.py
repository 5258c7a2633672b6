"""Remote search engines and wikis: addresses, batches and ties."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

from hoptree.core.errors import ConfigError, InputError, closest
from hoptree.core.values import Passage
from hoptree.retrieval.retriever import WIKI, Retriever

if TYPE_CHECKING:
    from hoptree.retrieval.remote.elasticsearch import Elasticsearch
    from hoptree.retrieval.remote.milvus import Milvus
    from hoptree.retrieval.remote.wikipedia import Wikipedia

SCHEMES = ("elasticsearch", "milvus")


def open_remote(url: str, *, cached: bool = True) -> Retriever:
    """Open a wiki by name, or the index or collection at a URL.

    `wikipedia`, `wikipedia:LANGUAGE` and `mediawiki+URL` are wikis, whose pages are cached unless `cached` is off.

    `elasticsearch://[USER:PASSWORD@]HOST[:PORT]/INDEX` is Elasticsearch or OpenSearch, with `?api=quickwit` Quickwit;
    `milvus://[USER:PASSWORD@]HOST[:PORT]/COLLECTION` is Milvus, `milvus:///FOLDER/FILE.db/COLLECTION` Milvus Lite.
    Settings after the `?` name the fields (`id`, `title`, `text`, `metadata`) if they are not those that `load` writes;
    `tls=1` encrypts.
    """
    if WIKI.match(url):
        from hoptree.retrieval.remote.wikipedia import open_wiki

        engine: Wikipedia | Elasticsearch | Milvus = open_wiki(url, cached=cached)
    else:
        engine = _engine(url)
    with ThreadPoolExecutor(1) as thread:  # an event loop may be running in this one
        thread.submit(asyncio.run, engine.check()).result()
    return engine


async def load(url: str, passages: Iterable[Passage], on_passage: Callable[[int], None] | None = None) -> int:
    """Load passages into an index or collection; return their number."""
    engine = _engine(url)
    try:
        return await engine.load(passages, on_passage)
    finally:
        await engine.aclose()


def _engine(url: str) -> Elasticsearch | Milvus:
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        near = closest(scheme, SCHEMES)
        meant = f"Did you mean {near}://? " if near else ""
        kinds = " and ".join(f"{known}://" for known in SCHEMES)
        cause = f"'{scheme}://' is not a known kind of address."
        raise ConfigError(cause, f"{meant}There are {kinds}, wikipedia, and folders.")
    address = read_address(url)
    if scheme == "elasticsearch":
        from hoptree.retrieval.remote import elasticsearch

        return elasticsearch.Elasticsearch(address)
    from hoptree.retrieval.remote import milvus

    return milvus.Milvus(address)


T = TypeVar("T")

MAX_BATCH = 1_000
_MAX_BATCH_BYTES = 4 * 2**20  # less than half of the strictest engine's limit for a request
_TIE_ROOM = 10


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a corpus: `folder` and `name` of its path."""

    scheme: str
    host: str
    port: int | None
    user: str
    password: str
    folder: str
    name: str
    settings: tuple[tuple[str, str], ...]

    def read(self, defaults: Mapping[str, str]) -> dict[str, str]:
        """Return the settings after the `?`, with defaults for the others."""
        if unknown := [name for name, _ in self.settings if name not in defaults]:
            cause = f"'{unknown[0]}' is not a setting of {self.scheme}."
            raise ConfigError(cause, f"There are {', '.join(sorted(defaults))}.")
        return {**defaults, **dict(self.settings)}

    @property
    def shown(self) -> str:
        """The URL without the password, in one spelling."""
        port = f":{self.port}" if self.port else ""
        settings = "&".join(f"{name}={value}" for name, value in sorted(self.settings))
        return f"{self.scheme}://{self.host}{port}{self.folder}/{self.name}{'?' if settings else ''}{settings}"


def read_address(url: str) -> Address:
    example = "Write it as elasticsearch://HOST:9200/INDEX or milvus://HOST:19530/COLLECTION."
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        settings = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigError(f"The URL of the corpus cannot be read ({error}).", example) from error
    folder, _, name = parts.path.rstrip("/").rpartition("/")
    if not name:
        raise ConfigError("The URL of the corpus does not name an index or collection.", example)
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    return Address(parts.scheme, host, port, user, password, unquote(folder), unquote(name), tuple(settings))


def without_surrogates(text: str) -> str:
    """Replace lone surrogates, which cannot be sent."""
    return text.encode("utf-8", "replace").decode()


def shortened(query: str, max_words: int) -> str:
    """Return a query within the word limit: if too long, its first distinct words."""
    query = without_surrogates(query)
    words = query.split()
    return query if len(words) <= max_words else " ".join(list(dict.fromkeys(words))[:max_words])


def metadata_pairs(metadata: Any, text: Callable[[Any], str] = str) -> tuple[tuple[str, str], ...]:
    """Return an engine's metadata as pairs sorted by name."""
    if not isinstance(metadata, dict):
        return ()
    return tuple(
        (str(name), text(value))
        for name, values in sorted(metadata.items())
        for value in (values if isinstance(values, list) else [values])
    )


def batches(rows: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield the rows in batches that fit into a request."""
    batch: list[T] = []
    total = 0
    for row in rows:
        if batch and (len(batch) >= MAX_BATCH or total + size(row) > _MAX_BATCH_BYTES):
            yield batch
            batch, total = [], 0
        batch.append(row)
        total += size(row)
    if batch:
        yield batch


async def best_with_ties(
    search: Callable[[int], Awaitable[list[Passage]]], k: int, *, max_hits: int, engine: str
) -> list[Passage]:
    """Return the k best hits; ties at the cut are broken by id."""
    wanted = k + _TIE_ROOM
    while True:
        size = min(wanted, max_hits)
        hits = await search(size)
        untied = k < size and len(hits) >= size and hits[-1].score < hits[k - 1].score
        if len(hits) < size or untied or k <= size == max_hits:
            return sorted(hits, key=lambda passage: (-passage.score, passage.id))[:k]
        if size == max_hits:
            raise InputError(f"{engine} gives at most {max_hits:,} passages.", "Ask for fewer (k).")
        wanted *= 8
