"""What `--exclude` takes beside files and runs: the first questions of a file, and ids listed by file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.training.film_world import lines

from hoptree.core.errors import InputError
from hoptree.training.leakage import Excluded, admit, read_listed_ids, split_first
from hoptree.training.questions import read_training_questions

WORDS = ("one hen", "two oxen", "three cows", "four dogs", "five cats")


@pytest.fixture
def dev(tmp_path: Path) -> Path:
    (tmp_path / "nq").mkdir()
    rows = [
        {"id": str(n), "dataset": "nq", "question": f"Who has {words}?", "answers": ["x"]}
        for n, words in enumerate(WORDS)
    ]
    return lines(tmp_path / "nq" / "dev.jsonl", rows)


def test_the_first_questions_of_a_file_are_measured_on_and_the_others_may_be_trained_on(dev: Path) -> None:
    excluded = Excluded([Path(f"{dev}:2")])
    admitted = admit(read_training_questions([dev]), excluded, any_split=True)
    assert len(excluded) == 2 and [question.example.id for question in admitted.questions] == ["2", "3", "4"]
    assert admitted.left_out == {"evaluation question by id": 2}
    with pytest.raises(InputError, match="among the excluded files"):
        admit(read_training_questions([dev]), Excluded([dev]), any_split=True)


def test_a_colon_in_a_name_is_no_number(tmp_path: Path) -> None:
    named = tmp_path / "dev:12"
    assert split_first(named) == (tmp_path / "dev", 12)
    named.touch()
    assert split_first(named) == (named, None)
    with pytest.raises(InputError, match="excludes no question"):
        split_first(tmp_path / "dev:0")


def test_ids_are_listed_by_file(dev: Path, tmp_path: Path) -> None:
    listed = tmp_path / "not_for_training.json"
    listed.write_text(json.dumps({"nq/dev.jsonl": ["3"], "other/dev.jsonl": ["4"]}), encoding="utf-8")
    excluded = Excluded([listed, Path(f"{dev}:1")])
    admitted = admit(read_training_questions([dev]), excluded, any_split=True)
    assert [question.example.id for question in admitted.questions] == ["1", "2", "4"]
    assert len(excluded) == 3
    copy = lines(tmp_path / "copy.jsonl", [json.loads(row) for row in dev.read_text(encoding="utf-8").splitlines()])
    (question,) = (question for question in read_training_questions([copy]) if question.example.id == "3")
    assert excluded.why(question) == "id in not_for_training.json", "the folder of the list is the data set's name"


def test_ids_of_a_data_set_are_listed_line_by_line(dev: Path, tmp_path: Path) -> None:
    (tmp_path / "fit.txt").write_text("3\n1\n", encoding="utf-8")
    excluded = Excluded([Path(f"nq={tmp_path / 'fit.txt'}"), Path(f"{dev}:1")])
    admitted = admit(read_training_questions([dev]), excluded, any_split=True)
    assert [question.example.id for question in admitted.questions] == ["2", "4"] and len(excluded) == 3
    other = Excluded([Path(f"popqa={tmp_path / 'fit.txt'}")])
    assert not any(other.why(question) for question in read_training_questions([dev]))
    with pytest.raises(InputError, match="cannot be read"):
        Excluded([Path(f"nq={tmp_path / 'none.txt'}")])
    (tmp_path / "fit.txt").write_text("\n", encoding="utf-8")
    with pytest.raises(InputError, match="lists no ids"):
        Excluded([Path(f"nq={tmp_path / 'fit.txt'}")])


def test_other_json_is_no_list_of_ids(tmp_path: Path) -> None:
    path = tmp_path / "questions.json"
    for content in ("[]", "{}", '{"data": [{"id": 1}]}'):
        path.write_text(content, encoding="utf-8")
        assert read_listed_ids(path) is None
    path.write_text("{", encoding="utf-8")
    with pytest.raises(InputError, match="cannot be read"):
        read_listed_ids(path)
