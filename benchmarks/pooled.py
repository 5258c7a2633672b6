"""A small collection for methods that need facts of every passage: the first questions, and what was given with them.

    python benchmarks/pooled.py DATA --out POOL --questions 100 2wikimultihopqa hotpotqa musique

POOL/NAME gets dev.jsonl (the first questions), passages.jsonl (the candidates of all of them together, supporting ones
included) and corpus.jsonl.gz, a link to the whole collection. Where a data set does not say what the candidates of a
question were, they are the passages within three places of a supporting one: collections list them by question.
Retrieval from so few passages is easy; only runs over the same pool can be compared.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

AROUND = 3
"""Places before and after a supporting passage, which make pools of about ten passages a question."""

Row = dict[str, Any]


def pooled(questions: Sequence[Row], passages: Sequence[Row]) -> list[Row]:
    """The passages that were given with the questions, in the order of the collection."""
    place = {row["id"]: number for number, row in enumerate(passages)}
    kept: set[int] = set()
    for question in questions:
        if given := question.get("context_ids"):
            kept.update(place[one] for one in given)
            continue
        for one in question["supporting_ids"]:
            kept.update(range(max(0, place[one] - AROUND), min(len(passages), place[one] + AROUND + 1)))
    return [passages[number] for number in sorted(kept)]


def write_pool(source: Path, out: Path, count: int) -> tuple[int, int]:
    """Write the pool of one data set; how many questions and passages it has."""
    with (source / "dev.jsonl").open(encoding="utf-8") as lines:
        questions = [json.loads(line) for line in islice(lines, count)]
    with gzip.open(source / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
        found = pooled(questions, [json.loads(line) for line in lines])
    out.mkdir(parents=True, exist_ok=True)
    for name, rows in (("dev.jsonl", questions), ("passages.jsonl", found)):
        (out / name).write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows), encoding="utf-8")
    whole = out / "corpus.jsonl.gz"
    if not whole.is_symlink():
        whole.symlink_to((source / "corpus.jsonl.gz").resolve())
    return len(questions), len(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("names", nargs="+", help="data sets in it")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--questions", type=int, default=100)
    given = parser.parse_args()
    for name in given.names:
        questions, passages = write_pool(given.data / name, given.out / name, given.questions)
        print(f"{name}: {questions:,} questions, {passages:,} passages")


if __name__ == "__main__":
    main()
