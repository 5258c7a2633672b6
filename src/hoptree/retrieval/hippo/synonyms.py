"""Which phrases mean the same: those whose vectors point the same way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.retrieval.extras import library
from hoptree.retrieval.vector_files import FEATURE, open_files

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["SAME", "synonyms_of"]

SAME = 0.8
"""The least cosine of two phrases that count as synonyms."""
_MOST = 100
"""Synonyms that a phrase is given of all that are near enough, the nearest first."""
_LETTERS = 2
"""A phrase with no more letters and digits has no synonyms: initials are near to everything."""
_AT_ONCE = 512
_DECIMALS = 6
_NUMBER = re.compile(r"\d+")


def synonyms_of(
    folder: Path, fresh: Mapping[int, str], phrases: Mapping[int, str]
) -> Iterator[tuple[list[int], list[tuple[int, int, float]]]]:
    """Some of the fresh phrases after the other, with the pairs that each of them forms with any phrase.

    Every fresh phrase is compared with all: that takes time by the product of their counts. Phrases with other
    numbers in them ("1912", "12 May 1913") are near to each other and mean something else.
    """
    np = library("numpy", FEATURE, "dense")
    keys, rows = _all_vectors(folder)
    place = {key: number for number, key in enumerate(keys)}
    wanted = [key for key in sorted(fresh) if key in place and _may_have(fresh[key])]
    others = np.array([key in phrases and _may_have(phrases[key]) for key in keys], dtype=bool)
    for start in range(0, len(wanted), _AT_ONCE):
        some = wanted[start : start + _AT_ONCE]
        cosines = rows[[place[key] for key in some]] @ rows.T
        pairs = []
        for key, row in zip(some, cosines, strict=True):
            for number in _nearest(row, others):
                other = keys[number]
                if other != key and _NUMBER.findall(phrases[other]) == _NUMBER.findall(phrases[key]):
                    pairs.append((min(key, other), max(key, other), round(min(float(row[number]), 1.0), _DECIMALS)))
        yield some, pairs
    yield [key for key in fresh if key not in set(wanted)], []


def _nearest(row: NDArray[np.float32], others: NDArray[np.bool_]) -> list[int]:
    np = library("numpy", FEATURE, "dense")
    near = np.flatnonzero((row >= SAME) & others)
    best: list[int] = near[np.argsort(-row[near], kind="stable")][: _MOST + 1].tolist()
    return best


def _may_have(phrase: str) -> bool:
    return sum(letter.isalnum() for letter in phrase) > _LETTERS


def _all_vectors(folder: Path) -> tuple[list[int], NDArray[np.float32]]:
    """The keys of a folder of vectors in ascending order, and their rows at length one."""
    np = library("numpy", FEATURE, "dense")
    header, base, newer = open_files(folder)
    keys: list[Any] = []
    rows: list[Any] = []
    for index, dropped in ((base, header.removed), (newer, ())):
        if index is None or not len(index):
            continue
        held = np.asarray(index.keys[:], dtype=np.uint64)
        held = held[~np.isin(held, np.asarray(dropped, dtype=np.uint64))]
        if len(held):
            keys.append(held)
            rows.append(np.stack(index.get(held)).astype(np.float32))
    if not keys:
        return [], np.zeros((0, header.dimensions), np.float32)
    order = np.argsort(np.concatenate(keys), kind="stable")
    whole = np.concatenate(rows)[order]
    lengths = np.linalg.norm(whole, axis=1, keepdims=True)
    return np.concatenate(keys)[order].tolist(), whole / np.where(lengths == 0, 1, lengths)
