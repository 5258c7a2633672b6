"""Milvus, a cluster or one file (Milvus Lite), searched by its own BM25."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib.util
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hoptree.core.errors import ConfigError, CorpusError, EndpointError, HoptreeError, MissingExtra, RateLimited
from hoptree.core.values import Passage
from hoptree.retrieval.remote import Address, batches, best_with_ties, metadata_pairs, shortened, without_surrogates

T = TypeVar("T")

MAX_HITS = 16_384  # of one search
MAX_FIELD_BYTES = 65_535
_MAX_QUERY_WORDS = 2_000
_TIMEOUT_S = 60.0
_CONNECT_TIMEOUT_S = 10.0
_FIELDS = {"id": "", "title": "title", "text": "text", "metadata": "metadata", "vector": "sparse"}
_DEFAULTS = {**_FIELDS, "db": "", "tls": "0"}
_STORED_FIELDS = ("document", "start", "end", "aliases")
_STOP_WORDS = (
    "a an and are as at be but by for if in into is it no not of on or such that the their then there these they this "
    "to was will with"
)
_STOP_FILTER = {"type": "stop", "stop_words": _STOP_WORDS.split()}
_ENGLISH = {"tokenizer": "standard", "filter": ["lowercase", _STOP_FILTER, {"type": "stemmer", "language": "english"}]}
_UNAVAILABLE, _REQUEST_LIMIT, _RATE_LIMIT, _NO_COLLECTION = 2, 4, 8, 100


class Milvus:
    """A collection with a BM25 function; ties are ordered by id.

    Milvus Lite returns BM25 as negative distances and does not stem; a server returns positive ones. The identity holds
    the collection's number and count of passages: a replaced passage goes unnoticed.
    """

    kind = "milvus"
    remote = True

    def __init__(self, address: Address) -> None:
        settings = address.read(_DEFAULTS)
        if not re.fullmatch(r"[A-Za-z_]\w*", address.name, re.ASCII):
            raise ConfigError(f"'{address.name}' is not a name of a collection.", "It has letters, digits and _ only.")
        if bool(address.host) == bool(address.folder):
            cause = f"'{address.shown}' does not name a collection."
            raise ConfigError(cause, "Write milvus://HOST:19530/COLLECTION or milvus:///FOLDER/FILE.db/COLLECTION.")
        if importlib.util.find_spec("pymilvus") is None:
            raise MissingExtra("Milvus", "milvus")
        self.collection = address.name
        self.identity = address.shown
        self._names = settings
        self._id = settings["id"] or "id"
        self._stored: tuple[str, ...] = ()
        self._file = Path(address.folder) if address.folder else None
        scheme = "https" if settings["tls"] == "1" else "http"
        self._uri = address.folder or f"{scheme}://{address.host}:{address.port or 19530}"
        self._token = f"{address.user}:{address.password}" if address.user else ""
        self._client: Any = None

    async def check(self) -> None:
        if self._file is not None and not self._file.exists():
            raise self._missing()  # the library would create it
        about = await self._do(lambda client: client.describe_collection(self.collection, timeout=_TIMEOUT_S))
        count = await self._do(lambda client: client.get_collection_stats(self.collection, timeout=_TIMEOUT_S))
        self._check_fields(about)
        await self._do(lambda client: client.load_collection(self.collection, timeout=_TIMEOUT_S))
        state = [about.get(name) for name in ("collection_id", "created_timestamp")] + [count.get("row_count")]
        self.identity = f"{self.identity}#{hashlib.sha256(repr(state).encode()).hexdigest()[:16]}"

    def _check_fields(self, about: Mapping[str, Any]) -> None:
        fields = {field["name"]: field for field in about["fields"]}
        for role in ("text", "vector"):
            if self._names[role] not in fields:
                cause = f"The collection '{self.collection}' has no field '{self._names[role]}'."
                raise CorpusError(cause, f"Name it: …/{self.collection}?{role}=FIELD (there are {', '.join(fields)}).")
        if self._names["vector"] not in [n for f in about.get("functions", ()) for n in f["output_field_names"]]:
            cause = f"The field '{self._names['vector']}' of '{self.collection}' is not made by a BM25 function."
            raise CorpusError(cause, "Search a collection with one; hoptree.retrieval.remote.load makes it.")
        named = (self._names[role] for role in ("title", "text", "metadata", "id"))
        self._stored = tuple(name for name in (*named, *_STORED_FIELDS) if name in fields)

    def _missing(self) -> CorpusError:
        cause = f"There is no collection '{self.collection}' at {self._uri}."
        return CorpusError(cause, "Correct its name, or put passages there first (hoptree.retrieval.remote.load).")

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        if k < 1 or not query.strip():
            return ()
        condition, words = self._condition(where or {}), shortened(query, _MAX_QUERY_WORDS)

        async def fetch(size: int) -> list[Passage]:
            return await self._do(lambda client: self._search(client, words, size, condition))

        hits = await best_with_ties(fetch, k, max_hits=MAX_HITS, engine="Milvus")
        return tuple(passage for passage in hits if passage.score > 0)

    def _condition(self, where: Mapping[str, str]) -> str:
        """Return the filter with quoted names and values."""
        if where and self._names["metadata"] not in self._stored:
            cause = f"The collection '{self.collection}' has no field '{self._names['metadata']}' to filter by."
            raise CorpusError(cause, f"Name a field of JSON: …/{self.collection}?metadata=FIELD")
        column = self._names["metadata"]
        return " and ".join(
            f"({column}[{key}] == {value} or json_contains({column}[{key}], {value}))"
            for key, value in ((_quoted(name), _quoted(value)) for name, value in sorted(where.items()))
        )

    def _search(self, client: Any, query: str, size: int, condition: str) -> list[Passage]:
        (hits,) = client.search(
            self.collection,
            data=[query],
            anns_field=self._names["vector"],
            limit=size,
            filter=condition,
            output_fields=list(self._stored),
            search_params={"metric_type": "BM25"},
            timeout=_TIMEOUT_S,
        )
        return [self._passage(hit) for hit in hits]

    def _passage(self, hit: Mapping[str, Any]) -> Passage:
        entity = hit["entity"]
        return Passage(
            str(entity[self._names["id"]] if self._names["id"] else hit["id"]),
            str(entity.get(self._names["title"], "")),
            str(entity.get(self._names["text"], "")),
            abs(float(hit["distance"])),
            str(entity.get("document", "")),
            int(entity.get("start", 0)),
            int(entity.get("end", 0)),
            tuple(map(str, entity.get("aliases") or ())),
            metadata_pairs(entity.get(self._names["metadata"])),
        )

    async def load(self, passages: Iterable[Passage], on_passage: Callable[[int], None] | None) -> int:
        if self._file is not None and not self._file.parent.is_dir():
            raise CorpusError(f"There is no folder {self._file.parent}.", "Make it first.")
        await self._do(self._make)
        loaded = 0
        for rows in batches((self._row(passage) for passage in passages), lambda row: len(row["words"]) * 2):
            if len({row[self._id] for row in rows}) < len(rows):
                raise CorpusError("Two passages have the same id.", "Give every passage an id of its own.")
            await self._do(functools.partial(self._upsert, rows))
            loaded += len(rows)
            if on_passage is not None:
                on_passage(loaded)
        if not loaded:
            raise CorpusError("The corpus is empty: no passage was found.", "Give a folder or file with text in it.")
        await self._do(lambda client: client.flush(self.collection, timeout=_TIMEOUT_S))
        return loaded

    def _upsert(self, rows: list[dict[str, Any]], client: Any) -> None:
        client.upsert(self.collection, rows, timeout=_TIMEOUT_S)

    def _make(self, client: Any) -> None:
        """Make the collection, unless it exists; the title counts twice."""
        if client.has_collection(self.collection, timeout=_TIMEOUT_S):
            return
        from pymilvus import DataType, Function, FunctionType  # type: ignore[import-not-found,import-untyped,unused-ignore]

        names = self._names
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field(self._id, DataType.VARCHAR, max_length=512, is_primary=True)
        for name in (names["title"], names["text"], "document"):
            schema.add_field(name, DataType.VARCHAR, max_length=MAX_FIELD_BYTES)
        for name in ("start", "end"):
            schema.add_field(name, DataType.INT64)
        for name in ("aliases", names["metadata"]):
            schema.add_field(name, DataType.JSON)
        analysis = {"enable_analyzer": True, "analyzer_params": _ENGLISH}
        schema.add_field("words", DataType.VARCHAR, max_length=MAX_FIELD_BYTES, **analysis)
        schema.add_field(names["vector"], DataType.SPARSE_FLOAT_VECTOR)
        fields = {"input_field_names": ["words"], "output_field_names": [names["vector"]]}
        schema.add_function(Function(name="bm25", function_type=FunctionType.BM25, **fields))
        index = client.prepare_index_params()
        weights = {"bm25_k1": 1.2, "bm25_b": 0.75}
        index.add_index(names["vector"], index_type="SPARSE_INVERTED_INDEX", metric_type="BM25", params=weights)
        client.create_collection(self.collection, schema=schema, index_params=index, timeout=_TIMEOUT_S)

    def _row(self, passage: Passage) -> dict[str, Any]:
        if not passage.id:
            raise CorpusError(f"The passage '{passage.title}' has no id.", "Give every passage an id of its own.")
        title, text = without_surrogates(passage.title), without_surrogates(passage.text)
        words = f"{title}\n{title}\n{text}" if title else text
        if len(words.encode()) > MAX_FIELD_BYTES:
            cause = f"The passage '{passage.id}' is longer than the {MAX_FIELD_BYTES:,} bytes that Milvus takes."
            raise CorpusError(cause, "Cut the documents into shorter passages.")
        metadata = json.loads(without_surrogates(json.dumps(passage.metadata_by_name(), ensure_ascii=False)))
        return {
            self._id: without_surrogates(passage.id),
            self._names["title"]: title,
            self._names["text"]: text,
            "words": words,
            "document": without_surrogates(passage.document),
            "start": passage.start,
            "end": passage.end,
            "aliases": [without_surrogates(alias) for alias in passage.aliases],
            self._names["metadata"]: metadata,
        }

    async def _do(self, work: Callable[[Any], T]) -> T:
        """Use the blocking client in a thread, and translate its errors."""
        return await asyncio.to_thread(self._do_now, work)

    def _do_now(self, work: Callable[[Any], T]) -> T:
        import grpc  # type: ignore[import-not-found,import-untyped,unused-ignore]
        from pymilvus.exceptions import MilvusException  # type: ignore[import-not-found,import-untyped,unused-ignore]

        try:
            return work(self._open())
        except MilvusException as error:
            raise self._failure(error.code, " ".join(str(error.message).split())) from error
        except grpc.RpcError as error:  # of a slow search: pymilvus does not translate it
            raise self._failure(_UNAVAILABLE, f"{error.code().name}: {error.details()}") from error

    def _open(self) -> Any:
        if self._client is None:
            from pymilvus import MilvusClient

            if self._file is not None and importlib.util.find_spec("milvus_lite") is None:
                raise MissingExtra("A Milvus file", "milvus")
            # It logs every error it raises, with a traceback.
            logging.getLogger("pymilvus").setLevel(logging.CRITICAL)
            self._client = MilvusClient(
                self._uri, token=self._token, db_name=self._names["db"], timeout=_CONNECT_TIMEOUT_S
            )
        return self._client

    def _failure(self, code: int, message: str) -> HoptreeError:
        if code == _NO_COLLECTION or "not exist" in message or "can't find collection" in message:
            return self._missing()
        if code in (_REQUEST_LIMIT, _RATE_LIMIT):
            cause = f"{self._uri} asks for fewer requests ({message[:200]})."
            return RateLimited(cause, "Lower --concurrency.", retryable=True)
        if code == _UNAVAILABLE or "UNAVAILABLE" in message or "DEADLINE_EXCEEDED" in message:
            cause = f"{self._uri} cannot be reached ({message[:200]})."
            remedy = "Start the server, or correct the URL of the corpus."
            return EndpointError(cause, remedy, retryable=True, exit_code=2)
        if "auth" in message.lower() or "permission" in message.lower():
            cause = f"{self._uri} does not let this user in ({message[:200]})."
            return EndpointError(cause, "Write USER:PASSWORD@ before the host.", exit_code=2)
        cause = f"{self._uri} refused the request ({message[:300]})."
        return EndpointError(cause, "Look at what it says; Milvus has BM25 from version 2.5 on.", exit_code=2)

    async def aclose(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await asyncio.to_thread(client.close)


def _quoted(text: str) -> str:
    return json.dumps(without_surrogates(text), ensure_ascii=False)
