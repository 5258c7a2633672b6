"""Elasticsearch, OpenSearch and Quickwit, over their common REST interface."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from hoptree.core.backoff import retry_delay_s
from hoptree.core.errors import ConfigError, CorpusError, EndpointError, HoptreeError, RateLimited, UnusableReply
from hoptree.core.http_body import read_body
from hoptree.core.http_client import HttpClient, key_header
from hoptree.core.values import Passage
from hoptree.retrieval.remote import Address, batches, best_with_ties, metadata_pairs, shortened, without_surrogates

MAX_HITS = 10_000  # of one search, by default (index.max_result_window)
_MAX_QUERY_WORDS = 500  # distinct: in two fields each, just under the 1,024 clauses that older engines allow
_MAX_BODY_BYTES = 64 * 2**20
_DEFAULTS = {"id": "", "title": "title", "text": "text", "metadata": "metadata", "tls": "0", "api": "elasticsearch"}
_MAX_ATTEMPTS = 6
_RETRY_PAUSE_S = 0.5
_MAX_REASONS = 3

Row = tuple[str, bytes]  # a passage's id, and its two lines in a bulk request


class Elasticsearch:
    """An index of Elasticsearch, OpenSearch or Quickwit; ties are ordered by id.

    A search asks the same copies of shards and counts words over all of them, so that results repeat. The identity
    holds the uuid, counts and size of the index, which show whether it changed.
    """

    kind = "elasticsearch"
    remote = True

    def __init__(self, address: Address) -> None:
        settings = address.read(_DEFAULTS)
        if settings["api"] not in ("elasticsearch", "quickwit"):
            raise ConfigError(f"There is no api '{settings['api']}'.", "Use api=elasticsearch or api=quickwit.")
        if not address.host or address.folder or set(address.name) & set('*?,"<>| \\#:'):
            raise ConfigError(f"'{address.shown}' does not name one index.", "Write elasticsearch://HOST:9200/INDEX.")
        self.index, self.identity = address.name, address.shown
        self.quickwit = settings["api"] == "quickwit"
        self.id_field = settings["id"] or ("id" if self.quickwit else "_id")
        self.title_field, self.text_field = settings["title"], settings["text"]
        self.metadata_field = settings["metadata"]
        self._title_given = "title" in dict(address.settings)
        self._prefix = "/api/v1/_elastic" if self.quickwit else ""
        self.path = f"{self._prefix}/{quote(self.index, safe='')}"
        self.http = HttpClient(
            _base_url(address, tls=settings["tls"] == "1", port=7280 if self.quickwit else 9200),
            headers=key_header("ELASTICSEARCH_API_KEY", "ApiKey"),
            url_source="the URL of the corpus",
            max_body=_MAX_BODY_BYTES,
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
        """Return state that changes with the index, or just its count if that is hidden."""
        columns = "uuid,docs.count,docs.deleted,pri.store.size"
        path = f"{self._prefix}/_cat/indices/{quote(self.index, safe='')}?format=json&h={columns}"
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
            if self._title_given:
                raise self._no_field("title", self.title_field)
            self.title_field = ""

    def _no_field(self, role: str, name: str) -> CorpusError:
        cause = f"The index '{self.index}' has no field '{name}'."
        return CorpusError(cause, f"Name the field that holds the {role}s: …/{self.index}?{role}=FIELD")

    def _missing(self) -> CorpusError:
        cause = f"There is no index '{self.index}' at {self.http.shown}."
        return CorpusError(cause, "Correct its name, or put passages there first (hoptree.retrieval.remote.load).")

    def failure(self, status: int, headers: Mapping[str, str], body: bytes) -> HoptreeError:
        """Return the error for a reply that is not success."""
        if status == 404 and (self.quickwit or b"index_not_found" in body):
            return self._missing()
        if status in (401, 403):
            cause = f"{self.http.shown} does not let this user in (HTTP {status})."
            remedy = "Write USER:PASSWORD@ before the host, or set ELASTICSEARCH_API_KEY."
            return EndpointError(cause, remedy, status=status, exit_code=2)
        return self.http.failure(status, headers, body)

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k < 1 or not query.strip():
            return ()
        words = shortened(query, _MAX_QUERY_WORDS)

        async def fetch(size: int) -> list[Passage]:
            return [self._passage(hit) for hit in await self._hits(words, size, where or {})]

        return tuple(await best_with_ties(fetch, k, max_hits=MAX_HITS, engine=self.kind))

    async def _hits(self, query: str, size: int, where: Mapping[str, str]) -> list[dict[str, Any]]:
        path = f"{self.path}/_search"
        if not self.quickwit:
            path += "?allow_partial_search_results=false&search_type=dfs_query_then_fetch&preference=hoptree"
        while True:
            status, headers, body = await self.http.send("POST", path, self._request(query, size, where))
            if status == 200:
                return await read_body(self._parse_hits, body)
            # Older engines answer 500 to this, newer ones 400.
            if len(query) < 2 or not any(word in body for word in (b"many_clauses", b"maxClauseCount", b"many_nested")):
                raise self.failure(status, headers, body)
            query = query[: len(query) // 2]

    def _request(self, query: str, size: int, where: Mapping[str, str]) -> dict[str, Any]:
        fields = [self.text_field]
        if self.title_field:
            # Quickwit has no boost, but adds up a field that is named twice.
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

    def _parse_hits(self, body: bytes) -> list[dict[str, Any]]:
        data = self.http.parse(body)
        try:
            if data.get("timed_out") or data.get("_shards", {}).get("failed"):
                cause = f"{self.http.shown} searched only a part of '{self.index}'."
                raise EndpointError(cause, "Try again later.", retryable=True)
            hits: list[dict[str, Any]] = data["hits"]["hits"]
            for hit in hits:
                hit["_score"] = float(hit["sort"][0])  # the only place of the score in Quickwit
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            cause = f"{self.http.shown} answered with something other than search results."
            raise UnusableReply(cause, "Check the URL of the corpus.") from error
        return hits

    def _passage(self, hit: dict[str, Any]) -> Passage:
        source = hit.get("_source")
        if not isinstance(source, dict):
            cause = f"The index '{self.index}' does not keep its texts."
            raise CorpusError(cause, "Make it again with _source switched on.")
        identifier = hit.get("_id") if self.id_field == "_id" else _at(source, self.id_field)
        if identifier in (None, ""):
            cause = f"A passage of the index '{self.index}' has no '{self.id_field}'."
            raise CorpusError(cause, f"Name the field that holds the ids: …/{self.index}?id=FIELD")
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
            metadata_pairs(_at(source, self.metadata_field) if self.metadata_field else None, _text),
        )

    async def load(self, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int:
        return await _BulkLoad(self, on_passage).run(passages)

    async def aclose(self) -> None:
        await self.http.aclose()


def _base_url(address: Address, *, tls: bool, port: int) -> str:
    login = f"{quote(address.user, safe='')}:{quote(address.password, safe='')}@" if address.user else ""
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{'https' if tls else 'http'}://{login}{host}:{address.port or port}"


def _at(source: Mapping[str, Any], path: str) -> Any:
    """Return the value of a field, whose name may be a path of objects with dots."""
    if path in source:
        return source[path]
    first, _, rest = path.partition(".")
    inner = source.get(first)
    return _at(inner, rest) if rest and isinstance(inner, dict) else None


def _text(value: Any) -> str:
    """Return a field as text, with several values as lines."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return "" if value is None else str(value)


def _number(value: Any) -> int:
    return value if type(value) is int else 0


class _BulkLoad:
    """Sends passages to an index; counts and names the refused ones."""

    def __init__(self, engine: Elasticsearch, on_passage: Callable[[int], None] | None) -> None:
        self._engine, self._on_passage = engine, on_passage
        self._loaded = self._refused = 0
        self._reasons: list[str] = []

    async def run(self, passages: Iterable[Passage]) -> int:
        engine = self._engine
        await (self._make_quickwit_index() if engine.quickwit else self._make_index())
        pending: list[Row] = []
        for batch in batches(map(self._row, passages), lambda row: len(row[1])):
            if pending:
                await self._send(pending)
            pending = batch
        if pending:
            await self._send(pending, last=True)
        if not engine.quickwit:
            await engine.http.json("POST", f"{engine.path}/_refresh")
        if self._refused:
            raise CorpusError(
                f"{self._refused:,} of {self._refused + self._loaded:,} passages were refused by the index "
                f"'{engine.index}': {', '.join(self._reasons)}{', …' if self._refused > _MAX_REASONS else ''}.",
                "The others are there; correct these and load them again.",
            )
        if not self._loaded:
            raise CorpusError("The corpus is empty: no passage was found.", "Give a folder or file with text in it.")
        return self._loaded

    async def _make_index(self) -> None:
        """Make the index, unless it exists."""
        engine = self._engine
        words, keyword = {"type": "text", "analyzer": "english"}, {"type": "keyword", "ignore_above": 8191}
        offset = {"type": "long", "index": False}
        properties: dict[str, Any] = {engine.title_field: words, engine.text_field: words}
        properties |= {"document": {"type": "keyword"}, "start": offset, "end": offset, "aliases": keyword}
        if engine.id_field != "_id":
            properties[engine.id_field] = {"type": "keyword"}
        if engine.metadata_field:
            properties[engine.metadata_field] = {"type": "object", "dynamic": True}
        template = {"path_match": f"{engine.metadata_field}.*", "mapping": keyword}
        mappings = {"dynamic": False, "dynamic_templates": [{"metadata": template}], "properties": properties}
        status, headers, body = await engine.http.send("HEAD", engine.path)
        if status == 404:
            status, headers, body = await engine.http.send("PUT", engine.path, {"mappings": mappings})
            if b"resource_already_exists" in body:  # another process has made it
                return
        if status != 200:
            raise engine.failure(status, headers, body)

    async def _make_quickwit_index(self) -> None:
        """Make the index, unless it exists; its tokenizer keeps stop words."""
        engine = self._engine
        words = {"type": "text", "tokenizer": "en_stem", "record": "freq", "fieldnorms": True}
        exact = {"type": "text", "tokenizer": "raw"}
        offset = {"type": "u64", "indexed": False}
        fields: dict[str, dict[str, Any]] = {
            engine.id_field: exact,
            engine.title_field: words,
            engine.text_field: words,
        }
        fields |= {"document": exact, "start": offset, "end": offset, "aliases": {**exact, "type": "array<text>"}}
        if engine.metadata_field:
            fields[engine.metadata_field] = {"type": "json", "tokenizer": "raw"}
        mappings = [{"name": name, **kind} for name, kind in fields.items()]
        config = {
            "version": "0.7",
            "index_id": engine.index,
            "doc_mapping": {"mode": "lenient", "field_mappings": mappings},
            "search_settings": {"default_search_fields": [engine.title_field, engine.text_field]},
        }
        status, headers, body = await engine.http.send("GET", f"/api/v1/indexes/{quote(engine.index, safe='')}")
        if status == 404:
            status, headers, body = await engine.http.send("POST", "/api/v1/indexes", config)
        if status != 200:
            raise engine.http.failure(status, headers, body)

    def _row(self, passage: Passage) -> Row:
        engine = self._engine
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
        identifier = without_surrogates(passage.id)
        action: dict[str, Any] = {"create": {}} if engine.quickwit else {"index": {"_id": identifier}}
        lines = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in (action, source))
        return identifier, without_surrogates(lines).encode()

    async def _send(self, rows: list[Row], *, last: bool = False) -> None:
        """Send a batch, and send rows again that the engine had no room for."""
        refresh = "?refresh=true" if last and self._engine.quickwit else ""
        for attempt in range(1, _MAX_ATTEMPTS + 1):
            try:
                items = await self._bulk(rows, refresh)
            except EndpointError as error:
                # Without ids, what may have arrived must not be sent twice.
                again = isinstance(error, RateLimited) or (error.retryable and not self._engine.quickwit)
                if not again or attempt == _MAX_ATTEMPTS:
                    raise
                await asyncio.sleep(min(retry_delay_s(error, attempt, first_s=_RETRY_PAUSE_S), 60))
                continue
            rows = self._count(rows, items, final=attempt == _MAX_ATTEMPTS)
            if self._on_passage is not None:
                self._on_passage(self._loaded)
            if not rows:
                return
            await asyncio.sleep(_RETRY_PAUSE_S * 2 ** (attempt - 1))

    async def _bulk(self, rows: list[Row], refresh: str) -> list[dict[str, Any]]:
        """Return the engine's result for each row."""
        status, headers, body = await self._engine.http.send(
            "POST",
            f"{self._engine.path}/_bulk{refresh}",
            content=b"".join(lines for _, lines in rows),
            headers={"Content-Type": "application/x-ndjson"},
        )
        if status != 200:
            raise self._engine.failure(status, headers, body)
        return [next(iter(item.values())) for item in self._engine.http.parse(body).get("items") or []]

    def _count(self, rows: list[Row], items: list[dict[str, Any]], *, final: bool) -> list[Row]:
        """Count accepted and refused rows; return the rows to send again."""
        if not items:
            self._loaded += len(rows)
            return []
        again = []
        for row, item in zip(rows, items, strict=True):
            status = int(item.get("status", 200))
            if status < 300:
                self._loaded += 1
            elif status in (429, 503) and not final:
                again.append(row)
            else:
                self._refused += 1
                error = item.get("error") or {}
                reason = str(error.get("reason", error)) if isinstance(error, dict) else str(error)
                if len(self._reasons) < _MAX_REASONS:
                    self._reasons.append(f"'{row[0]}' ({reason[:200]})")
        return again
