"""Builds of the wheels are the same byte for byte, wherever and whenever they are made."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NEEDED = {
    ".": ("src", "experiments", "pyproject.toml", "README.md", "LICENSE", ".gitignore"),
    "weights": ("src", "pyproject.toml", "MODEL_CARD.md"),
}


def built(project: Path, out: Path, umask: int) -> str:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=project, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    return f"{wheel.name} {hashlib.sha256(wheel.read_bytes()).hexdigest()}"


@pytest.mark.parametrize("project", NEEDED)
def test_two_builds_of_a_wheel_are_identical(project: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for name in NEEDED[project]:
        source = ROOT / project / name
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copyfile(source, copy / name)
    for path in sorted(copy.rglob("*"), reverse=True):  # another time and order than in the tree
        os.utime(path, (10**9, 10**9))
    assert built(ROOT / project, tmp_path / "one", 0o022) == built(copy, tmp_path / "two", 0o077)
