"""A MediaWiki on this machine: it answers its API in the form of the real one (formatversion 2), and no more of it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

__all__ = ["Answer", "Wiki", "serving"]

Answer = tuple[int, Mapping[str, str], bytes]
_COMMON = {"action", "format", "formatversion"}
_SEARCH = {"generator", "gsrsearch", "gsrlimit", "gsrnamespace", "gsrenablerewrites", "prop", "inprop", "ppprop"}
_PAGE = {"titles", "redirects", "prop", "explaintext", "exsectionformat", "exlimit", "inprop", "ppprop"}
_SITE = {"meta", "siprop"}
_INVALID = re.compile(r"[<>\[\]{}]")


@dataclass(slots=True)
class Wiki:
    """Its pages by title, what leads where, and what it was asked. `before` may answer in its place."""

    pages: dict[str, str] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    meanings: set[str] = field(default_factory=set)
    revisions: dict[str, int] = field(default_factory=dict)
    language: str = "en"
    extensions: tuple[str, ...] = ("CirrusSearch", "TextExtracts", "Disambiguator")
    before: Callable[[dict[str, str]], Answer | None] = lambda request: None
    url: str = ""
    asked: list[dict[str, str]] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)

    @property
    def corpus(self) -> str:
        return f"mediawiki+{self.url}"

    def titles(self) -> list[str]:
        """Whose text was asked for, in this order."""
        return [one["titles"] for one in self.asked if "titles" in one]

    def queries(self) -> list[str]:
        return [one["gsrsearch"] for one in self.asked if "gsrsearch" in one]

    def answer(self, request: dict[str, str]) -> Answer:
        self.asked.append(request)
        given = self.before(request)
        if given is not None:
            return given
        assert (request["action"], request["format"], request["formatversion"]) == ("query", "json", "2")
        known = _SITE if "meta" in request else _SEARCH if "generator" in request else _PAGE
        assert set(request) <= _COMMON | known, set(request) - _COMMON - known
        told = self._site() if "meta" in request else self._found(request) if "generator" in request else {}
        return 200, {"Content-Type": "application/json"}, json.dumps(told or self._titled(request)).encode()

    def _site(self) -> dict[str, Any]:
        general = {"mainpage": "Main Page", "sitename": "Wikipedia", "lang": self.language, "case": "first-letter"}
        extensions = [{"type": "other", "name": name} for name in self.extensions]
        return {"batchcomplete": True, "query": {"general": general, "extensions": extensions}}

    def _found(self, request: dict[str, str]) -> dict[str, Any]:
        """All words must occur, or any of those joined by OR; pages that have more of them come first."""
        assert len(request["gsrsearch"]) <= 300
        some = " OR " in request["gsrsearch"]
        words = [word.lower() for word in request["gsrsearch"].replace(" OR ", " ").split()]
        scored = []
        for title, text in self.pages.items():
            there = sum(word in f"{title} {text}".lower() for word in words)
            if there == len(words) or (some and there):
                scored.append((-there, title))
        titles = [title for _, title in sorted(scored)][: int(request["gsrlimit"])]
        if not titles:
            return {"batchcomplete": True}
        pages = [{**self._info(title), "index": place} for place, title in enumerate(titles, 1)]
        pages.sort(key=lambda page: str(page["title"]))  # the order of the list says nothing
        return {
            "batchcomplete": True,
            "continue": {"gsroffset": 10, "continue": "gsroffset||"},
            "query": {"pages": pages},
        }

    def _titled(self, request: dict[str, str]) -> dict[str, Any]:
        assert request["prop"] == "extracts|info|pageprops" and request["exsectionformat"] == "wiki"
        query: dict[str, Any] = {"pages": []}
        for asked in request["titles"].split("|"):
            title = asked.replace("_", " ").partition("#")[0].strip()
            title = title[:1].upper() + title[1:]
            if title.startswith("De:"):
                query = {"interwiki": [{"title": asked, "iw": "de"}]}
                continue
            if _INVALID.search(title):
                said = "The requested page title contains invalid characters."
                query["pages"].append({"title": asked, "invalidreason": said, "invalid": True})
                continue
            if title != asked:
                query.setdefault("normalized", []).append({"fromencoded": False, "from": asked, "to": title})
            if title in self.redirects:
                query.setdefault("redirects", []).append({"from": title, "to": self.redirects[title]})
                title = self.redirects[title]
            page = self._info(title)
            if not page.get("missing"):
                page["extract"] = self.pages[title]
            query["pages"].append(page)
        return {"batchcomplete": True, "query": query}

    def _info(self, title: str) -> dict[str, Any]:
        namespace = 14 if title.startswith("Category:") else 0
        if title not in self.pages:
            return {"ns": namespace, "title": title, "missing": True, "contentmodel": "wikitext"}
        place = "https://en.wikipedia.org/wiki/" + quote(title.replace(" ", "_"))
        about: dict[str, Any] = {"pageid": 1 + list(self.pages).index(title), "ns": namespace, "title": title}
        about |= {"lastrevid": self.revisions.get(title, 100), "length": len(self.pages[title])}
        about |= {"fullurl": place, "canonicalurl": place}
        return about | ({"pageprops": {"disambiguation": ""}} if title in self.meanings else {})


@contextmanager
def serving(wiki: Wiki) -> Iterator[Wiki]:
    """Serve while the block lasts."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            wiki.agents.append(self.headers.get("User-Agent", ""))
            request = {name: values[0] for name, values in parse_qs(parts.query, strict_parsing=True).items()}
            try:
                status, headers, body = wiki.answer(request) if parts.path == "/w/api.php" else (404, {}, b"<html>")
            except AssertionError as error:
                status, headers, body = 400, {}, f"the test's wiki does not know: {error}".encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with suppress(ConnectionError):  # a reply may be longer than anybody reads
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    wiki.url = f"http://127.0.0.1:{server.server_address[1]}/w/api.php"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield wiki
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
