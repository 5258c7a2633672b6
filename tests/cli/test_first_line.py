"""What a person sees of `hoptree ask` before the model replies."""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call

import hoptree.engine.engine as engine_module
from hoptree.cli import options

SCRIPT = '{"replies": [{"reply": "Skagen"}]}'


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("stream", [_Terminal, io.StringIO])
def test_a_terminal_shows_that_the_model_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: type[io.StringIO]
) -> None:
    (tmp_path / "m.json").write_text(SCRIPT, encoding="utf-8")
    shown, seen, build = stream(), [], engine_module.Engine

    def opened(**values: Any) -> Any:
        seen.append(shown.getvalue())
        return build(**values)

    monkeypatch.setattr(engine_module, "Engine", opened)
    monkeypatch.setattr(sys, "stderr", shown)
    given: dict[str, Any] = dict.fromkeys(("graph", "corpus", "trace"))
    with options.open_engine(
        **given, retriever="auto", method="direct", model=f"scripted/{tmp_path / 'm.json'}",
        settings=[], roles=[], budget="", prices="", no_cache=True,
    ):  # fmt: skip
        after = shown.getvalue()
    line = "Opening …" if stream is _Terminal else ""
    assert seen == [line]
    assert after == (f"{line}\r{' ' * len(line)}\r" if line else "")


def test_a_folder_asked_for_the_first_time_tells_its_passages(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    (tmp_path / "m.json").write_text(SCRIPT, encoding="utf-8")
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Red Kite\n\nRed Kite is a film.\n", encoding="utf-8")
    ask = ("ask", "Where?", "docs", "-m", "scripted/m.json", "--method", "oner")
    assert "docs was indexed: 1 passage; kept in" in call(*ask, folder=tmp_path, environment=environment).stderr
    (docs / "b.md").write_text("# Ada Moor\n\nAda Moor was born in Skagen.\n", encoding="utf-8")
    again = call(*ask, folder=tmp_path, environment=environment).stderr
    assert "docs was indexed: 2 passages, 1 new, changed or gone; kept in" in again
