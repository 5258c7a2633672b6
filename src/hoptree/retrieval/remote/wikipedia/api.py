"""The requests to a wiki's API: search, the text of a page, and what the wiki is."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlencode

from hoptree.errors import CacheError, EndpointError, ModelError, UnusableReply
from hoptree.http import Http
from hoptree.http.polite import Polite, if_public, user_agent
from hoptree.http.remembered import Remembered
from hoptree.retrieval.remote.wikipedia.replies import (
    Hit,
    Page,
    Site,
    read_failure,
    read_hits,
    read_page,
    read_site,
)

__all__ = ["QUERY_LENGTH", "WikiApi", "can_be_title"]

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
        remembered: Remembered | None = None,
        a_second: float = 10.0,
        patience: float = 60.0,
    ) -> None:
        self._http = Http(
            url,
            headers={"User-Agent": user_agent(contact)},
            timeout=_SECONDS,
            given_as="the address of the wiki",
            max_body=_MAX_BODY,
            elsewhere=if_public(url),
        )
        self.shown = self._http.shown
        self._remembered = remembered
        self._polite = Polite(a_second=a_second, at_once=1, patience=patience)

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
