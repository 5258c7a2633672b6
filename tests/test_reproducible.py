"""The wheels are built the same byte for byte, with the right files."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder

from hoptree.core.files import ADAPTER, WEIGHTS_PACKAGE

ROOT = Path(__file__).parent.parent
NEEDED = {
    ".": ("src", "experiments", "pyproject.toml", "README.md", "LICENSE", ".gitignore"),
    "weights": ("src", "pyproject.toml", "MODEL_CARD.md"),
}


def built(project: Path, out: Path, umask: int) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    done = subprocess.run(command, cwd=project, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (wheel,) = out.glob("*.whl")
    return wheel


def digest(wheel: Path) -> str:
    return f"{wheel.name} {hashlib.sha256(wheel.read_bytes()).hexdigest()}"


def copied(project: str, target: Path, *left_out: str) -> Path:
    """Copy the sources of a wheel, with only a part of the adapter, as packing it takes seconds."""
    target.mkdir()
    for name in NEEDED[project]:
        source = ROOT / project / name
        if source.is_dir():
            shutil.copytree(source, target / name, ignore=shutil.ignore_patterns(*left_out))
        elif source.exists():
            shutil.copyfile(source, target / name)
    for adapter in target.rglob(ADAPTER):
        os.truncate(adapter, 100_000)
    return target


@pytest.mark.parametrize("project", NEEDED)
def test_two_builds_of_a_wheel_are_identical(project: str, tmp_path: Path) -> None:
    tree = ROOT if project == "." else copied(project, tmp_path / "tree")
    copy = copied(project, tmp_path / "copy", "__pycache__")
    for path in sorted(copy.rglob("*"), reverse=True):  # another time and order than in the tree
        os.utime(path, (10**9, 10**9))
    first, second = built(tree, tmp_path / "one", 0o022), built(copy, tmp_path / "two", 0o077)
    assert digest(first) == digest(second)
    if project == "weights":
        holds_data_alone(first)


def holds_data_alone(wheel: Path) -> None:
    names = [Path(name) for name in zipfile.ZipFile(wheel).namelist()]
    inside = {name.name for name in names if name.parts[0] == WEIGHTS_PACKAGE}
    assert "__init__.py" in inside and not any(name.suffix == ".py" for name in names if name.name != "__init__.py")
    trained = {path.name for path in (ROOT / "weights" / "src" / WEIGHTS_PACKAGE).iterdir() if path.is_file()}
    assert inside == trained, "all that was trained is in it"


def test_the_source_archive_holds_no_weights() -> None:
    names = {Path(file.distribution_path) for file in SdistBuilder(str(ROOT)).recurse_included_files()}
    assert {Path("src/hoptree/__init__.py"), Path("weights/pack.py"), Path("SECURITY.md")} <= names
    assert not [name for name in names if name.name == ADAPTER or name.is_relative_to("weights/src")]
