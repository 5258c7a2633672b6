"""Search engines beyond this machine, selected by URL; the same `Retriever` as any other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from hoptree.errors import ConfigError
from hoptree.retrieval.remote.address import Address, read_address
from hoptree.retrieval.retriever import Retriever
from hoptree.values import Passage

__all__ = ["SCHEMES", "is_remote", "load", "open_remote"]

SCHEMES = ("elasticsearch", "milvus")


class _Engine(Retriever, Protocol):
    async def check(self) -> None:
        """Look whether the corpus is there and has the fields that are searched, and complete the identity."""

    async def load(self, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int: ...


def is_remote(corpus: str) -> bool:
    """Whether a corpus is named by the URL of an engine, not by a path."""
    return corpus.partition("://")[0] in SCHEMES and "://" in corpus


def open_remote(url: str) -> Retriever:
    """The index or collection at a URL, after a look whether it can be searched.

    `elasticsearch://[USER:PASSWORD@]HOST[:PORT]/INDEX` is Elasticsearch or OpenSearch, with `?api=quickwit` Quickwit;
    `milvus://[USER:PASSWORD@]HOST[:PORT]/COLLECTION` is Milvus, `milvus:///FOLDER/FILE.db/COLLECTION` Milvus Lite.
    Settings behind the `?` name the fields (`id`, `title`, `text`, `metadata`) where they have other names than
    those `load` writes; `tls=1` encrypts.
    """
    engine = _engine(read_address(url))
    _beside(engine.check())
    return engine


async def load(url: str, passages: Iterable[Passage], on_passage: Callable[[int], None] | None = None) -> int:
    """Put passages into an index or collection, which is made if it is not there; the number that were put there.

    A passage whose id is there already replaces the one that was (Quickwit, which has no ids, keeps both).
    """
    engine = _engine(read_address(url))
    try:
        return await engine.load(passages, on_passage)
    finally:
        await engine.aclose()


def _engine(address: Address) -> _Engine:
    if address.scheme == "elasticsearch":
        from hoptree.retrieval.remote.elasticsearch import Elasticsearch

        return Elasticsearch(address)
    if address.scheme == "milvus":
        from hoptree.retrieval.remote.milvus import Milvus

        return Milvus(address)
    raise ConfigError(f"'{address.scheme}://' names no search engine.", f"There are {' and '.join(SCHEMES)}.")


def _beside(work: Coroutine[Any, Any, None]) -> None:
    """Finish it before going on, whether or not an event loop is running here."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
