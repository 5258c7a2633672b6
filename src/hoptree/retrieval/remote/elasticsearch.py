"""Elasticsearch, OpenSearch and Quickwit, over their common REST interface."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from hoptree.errors import ConfigError, CorpusError, EndpointError, HoptreeError, InputError, UnusableReply
from hoptree.http import Http
from hoptree.retrieval.remote.address import Address
from hoptree.retrieval.remote.sending import pairs, shortened
from hoptree.values import Passage

__all__ = ["Elasticsearch"]

MOST_HITS = 10_000
"""What an index gives at once unless its settings say otherwise (index.max_result_window)."""

_TIE_ROOM = 10
_MOST_WORDS = 500
"""Distinct words of a query: with two fields each, just under the 1,024 clauses of older engines."""
_MAX_BODY = 64 * 2**20
_NAMES = {"id": "", "title": "title", "text": "text", "metadata": "metadata", "tls": "0", "api": "elasticsearch"}


class Elasticsearch:
    """One index. Passages that tie are ordered by id; a search always asks the same copies of the shards, whose
    statistics differ, and reckons with the word frequencies of all shards, so that results repeat.

    Whether the index changed since a search was remembered is told by its uuid, its counts of documents and its size.
    """

    kind = "elasticsearch"
    remote = True

    def __init__(self, address: Address) -> None:
        settings = address.read(_NAMES)
        if settings["api"] not in ("elasticsearch", "quickwit"):
            raise ConfigError(f"There is no api '{settings['api']}'.", "Use api=elasticsearch or api=quickwit.")
        if not address.host or address.folder or set(address.name) & set('*?,"<>| \\#:'):
            raise ConfigError(f"'{address.shown}' does not name one index.", "Write elasticsearch://HOST:9200/INDEX.")
        self.index = address.name
        self.identity = address.shown
        self.quickwit = settings["api"] == "quickwit"
        self.id_field = settings["id"] or ("id" if self.quickwit else "_id")
        self.title_field, self.text_field = settings["title"], settings["text"]
        self.metadata_field = settings["metadata"]
        self._title_named = "title" in dict(address.settings)
        self.path = ("/api/v1/_elastic/" if self.quickwit else "/") + quote(self.index, safe="")
        self.http = Http(
            _base_url(address, tls=settings["tls"] == "1", port=7280 if self.quickwit else 9200),
            headers=_key(),
            given_as="the URL of the corpus",
            max_body=_MAX_BODY,
        )

    async def check(self) -> None:
        try:
            state = await self._state()
            await self._check_fields()
        finally:
            await self.http.aclose()  # its connections belong to the event loop of this call
        digest = hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()[:16]
        self.identity = f"{self.identity}#{digest}"

    async def _state(self) -> Any:
        """What changes when the index does; the count alone where that is all this user may see."""
        prefix = "/api/v1/_elastic" if self.quickwit else ""
        columns = "uuid,docs.count,docs.deleted,pri.store.size"
        path = f"{prefix}/_cat/indices/{quote(self.index, safe='')}?format=json&h={columns}"
        status, headers, body = await self.http.send("GET", path if self.quickwit else f"{path}&bytes=b")
        if status == 200:
            rows = self.http.parse(body)
            if not rows:
                raise self._missing()
            return sorted(json.dumps(row, sort_keys=True) for row in rows)
        if status in (400, 403, 405, 410):
            status, headers, body = await self.http.send("GET", f"{self.path}/_count")
            if status == 200:
                return self.http.parse(body).get("count")
        raise self.failure(status, headers, body)

    async def _check_fields(self) -> None:
        names = ",".join(name for name in (self.title_field, self.text_field) if name)
        status, headers, body = await self.http.send("GET", f"{self.path}/_field_caps?fields={quote(names, safe=',')}")
        if status != 200:
            raise self.failure(status, headers, body)
        fields = self.http.parse(body).get("fields", {})
        if self.text_field not in fields:
            raise self._no_field("text", self.text_field)
        if self.title_field and self.title_field not in fields:
            if self._title_named:
                raise self._no_field("title", self.title_field)
            self.title_field = ""

    def _no_field(self, role: str, name: str) -> CorpusError:
        return CorpusError(
            f"The index '{self.index}' has no field '{name}'.",
            f"Name the field that holds the {role}s: …/{self.index}?{role}=FIELD",
        )

    def _missing(self) -> CorpusError:
        return CorpusError(
            f"There is no index '{self.index}' at {self.http.shown}.",
            "Correct its name, or put passages there first (hoptree.retrieval.remote.load).",
        )

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> HoptreeError:
        """The error for a reply that is not success."""
        if status == 404 and (self.quickwit or b"index_not_found" in body):
            return self._missing()
        if status in (401, 403):
            return EndpointError(
                f"{self.http.shown} does not let this user in (HTTP {status}).",
                "Write USER:PASSWORD@ before the host, or set ELASTICSEARCH_API_KEY.",
                status=status,
                exit_code=2,
            )
        return self.http.failure(status, headers, body)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k < 1 or not query.strip():
            return ()
        hits = await self._best(shortened(query, _MOST_WORDS), k, where or {})
        found = [self._passage(hit) for hit in hits]
        found.sort(key=lambda passage: (-passage.score, passage.id))
        return tuple(found[:k])

    async def _best(self, query: str, k: int, where: Mapping[str, str]) -> list[dict[str, Any]]:
        """At least the k best, with all that tie with the last of them (within reason)."""
        wanted = k + _TIE_ROOM
        while True:
            size = min(wanted, MOST_HITS)
            hits = await self._hits(query, size, where)
            if len(hits) < size or (k < size and hits[-1]["_score"] < hits[k - 1]["_score"]):
                return hits
            if size == MOST_HITS:
                if k > MOST_HITS:
                    raise InputError(f"{self.kind} gives at most {MOST_HITS:,} passages.", "Ask for fewer (k).")
                return hits
            wanted *= 8

    async def _hits(self, query: str, size: int, where: Mapping[str, str]) -> list[dict[str, Any]]:
        path = f"{self.path}/_search"
        if not self.quickwit:
            path += "?allow_partial_search_results=false&search_type=dfs_query_then_fetch&preference=hoptree"
        while True:
            status, headers, body = await self.http.send("POST", path, self._request(query, size, where))
            if status == 200:
                return self._read(body)
            # Older engines say 500 to this, newer ones 400.
            if len(query) > 1 and (b"many_clauses" in body or b"maxClauseCount" in body or b"many_nested" in body):
                query = query[: len(query) // 2]
                continue
            raise self.failure(status, headers, body)

    def _request(self, query: str, size: int, where: Mapping[str, str]) -> dict[str, Any]:
        fields = [self.text_field]
        if self.title_field:
            # Quickwit knows no boost, but adds up a field that is named twice.
            fields += [self.title_field] * 2 if self.quickwit else [f"{self.title_field}^2"]
        match = {"multi_match": {"query": query, "fields": fields, "type": "most_fields"}}
        prefix = f"{self.metadata_field}." if self.metadata_field else ""
        filters = [{"term": {f"{prefix}{name}": {"value": value}}} for name, value in sorted(where.items())]
        request: dict[str, Any] = {
            "size": size,
            "query": {"bool": {"must": [match], "filter": filters}},
            "sort": [{"_score": {"order": "desc"}}],
        }
        return request if self.quickwit else {**request, "track_total_hits": False}

    def _read(self, body: bytes) -> list[dict[str, Any]]:
        data = self.http.parse(body)
        try:
            if data.get("timed_out") or data.get("_shards", {}).get("failed"):
                raise EndpointError(
                    f"{self.http.shown} searched only a part of '{self.index}'.", "Try again later.", retryable=True
                )
            hits: list[dict[str, Any]] = data["hits"]["hits"]
            for hit in hits:
                hit["_score"] = float(hit["sort"][0])  # Quickwit gives the score there alone
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise UnusableReply(
                f"{self.http.shown} answered with something else than search results.", "Check the URL of the corpus."
            ) from error
        return hits

    def _passage(self, hit: dict[str, Any]) -> Passage:
        source = hit.get("_source")
        if not isinstance(source, dict):
            raise CorpusError(
                f"The index '{self.index}' does not keep its texts.", "Make it again with _source switched on."
            )
        identifier = hit.get("_id") if self.id_field == "_id" else _at(source, self.id_field)
        if identifier in (None, ""):
            raise CorpusError(
                f"A passage of the index '{self.index}' has no '{self.id_field}'.",
                f"Name the field that holds the ids: …/{self.index}?id=FIELD",
            )
        metadata = _at(source, self.metadata_field) if self.metadata_field else None
        aliases = source.get("aliases")
        return Passage(
            str(identifier),
            _text(_at(source, self.title_field)) if self.title_field else "",
            _text(_at(source, self.text_field)),
            hit["_score"],
            _text(source.get("document")),
            _number(source.get("start")),
            _number(source.get("end")),
            tuple(map(str, aliases)) if isinstance(aliases, list) else (),
            pairs(metadata, _text),
        )

    async def load(self, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int:
        from hoptree.retrieval.remote.bulk import put

        return await put(self, passages, on_passage)

    async def aclose(self) -> None:
        await self.http.aclose()


def _base_url(address: Address, *, tls: bool, port: int) -> str:
    login = f"{quote(address.user, safe='')}:{quote(address.password, safe='')}@" if address.user else ""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if tls else 'http'}://{login}{host}:{address.port or port}"


def _key() -> dict[str, str]:
    key = os.environ.get("ELASTICSEARCH_API_KEY", "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigError("The key holds a character that no key has.", "Copy ELASTICSEARCH_API_KEY again.")
    return {"Authorization": f"ApiKey {key}"} if key else {}


def _at(source: Mapping[str, Any], path: str) -> Any:
    """What stands under a name, which may lead through objects by dots."""
    if path in source:
        return source[path]
    first, _, rest = path.partition(".")
    inner = source.get(first)
    return _at(inner, rest) if rest and isinstance(inner, dict) else None


def _text(value: Any) -> str:
    """A field as text; several values, which any field may have, stand below each other."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
