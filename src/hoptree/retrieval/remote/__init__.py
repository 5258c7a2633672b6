"""Search engines and wikis beyond this machine, selected by URL or name."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from hoptree.core.errors import ConfigError
from hoptree.core.values import Passage
from hoptree.retrieval.remote.address import read_address
from hoptree.retrieval.retriever import Retriever

SCHEMES = ("elasticsearch", "milvus")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WIKI = re.compile(r"wikipedia(?::|\Z)|mediawiki\+")


class _Checked(Retriever, Protocol):
    async def check(self) -> None:
        """Raise an error if the corpus cannot be searched, and complete what is known of it."""


class _Engine(_Checked, Protocol):
    async def load(self, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int: ...


def is_remote(corpus: str) -> bool:
    """Tell whether a corpus is named as a wiki or by a URL, known or not, and not by a path."""
    return _WIKI.match(corpus) is not None or _URL.match(corpus) is not None


def open_remote(url: str, *, cached: bool = True) -> Retriever:
    """Open the wiki of a name, or the index or collection at a URL, and check that it can be searched.

    `wikipedia`, `wikipedia:LANGUAGE` and `mediawiki+URL` are wikis, whose pages are cached unless `cached` is off.

    `elasticsearch://[USER:PASSWORD@]HOST[:PORT]/INDEX` is Elasticsearch or OpenSearch, with `?api=quickwit` Quickwit;
    `milvus://[USER:PASSWORD@]HOST[:PORT]/COLLECTION` is Milvus, `milvus:///FOLDER/FILE.db/COLLECTION` Milvus Lite.
    Settings behind the `?` name the fields (`id`, `title`, `text`, `metadata`) if they are not those that `load`
    writes; `tls=1` encrypts.
    """
    if _WIKI.match(url):
        from hoptree.retrieval.remote.wikipedia import open_wiki

        engine: _Checked = open_wiki(url, cached=cached)
    else:
        engine = _engine(url)
    with ThreadPoolExecutor(1) as thread:  # an event loop may be running in this one
        thread.submit(asyncio.run, engine.check()).result()
    return engine


async def load(url: str, passages: Iterable[Passage], on_passage: Callable[[int], None] | None = None) -> int:
    """Put passages into an index or collection, which is made if it is not there; returns their number.

    A passage replaces one with the same id (Quickwit, which has no ids, keeps both).
    """
    engine = _engine(url)
    try:
        return await engine.load(passages, on_passage)
    finally:
        await engine.aclose()


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
