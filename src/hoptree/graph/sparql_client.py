"""Client of a SPARQL endpoint: throttled, retried, cached."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from hoptree.core.errors import EndpointError, QueryTooLong, UnusableReply
from hoptree.core.http_client import HttpClient
from hoptree.core.public_http import ReplyCache, Throttle, unreachable_remedy, user_agent

_BOOLEAN = "http://www.w3.org/2001/XMLSchema#boolean"


@dataclass(frozen=True, slots=True)
class Cell:
    """A term of a result: an IRI, or a text with its datatype or language."""

    iri: str = ""
    text: str = ""
    datatype: str = ""
    language: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Rows by column; unbound cells are missing."""

    columns: tuple[str, ...]
    rows: tuple[dict[str, Cell], ...]


def _read_results(data: Any, shown: str, max_rows: int) -> Results:
    """Read the first `max_rows` rows of a reply of the endpoint `shown`."""
    try:
        if isinstance(data.get("boolean"), bool):
            return Results(
                ("answer",), ({"answer": Cell(text="true" if data["boolean"] else "false", datatype=_BOOLEAN)},)
            )
        columns = tuple(str(name) for name in data["head"]["vars"])
        rows = tuple(
            {str(name): _cell(binding) for name, binding in row.items()}
            for row in data["results"]["bindings"][:max_rows]
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


_MAX_BODY_BYTES = 32 * 2**20
_TAIL_BYTES = 2**16
_HEADERS = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/sparql-results+json"}


@dataclass(slots=True)
class TimeBudget:
    """Seconds for all requests of a look-up together; waiting to send is not counted."""

    seconds: float
    spent: float = 0.0

    @property
    def left(self) -> float:
        return max(self.seconds - self.spent, 0.0)


class SparqlClient:
    """One endpoint, with limits on requests per second, at a time, and on waiting for a busy server."""

    def __init__(
        self,
        url: str,
        *,
        contact: str = "",
        cache: ReplyCache | None = None,
        per_second: float = 5.0,
        patience_s: float = 60.0,
    ) -> None:
        self._http = HttpClient(
            url,
            headers={"User-Agent": user_agent(contact)},
            url_source="the URL of the graph",
            max_body=_MAX_BODY_BYTES,
            unreachable_remedy=unreachable_remedy(url),
        )
        self.shown = self._http.shown
        self._cache = cache
        self._throttle = Throttle(per_second=per_second, patience_s=patience_s)
        self.sent = 0

    async def ask(self, query: str, budget: TimeBudget, max_rows: int) -> Results:
        """Return the first `max_rows` rows of a query's result within the time that is left."""
        cached = self._cache.get(self._http.url, query) if self._cache else None
        body = await self._throttle.send(lambda: self._send(query, budget)) if cached is None else cached
        results = _read_results(self._http.parse(body), self.shown, max_rows)
        if self._cache and cached is None:
            self._cache.put(self._http.url, query, body)
        return results

    async def reach(self, budget: TimeBudget) -> None:
        """Fail if the endpoint does not answer a minimal query now; the cache is not used."""
        await self._throttle.send(lambda: self._send("ASK { ?s ?p ?o }", budget))

    async def _send(self, query: str, budget: TimeBudget) -> bytes:
        form = urlencode({"query": query, "format": "json"}, errors="replace").encode()
        seconds, began = budget.seconds, time.monotonic()
        if not budget.left:
            raise self._too_long(seconds)
        self.sent += 1
        try:
            async with asyncio.timeout(budget.left):
                status, headers, body = await self._http.send("POST", "", content=form, headers=_HEADERS)
        except TimeoutError as error:
            raise self._too_long(seconds) from error
        except UnusableReply as error:  # asked again, it would be as long
            raise EndpointError(
                f"{self.shown} sent more than {_MAX_BODY_BYTES / 2**20:.0f} MB.", "Ask for fewer rows."
            ) from error
        finally:
            budget.spent += time.monotonic() - began
        # Wikidata writes it into the error, or after half of the results.
        timed_out = b"TimeoutException" in body[-_TAIL_BYTES:]
        if status == 504 or (timed_out and status >= 400):
            raise self._too_long(seconds)
        if status == 403:
            remedy = "Set HOPTREE_CONTACT to an e-mail address or page of yours: Wikidata wants to know who asks."
            raise EndpointError(f"{self.shown} turned the request away (HTTP 403).", remedy, status=status, exit_code=2)
        if status == 400:
            reason = " ".join(body[:300].decode("utf-8", "replace").split())
            raise EndpointError(f"{self.shown} does not understand the query: {reason}", "Correct it.", exit_code=2)
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
        cause = f"{self.shown} did not finish the query in time ({seconds:g} seconds)."
        return QueryTooLong(cause, "Ask for less, or try again later; the commands of hoptree graph take --seconds.")

    async def aclose(self) -> None:
        await self._http.aclose()
        if self._cache:
            self._cache.close()
