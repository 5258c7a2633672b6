"""How much a text index packs together: told to tantivy in the file of a new index, and left as it is in an old one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.small_indexes import rows, search_ids, write_rows

from hoptree.core.errors import CorpusError, IndexUnavailable
from hoptree.retrieval.index import tantivy_files as packing
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.text_writer import TextWriter
from hoptree.retrieval.indexing import add_to_index, build_index
from hoptree.retrieval.indexing.check import check_all


def block_of(folder: Path) -> int:
    meta = json.loads((Index(folder).generation / "text" / "meta.json").read_text(encoding="utf-8"))
    return int(meta["index_settings"]["docstore_blocksize"])


def test_a_new_index_has_blocks_of_our_size(out: Path) -> None:
    assert block_of(out) == 4_096
    assert not list((Index(out).generation / "text").glob("*.new"))


def test_an_index_with_other_blocks_opens_and_can_be_added_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "idx"
    with monkeypatch.context() as patched:
        patched.setattr(packing, "_STORE_BLOCK_BYTES", 16_384)
        build_index(write_rows(tmp_path / "a.jsonl", rows(20)), out)
    assert block_of(out) == 16_384 and search_ids(out, "number3")
    assert add_to_index([write_rows(tmp_path / "b.jsonl", rows(5, 50))], out).added == 5
    assert block_of(out) == 16_384 and check_all(Index(out)).passages == 25
    assert search_ids(out, "number53") and search_ids(out, "number3")


def test_a_write_that_is_cut_off_leaves_the_file_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(IndexUnavailable, match="No space left") as caught:
            TextWriter(tmp_path, language="en", memory=15_000_000)
    assert "Free some space" in str(caught.value.remedy)
    assert json.loads((tmp_path / "meta.json").read_text(encoding="utf-8"))["segments"] == []


@pytest.mark.parametrize("written", ["[]", "{}", '{"index_settings": null}', "{"])
def test_a_file_in_a_form_that_is_not_known_is_told(
    written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another version of tantivy might write it."""
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: written)
    with pytest.raises(CorpusError, match="cannot be written to"):
        TextWriter(tmp_path, language="en", memory=15_000_000)
