"""Corpora as clients make and look at them, for tests of what becomes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.server.running import Running, running, settings

__all__ = ["add", "class_of", "create", "documents", "make_corpora_folder", "passages", "remove", "search_texts"]

_MINE = "/v1/corpora/mine/documents"


def _sent(files: dict[str, bytes]) -> list[tuple[str, tuple[str, bytes]]]:
    return [("files", (name, content)) for name, content in files.items()]


def create(server: Running, files: dict[str, bytes], name: str = "mine") -> dict[str, Any]:
    """A job that makes a corpus, when it is over."""
    return server.job(server.client.post("/v1/corpora", data={"name": name}, files=_sent(files)))


def add(server: Running, files: dict[str, bytes], name: str = "mine") -> dict[str, Any]:
    return server.job(server.client.post(f"/v1/corpora/{name}/documents", files=_sent(files)))


def remove(server: Running, document: str, name: str = "mine") -> dict[str, Any]:
    return server.job(server.client.delete(f"/v1/corpora/{name}/documents/{document}"))


def search_texts(server: Running, query: str, name: str = "mine") -> list[str]:
    """The texts that a search finds."""
    reply = server.client.post("/v1/search", json={"query": query, "corpus": name})
    assert reply.status_code == 200, reply.text
    return [passage["text"] for passage in reply.json()["passages"]]


def passages(server: Running, name: str = "mine") -> dict[str, int | None]:
    """How many passages of each document there are, as it is listed."""
    listed = server.client.get(f"/v1/corpora/{name}/documents").json()["documents"]
    return {document["id"]: document["passages"] for document in listed}


def documents(own: Path, name: str = "mine") -> dict[str, bytes]:
    """The documents as they lie on the disk."""
    folder = own / name / "documents"
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def make_corpora_folder(folder: Path, files: dict[str, bytes]) -> Path:
    """The folder `own`, with a corpus `mine` that a server has made and left."""
    with running(settings(folder, corpora_folder=folder / "own")) as server:
        assert create(server, files)["state"] == "done"
    return folder / "own"


def class_of(reply: Any) -> tuple[int, str]:
    return reply.status_code, reply.json()["error"]["class"]
