"""Small corpora and indexes for tests, and ways to look into an index."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.command_line import call

from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.links import Links
from hoptree.retrieval.index.tantivy_files import key_of

__all__ = ["hoptree", "ids_of", "inodes", "mention_pairs", "replace_file", "rows", "search_ids", "write_rows"]


def rows(count: int, start: int = 0) -> list[dict[str, str]]:
    """Return passages that each mention the next one."""
    return [
        {
            "id": f"p{n}",
            "title": f"Person Number{n}",
            "text": f"The friend of Person Number{n + 1} lives in town{n % 7}.",
        }
        for n in range(start, start + count)
    ]


def write_rows(path: Path, records: Iterable[dict[str, str]], *, ns: int = 0) -> Path:
    """Write a JSON Lines file; `ns` sets its time, so that no test waits for the clock."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    if ns:
        os.utime(path, ns=(ns, ns))
    return path


def replace_file(path: Path, content: bytes) -> None:
    """Replace a file: cutting one that is memory-mapped would crash this process."""
    path.unlink()
    path.write_bytes(content)


def search_ids(folder: Path, query: str, k: int = 5) -> list[str]:
    return [passage.id for passage in BM25(Index(folder)).search_now(query, k)]


def ids_of(passages: Sequence[Passage]) -> list[str]:
    return [passage.id for passage in passages]


def inodes(folder: Path) -> set[int]:
    """Return the inodes of the data files of the current text index."""
    text = Index(folder).generation / "text"
    return {path.stat().st_ino for path in text.iterdir() if path.suffix in (".store", ".term", ".idx", ".fast")}


def mention_pairs(folder: Path) -> set[tuple[str, str]]:
    """Return the pairs of a passage and a title that it mentions."""
    index = Index(folder)
    links = Links(index.links)
    return {
        (passage.id, name)
        for _, key, passage in index.texts.scan()
        for name in links.mentions(key)
        if key == key_of(passage.id)
    }


def hoptree(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Call the command in this folder, with its own cache and without the user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OPENAI_", "HOPTREE_"))}
    return call(*arguments, folder=home, environment=kept | {"XDG_CACHE_HOME": str(home / "cache"), "NO_COLOR": "1"})
