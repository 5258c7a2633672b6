"""The requests to a wiki's API: search, the text of a page, and what the wiki is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from hoptree.core.errors import (
    CacheError,
    ConfigError,
    EndpointError,
    HoptreeError,
    ModelError,
    RateLimited,
    UnusableReply,
)
from hoptree.core.http_cache import ReplyCache, Throttle, unreachable_remedy, user_agent
from hoptree.core.http_client import HttpClient

_BUSY = ("maxlag", "readonly", "cirrussearch-too-busy-error", "cirrussearch-backend-error", "search-error")
_LONGEST = 4_000_000
"""Characters of a page that are read: several times the longest article."""
_EXTENSION = "TextExtracts"


@dataclass(frozen=True, slots=True)
class Site:
    """A wiki: its name and the code of its language."""

    name: str
    language: str


@dataclass(frozen=True, slots=True)
class Hit:
    """A page that a search found, as it is now."""

    title: str
    revision: int


@dataclass(frozen=True, slots=True)
class Page:
    """The text of a page as it was at a revision, with its headings as lines such as `== Life ==`.

    A page that is not there, or only tells the meanings of its name apart, has no text.
    """

    title: str
    text: str = ""
    revision: int = 0
    url: str = ""


def read_failure(data: Any, headers_wait: float | None, shown: str) -> HoptreeError | None:
    """The error that a reply tells of, which comes with the status of success."""
    error = data.get("error") if isinstance(data, dict) else None
    if not isinstance(error, dict):
        return None
    code, info = str(error.get("code", "")), " ".join(str(error.get("info", "")).split())[:300]
    if code == "ratelimited":
        return RateLimited(
            f"{shown} asks for fewer requests.", "Try again later.", retryable=True, retry_after=headers_wait
        )
    if code in _BUSY or code.startswith("internal_api_error"):
        return EndpointError(
            f"{shown} cannot answer now ({code}: {info}).",
            "Try again later.",
            retryable=True,
            retry_after=headers_wait,
        )
    if code == "readapidenied":
        return EndpointError(f"{shown} is read by its members only.", "Use a wiki that is open.", exit_code=2)
    return EndpointError(f"{shown} refused the request ({code}: {info}).", "Look at what it says.", exit_code=2)


def read_site(data: Any, shown: str) -> Site:
    """What the wiki says of itself; an error if it cannot give the plain text of its pages."""
    general = _part(data, "query", "general", shown)
    extensions = data["query"].get("extensions")
    names = [one.get("name") for one in extensions if isinstance(one, dict)] if isinstance(extensions, list) else []
    if _EXTENSION not in names:
        raise ConfigError(
            f"The wiki at {shown} cannot give the plain text of its pages.",
            f"It needs the extension {_EXTENSION}, which Wikipedia has.",
        )
    return Site(str(general.get("sitename", "")), str(general.get("lang", "")))


def read_hits(data: Any, shown: str) -> tuple[Hit, ...]:
    """The articles that a search found, best first; pages that only tell meanings of a name apart are left out."""
    if isinstance(data, dict) and "query" not in data:  # nothing was found
        return ()
    found = [page for page in _pages(data, shown) if _is_article(page)]
    found.sort(key=lambda page: _number(page.get("index")))
    return tuple(Hit(_text(page.get("title")), _number(page.get("lastrevid"))) for page in found)


def read_page(data: Any, asked: str, shown: str) -> Page:
    """The page of a title; one without text where there is none to read."""
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
    return Page(title, text[:_LONGEST], _number(page.get("lastrevid")), link)


def _is_article(page: Mapping[str, Any]) -> bool:
    """Whether a page is there, one of the wiki's subjects, and more than a list of meanings."""
    properties = page.get("pageprops")
    several = isinstance(properties, dict) and "disambiguation" in properties
    gone = any(page.get(flag) for flag in ("missing", "invalid", "special"))
    return bool(page) and not gone and not several and page.get("ns") == 0


def _pages(data: Any, shown: str) -> list[dict[str, Any]]:
    pages = _part(data, "query", "pages", shown)
    if not isinstance(pages, list) or not all(isinstance(page, dict) for page in pages):
        raise _other(shown)
    return pages


def _part(data: Any, outer: str, inner: str, shown: str) -> Any:
    try:
        return data[outer][inner]
    except (KeyError, TypeError, IndexError) as error:
        raise _other(shown) from error


def _other(shown: str) -> UnusableReply:
    return UnusableReply(
        f"{shown} answered with something else than the API of a MediaWiki does.", "Check the address of the wiki."
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int:
    return value if type(value) is int else 0


T = TypeVar("T")

QUERY_LENGTH = 300
"""Characters: Wikipedia's search refuses longer queries."""
_MAX_BODY = 16 * 2**20
_SECONDS = 30.0
_FORM = {"action": "query", "format": "json", "formatversion": "2"}
_ABOUT = {"inprop": "url", "ppprop": "disambiguation"}
_NO_TITLE = re.compile(r"[#<>\[\]|{}\x00-\x1f\x7f\ud800-\udfff]")
_TITLE_BYTES = 255


def can_be_title(name: str) -> bool:
    """Whether a wiki can have a page of this name. It would take C# for a place in C, and A|B for two titles."""
    bare = name.replace("_", " ").strip()
    return bool(bare) and not _NO_TITLE.search(bare) and len(bare.encode()) <= _TITLE_BYTES


class WikiApi:
    """One wiki. Its texts are remembered with their revisions; searches are not.

    `prop=extracts` gives the text of a page alone: without tables, notes and navigation, which in the pages of
    `action=parse` are most of it. Requests go one after another, as the API's rules of conduct ask.
    """

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        remembered: ReplyCache | None = None,
        a_second: float = 10.0,
        patience: float = 60.0,
    ) -> None:
        self._http = HttpClient(
            url,
            headers={"User-Agent": user_agent(contact)},
            timeout=_SECONDS,
            url_source="the address of the wiki",
            max_body=_MAX_BODY,
            unreachable_remedy=unreachable_remedy(url),
        )
        self.shown = self._http.shown
        self._remembered = remembered
        self._polite = Throttle(per_second=a_second, concurrency=1, patience_s=patience)

    async def site(self) -> Site:
        """What the wiki says of itself."""
        request = {"meta": "siteinfo", "siprop": "general|extensions"}

        def read(data: Any) -> Site:
            return read_site(data, self.shown)

        kept = self._kept(request, read)
        return kept if kept is not None else await self._asked(request, read, keep=True)

    async def search(self, words: str, limit: int) -> tuple[Hit, ...]:
        """The articles that fit some words, best first."""
        found = {"generator": "search", "gsrsearch": words, "gsrlimit": str(limit), "gsrnamespace": "0"}
        request = {**found, "gsrenablerewrites": "1", "prop": "info|pageprops", **_ABOUT}
        return await self._asked(request, lambda data: read_hits(data, self.shown), keep=False)

    async def page(self, title: str, revision: int = 0) -> Page:
        """The page of a title, redirects followed; at least as new as `revision`."""
        extracts = {"explaintext": "1", "exsectionformat": "wiki", "exlimit": "1"}
        request = {"titles": title, "redirects": "1", "prop": "extracts|info|pageprops", **extracts, **_ABOUT}

        def read(data: Any) -> Page:
            return read_page(data, title, self.shown)

        kept = self._kept(request, read)
        return kept if kept is not None and kept.revision >= revision else await self._asked(request, read, keep=True)

    def _kept(self, request: Mapping[str, str], read: Callable[[Any], T]) -> T | None:
        """What is remembered of a request, if it can still be read."""
        try:
            body = self._remembered.get(self._http.url, _encoded(request)) if self._remembered else None
            return None if body is None else read(self._http.parse(body))
        except UnusableReply:
            return None
        except CacheError:
            self._forget()
            return None

    async def _asked(self, request: Mapping[str, str], read: Callable[[Any], T], *, keep: bool) -> T:
        query = _encoded(request)
        try:
            body, value = await self._polite.send(lambda: self._once(query, read))
        except ModelError as error:
            error.retryable = False  # it was tried as often as it makes sense: nobody need do so again
            raise
        if keep and self._remembered:
            try:
                self._remembered.put(self._http.url, query, body)
            except CacheError:
                self._forget()
        return value

    async def _once(self, query: str, read: Callable[[Any], T]) -> tuple[bytes, T]:
        status, headers, body = await self._http.send("GET", f"?{query}")
        if status in (301, 302, 307, 308):
            place = headers.get("location", "").partition("?")[0]
            raise EndpointError(
                f"{self.shown} has moved to {place or 'another place'}.",
                "Give that address: mediawiki+URL.",
                status=status,
                exit_code=2,
            )
        if status == 403:
            raise EndpointError(
                f"{self.shown} turned the request away (HTTP 403).",
                "Set HOPTREE_CONTACT to an e-mail address or page of yours: Wikipedia wants to know who asks.",
                status=status,
                exit_code=2,
            )
        if not 200 <= status < 300:
            raise self._http.failure(status, headers, body)
        data = self._http.parse(body)
        wait = self._http.failure(503, headers, b"").retry_after
        if (said := read_failure(data, wait, self.shown)) is not None:
            raise said
        return body, read(data)

    def _forget(self) -> None:
        """Go on without a file that cannot be used: pages are in memory, too."""
        if self._remembered:
            self._remembered.close()
            self._remembered = None

    async def rest(self) -> None:
        """Give up the connections, which belong to the event loop they were made in."""
        await self._http.aclose()

    async def aclose(self) -> None:
        await self._http.aclose()
        self._forget()


def _encoded(request: Mapping[str, str]) -> str:
    return urlencode({**_FORM, **request}, errors="replace")


WIKIPEDIA = "wikipedia"
_OTHER = "mediawiki+"
_LANGUAGE = re.compile(r"[a-z]{2,12}(?:-[a-z]{2,12}){0,2}")
_HOW = "Write wikipedia, wikipedia:de, or mediawiki+https://HOST/w/api.php."


def is_wiki(corpus: str) -> bool:
    """Whether a corpus is named as a wiki: `wikipedia`, `wikipedia:LANGUAGE` or `mediawiki+URL`."""
    return corpus == WIKIPEDIA or corpus.startswith((f"{WIKIPEDIA}:", _OTHER))


def wiki_url(corpus: str) -> str:
    """The address of the API of the wiki that a corpus names."""
    if corpus == WIKIPEDIA:
        from hoptree.retrieval.index.manifest import MANIFEST  # takes a native library along

        if (Path(corpus) / MANIFEST).exists():
            raise ConfigError(
                "'wikipedia' is an index here, and the name of the live Wikipedia.",
                "Write ./wikipedia for the index, wikipedia:en for the live one.",
            )
        return _of_language("en")
    if corpus.startswith(f"{WIKIPEDIA}:"):
        return _of_language(corpus.partition(":")[2])
    return _checked(corpus.partition("+")[2])


def _of_language(code: str) -> str:
    if not _LANGUAGE.fullmatch(code):
        raise ConfigError(f"'{code}' is no language of Wikipedia.", _HOW)
    return f"https://{code}.wikipedia.org/w/api.php"


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise ConfigError(f"The address of the wiki cannot be read ({error}).", _HOW) from error
    if parts.scheme not in ("http", "https") or not parts.path.endswith("/api.php") or parts.query or parts.fragment:
        raise ConfigError(f"'{url}' is not the address of a wiki's api.php.", _HOW)
    return url
