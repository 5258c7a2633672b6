"""What an open index keeps in memory: within bounds, and gone with the index."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterable
from pathlib import Path

from hoptree.core.values import Passage
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.linked import Linked, _names_in

FILMS = (
    Passage("kite", "Red Kite", "Red Kite is a film by Ada Moor."),
    Passage("ada", "Ada Moor", "Ada Moor was born in Brede."),
)


def test_an_index_that_is_let_go_is_gone_without_the_collector(tmp_path: Path) -> None:
    index_passages(FILMS, tmp_path / "idx")
    gc.collect()
    gc.disable()
    try:
        index = Index(tmp_path / "idx")
        linked = Linked(index)
        assert linked.search_now("Where was the director of Red Kite born?", 2)
        left = [weakref.ref(part) for part in (linked, linked._links, index.texts)]
        del index, linked
        assert [part() for part in left] == [None, None, None]
    finally:
        gc.enable()


def test_what_is_too_long_for_a_name_is_not_looked_up(tmp_path: Path) -> None:
    index_passages(FILMS, tmp_path / "idx")
    linked = Linked(Index(tmp_path / "idx"))
    asked: list[str] = []

    def first_borne(names: Iterable[str]) -> str:
        asked.extend(names)
        return ""

    linked._links.first_borne = first_borne
    assert _names_in(" ".join(["x" * 300] * 20), linked._links) == []
    assert max(map(len, asked)) <= 360
