"""The packaged sample has the properties that the documentation names."""

from __future__ import annotations

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from pathlib import Path

import pytest

from hoptree.core.errors import CorpusError
from hoptree.evaluation.datasets.reading import read_examples
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index, sample_index
from hoptree.sample import sample_questions


def test_passages_are_short_and_ids_unique() -> None:
    text = (files("hoptree.sample") / "corpus.jsonl").read_text(encoding="utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    assert len(rows) >= 80
    assert len({row["id"] for row in rows}) == len(rows)
    assert max(len(row["text"].split()) for row in rows) <= 60


def test_questions_cover_the_kinds_and_three_have_no_answer() -> None:
    questions = sample_questions()
    assert len(questions) == 20
    kinds = Counter(question["type"] for question in questions)
    assert set(kinds) == {"bridge", "comparison", "bridge-comparison", "intersection"}
    assert {2, 3, 4} <= {question["hops"] for question in questions}
    unanswerable = [question for question in questions if not question["answerable"]]
    assert len(unanswerable) == 3
    assert all(not question["answers"] and not question["needs"] for question in unanswerable)


def test_the_name_of_the_sample_is_its_questions_unless_a_file_has_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = read_examples(Path("sample"))
    assert (len(data.examples), data.name) == (20, "sample")
    assert [example.question for example in data.examples] == [row["question"] for row in sample_questions()]
    Path("sample").write_text('{"question": "Who?", "answers": ["Ada"]}\n', encoding="utf-8")
    assert [example.question for example in read_examples(Path("sample")).examples] == ["Who?"]


def test_processes_wait_while_another_builds_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with ThreadPoolExecutor(4) as people:
        folders = set(people.map(lambda _: sample_index(), range(4)))
    assert len(folders) == 1 and Index(folders.pop()).manifest.passages >= 80


def test_the_error_for_a_read_only_cache_names_the_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(CorpusError, match=r"cannot be written.* Set XDG_CACHE_HOME to a folder"):
        sample_index()


def test_bm25_does_not_find_all_passages_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For at least half of the answerable questions, a needed passage is not among the first five."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    index = BM25(Index(sample_index()))
    questions = [question for question in sample_questions() if question["answerable"]]
    missed = sum(
        not set(question["needs"]) <= {passage.id for passage in index.search_now(question["question"], 5)}
        for question in questions
    )
    assert 2 * missed >= len(questions)
