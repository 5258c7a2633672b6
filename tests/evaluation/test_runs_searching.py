"""Scores of what was found: none for a run that searches nothing, 0 where a search found nothing of use."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tests.evaluation.report_runs import cells

from hoptree.corpus.chunk import Chunking
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.run_folder import read_rows, summarise
from hoptree.evaluation.running import RunOptions, run_experiment
from hoptree.retrieval.indexing import build_index
from hoptree.retrieval.indexing.sources import Reading

OF_SEARCHES = {"retrieval_recall", "passage_support_f1", "citation_recall"}


def made(folder: Path, know: str, **options: Any) -> Path:
    """Four questions whose gold passage is not in the corpus."""
    rows = [{"id": f"q{n}", "question": f"What is {n}?", "answers": ["x"], "supporting_ids": ["g"]} for n in range(4)]
    data, docs, model = folder / "d.jsonl", folder / "docs.jsonl", folder / "m.json"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    docs.write_text(json.dumps({"id": "p1", "title": "Numbers", "text": "What is a number?"}), encoding="utf-8")
    build_index(docs, folder / "idx")
    replies = [{"step": "know", "contains": "What is 0?", "reply": "Yes. x"}, {"step": "know", "reply": know}]
    model.write_text(json.dumps({"replies": [*replies, {"reply": "unknown"}]}), encoding="utf-8")
    wanted = Experiment(
        data, method="ra_isf", model=f"scripted/{model}", corpus=str(folder / "idx"), options=options, name="ra on d"
    )
    asyncio.run(run_experiment(wanted, folder / "runs" / "ra", RunOptions(cache=None)))
    return folder / "runs" / "ra"


def test_a_run_that_searches_nothing_has_no_score_of_searches(tmp_path: Path) -> None:
    folder = made(tmp_path, "No", no_relevance=True)
    assert not OF_SEARCHES & {name for row in read_rows(folder) for name in row.scores}
    assert not OF_SEARCHES & summarise(folder)["metrics"].keys()
    tables = [one for one in tables_of(read_groups([folder])) if "Retrieval recall" in one.columns]
    assert all(cells(one, "ra")["Retrieval recall"] is None for one in tables)


def test_a_search_that_found_none_of_the_gold_scores_0_and_so_does_a_question_without_one(tmp_path: Path) -> None:
    rows = read_rows(made(tmp_path, "No"))
    assert [bool(row.retrieved) for row in rows] == [False, True, True, True]
    assert [row.scores["retrieval_recall"] for row in rows] == [0.0] * 4


def test_a_chunk_of_a_gold_passage_counts_as_that_passage(tmp_path: Path) -> None:
    rows = [{"id": "q", "question": "Who flew the kite?", "answers": ["x"], "supporting_ids": ["p", "o"]}]
    data, docs, model = tmp_path / "d.jsonl", tmp_path / "docs.jsonl", tmp_path / "m.json"
    data.write_text(json.dumps(rows[0]) + "\n", encoding="utf-8")
    docs.write_text(json.dumps({"id": "p", "title": "Kite", "text": "A kite flew. " * 30}), encoding="utf-8")
    build_index(docs, tmp_path / "idx", reading=Reading(Chunking("words", 30)))
    model.write_text(json.dumps({"replies": [{"reply": "x"}]}), encoding="utf-8")
    wanted = Experiment(data, method="oner", model=f"scripted/{model}", corpus=str(tmp_path / "idx"), retriever="bm25")
    asyncio.run(run_experiment(wanted, tmp_path / "run", RunOptions(cache=None)))
    (row,) = read_rows(tmp_path / "run")
    assert row.retrieved == (("p",),) and row.scores["retrieval_recall"] == 0.5
