"""Files of facts: what is a fact, what is packed, and what is refused."""

from __future__ import annotations

import gzip
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import CorpusError, InputError
from hoptree.core.values import Fact, Passage
from hoptree.retrieval.hippo_store import read_facts
from hoptree.retrieval.indexing import add_facts, index_passages
from hoptree.retrieval.retriever import open_retriever

pytest.importorskip("rustworkx")


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"s": "a", "p": "b", "src": ["film"]}',
        '{"s": "a", "p": "b", "o": "c"}',
        '{"s": "a", "p": "b", "o": "c", "src": []}',
        '{"s": "a", "p": "b", "o": "c", "src": [3]}',
        '{"s": " ", "p": "b", "o": "c", "src": ["film"]}',
        "[" * 5_000,
    ],
)
def test_a_line_that_is_no_fact_is_named(line: str, tmp_path: Path) -> None:
    index = tmp_path / "idx"
    index_passages([Passage("film", "Grey Harbour", "Grey Harbour is a film.")], index)
    path = tmp_path / "facts.jsonl"
    path.write_text('{"s": "a", "p": "b", "o": "c", "src": ["film"]}\n\n' + line + "\n")
    with pytest.raises(InputError, match="Line 3 of"):
        add_facts(path, index)
    with pytest.raises(CorpusError, match="no facts"):
        open_retriever(index, "hippo")


@given(st.binary(max_size=200))
def test_any_file_of_facts_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "facts.jsonl"
    path.write_bytes(data)
    with suppress(InputError):
        assert all(fact.passage_id for fact in read_facts(path))


def test_facts_may_be_packed_and_name_several_passages(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"subject": "a", "relation": "b", "object": "c d", "src": ["x", "y", "x"]}\n'))
    assert list(read_facts(path)) == [Fact("a", "b", "c d", passage_id=name) for name in "xy"]
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(InputError, match="cannot be read"):
        list(read_facts(path))
