"""Taking over vectors into a generation that is written anew."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["carry_vectors"]


def carry_vectors(old: Path, new: Path) -> None:
    """Give a folder the vectors of another one, all of them or none: a run may be killed in between."""
    if new.exists() or not old.is_dir():
        return
    half = new.with_name(f"{new.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    shutil.copytree(old, half, copy_function=_link_or_copy)
    half.rename(new)


def _link_or_copy(old: str, new: str) -> None:
    """Hard-link the vectors, which are never written in place; copy the rest, or what cannot be linked."""
    if old.endswith(".usearch"):
        try:
            os.link(old, new)
            return
        except OSError:
            pass
    shutil.copyfile(old, new)
