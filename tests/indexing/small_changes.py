"""Folders to be indexed, and what a command says that it did."""

from __future__ import annotations

from pathlib import Path

from hoptree.retrieval.indexing.sources import Outcome

__all__ = ["broken", "counts", "namesakes", "readmes"]


def counts(outcome: Outcome) -> tuple[int, int, int, int, int]:
    """Added, unchanged, replaced, removed, repeated."""
    return outcome.added, outcome.unchanged, outcome.replaced, outcome.removed, outcome.repeated


def broken(*args: object, **kwargs: object) -> None:
    raise RuntimeError("cut off")


def readmes(folder: Path, *texts: str) -> list[Path]:
    """Folders t1, t2, … with a readme each."""
    sources = [folder / f"t{number}" for number, _ in enumerate(texts, 1)]
    for source, text in zip(sources, texts, strict=True):
        source.mkdir(parents=True, exist_ok=True)
        (source / "readme.txt").write_text(text, encoding="utf-8")
    return sources


def namesakes(folder: Path, *animals: str) -> list[Path]:
    """Folders a/docs, b/docs, … with a readme each."""
    sources = [folder / letter / "docs" for letter, _ in zip("abcdefg", animals, strict=False)]
    for source, animal in zip(sources, animals, strict=True):
        source.mkdir(parents=True, exist_ok=True)
        (source / "readme.txt").write_text(f"The {animal}.", encoding="utf-8")
    return sources
