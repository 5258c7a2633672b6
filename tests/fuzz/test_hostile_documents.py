"""Hostile documents of every format: read, cut or passed over, within memory that their readers state."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest
from tests.cpu_limit import cpu_limit
from tests.fuzz.documents import HOSTILE, SOUND

from hoptree.corpus import document, files, html_pages, json_rows, pdf, zipped_xml
from hoptree.corpus.document import Problems
from hoptree.corpus.read import read_passages

_LIMIT = 2**18
"""In the place of limits of 16 to 128 MiB, so that a megabyte is hostile."""
_MAX_MEMORY = 24 * _LIMIT + 8 * 2**20
"""Text, its decoded form, tokens and passages of one document, and what is loaded once."""


@pytest.mark.parametrize("name", SOUND)
def test_the_sound_documents_are_read(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(SOUND[name])
    assert any("bees" in passage.text for passage in read_passages(tmp_path / name))


@pytest.mark.parametrize("what", HOSTILE)
def test_memory_and_time_are_bounded(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (document, files, html_pages, pdf, zipped_xml):
        monkeypatch.setattr(module, "MAX_DOCUMENT_BYTES", _LIMIT)
    monkeypatch.setattr(html_pages, "_MAX_BYTES", _LIMIT)
    monkeypatch.setattr(json_rows, "MAX_LINE_BYTES", _LIMIT)
    name, make = HOSTILE[what]
    (tmp_path / name).write_bytes(make(4 * _LIMIT))
    problems = Problems(limit=5)
    tracemalloc.start()
    try:
        with cpu_limit(60):
            text = "".join(passage.text for passage in read_passages(tmp_path / name, problems=problems))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < _MAX_MEMORY, f"{peak:,} bytes"
    assert len(text) <= 8 * _LIMIT and "root:" not in text and "ha ha" not in text
