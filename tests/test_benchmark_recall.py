"""The benchmark of recall checks its input before it starts."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.recall import main


def test_a_folder_without_the_data_sets_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["recall.py", str(tmp_path / "nosuch")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert f"there is no {tmp_path / 'nosuch'}" in capsys.readouterr().err
