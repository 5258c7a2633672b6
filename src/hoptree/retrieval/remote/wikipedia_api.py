"""The API of a wiki: its address, search, and the texts of pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from hoptree.core.errors import CacheError, ConfigError, EndpointError, ModelError, RateLimited, UnusableReply
from hoptree.core.http_body import read_body
from hoptree.core.http_client import HttpClient
from hoptree.core.public_http import HttpCache, Throttle, unreachable_remedy, user_agent

_BUSY = ("maxlag", "readonly", "cirrussearch-too-busy-error", "cirrussearch-backend-error", "search-error")
_MAX_PAGE_CHARS = 4_000_000  # several times the longest article
_EXTENSION = "TextExtracts"
MAX_QUERY_CHARS = 300  # wikipedia's search refuses longer queries
_MAX_BODY_BYTES = 16 * 2**20
_TIMEOUT_S = 30.0
_REQUEST = {"action": "query", "format": "json", "formatversion": "2"}
_PAGE_INFO = {"inprop": "url", "ppprop": "disambiguation"}
_NO_TITLE = re.compile(r"[#<>\[\]|{}\x00-\x1f\x7f\ud800-\udfff]")
_MAX_TITLE_BYTES = 255
_WIKIPEDIA = "wikipedia"
_LANGUAGE = re.compile(r"[a-z]{2,12}(?:-[a-z]{2,12}){0,2}")
_NAMES = "Write wikipedia, wikipedia:de, or mediawiki+https://HOST/w/api.php."

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found, with its current revision."""

    title: str
    revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """A page at a revision; a missing or disambiguation page has no text."""

    title: str
    text: str = ""
    revision: int = 0
    url: str = ""


def read_failure(data: Any, headers_wait: float | None, shown: str) -> EndpointError | None:
    """Return the error in a reply with HTTP status 200, if any."""
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return None
    code, info = str(error.get("code", "")), " ".join(str(error.get("info", "")).split())[:300]
    if code == "ratelimited":
        cause = f"{shown} asks for fewer requests."
        return RateLimited(cause, "Try again later.", retryable=True, retry_after=headers_wait)
    if code in _BUSY or code.startswith("internal_api_error"):
        cause = f"{shown} is busy ({code}: {info})."
        return EndpointError(cause, "Try again later.", retryable=True, retry_after=headers_wait)
    if code == "readapidenied":
        return EndpointError(f"{shown} is readable only for its members.", "Use a public wiki.", exit_code=2)
    return EndpointError(f"{shown} refused the request ({code}: {info}).", "Look at what it says.", exit_code=2)


def read_site(data: Any, shown: str) -> str:
    """Return the code of a wiki's language; refuse unsuitable wikis."""
    general = _query_part(data, "general", shown)
    extensions = data["query"].get("extensions")
    names = [item.get("name") for item in extensions if isinstance(item, dict)] if isinstance(extensions, list) else []
    if _EXTENSION not in names:
        cause = f"The wiki at {shown} cannot give the plain text of its pages."
        raise ConfigError(cause, f"It needs the extension {_EXTENSION}, which Wikipedia has.")
    return str(general.get("lang", ""))


def read_hits(data: Any, shown: str) -> tuple[Hit, ...]:
    """Return the articles that a search found, best first."""
    if isinstance(data, dict) and "query" not in data:  # no hits
        return ()
    articles = [page for page in _pages(data, shown) if _is_article(page)]
    articles.sort(key=lambda page: _number(page.get("index")))
    return tuple(Hit(_text(page.get("title")), _number(page.get("lastrevid"))) for page in articles)


def read_page(data: Any, asked: str, shown: str) -> Page:
    """Return the page of a title; without text if it cannot be read."""
    query = data.get("query") if isinstance(data, dict) else None
    if isinstance(query, dict) and "pages" not in query:  # a title of another wiki
        return Page(asked)
    pages = _pages(data, shown)
    page = pages[0] if len(pages) == 1 else {}
    title = _text(page.get("title")) or asked
    if not _is_article(page):
        return Page(title)
    text = page.get("extract")
    if not isinstance(text, str):
        raise UnusableReply(f"{shown} gave no text of '{title}'.", "Try again later.")
    url = _text(page.get("canonicalurl") or page.get("fullurl"))
    link = url if url.startswith(("http://", "https://")) else ""
    return Page(title, text[:_MAX_PAGE_CHARS], _number(page.get("lastrevid")), link)


def _is_article(page: Mapping[str, Any]) -> bool:
    properties = page.get("pageprops")
    ambiguous = isinstance(properties, dict) and "disambiguation" in properties
    missing = any(page.get(flag) for flag in ("missing", "invalid", "special"))
    return bool(page) and not missing and not ambiguous and page.get("ns") == 0


def _pages(data: Any, shown: str) -> list[dict[str, Any]]:
    pages = _query_part(data, "pages", shown)
    if not isinstance(pages, list) or not all(isinstance(page, dict) for page in pages):
        raise _no_mediawiki(shown)
    return pages


def _query_part(data: Any, name: str, shown: str) -> Any:
    try:
        return data["query"][name]
    except (KeyError, TypeError, IndexError) as error:
        raise _no_mediawiki(shown) from error


def _no_mediawiki(shown: str) -> UnusableReply:
    cause = f"{shown} does not answer like the API of a MediaWiki."
    return UnusableReply(cause, "Check the address of the wiki.")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if type(value) is int else 0


def can_be_title(name: str) -> bool:
    """Return whether a wiki can have a page of this name."""
    bare = name.replace("_", " ").strip()
    return bool(bare) and not _NO_TITLE.search(bare) and len(bare.encode()) <= _MAX_TITLE_BYTES


class WikiApi:
    """The client of a wiki, one request at a time; pages are cached, searches not."""

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        cache: HttpCache | None = None,
        a_second: float = 10.0,
        patience: float = 60.0,
    ) -> None:
        self._http = HttpClient(
            url,
            headers={"User-Agent": user_agent(contact)},
            timeout=_TIMEOUT_S,
            url_source="the address of the wiki",
            max_body=_MAX_BODY_BYTES,
            unreachable_remedy=unreachable_remedy(url),
        )
        self.shown = self._http.shown
        self._cache = cache
        self._polite = Throttle(per_second=a_second, concurrency=1, patience_s=patience)

    async def language(self) -> str:
        """Return the code of the wiki's language."""
        request, read = {"meta": "siteinfo", "siprop": "general|extensions"}, partial(read_site, shown=self.shown)
        cached = self._cached(request, read)
        return cached if cached is not None else await self._fetch(request, read, keep=True)

    async def search(self, words: str, limit: int) -> tuple[Hit, ...]:
        """Return the articles that match some words, best first."""
        search = {"generator": "search", "gsrsearch": words, "gsrlimit": str(limit), "gsrnamespace": "0"}
        request = {**search, "gsrenablerewrites": "1", "prop": "info|pageprops", **_PAGE_INFO}
        return await self._fetch(request, partial(read_hits, shown=self.shown), keep=False)

    async def page(self, title: str, revision: int = 0) -> Page:
        """Return the page of a title, redirects followed; at least as new as `revision`."""
        extracts = {"explaintext": "1", "exsectionformat": "wiki", "exlimit": "1"}
        request = {"titles": title, "redirects": "1", "prop": "extracts|info|pageprops", **extracts, **_PAGE_INFO}
        read = partial(read_page, asked=title, shown=self.shown)
        cached = self._cached(request, read)
        if cached is not None and cached.revision >= revision:
            return cached
        return await self._fetch(request, read, keep=True)

    def _cached(self, request: Mapping[str, str], read: Callable[[Any], T]) -> T | None:
        """Return the cached reply to a request, if it can still be read."""
        try:
            body = self._cache.get(self._http.url, _encoded(request)) if self._cache else None
            return None if body is None else read(self._http.parse(body))
        except UnusableReply:
            return None
        except CacheError:
            self._close_cache()
            return None

    async def _fetch(self, request: Mapping[str, str], read: Callable[[Any], T], *, keep: bool) -> T:
        query = _encoded(request)
        try:
            body, value = await self._polite.send(lambda: self._once(query, read))
        except ModelError as error:
            error.retryable = False  # the throttle has retried it already
            raise
        if keep and self._cache:
            try:
                self._cache.put(self._http.url, query, body)
            except CacheError:
                self._close_cache()
        return value

    async def _once(self, query: str, read: Callable[[Any], T]) -> tuple[bytes, T]:
        status, headers, body = await self._http.send("GET", f"?{query}")
        if status in (301, 302, 307, 308):
            location = headers.get("location", "").partition("?")[0]
            cause = f"{self.shown} has moved to {location or 'another place'}."
            raise EndpointError(cause, "Give that address: mediawiki+URL.", status=status, exit_code=2)
        if status == 403:
            remedy = "Set HOPTREE_CONTACT to an e-mail address or page of yours: Wikipedia wants to know who asks."
            raise EndpointError(f"{self.shown} turned the request away (HTTP 403).", remedy, status=status, exit_code=2)
        if not 200 <= status < 300:
            raise self._http.failure(status, headers, body)
        data = await read_body(self._http.parse, body)
        wait = self._http.failure(503, headers, b"").retry_after
        if (failure := read_failure(data, wait, self.shown)) is not None:
            raise failure
        return body, read(data)

    def _close_cache(self) -> None:
        """Stop using the cache, after an error too: pages are also in memory."""
        if self._cache:
            self._cache.close()
            self._cache = None

    async def disconnect(self) -> None:
        """Close the connections, which belong to one event loop."""
        await self._http.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()
        self._close_cache()


def _encoded(request: Mapping[str, str]) -> str:
    return urlencode({**_REQUEST, **request}, errors="replace")


def wiki_url(corpus: str) -> str:
    """Return the address of the API of the wiki that a corpus names."""
    name, _, rest = corpus.partition(":") if corpus.startswith(_WIKIPEDIA) else corpus.partition("+")
    if corpus == _WIKIPEDIA:
        from hoptree.retrieval.index.folder import MANIFEST  # imports a native library

        if (Path(corpus) / MANIFEST).exists():
            cause = "'wikipedia' is an index here, and the name of the live Wikipedia."
            raise ConfigError(cause, "Write ./wikipedia for the index, wikipedia:en for the live one.")
        rest = "en"
    if name == _WIKIPEDIA:
        if not _LANGUAGE.fullmatch(rest):
            raise ConfigError(f"'{rest}' is not a language of Wikipedia.", _NAMES)
        return f"https://{rest}.wikipedia.org/w/api.php"
    try:
        parts = urlsplit(rest)
    except ValueError as error:
        raise ConfigError(f"The address of the wiki cannot be read ({error}).", _NAMES) from error
    if parts.scheme not in ("http", "https") or not parts.path.endswith("/api.php") or parts.query or parts.fragment:
        raise ConfigError(f"'{rest}' is not the address of a wiki's api.php.", _NAMES)
    return rest
