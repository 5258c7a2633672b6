"""docs/how-to/serve.md says what the server does."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from tests.server.running import Running

from hoptree.cli.serve import with_name
from hoptree.core.errors import InputError
from hoptree.server import corpus_service
from hoptree.server.indexing import MAX_WAIT_S
from hoptree.server.settings import Limits

_PAGE = (Path(__file__).parent.parent.parent / "docs" / "how-to" / "serve.md").read_text(encoding="utf-8")
_SIZES = {"K": 2**10, "M": 2**20, "G": 2**30}


def test_every_limit_is_listed_with_its_default() -> None:
    listed: dict[str, str] = {}
    table = _PAGE.partition("## Limits")[2].partition("\n## ")[0]
    for line in table.splitlines():
        if line.startswith("| `"):
            names, defaults, _ = (cell.strip() for cell in line.strip("|").split("|"))
            listed |= zip(names.replace("`", "").split(", "), defaults.split(" (")[0].split(", "), strict=True)
    assert {name: _number(text) for name, text in listed.items()} == {
        limit.name: getattr(Limits(), limit.name) for limit in fields(Limits)
    }


def _number(text: str) -> float:
    return float(text[:-1]) * _SIZES[text[-1]] if text[-1] in _SIZES else float(text)


def test_the_patience_with_other_writers_and_with_failing_changes_is_told() -> None:
    assert MAX_WAIT_S == 10 * 60 and "up to ten minutes" in _PAGE
    assert corpus_service._MAX_TRIES == 3 and "after three attempts" in _PAGE


def test_every_event_and_address_is_told(server: Running) -> None:
    for event in ("step", "passages", "tree", "trace", "result", "error"):
        assert f"`{event}`" in _PAGE
    for path in server.client.get("/openapi.json").json()["paths"]:
        assert path.partition("/{")[0] in _PAGE, path


def test_a_corpus_is_called_as_its_folder_is(tmp_path: Path) -> None:
    assert "(`--corpus docs.idx`: docs)" in _PAGE
    (tmp_path / "docs.idx").mkdir()
    (tmp_path / "my docs.idx").mkdir()
    assert with_name(f"{tmp_path}/docs.idx") == f"docs={tmp_path}/docs.idx"
    assert with_name("films=docs.idx") == "films=docs.idx"
    assert with_name("wikipedia") == "wikipedia=wikipedia"
    for wrong in (f"{tmp_path}/nowhere", f"{tmp_path}/my docs.idx"):
        with pytest.raises(InputError) as refused:
            with_name(wrong)
        assert "--corpus NAME=" in refused.value.remedy
