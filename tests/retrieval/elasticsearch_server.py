"""A local server that takes and answers what Elasticsearch and its kin do, and no more."""

from __future__ import annotations

import base64
import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from hoptree.retrieval.remote.elasticsearch import MAX_HITS

__all__ = ["QUICKWIT", "STOP_WORDS", "Answer", "Listener", "Server", "at", "error", "leaves", "several", "words"]

STOP_WORDS = {"the", "of", "and", "is", "a", "in"}
QUICKWIT = "/api/v1/_elastic"
Answer = tuple[int, Any]


def words(text: str) -> list[str]:
    return [word for word in re.findall(r"\w+", text.lower()) if word not in STOP_WORDS]


def at(source: dict[str, Any], path: str) -> Any:
    first, _, rest = path.partition(".")
    return source[path] if path in source else at(source.get(first, {}), rest) if rest else ""


def leaves(value: Any) -> list[str]:
    return list(value) if isinstance(value, dict) else []


def error(status: int, kind: str, reason: str) -> Answer:
    cause = {"type": kind, "reason": reason}
    return status, {"error": {"root_cause": [cause], **cause}, "status": status}


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Server:
    """One node with indices in memory; it scores by counting words, a title's doubly.

    Like the real ones it refuses what it does not know: other parameters, other keys of a request, other queries.
    `quickwit` makes it speak as Quickwit does.
    """

    def __init__(self, *, quickwit: bool = False) -> None:
        self.indices: dict[str, dict[str, dict[str, Any]]] = {}
        self.mappings: dict[str, Any] = {}
        self.quickwit = quickwit
        self.login = ""
        self.clauses = 1024
        self.clause_status = 400
        self.before: Callable[[str, str, bytes], Answer | None] | None = None
        self.seen: list[tuple[str, str, dict[str, str]]] = []
        self.versions = 0
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one piece

            def handle_any(self) -> None:
                body = self.rfile.read(int(self.headers.get("content-length") or 0))
                server.seen.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                status, answer = server.answer(self.command, self.path, body, self.headers.get("authorization", ""))
                data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0")
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(data)

            do_GET = do_POST = do_PUT = do_HEAD = handle_any  # noqa: N815

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """It has nothing to say."""

        self._http = Listener(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True).start()

    def url(self, index: str = "docs", query: str = "", login: str = "") -> str:
        settings = "&".join(part for part in ("api=quickwit" if self.quickwit else "", query) if part)
        return f"elasticsearch://{login}127.0.0.1:{self._http.server_port}/{index}{'?' if settings else ''}{settings}"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()

    def answer(self, method: str, path: str, body: bytes, authorization: str) -> Answer:
        if self.before and (answer := self.before(method, path, body)):
            return answer
        if self.login and authorization != f"Basic {base64.b64encode(self.login.encode()).decode()}":
            return error(401, "security_exception", "unable to authenticate user")
        parts = urlsplit(path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if self.quickwit and parts.path.startswith("/api/v1/indexes"):
            return self._quickwit_index(method, parts.path, body)
        prefix = QUICKWIT if self.quickwit else ""
        if not parts.path.startswith(prefix):
            return 404, {"message": "Route not found"}
        names = parts.path.removeprefix(prefix).strip("/").split("/")
        if names[:2] == ["_cat", "indices"]:
            return self._cat(names[2], asked)
        index, action = names[0], names[1] if len(names) > 1 else ""
        if action == "" and method == "PUT":
            return self._create(index, json.loads(body))
        if index not in self.indices:
            return error(404, "index_not_found_exception", f"no such index [{index}]")
        actions: dict[str, Callable[[], Answer]] = {
            "": lambda: (200, {}),
            "_bulk": lambda: self._bulk(index, body),
            "_refresh": lambda: (200, {"_shards": {"total": 2, "successful": 1, "failed": 0}}),
            "_count": lambda: (200, {"count": len(self.indices[index]), "_shards": {"failed": 0}}),
            "_field_caps": lambda: self._field_caps(index, asked),
            "_search": lambda: self._search(index, asked, json.loads(body)),
        }
        return actions[action]() if action in actions else error(400, "invalid", f"no handler for [{path}]")

    def _quickwit_index(self, method: str, path: str, body: bytes) -> Answer:
        if method == "GET":
            index = path.rpartition("/")[2]
            return (200, {}) if index in self.indices else (404, {"message": f"index `{index}` not found"})
        config = json.loads(body)
        assert {field["name"] for field in config["doc_mapping"]["field_mappings"]} >= {"id", "title", "text"}
        self.indices[config["index_id"]] = {}
        self.mappings[config["index_id"]] = config["doc_mapping"]
        return 200, {"index_uid": config["index_id"] + ":01"}

    def _create(self, index: str, body: dict[str, Any]) -> Answer:
        if index in self.indices:
            return error(400, "resource_already_exists_exception", f"index [{index}/uuid] already exists")
        if index != index.lower():
            return error(400, "invalid_index_name_exception", f"Invalid index name [{index}], must be lowercase")
        self.indices[index] = {}
        self.mappings[index] = body["mappings"]
        return 200, {"acknowledged": True, "shards_acknowledged": True, "index": index}

    def _cat(self, index: str, asked: dict[str, str]) -> Answer:
        if index not in self.indices:
            return error(404, "index_not_found_exception", f"no such index [{index}]")
        assert (
            asked["format"] == "json"
            and asked["h"].startswith("uuid,docs.count")
            and ("bytes" in asked) != self.quickwit
        )
        row = {"uuid": f"u-{index}", "docs.count": str(len(self.indices[index])), "docs.deleted": str(self.versions)}
        return 200, [row]

    def _field_caps(self, index: str, asked: dict[str, str]) -> Answer:
        known = {"title", "text"} | {name for source in self.indices[index].values() for name in source}
        known |= {f"{name}.{inner}" for s in self.indices[index].values() for name in s for inner in leaves(s[name])}
        fields = {name: {"text": {"type": "text", "searchable": True}} for name in asked["fields"].split(",")}
        return 200, {"indices": [index], "fields": {n: c for n, c in fields.items() if n in known}}

    def _bulk(self, index: str, body: bytes) -> Answer:
        lines = [json.loads(line) for line in body.decode().splitlines()]
        items = []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            ((verb, target),) = action.items()
            if self.quickwit:
                assert verb == "create"
                self.indices[index][str(len(self.indices[index]))] = source
                continue
            assert verb == "index"
            item: dict[str, Any] = {"_index": index, "_id": target["_id"], "status": 201, "result": "created"}
            if len(target["_id"].encode()) > 512:
                reason = f"id is too long, must be no longer than 512 bytes but was: {len(target['_id'])}"
                item |= {"status": 400, "error": {"type": "illegal_argument_exception", "reason": reason}}
            else:
                self.versions += target["_id"] in self.indices[index]
                self.indices[index][target["_id"]] = source
            items.append({verb: item})
        if self.quickwit:
            return 200, {"num_docs_for_processing": len(lines) // 2}
        return 200, {"took": 3, "errors": any("error" in item["index"] for item in items), "items": items}

    def _search(self, index: str, asked: dict[str, str], body: dict[str, Any]) -> Answer:
        parameters = set() if self.quickwit else {"allow_partial_search_results", "search_type", "preference"}
        keys = {"size", "query", "sort"} | (set() if self.quickwit else {"track_total_hits"})
        if asked.keys() - parameters or body.keys() - keys:
            return error(400, "illegal_argument_exception", f"unknown {asked} {body.keys()}")
        if body["size"] > MAX_HITS:
            return error(400, "illegal_argument_exception", "Result window is too large")
        assert body["sort"] == [{"_score": {"order": "desc"}}]
        match = body["query"]["bool"]["must"][0]["multi_match"]
        fields = [(name, float(boost or 1)) for name, _, boost in (field.partition("^") for field in match["fields"])]
        if self.quickwit and any("^" in field for field in match["fields"]):
            return error(400, "parse", "Quickwit does not support field boosting in the multi match query fields")
        terms = words(match["query"])
        if len(terms) * len(fields) > self.clauses:
            return error(self.clause_status, "too_many_clauses", f"maxClauseCount is set to {self.clauses}")
        filters = [next(iter(one["term"].items())) for one in body["query"]["bool"]["filter"]]
        hits: list[dict[str, Any]] = []
        for identifier, source in reversed(self.indices[index].items()):
            score = sum(b * words(str(at(source, n))).count(term) for term in terms for n, b in fields)
            if score and all(
                v["value"] in several(source.get("metadata", {}).get(n.partition(".")[2])) for n, v in filters
            ):
                known = {"_id": "", "_score": None} if self.quickwit else {"_id": identifier, "_score": score}
                hits.append({"_index": index, **known, "_source": source, "sort": [score]})
        hits.sort(key=lambda hit: -hit["sort"][0])
        shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
        found = {"max_score": None, "hits": hits[: body["size"]]}
        return 200, {"took": 1, "timed_out": False, "_shards": shards, "hits": found}


def several(value: Any) -> list[Any]:
    """Any field may hold one value or more."""
    return value if isinstance(value, list) else [value]
