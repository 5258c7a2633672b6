"""How an endpoint is asked: politely, with patience, and never twice for the same."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from hoptree.core.errors import EndpointError, QueryTooLong, UnusableReply
from hoptree.core.http_cache import ReplyCache, Throttle, path_beside_cache, unreachable_remedy, user_agent
from hoptree.core.http_client import HttpClient

_BOOLEAN = "http://www.w3.org/2001/XMLSchema#boolean"


@dataclass(frozen=True, slots=True)
class Cell:
    """A term of a result: an IRI (`iri`), or a text with its datatype or language."""

    iri: str = ""
    text: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Rows by the names of their columns; cells that are not bound are missing."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Cell], ...]


def read_results(data: Any, shown: str, most: int) -> Results:
    """The first `most` rows of a reply of the endpoint `shown`."""
    try:
        if isinstance(data.get("boolean"), bool):
            return Results(
                ("answer",), ({"answer": Cell(text="true" if data["boolean"] else "false", datatype=_BOOLEAN)},)
            )
        columns = tuple(str(name) for name in data["head"]["vars"])
        rows = tuple(
            {str(name): _cell(binding) for name, binding in row.items()} for row in data["results"]["bindings"][:most]
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise UnusableReply(
            f"{shown} answered with something else than SPARQL results.", "Check the URL of the graph."
        ) from error
    return Results(columns, rows)


def _cell(binding: dict[str, Any]) -> Cell:
    value = binding["value"]
    if not isinstance(value, str):
        raise TypeError("a term without text")
    if binding["type"] == "uri":
        return Cell(iri=value)
    if binding["type"] == "bnode":
        return Cell(text="something unnamed")
    return Cell(text=value, datatype=str(binding.get("datatype", "")), language=str(binding.get("xml:lang", "")))


_MAX_BODY = 32 * 2**20
_TAIL = 2**16
_HEADERS = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/sparql-results+json"}


@dataclass(slots=True)
class TimeBudget:
    """Seconds that the requests of one look-up may take, all of them together.

    Waiting for one's turn, or until a busy server may be asked again, is not counted: the endpoint's `patience` is.
    """

    seconds: float
    spent: float = 0.0

    @property
    def left(self) -> float:
        return max(self.seconds - self.spent, 0.0)


class SparqlClient:
    """One endpoint: so many requests a second, so many at once, `patience` seconds of waiting for a busy one."""

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        remembered: ReplyCache | None = None,
        a_second: float = 5.0,
        at_once: int = 4,
        patience: float = 60.0,
    ) -> None:
        self._http = HttpClient(
            url,
            headers={"User-Agent": user_agent(contact)},
            url_source="the URL of the graph",
            max_body=_MAX_BODY,
            unreachable_remedy=unreachable_remedy(url),
        )
        self.shown = self._http.shown
        self._remembered = remembered
        self._polite = Throttle(per_second=a_second, concurrency=at_once, patience_s=patience)
        self.sent = 0

    async def ask(self, query: str, allowed: TimeBudget, most: int) -> Results:
        """The first `most` rows of a query's result, asked for in the time that is left."""
        body = self._remembered.get(self._http.url, query) if self._remembered else None
        if body is None:
            body = await self._polite.send(lambda: self._once(query, allowed))
            results = read_results(self._http.parse(body), self.shown, most)
            if self._remembered:
                self._remembered.put(self._http.url, query, body)
            return results
        return read_results(self._http.parse(body), self.shown, most)

    async def reach(self, allowed: TimeBudget) -> None:
        """Fail if the endpoint does not answer the least of queries now, whatever is remembered of it."""
        await self._polite.send(lambda: self._once("ASK { ?s ?p ?o }", allowed))

    async def _once(self, query: str, allowed: TimeBudget) -> bytes:
        form = urlencode({"query": query, "format": "json"}, errors="replace").encode()
        seconds, began = allowed.seconds, time.monotonic()
        if not allowed.left:
            raise self._too_long(seconds)
        self.sent += 1
        try:
            async with asyncio.timeout(allowed.left):
                status, headers, body = await self._http.send("POST", "", content=form, headers=_HEADERS)
        except TimeoutError as error:
            raise self._too_long(seconds) from error
        except UnusableReply as error:  # asked again, it would be as long
            raise EndpointError(
                f"{self.shown} sent more than {_MAX_BODY / 2**20:.0f} MB.", "Ask for fewer rows."
            ) from error
        finally:
            allowed.spent += time.monotonic() - began
        timed_out = b"TimeoutException" in body[-_TAIL:]  # Wikidata's: in the error, or behind half of the results
        if status == 504 or (timed_out and status >= 400):
            raise self._too_long(seconds)
        if status == 403:
            raise EndpointError(
                f"{self.shown} turned the request away (HTTP 403).",
                "Set HOPTREE_CONTACT to an e-mail address or page of yours: Wikidata wants to know who asks.",
                status=status,
                exit_code=2,
            )
        if status == 400:
            said = " ".join(body[:300].decode("utf-8", "replace").split())
            raise EndpointError(f"{self.shown} does not understand the query: {said}", "Correct it.", exit_code=2)
        if not 200 <= status < 300:
            raise self._http.failure(status, headers, body)
        try:
            self._http.parse(body)  # a page instead of results may be gone the next time
        except UnusableReply:
            if timed_out:
                raise self._too_long(seconds) from None
            raise
        return body

    def _too_long(self, seconds: float) -> QueryTooLong:
        return QueryTooLong(
            f"{self.shown} did not finish the query in time ({seconds:g} seconds).",
            "Ask for less, or try again later; the commands of hoptree graph take --seconds.",
        )

    async def aclose(self) -> None:
        await self._http.aclose()
        if self._remembered:
            self._remembered.close()


def default_cache_path() -> Path:
    """graph.sqlite beside $HOPTREE_CACHE, or in the user's cache folder."""
    return path_beside_cache("graph.sqlite")
