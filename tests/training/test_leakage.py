"""Evaluation questions are kept out of training sets: by split, by file, by id, by words and by steps."""

from __future__ import annotations

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import InputError
from hoptree.evaluation.datasets.examples import Example
from hoptree.training.leakage import OVERLAP, Excluded, admit
from hoptree.training.questions import TrainingQuestion, is_evaluation, read_training_questions, split_of_path


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
        ("devset.jsonl", "dev"),
        ("held-out.jsonl", "held-out"),
        ("train_and_dev.jsonl", "dev"),
        ("training_set.jsonl", "train"),
        ("dev/questions.jsonl", "dev"),
        ("dev/train.jsonl", "train"),
        ("test_of_mine/questions.jsonl", ""),
    ],
)
def test_the_name_of_a_file_or_else_of_its_folder_tells_its_split(name: str, split: str) -> None:
    assert split_of_path(Path("here") / name) == split
    assert is_evaluation(split) == (split not in ("", "train"))


def test_what_a_row_says_counts_before_the_name_of_its_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "dev.jsonl",
        {"id": "1", "question": "Who?", "source_split": "Train "},
        {"id": "2", "question": "Where?", "source_split": "test"},
        {"question": "When?"},
    )
    assert [question.split for question in read_training_questions([path])] == ["train", "test", "dev"]


@pytest.mark.parametrize("said", ["dev_distractor", ["dev"], "Dev-Set", ["train", "test"], "held_out"])
def test_a_split_in_other_words_is_one_all_the_same(tmp_path: Path, said: Any) -> None:
    (question,) = read_training_questions([write(tmp_path / "a.jsonl", {"question": "Who?", "split": said})])
    assert is_evaluation(question.split)
    with pytest.raises(InputError, match="1 of 1 questions are evaluation questions"):
        admit([question], Excluded())


@pytest.mark.parametrize("said", [7, None, {"dev": 1}, [3], "distractor"])
def test_a_row_that_tells_no_split_leaves_it_to_the_file(tmp_path: Path, said: Any) -> None:
    (question,) = read_training_questions([write(tmp_path / "dev.jsonl", {"question": "Who?", "split": said})])
    assert question.split == "dev"


def test_splits_and_facts_belong_to_the_ids_that_examples_have(tmp_path: Path) -> None:
    facts = [["A", "director", "B"]]
    path = write(
        tmp_path / "a.jsonl",
        {"id": 0, "question": "Who?", "split": "dev", "evidence_triples": facts},
        {"id": "", "qid": "q", "question": "Where?", "split": "test"},
    )
    first, second = read_training_questions([path])
    assert (first.example.id, first.split, first.facts) == ("0", "dev", (("A", "director", "B"),))
    assert (second.example.id, second.split) == ("Where?", "test")
    raw = {"question": "who sang it", "answer": ["x"], "split": "dev"}
    (tmp_path / "nq.jsonl").write_text(json.dumps(raw) + "\n", encoding="utf-8")
    (third,) = read_training_questions([tmp_path / "nq.jsonl"])
    assert (third.example.id, third.split) == ("nq-0", "dev"), "an id that only the form gives"


@pytest.mark.parametrize("name", [".", "queries.jsonl", "qrels/test.tsv"])
def test_a_folder_in_the_form_of_beir_is_of_the_split_that_it_stands_for(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "facts"
    write(folder / "queries.jsonl", {"_id": "1", "text": "Who?"})
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n1\tp\t1\n", encoding="utf-8")
    (question,) = read_training_questions([folder / name])
    assert (question.example.id, question.split) == ("1", "test")


def test_facts_are_read_from_both_spellings_and_anything_else_is_none(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        {"id": "1", "question": "Who?", "evidence_triples": [["A", "director", "B"]]},
        {"id": "2", "question": "Where?", "evidence_triples": [["A", "director", 3]]},
    )
    first, second = read_training_questions([path])
    assert first.facts == (("A", "director", "B"),) and second.facts == ()


def test_one_question_in_two_files_is_taken_once_and_counted(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"id": "1", "question": "Who was it?"}, {"id": "2", "question": "Where?"}]
    paths = [write(tmp_path / "a.jsonl", *rows), write(tmp_path / "b.jsonl", rows[0] | {"question": "who was it"})]
    paths.append(write(tmp_path / "c.jsonl", rows[1] | {"dataset": "a", "question": "Where was that?"}))
    found = admit(read_training_questions(paths), Excluded())
    assert [question.key for question in found.questions] == ["a/1", "a/2"]
    assert found.left_out == {"of the same id or words as one before": 2}


def test_questions_without_a_word_are_told_apart_by_their_ids() -> None:
    assert len(admit([asked("???", "1"), asked("!!!", "2")], Excluded()).questions) == 2


@pytest.mark.parametrize("split", ["dev", "test", "validation"])
def test_a_question_of_an_evaluation_split_is_refused(split: str) -> None:
    assert is_evaluation(split) and not is_evaluation("train") and not is_evaluation("")
    questions = [asked("Who was first?"), asked("Who was last?", "t2", split)]
    with pytest.raises(InputError, match=f"1 of 2 .*'t2'.*'{split}'.*--any-split"):
        admit(questions, Excluded())


def test_questions_are_left_out_by_id_and_by_words(tmp_path: Path) -> None:
    excluded = Excluded(
        [write(tmp_path / "eval.jsonl", {"id": "e1", "question": "Who wrote the anthem of the republic of Malta?"})]
    )
    questions = [
        TrainingQuestion(Example("e1", "Something else?", ("x",), dataset="eval"), "train.jsonl", "train"),
        asked("who wrote anthem of republic of malta", "t2"),
        asked("Who wrote the anthem of the old republic of Malta?", "t3"),
        asked("Who wrote the anthem of the republic of Cyprus?", "t4"),
    ]
    found = admit(questions, excluded)
    assert [q.example.id for q in found.questions] == ["t4"]
    assert found.left_out == {"evaluation question by id": 1, "evaluation question by words": 2}


def test_when_all_are_evaluation_questions_nothing_is_built(tmp_path: Path) -> None:
    excluded = Excluded([write(tmp_path / "eval.jsonl", {"id": "e1", "question": "Who?"})])
    with pytest.raises(InputError, match=r"No question is left .*1 evaluation question by words"):
        admit([asked("Who?", "e1")], excluded)


def test_a_file_that_is_excluded_is_refused_under_any_name(tmp_path: Path) -> None:
    row = {"id": "1", "question": "Who?", "source_split": "train"}
    mine, theirs = write(tmp_path / "mine.jsonl", row), write(tmp_path / "eval.jsonl", row)
    questions = read_training_questions([mine])
    with pytest.raises(InputError, match=r"mine.jsonl is among the excluded files"):
        admit(questions, Excluded([theirs]))


def test_an_id_counts_within_its_data_set(tmp_path: Path) -> None:
    path = write(tmp_path / "eval.jsonl", {"id": "7", "question": "Who wrote the anthem?", "dataset": "songs"})
    excluded = Excluded([path])
    same = TrainingQuestion(Example("7", "Where?", ("x",), dataset="songs"), "train.jsonl", "train")
    other = TrainingQuestion(Example("7", "Where?", ("x",), dataset="films"), "train.jsonl", "train")
    words = TrainingQuestion(Example("7", "who wrote anthem", ("x",), dataset="films"), "train.jsonl", "train")
    assert [excluded.why(one) for one in (same, other, words)] == ["id in eval.jsonl", "", "words in eval.jsonl"]


def run_folder(path: Path, *names: str) -> Path:
    about = {"format": 1, "data_name": "songs", "questions": list(names), "rests_on": {}}
    rows = [{"id": name, "question": f"Who sang {name}?", "answer": "me"} for name in (*names, names[0])]
    write(path / "results.jsonl", *rows)
    (path / "run.json").write_text(json.dumps(about), encoding="utf-8")
    return path


def test_the_folder_of_a_run_stands_for_the_questions_it_asked(tmp_path: Path) -> None:
    excluded = Excluded([run_folder(tmp_path / "runs" / "mine", "r1")])
    assert len(excluded) == 1, "one that was asked again is one question"
    question = TrainingQuestion(Example("r1", "Where?", ("x",), dataset="songs"), "train.jsonl", "train")
    assert excluded.why(question) == "id in results.jsonl" and not excluded.why(asked("Where?", "r1"))
    assert excluded.why(asked("who sang r1")) == "words in results.jsonl"


def test_a_folder_of_runs_stands_for_the_questions_of_all(tmp_path: Path) -> None:
    run_folder(tmp_path / "runs" / "a", "r1", "r2")
    run_folder(tmp_path / "runs" / "b", "r2", "r3")
    excluded = Excluded([tmp_path / "runs"])
    assert len(excluded) == 3 and all(excluded.why(asked(f"Who sang r{n}?")) for n in (1, 2, 3))
    (tmp_path / "none").mkdir()
    with pytest.raises(InputError):
        Excluded([tmp_path / "none"])


def test_files_named_for_evaluation_are_refused_though_their_rows_say_train(tmp_path: Path) -> None:
    rows = [{"id": str(n), "question": f"Who sang song {n}?", "source_split": "train"} for n in range(3)]
    path = write(tmp_path / "songs" / "dev.jsonl", *rows)
    questions = read_training_questions([path, write(tmp_path / "train.jsonl", {"id": "t", "question": "Where?"})])
    elsewhere = write(tmp_path / "elsewhere.jsonl", {"id": "e", "question": "What is the capital of Peru?"})
    for excluded in (Excluded(), Excluded([elsewhere])):
        with pytest.raises(InputError, match=r"dev.jsonl is by its name for evaluation.*--exclude") as no:
            admit(questions, excluded)
        assert no.value.exit_code == 2
    measured = write(tmp_path / "measured.jsonl", {"id": "0", "question": "Who sang song 0?"})
    found = admit(questions, Excluded([measured]))
    assert [one.example.id for one in found.questions] == ["1", "2", "t"], "those that are measured on are left out"


@given(st.lists(st.sets(st.sampled_from("bcdefghijk"), min_size=1), min_size=1, max_size=6), st.data())
def test_the_quick_search_finds_what_comparing_all_would(others: list[set[str]], data: st.DataObject) -> None:
    mine = data.draw(st.sets(st.sampled_from("bcdefghijk"), min_size=1))
    with TemporaryDirectory() as folder:
        rows = [{"id": f"e{n}", "question": " ".join(sorted(other))} for n, other in enumerate(others)]
        excluded = Excluded([write(Path(folder) / "eval.jsonl", *rows)])
    same = any(len(mine & other) >= OVERLAP * len(mine | other) for other in others)
    assert bool(excluded.why(asked(" ".join(sorted(mine, reverse=True))))) == same


def test_questions_of_any_split_where_it_is_known_what_is_measured_on(tmp_path: Path) -> None:
    measured = write(tmp_path / "dev.jsonl", {"id": "m", "dataset": "d", "question": "Who wrote the novel Alpha?"})
    path = write(
        tmp_path / "dev_open.jsonl",
        {"id": "1", "dataset": "d", "question": "Who wrote the long novel Alpha?"},
        {"id": "m", "dataset": "d", "question": "Where was it?"},
        {"id": "2", "dataset": "d", "question": "Where was Beta made?"},
    )
    questions = read_training_questions([path])
    with pytest.raises(InputError, match="--any-split"):
        admit(questions, Excluded([measured]))
    found = admit(questions, Excluded([measured]), any_split=True)
    assert [question.example.id for question in found.questions] == ["2"]
    assert found.left_out == {"evaluation question by words": 1, "evaluation question by id": 1}
    assert found.questions[0].split == "dev"
    with pytest.raises(InputError, match="only where it is known which are measured on"):
        admit(questions, Excluded(), any_split=True)
    with pytest.raises(InputError, match="among the excluded files"):
        admit(questions, Excluded([path]), any_split=True)


def test_questions_that_are_in_no_file_can_be_excluded(tmp_path: Path) -> None:
    others = {"the other half": [TrainingQuestion(Example("o", "Who wrote the novel Alpha?", dataset="d"), "d.jsonl")]}
    excluded = Excluded((), others)
    assert len(excluded) == 1
    assert excluded.why(asked("Who wrote the novel Alpha")) == "words in the other half"


def test_any_split_needs_to_know_what_is_measured_on_of_each_data_set(tmp_path: Path) -> None:
    elsewhere = write(tmp_path / "dev.jsonl", {"id": "m", "dataset": "songs", "question": "Who sang Alpha?"})
    path = write(tmp_path / "dev_open.jsonl", {"id": "1", "dataset": "films", "question": "Where was Beta made?"})
    questions = read_training_questions([path])
    with pytest.raises(InputError, match=r"dev_open.jsonl.*'films'.*--exclude") as refused:
        admit(questions, Excluded([elsewhere]), any_split=True)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize("name", ["dev.jsonl", "test.jsonl.gz", "Dev.json", "dev/questions.jsonl"])
def test_any_split_does_not_take_a_file_that_is_called_after_a_split_of_evaluation_alone(
    tmp_path: Path, name: str
) -> None:
    measured = write(tmp_path / "some.jsonl", {"id": "m", "dataset": "films", "question": "Who sang Alpha?"})
    question = Example("1", "Where was Beta made?", ("x",), dataset="films")
    asked_for = TrainingQuestion(question, str(tmp_path / name), "train")
    with pytest.raises(InputError, match=r"is by its name what is measured on.*--exclude .*:300"):
        admit([asked_for], Excluded([measured]), any_split=True)
    other = TrainingQuestion(Example("2", "Who sang Alpha?", dataset="films"), str(tmp_path / name))
    parted = Excluded((), {"the other half": [other]})
    assert admit([asked_for], parted, any_split=True).questions == (asked_for,)
    named = TrainingQuestion(question, str(tmp_path / "dev_open.jsonl"), "dev")
    assert admit([named], Excluded([measured]), any_split=True).questions == (named,)


def composed(key: str, text: str, *steps: str, answers: tuple[str, ...] = ()) -> TrainingQuestion:
    example = Example(key, text, ("x",), dataset="d", decomposition=steps, decomposition_answers=answers)
    return TrainingQuestion(example, "train.jsonl", "train")


def test_a_question_that_shares_a_step_with_an_evaluation_question_is_left_out(tmp_path: Path) -> None:
    measured = write(
        tmp_path / "eval.jsonl",
        {"id": "2hop__11_22", "question": "Whose sister played Susan?"},
        {
            "id": "e2",
            "question": "When was the director of Alpha born?",
            "evidence_triples": [["Alpha", "director", "B"]],
        },
        {
            "id": "e3",
            "question": "Who leads the town where Cy was born?",
            "decomposition": ["Where was Cy born?", "Who leads #1?"],
            "decomposition_answers": ["Ulm", "Dee"],
        },
    )
    facts = (("Alpha (film)", "Director", "someone"),)
    shared = [
        composed("3hop1__7_22_9", "Name the sibling of the actress."),
        TrainingQuestion(Example("t2", "Who made it?", ("x",), dataset="d"), "train.jsonl", "train", facts),
        composed("t3", "What is the head of the place?", "What place?", "who leads #1", answers=("Ulm", "Dee")),
    ]
    own = [
        composed("2hop__12_23", "Which river is it?"),
        TrainingQuestion(
            Example("t5", "Which land?", ("x",), dataset="d"), "train.jsonl", "train", (("Alpha", "country", "B"),)
        ),
        composed("t6", "Who is at the top there?", "What town?", "who leads #1", answers=("Bonn", "Eve")),
        composed("t7", "Who is at the top of it?", "What village?", "who leads #1"),
    ]
    excluded = Excluded([measured])
    found = admit([*shared, *own], excluded)
    assert list(found.questions) == own
    assert found.left_out == {"shares a step with an evaluation question": 3}
