"""The benchmark of the embedded model: its counts and its exit code."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from benchmarks.embedded import Setup, _judge


@pytest.mark.parametrize(("seconds", "code"), [(35.0, 0), (36.0, 1)])
def test_the_exit_code_follows_the_ratio(seconds: float, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert _judge(Setup("plain", "", seconds=100.0), Setup("default", "", seconds=seconds)) == code
    assert f"ratio of seconds {seconds / 100:.3f}" in capsys.readouterr().out


def test_seconds_and_tokens_of_a_question_are_added_up(tmp_path: Path) -> None:
    script = tmp_path / "replies.json"
    script.write_text('{"replies": [{"reply": "Oslo"}]}', encoding="utf-8")
    setup = Setup("plain", f"scripted/{script}", {"effort": "low"})
    row = {"question": "What is the capital of Norway?", "answers": ["Oslo"]}
    for asked in (1, 2):
        assert "Oslo" in asyncio.run(setup.ask(row))
        assert setup.calls >= asked and setup.evaluated == setup.prompt > 0 and setup.decoded > 0 < setup.seconds
    assert setup.f1 == [1.0, 1.0]
