"""Search engines beyond this machine, selected by URL; the same `Retriever` as any other."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.retrieval.remote.address import read_address
from hoptree.retrieval.remote.wikipedia_api import is_wiki
from hoptree.retrieval.retriever import Retriever

SCHEMES = ("elasticsearch", "milvus")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")


class _Checked(Retriever, Protocol):
    async def check(self) -> None:
        """Look whether the corpus is there and can be searched, and complete what is known of it."""


class _Engine(_Checked, Protocol):
    async def load(self, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int: ...


def is_remote(corpus: str) -> bool:
    """Whether a corpus is a wiki, or named by a URL, be it of an engine that nobody knows, and not by a path."""
    return is_wiki(corpus) or bool(_URL.match(corpus))


def open_remote(url: str, *, cached: bool = True) -> Retriever:
    """The wiki of a name, or the index or collection at a URL, after a look whether it can be searched.

    `wikipedia`, `wikipedia:LANGUAGE` and `mediawiki+URL` are wikis, whose pages are remembered unless `cached` is off.

    `elasticsearch://[USER:PASSWORD@]HOST[:PORT]/INDEX` is Elasticsearch or OpenSearch, with `?api=quickwit` Quickwit;
    `milvus://[USER:PASSWORD@]HOST[:PORT]/COLLECTION` is Milvus, `milvus:///FOLDER/FILE.db/COLLECTION` Milvus Lite.
    Settings behind the `?` name the fields (`id`, `title`, `text`, `metadata`) where they have other names than
    those `load` writes; `tls=1` encrypts.
    """
    engine = _wiki(url, cached) if is_wiki(url) else _engine(url)
    _beside(engine.check())
    return engine


async def load(url: str, passages: Iterable[Passage], on_passage: Callable[[int], None] | None = None) -> int:
    """Put passages into an index or collection, which is made if it is not there; the number that were put there.

    A passage whose id is there already replaces the one that was (Quickwit, which has no ids, keeps both).
    """
    engine = _engine(url)
    try:
        return await engine.load(passages, on_passage)
    finally:
        await engine.aclose()


def _wiki(name: str, cached: bool) -> _Checked:
    from hoptree.retrieval.remote.wikipedia import open_wiki

    return open_wiki(name, cached=cached)


def _engine(url: str) -> _Engine:
    scheme = url.partition("://")[0].lower()
    if scheme not in SCHEMES:
        near = difflib.get_close_matches(scheme, SCHEMES, 1)
        meant = f"Did you mean {near[0]}://? " if near else ""
        kinds = " and ".join(f"{known}://" for known in SCHEMES)
        raise ConfigError(
            f"'{scheme}://' is no known kind of address.", f"{meant}There are {kinds}, wikipedia, and folders."
        )
    address = read_address(url)
    if scheme == "elasticsearch":
        from hoptree.retrieval.remote.elasticsearch import Elasticsearch

        return Elasticsearch(address)
    from hoptree.retrieval.remote.milvus import Milvus

    return Milvus(address)


def _beside(work: Coroutine[Any, Any, None]) -> None:
    """Finish it before going on, whether or not an event loop is running here."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()
