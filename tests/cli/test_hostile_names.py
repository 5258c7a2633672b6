"""Names of files and passages that hold line breaks and commands for a terminal: no output of ours can be forged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.mcp.served import QUESTION, answering, script
from tests.small_indexes import hoptree

FORGED = "hoptree: all is well"
NAME = f"a\n{FORGED}\x1b[2J"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An index of files whose names go on in a line of their own."""
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / f"{NAME}.md").write_text(
        "# Night Train\x1b[2J\x07\n\nBille August directed Night Train to Lisbon.", "utf-8"
    )
    (docs / f"{NAME}.docx").write_bytes(b"PK")
    (docs / f"{NAME}.unknown").write_bytes(b"\0")
    row = {
        "id": f"x\n{FORGED}",
        "title": f"August\r{FORGED}",
        "text": "Bille August was born in 1948 in Denmark. \u2028",
    }
    (docs / "rows.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    return tmp_path


def test_names_of_files_and_passages_stay_in_their_lines(home: Path) -> None:
    model = f"scripted/{script(home, answering())}"
    commands = (
        ("index", "docs", "--out", "docs.idx"),
        ("search", "Bille August", "--corpus", "docs.idx", "--explain"),
        ("ask", QUESTION, "--method", "taikc", "--corpus", "docs.idx", "--model", model, "--trace", "trace.jsonl"),
        ("show", "trace.jsonl"),
        ("index", "info", "docs.idx"),
        ("index", "check", "docs.idx"),
        ("index", "remove", f"x\n{FORGED}", "--out", "docs.idx"),
        ("index", "remove", f"none\n{FORGED}", "--out", "docs.idx"),
        ("index", f"none\n{FORGED}", "--out", "other.idx"),
    )
    for command in commands:
        done = hoptree(home, *command)
        shown = done.stdout + done.stderr
        assert done.returncode == (2 if "none" in " ".join(command) else 0), shown
        assert not [line for line in shown.splitlines() if line.startswith(FORGED)], f"{command}: {shown}"
        assert not {"\x1b", "\x07", "\r"} & set(shown)
