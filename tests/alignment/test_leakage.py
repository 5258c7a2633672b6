"""Evaluation questions are kept out of training sets: by split, by file, by id and by words."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoptree.alignment.leakage import OVERLAP, Excluded, admit
from hoptree.alignment.questions import TrainingQuestion, is_evaluation, read_training_questions, split_told_by
from hoptree.errors import InputError
from hoptree.evaluation.datasets import Example


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({"answers": ["x"]} | row) + "\n" for row in rows), encoding="utf-8")
    return path


def asked(text: str, key: str = "t1", split: str = "train") -> TrainingQuestion:
    return TrainingQuestion(Example(key, text, ("x",)), "train.jsonl", split)


@pytest.mark.parametrize(
    ("name", "split"),
    [
        ("dev.jsonl", "dev"),
        ("dev_open.jsonl", "dev"),
        ("hotpot_dev_distractor_v1.json", "dev"),
        ("musique_ans_v1.0_train.jsonl", "train"),
        ("NQ-open.test.jsonl.gz", "test"),
        ("testimonies.jsonl", ""),
        ("questions.jsonl", ""),
    ],
)
def test_the_name_of_a_file_tells_its_split(name: str, split: str) -> None:
    assert split_told_by(name) == split


def test_what_a_row_says_counts_before_the_name_of_its_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "dev.jsonl",
        {"id": "1", "question": "Who?", "source_split": "Train "},
        {"id": "2", "question": "Where?", "source_split": "test"},
        {"question": "When?"},
    )
    assert [question.split for question in read_training_questions([path])] == ["train", "test", "dev"]


def test_facts_are_read_from_both_spellings_and_anything_else_is_none(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        {"id": "1", "question": "Who?", "evidence_triples": [["A", "director", "B"]]},
        {"id": "2", "question": "Where?", "evidence_triples": [["A", "director", 3]]},
    )
    first, second = read_training_questions([path])
    assert first.facts == (("A", "director", "B"),) and second.facts == ()


def test_one_question_in_two_files_is_refused(tmp_path: Path) -> None:
    row = {"id": "1", "question": "Who?", "dataset": "d"}
    with pytest.raises(InputError, match=r"in .*a.jsonl and in .*b.jsonl"):
        read_training_questions([write(tmp_path / "a.jsonl", row), write(tmp_path / "b.jsonl", row)])


@pytest.mark.parametrize("split", ["dev", "test", "validation"])
def test_a_question_of_an_evaluation_split_is_refused(split: str) -> None:
    assert is_evaluation(split) and not is_evaluation("train") and not is_evaluation("")
    questions = [asked("Who was first?"), asked("Who was last?", "t2", split)]
    with pytest.raises(InputError, match=f"1 of 2 .*'t2'.*'{split}'.*--only-train"):
        admit(questions, Excluded())
    chosen = admit(questions, Excluded(), only_train=True)
    assert [q.example.id for q in chosen.questions] == ["t1"] and chosen.left_out == {"of no train split": 1}
    allowed = admit(questions, Excluded(), allow=True)
    assert len(allowed.questions) == 2 and allowed.evaluation == {"/t2": f"split {split}"}


def test_questions_are_left_out_by_id_and_by_words(tmp_path: Path) -> None:
    excluded = Excluded(
        [write(tmp_path / "eval.jsonl", {"id": "e1", "question": "Who wrote the anthem of the republic of Malta?"})]
    )
    questions = [
        asked("Something else?", "e1"),
        asked("who wrote anthem of republic of malta", "t2"),
        asked("Who wrote the anthem of the old republic of Malta?", "t3"),
        asked("Who wrote the anthem of the republic of Cyprus?", "t4"),
    ]
    found = admit(questions, excluded)
    assert [q.example.id for q in found.questions] == ["t4"]
    assert found.left_out == {"evaluation question by id": 1, "evaluation question by words": 2}
    assert set(admit(questions, excluded, allow=True).evaluation.values()) == {
        "id in eval.jsonl",
        "words in eval.jsonl",
    }


def test_when_all_are_evaluation_questions_nothing_is_built(tmp_path: Path) -> None:
    excluded = Excluded([write(tmp_path / "eval.jsonl", {"id": "e1", "question": "Who?"})])
    with pytest.raises(InputError, match=r"No question is left .*1 evaluation question by id"):
        admit([asked("Who?", "e1")], excluded)


def test_a_file_that_is_excluded_is_refused_under_any_name(tmp_path: Path) -> None:
    row = {"id": "1", "question": "Who?", "source_split": "train"}
    mine, theirs = write(tmp_path / "mine.jsonl", row), write(tmp_path / "eval.jsonl", row)
    questions = read_training_questions([mine])
    with pytest.raises(InputError, match=r"mine.jsonl is among the excluded files"):
        admit(questions, Excluded([theirs]))
    assert admit(questions, Excluded([theirs]), allow=True).evaluation == {"mine/1": "id in eval.jsonl"}


def test_the_folder_of_a_run_stands_for_the_questions_it_asked(tmp_path: Path) -> None:
    run = tmp_path / "runs" / "mine"
    write(run / "results.jsonl", {"id": "r1", "question": "Who?", "answer": "me", "hops": 0, "scores": {}})
    excluded = Excluded([run])
    assert len(excluded) == 1 and excluded.why(asked("Where?", "r1")) == "id in results.jsonl"


@settings(max_examples=60)
@given(st.lists(st.sets(st.sampled_from("bcdefghijk"), min_size=1), min_size=1, max_size=6), st.data())
def test_the_quick_search_finds_what_comparing_all_would(others: list[set[str]], data: st.DataObject) -> None:
    mine = data.draw(st.sets(st.sampled_from("bcdefghijk"), min_size=1))
    with TemporaryDirectory() as folder:
        rows = [{"id": f"e{n}", "question": " ".join(sorted(other))} for n, other in enumerate(others)]
        excluded = Excluded([write(Path(folder) / "eval.jsonl", *rows)])
    same = any(len(mine & other) >= OVERLAP * len(mine | other) for other in others)
    assert bool(excluded.why(asked(" ".join(sorted(mine, reverse=True))))) == same
