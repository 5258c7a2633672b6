"""Recall on closed corpora: BM25 against a published baseline, linked retrieval against BM25, with and without titles.

Give the folder of the data sets, one sub-folder each with passages and questions (rows with `supporting_ids`). The
settings of linked retrieval were chosen on the first half of the questions; what counts here is the second half.

Figures come last; the exit code is 1 where a goal is missed. `--quick` takes the first 60 questions of a half.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hoptree.core.values import Passage
from hoptree.evaluation.retrieval import RetrievalRun, evaluate, read_questions
from hoptree.evaluation.statistics import compare
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.opening import open_retriever


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set with the BM25 recall@5 that is published for it, and the goal of linked retrieval if it has one.

    Where it has none, linked retrieval must not find less than BM25.
    """

    name: str
    questions: str
    corpus: str
    baseline: float
    linked: float | None = None


SETS = (
    DataSet("2wikimultihopqa", "dev.jsonl", "corpus.jsonl.gz", 0.674, 0.95),
    DataSet("2wikimultihopqa", "dev_extra.jsonl", "corpus_extra.jsonl.gz", 0.681),
    DataSet("hotpotqa", "dev.jsonl", "corpus.jsonl.gz", 0.742, 0.90),
    DataSet("musique", "dev.jsonl", "corpus.jsonl.gz", 0.491, 0.60),
    DataSet("musique", "dev_pooled.jsonl", "corpus.jsonl.gz", 0.468),
    DataSet("nq", "dev.jsonl", "corpus.jsonl.gz", 0.787),
    DataSet("popqa", "dev.jsonl", "corpus.jsonl.gz", 0.932),
    DataSet("triviaqa", "dev.jsonl", "corpus.jsonl.gz", 0.943),
    DataSet("strategyqa", "dev.jsonl", "corpus.jsonl", 0.749),
)
_BY = "recall@5"
_SLACK = 0.01
"""How far below the published baseline BM25 may be."""


def _passages(path: Path, *, titles: bool) -> Iterator[Passage]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Passage(str(row["id"]), (row.get("title") or "") if titles else "", row["text"])


def _run(folder: Path, kind: str, questions: Path, half: str, limit: int | None) -> RetrievalRun:
    asked = read_questions(questions, half=half, limit=limit)
    return asyncio.run(evaluate(open_retriever(folder, kind), asked, k=10))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--quick", action="store_true", help="60 questions a half, the three multi-hop sets only")
    chosen = parser.parse_args()
    lines, missed = [], 0
    sets = [data for data in SETS if data.linked] if chosen.quick else SETS
    for path in (chosen.data / data.name / file for data in sets for file in (data.corpus, data.questions)):
        if not path.is_file():
            parser.error(f"there is no {path}")
    for data in sets:
        for titles in (True, False):
            with tempfile.TemporaryDirectory() as scratch:
                index, questions = Path(scratch, "index"), chosen.data / data.name / data.questions
                index_passages(_passages(chosen.data / data.name / data.corpus, titles=titles), index)
                for half in ("first", "second"):
                    limit = 60 if chosen.quick else None
                    words = _run(index, "bm25", questions, half, limit)
                    linked = _run(index, "linked", questions, half, limit)
                    line, ok = _line(data, titles, half, words, linked, judged=not chosen.quick)
                    lines.append(line)
                    missed += not ok
                    print(line, file=sys.stderr)
                if titles and not chosen.quick:
                    whole = _run(index, "bm25", questions, "", None).as_dict()[_BY]
                    ok = whole >= data.baseline - _SLACK
                    missed += not ok
                    said = f"BM25 on all of it {whole:.4f}, published {data.baseline:.3f}"
                    lines.append(f"{data.name:16} {data.questions:17} {said}  {'PASS' if ok else 'MISS'}")
    print(f"{'data set':16} {'questions':17} titles half    BM25   linked  goal    p       p50 ms")
    print("\n".join(lines))
    print(
        "goals: " + ("not judged on so few questions" if chosen.quick else f"{missed} missed" if missed else "all met")
    )
    return 1 if missed else 0


def _line(
    data: DataSet, titles: bool, half: str, words: RetrievalRun, linked: RetrievalRun, *, judged: bool
) -> tuple[str, bool]:
    """One row of the table, and whether its goal is met; only the second half is judged."""
    below, above = words.as_dict()[_BY], linked.as_dict()[_BY]
    goal = data.linked if data.linked and titles else below
    ok = above >= goal
    chance = compare(linked.scores[_BY], words.scores[_BY]).p_value
    verdict = ("PASS" if ok else "MISS") if half == "second" and judged else ""
    line = (
        f"{data.name:16} {data.questions:17} {'with' if titles else 'none':6} {half:6}  {below:.4f} {above:.4f}  "
        f"{goal:.4f}  {chance:.4f}  {linked.as_dict()['p50_ms']:5.1f}  {verdict}"
    )
    return line.rstrip(), ok or not verdict


if __name__ == "__main__":
    sys.exit(main())
