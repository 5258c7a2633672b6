"""Small corpora and indexes for tests, and ways to look into an index."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.command_line import call

from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import Links
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.linked import BM25

__all__ = ["found", "graph", "hoptree", "inodes", "names", "put_in_place", "rows", "write_rows"]


def rows(count: int, start: int = 0) -> list[dict[str, str]]:
    """Passages that mention the one after them."""
    return [
        {
            "id": f"p{n}",
            "title": f"Person Number{n}",
            "text": f"The friend of Person Number{n + 1} lives in town{n % 7}.",
        }
        for n in range(start, start + count)
    ]


def write_rows(path: Path, records: Iterable[dict[str, str]], *, ns: int = 0) -> Path:
    """A JSON Lines file; `ns` sets when it was changed, so that a test need not wait for the clock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    if ns:
        os.utime(path, ns=(ns, ns))
    return path


def put_in_place(path: Path, content: bytes) -> None:
    """Another file under the same name: to cut one that this process still has mapped would end the process."""
    path.unlink()
    path.write_bytes(content)


def found(folder: Path, query: str, k: int = 5) -> list[str]:
    return [passage.id for passage in BM25(Index(folder)).search_now(query, k)]


def names(passages: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in passages]


def inodes(folder: Path) -> set[int]:
    """The data files of the text index that counts."""
    text = Index(folder).generation / "text"
    return {path.stat().st_ino for path in text.iterdir() if path.suffix in (".store", ".term", ".idx", ".fast")}


def graph(folder: Path) -> set[tuple[str, str]]:
    """Who mentions whom."""
    index = Index(folder)
    links = Links(index.links)
    return {
        (passage.id, name)
        for _, key, passage in index.texts.scan()
        for name in links.mentions(key)
        if key == key_of(passage.id)
    }


def hoptree(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, called in this folder with a cache of its own and without settings of the person who tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOPTREE_"))}
    return call(*arguments, folder=home, environment=kept | {"XDG_CACHE_HOME": str(home / "cache"), "NO_COLOR": "1"})
