"""Passages put into an index of Elasticsearch, OpenSearch or Quickwit, many in a request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from hoptree.errors import CorpusError, EndpointError, RateLimited
from hoptree.retrieval.remote.sending import batches, whole_characters
from hoptree.values import Passage

if TYPE_CHECKING:
    from hoptree.retrieval.remote.elasticsearch import Elasticsearch

__all__ = ["put"]

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
