"""The pool of the benchmarks has the candidates of all questions, and no passage twice."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from benchmarks.pooled import AROUND, pooled, write_pool

PASSAGES = [{"id": f"p{number}", "title": f"T{number}", "text": "x"} for number in range(30)]


def ids(questions: list[dict[str, Any]]) -> list[str]:
    return [row["id"] for row in pooled(questions, PASSAGES)]


def test_candidates_of_all_questions_are_kept_once_in_order() -> None:
    first = {"context_ids": ["p9", "p2"], "supporting_ids": ["p2"]}
    assert ids([first, {"context_ids": ["p2", "p4"], "supporting_ids": ["p4"]}]) == ["p2", "p4", "p9"]


def test_unlisted_candidates_are_those_around_the_supporting_ones() -> None:
    assert ids([{"supporting_ids": ["p1", "p28"]}]) == [
        *(f"p{number}" for number in range(1 + AROUND + 1)),
        *(f"p{number}" for number in range(28 - AROUND, 30)),
    ]


def test_a_pool_is_written_with_its_questions_and_can_be_overwritten(tmp_path: Path) -> None:
    source = tmp_path / "data"
    source.mkdir()
    with gzip.open(source / "corpus.jsonl.gz", "wt") as file:
        file.writelines(f"{json.dumps(row)}\n" for row in PASSAGES)
    asked = [{"id": f"q{number}", "context_ids": [f"p{number}"]} for number in range(5)]
    (source / "dev.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in asked))
    for _ in range(2):
        assert write_pool(source, tmp_path / "pool", 2) == (2, 2)
    written = [json.loads(line) for line in (tmp_path / "pool" / "passages.jsonl").read_text().splitlines()]
    assert written == PASSAGES[:2]
    assert len((tmp_path / "pool" / "dev.jsonl").read_text().splitlines()) == 2
    assert (tmp_path / "pool" / "corpus.jsonl.gz").samefile(source / "corpus.jsonl.gz")
