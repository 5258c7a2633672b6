"""Damage files of a folder at random, and see whether that is noticed or harmless.

    python -m benchmarks.rot --trials 5000

A trial flips a bit, cuts, empties, deletes, overwrites or extends one file, or puts another file of the folder in its
place. What is read afterwards must be the same as before, or end with an error of Hoptree's own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hoptree.core.errors import HoptreeError
from hoptree.retrieval.indexing import add_facts, build_index
from hoptree.retrieval.retriever import open_retriever

__all__ = ["Rot", "damage", "make_index", "read_index", "rot"]

KINDS = ("flip", "flip", "flip", "cut", "empty", "delete", "zeros", "longer", "swap")
QUERIES = ("Who directed film 7?", "the city where person 3 was born", "person 12", "film of 1931 by person 5")


@dataclass(slots=True)
class Rot:
    """What became of the trials; `wrong` and `crashed` name file, kind and place of each."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    crashed: list[str] = field(default_factory=list)


def make_index(folder: Path, passages: int = 60) -> Path:
    """Build a small index with texts, links and facts."""
    rows, facts = folder / "rows.jsonl", folder / "facts.jsonl"
    with rows.open("w", encoding="utf-8") as file:
        for number in range(passages):
            film = f"Film {number} is a film of {1900 + number} that was directed by Person {number}."
            born = f"Person {number} was born in City {number % 7}, before Film {(number + 1) % passages} was made."
            for name, text in ((f"Film {number}", film), (f"Person {number}", born)):
                file.write(json.dumps({"id": name, "title": name, "text": text}) + "\n")
    build_index(rows, folder / "idx")
    with facts.open("w", encoding="utf-8") as file:
        for number in range(passages):
            fact = {"s": f"Film {number}", "p": "directed by", "o": f"Person {number}", "src": [f"Film {number}"]}
            file.write(json.dumps(fact) + "\n")
    add_facts(facts, folder / "idx", encoder="")
    return folder / "idx"


def read_index(folder: Path) -> list[object]:
    """Return what searches of every kind find in an index, with scores and texts."""

    async def searched(kind: str) -> list[object]:
        retriever = open_retriever(folder, kind)
        try:
            found = [await retriever.search(query, k=8) for query in QUERIES]
        finally:
            await retriever.aclose()
        return [[(passage.id, passage.score, passage.text) for passage in passages] for passages in found]

    return [asyncio.run(searched(kind)) for kind in ("bm25", "linked", "hippo")]


@contextmanager
def damage(path: Path, others: list[Path], rng: random.Random) -> Iterator[str]:
    """Damage a file for a while, and say how; others may have it mapped, so that it is replaced and not written to."""
    content = path.read_bytes()
    kind = rng.choice(KINDS)
    at = rng.randrange(max(1, len(content)))
    harmed: bytes | None = content
    match kind:
        case "flip" if content:
            harmed = content[:at] + bytes([content[at] ^ 1 << rng.randrange(8)]) + content[at + 1 :]
        case "cut":
            harmed = content[:at]
        case "empty":
            harmed = b""
        case "delete":
            harmed = None
        case "zeros":
            harmed = content[:at] + bytes(min(64, len(content) - at)) + content[at + 64 :]
        case "longer":
            harmed = content + rng.randbytes(rng.randrange(1, 64))
        case "swap":
            harmed = rng.choice(others).read_bytes()
    path.unlink()
    if harmed is not None:
        path.write_bytes(harmed)
    try:
        yield f"{path.name}: {kind} at {at}"
    finally:
        path.unlink(missing_ok=True)
        path.write_bytes(content)


def rot(folder: Path, read: Callable[[Path], object], trials: int, seed: int) -> Rot:
    """Damage files of a folder so often, one at a time, and compare what is read with what was."""
    rng, outcome = random.Random(seed), Rot()
    sound = read(folder)
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    for _ in range(trials):
        path = rng.choice(files)
        with damage(path, files, rng) as what:
            try:
                same = read(folder) == sound
            except HoptreeError:
                outcome.counts["noticed"] += 1
                continue
            except Exception as error:
                outcome.crashed.append(f"{what}: {type(error).__name__}: {error}")
                continue
        outcome.counts["harmless" if same else "wrong"] += 1
        if not same:
            outcome.wrong.append(what)
    assert read(folder) == sound, "what was damaged is whole again"
    return outcome


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        outcome = rot(make_index(Path(place)), read_index, given.trials, given.seed)
    counts: Mapping[str, int] = outcome.counts
    print(f"{given.trials:,} trials: {', '.join(f'{count:,} {name}' for name, count in sorted(counts.items()))}")
    for name in (*outcome.wrong, *outcome.crashed):
        print(f"  {name}")
    return 1 if outcome.wrong or outcome.crashed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
