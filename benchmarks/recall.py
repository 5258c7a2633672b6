"""Recall@5 on closed corpora: BM25, linked retrieval and the trained ranker side by side, with and without titles.

Give the folder of the data sets, one sub-folder each with passages and questions (rows with `supporting_ids`). The
settings of linked retrieval were chosen on the first half of each file, so it is judged on the second. The ranker is
judged on the first rows of a file (300, or 200 of TriviaQA), none of which it was trained on.

Figures come last; the exit code is 1 where a goal is missed. `--quick` takes 60 questions of the three multi-hop sets.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from hoptree.core.values import Passage
from hoptree.evaluation.retrieval import QuestionSet, RetrievalRun, evaluate, read_questions
from hoptree.evaluation.statistics import compare
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.ranker import Ranked, Ranker, installed_ranker, read_ranker
from hoptree.retrieval.retriever import open_retriever


@dataclass(frozen=True, slots=True)
class DataSet:
    """A data set with the BM25 recall@5 that is published for it, and the goals of linked and ranked retrieval.

    Where there is no goal, neither may find less than BM25. `rows` are those that the ranker is judged on.
    """

    name: str
    questions: str
    corpus: str
    baseline: float
    linked: float = 0.0
    ranked: float = 0.0
    rows: int = 300


SETS = (
    DataSet("2wikimultihopqa", "dev.jsonl", "corpus.jsonl.gz", 0.674, 0.95, 0.97),
    DataSet("2wikimultihopqa", "dev_extra.jsonl", "corpus_extra.jsonl.gz", 0.681, rows=0),
    DataSet("hotpotqa", "dev.jsonl", "corpus.jsonl.gz", 0.742, 0.90, 0.955),
    DataSet("musique", "dev.jsonl", "corpus.jsonl.gz", 0.491, 0.60, 0.70),
    DataSet("musique", "dev_pooled.jsonl", "corpus.jsonl.gz", 0.468, rows=0),
    DataSet("nq", "dev.jsonl", "corpus.jsonl.gz", 0.787),
    DataSet("popqa", "dev.jsonl", "corpus.jsonl.gz", 0.932),
    DataSet("triviaqa", "dev.jsonl", "corpus.jsonl.gz", 0.943, rows=200),
    DataSet("strategyqa", "dev.jsonl", "corpus.jsonl", 0.749),
)
_BY = "recall@5"
_SLACK = 0.01
"""How far below the published baseline BM25 may be."""
_QUICK_ROWS = 60
_MAX_P50_MS = 150.0


@dataclass(slots=True)
class Judge:
    """Lines of the table, and how many goals were missed."""

    lines: list[str]
    missed: int = 0

    def add(self, line: str, ok: bool | None) -> None:
        """Add a line with its verdict; None judges nothing."""
        self.missed += ok is False
        self.lines.append(f"{line}  {'' if ok is None else 'PASS' if ok else 'MISS'}".rstrip())
        print(self.lines[-1], file=sys.stderr)


def _passages(path: Path, *, titles: bool) -> Iterator[Passage]:
    with gzip.open(path, "rt", encoding="utf-8") if path.suffix == ".gz" else path.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield Passage(str(row["id"]), (row.get("title") or "") if titles else "", row["text"])


def _run(folder: Path, kind: str, asked: QuestionSet, ranker: Ranker | None = None) -> RetrievalRun:
    retriever = Ranked(Index(folder), ranker) if ranker else open_retriever(folder, kind)
    return asyncio.run(evaluate(retriever, asked, k=10))


def _first_rows(path: Path, count: int) -> QuestionSet:
    """Return the questions with gold passages among the first rows of a file."""
    first = {str(json.loads(line)["id"]) for line in path.read_text(encoding="utf-8").splitlines()[:count]}
    asked = read_questions(path)
    return replace(asked, questions=tuple(question for question in asked.questions if question.id in first))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder of the data sets")
    parser.add_argument("--ranker", type=Path, help="weights of hoptree align ranker; else the installed ones")
    parser.add_argument("--quick", action="store_true", help="60 questions of the three multi-hop sets, not judged")
    chosen = parser.parse_args()
    ranker = read_ranker(chosen.ranker) if chosen.ranker else installed_ranker()
    sets = [data for data in SETS if data.linked] if chosen.quick else SETS
    for path in (chosen.data / data.name / file for data in sets for file in (data.corpus, data.questions)):
        if not path.is_file():
            parser.error(f"there is no {path}")
    judge = Judge([])
    for data in sets:
        for titles in (True,) if chosen.quick else (True, False):
            with tempfile.TemporaryDirectory() as scratch:
                index, questions = Path(scratch, "index"), chosen.data / data.name / data.questions
                index_passages(_passages(chosen.data / data.name / data.corpus, titles=titles), index)
                if data.rows:
                    asked = _first_rows(questions, _QUICK_ROWS if chosen.quick else data.rows)
                    _judge_ranked(judge, data, titles, index, asked, ranker, judged=not chosen.quick)
                if not chosen.quick:
                    _judge_linked(judge, data, titles, index, questions)
    print(f"{'data set':16} {'file':17} titles rows       BM25   linked ranked  goal    p       p50 ms")
    print("\n".join(judge.lines))
    if ranker is None:
        print("no ranker is installed, and none was judged: pip install ./weights, or --ranker FILE")
    verdict = f"{judge.missed} missed" if judge.missed else "all met"
    print(f"goals: {'not judged on so few questions' if chosen.quick else verdict}")
    return 1 if judge.missed else 0


def _judge_ranked(
    judge: Judge, data: DataSet, titles: bool, index: Path, asked: QuestionSet, ranker: Ranker | None, *, judged: bool
) -> None:
    """Add the line of the first rows; without titles the ranker must find no less than linked retrieval."""
    words, linked = (_run(index, kind, asked) for kind in ("bm25", "linked"))
    ranked = _run(index, "ranked", asked, ranker) if ranker else None
    goal = (data.ranked or words.as_dict()[_BY]) if titles else linked.as_dict()[_BY]
    ok = None
    if ranked and judged:
        ok = ranked.as_dict()[_BY] >= goal and ranked.as_dict()["p50_ms"] <= _MAX_P50_MS
    judge.add(_line(data, titles, f"first {len(asked.questions)}", (words, linked, ranked), goal), ok)


def _judge_linked(judge: Judge, data: DataSet, titles: bool, index: Path, questions: Path) -> None:
    """Add the line of the second half, and BM25 on the whole file beside what is published."""
    half = read_questions(questions, half="second")
    words, linked = (_run(index, kind, half) for kind in ("bm25", "linked"))
    goal = data.linked if data.linked and titles else words.as_dict()[_BY]
    judge.add(_line(data, titles, "2nd half", (words, linked, None), goal), linked.as_dict()[_BY] >= goal)
    if titles:
        share = _run(index, "bm25", read_questions(questions)).as_dict()[_BY]
        shown = f"{data.name:16} {data.questions:17} BM25 on all of it {share:.4f}, published {data.baseline:.3f}"
        judge.add(shown, share >= data.baseline - _SLACK)


def _line(
    data: DataSet,
    titles: bool,
    rows: str,
    runs: tuple[RetrievalRun, RetrievalRun, RetrievalRun | None],
    goal: float,
) -> str:
    """Return a row of the table; p is that of the last retriever against the one before it."""
    judged = [run for run in runs if run is not None]
    chance = compare(judged[-1].scores[_BY], judged[-2].scores[_BY]).p_value
    recalls = " ".join(f"{run.as_dict()[_BY]:.4f}" if run else "     -" for run in runs)
    return (
        f"{data.name:16} {data.questions:17} {'with' if titles else 'none':6} {rows:9}  {recalls}  "
        f"{goal:.4f}  {chance:.4f}  {judged[-1].as_dict()['p50_ms']:5.1f}"
    )


if __name__ == "__main__":
    sys.exit(main())
