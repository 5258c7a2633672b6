"""Elasticsearch, OpenSearch and Quickwit, over their common REST interface."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from hoptree.core.errors import (
    ConfigError,
    CorpusError,
    EndpointError,
    HoptreeError,
    InputError,
    RateLimited,
    UnusableReply,
)
from hoptree.core.http_client import HttpClient
from hoptree.core.values import Passage
from hoptree.retrieval.remote.address import Address, batches, pairs, shortened, whole_characters

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
        self.http = HttpClient(
            _base_url(address, tls=settings["tls"] == "1", port=7280 if self.quickwit else 9200),
            headers=_key(),
            url_source="the URL of the corpus",
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


_ATTEMPTS = 6
_PAUSE = 0.5
_SHOWN = 3

Row = tuple[str, bytes]
"""A passage's id, and the two lines that stand for it in a request."""


@dataclass(slots=True)
class _Tally:
    loaded: int = 0
    refused: int = 0
    reasons: list[str] = field(default_factory=list)

    def refuse(self, identifier: str, reason: str) -> None:
        self.refused += 1
        if len(self.reasons) < _SHOWN:
            self.reasons.append(f"'{identifier}' ({reason[:200]})")


async def put(engine: Elasticsearch, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int:
    """Send all passages; those that the engine refuses are counted, and named when the others are there."""
    await (_make_quickwit(engine) if engine.quickwit else _make(engine))
    tally = _Tally()
    waiting: list[Row] = []
    for batch in batches((_row(engine, passage) for passage in passages), lambda row: len(row[1])):
        if waiting:
            await _send(engine, waiting, tally, on_passage)
        waiting = batch
    if waiting:
        await _send(engine, waiting, tally, on_passage, last=True)
    if not engine.quickwit:
        await engine.http.json("POST", f"{engine.path}/_refresh")
    if tally.refused:
        raise CorpusError(
            f"{tally.refused:,} of {tally.refused + tally.loaded:,} passages were refused by the index "
            f"'{engine.index}': {', '.join(tally.reasons)}{', …' if tally.refused > _SHOWN else ''}.",
            "The others are there; correct these and load them again.",
        )
    if not tally.loaded:
        raise CorpusError("The corpus is empty: no passage was found.", "Give a folder or file with text in it.")
    return tally.loaded


async def _make(engine: Elasticsearch) -> None:
    """Make the index, unless it is there."""
    status, headers, body = await engine.http.send("HEAD", engine.path)
    if status == 404:
        words = {"type": "text", "analyzer": "english"}
        properties: dict[str, Any] = {
            engine.title_field: words,
            engine.text_field: words,
            "document": {"type": "keyword"},
            "start": {"type": "long", "index": False},
            "end": {"type": "long", "index": False},
            "aliases": {"type": "keyword", "ignore_above": 8191},
        }
        if engine.id_field != "_id":
            properties[engine.id_field] = {"type": "keyword"}
        if engine.metadata_field:
            properties[engine.metadata_field] = {"type": "object", "dynamic": True}
        keyword = {"type": "keyword", "ignore_above": 8191}
        template = {"path_match": f"{engine.metadata_field}.*", "mapping": keyword}
        mappings = {"dynamic": False, "dynamic_templates": [{"metadata": template}], "properties": properties}
        status, headers, body = await engine.http.send("PUT", engine.path, {"mappings": mappings})
        if b"resource_already_exists" in body:  # somebody else was quicker
            return
    if status != 200:
        raise engine.failure(status, headers, body)


async def _make_quickwit(engine: Elasticsearch) -> None:
    """Make the index, unless it is there. Quickwit's English tokenizer stems but keeps stop words."""
    status, headers, body = await engine.http.send("GET", f"/api/v1/indexes/{quote(engine.index, safe='')}")
    if status == 404:
        words = {"type": "text", "tokenizer": "en_stem", "record": "freq", "fieldnorms": True}
        exact = {"type": "text", "tokenizer": "raw"}
        fields = [
            {"name": engine.id_field, **exact},
            {"name": engine.title_field, **words},
            {"name": engine.text_field, **words},
            {"name": "document", **exact},
            {"name": "start", "type": "u64", "indexed": False},
            {"name": "end", "type": "u64", "indexed": False},
            {"name": "aliases", **exact, "type": "array<text>"},
        ]
        if engine.metadata_field:
            fields.append({"name": engine.metadata_field, "type": "json", "tokenizer": "raw"})
        config = {
            "version": "0.7",
            "index_id": engine.index,
            "doc_mapping": {"mode": "lenient", "field_mappings": fields},
            "search_settings": {"default_search_fields": [engine.title_field, engine.text_field]},
        }
        status, headers, body = await engine.http.send("POST", "/api/v1/indexes", config)
    if status != 200:
        raise engine.http.failure(status, headers, body)


def _row(engine: Elasticsearch, passage: Passage) -> Row:
    if not passage.id:
        raise CorpusError(f"The passage '{passage.title}' has no id.", "Give every passage an id of its own.")
    source: dict[str, Any] = {
        engine.title_field: passage.title,
        engine.text_field: passage.text,
        "document": passage.document,
        "start": passage.start,
        "end": passage.end,
        "aliases": list(passage.aliases),
    }
    if engine.id_field != "_id":
        source[engine.id_field] = passage.id
    if engine.metadata_field and passage.metadata:
        source[engine.metadata_field] = passage.metadata_by_name()
    identifier = whole_characters(passage.id)
    action: dict[str, Any] = {"create": {}} if engine.quickwit else {"index": {"_id": identifier}}
    lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (action, source))
    return identifier, whole_characters(lines).encode()


async def _send(
    engine: Elasticsearch,
    rows: list[Row],
    tally: _Tally,
    on_passage: Callable[[int], None] | None,
    *,
    last: bool = False,
) -> None:
    """Send a batch, and again what the engine had no room for."""
    refresh = "?refresh=true" if last and engine.quickwit else ""
    for attempt in range(_ATTEMPTS):
        try:
            items = await _bulk(engine, rows, refresh)
        except EndpointError as error:
            # Without ids, what may have arrived must not be sent twice.
            again = isinstance(error, RateLimited) or (error.retryable and not engine.quickwit)
            if not again or attempt + 1 == _ATTEMPTS:
                raise
            await asyncio.sleep(_PAUSE * 2**attempt if error.retry_after is None else min(error.retry_after, 60))
            continue
        rows = _sort_out(rows, items, tally, final=attempt + 1 == _ATTEMPTS)
        if on_passage is not None:
            on_passage(tally.loaded)
        if not rows:
            return
        await asyncio.sleep(_PAUSE * 2**attempt)


async def _bulk(engine: Elasticsearch, rows: list[Row], refresh: str) -> list[dict[str, Any]]:
    """What the engine says of each row; nothing where it says nothing, which is success."""
    status, headers, body = await engine.http.send(
        "POST",
        f"{engine.path}/_bulk{refresh}",
        content=b"".join(lines for _, lines in rows),
        headers={"Content-Type": "application/x-ndjson"},
    )
    if status != 200:
        raise engine.failure(status, headers, body)
    items = engine.http.parse(body).get("items") or []
    return [next(iter(item.values())) for item in items]


def _sort_out(rows: list[Row], items: list[dict[str, Any]], tally: _Tally, *, final: bool) -> list[Row]:
    """Count what was taken and what was refused; the rows to send again."""
    if not items:
        tally.loaded += len(rows)
        return []
    again = []
    for row, item in zip(rows, items, strict=True):
        status = int(item.get("status", 200))
        if status < 300:
            tally.loaded += 1
        elif status in (429, 503) and not final:
            again.append(row)
        else:
            error = item.get("error") or {}
            tally.refuse(row[0], str(error.get("reason", error)) if isinstance(error, dict) else str(error))
    return again
