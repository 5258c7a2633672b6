"""Passages that contain an evaluation question are left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.read import QuestionFilter, read_questions

QUESTION = "Who directed the film “Red Kite” (2014)?"


@pytest.mark.parametrize(
    ("text", "title", "held"),
    [
        ("Q: who directed the film 'red kite', 2014 A: Ada", "", True),
        ("WHO DIRECTED\nTHE FILM RED-KITE 2014", "", True),
        ("x", "Who directed the film Red Kite 2014", True),
        ("who directed who directed the film red kite 2014", "", True),
        ("Who directed the film Red Kite", "", False),
        ("kite 2014", "Who directed the film Red", False),
        ("who directed the film redkite 2014", "", False),
        ("xwho directed the film red kite 2014", "", False),
        ("", "", False),
    ],
)
def test_a_question_is_found_despite_other_case_and_punctuation(text: str, title: str, held: bool) -> None:
    assert QuestionFilter([QUESTION]).holds(Passage("a", title, text)) is held


def test_questions_with_the_same_beginning_are_distinguished() -> None:
    chosen = QuestionFilter(f"Who directed the film called {name}?" for name in ("Kite", "Whiplash", "Solaris"))
    for name, held in (("kite", True), ("whiplash", True), ("solaris", True), ("stalker", False)):
        assert chosen.holds(Passage("a", "", f"who directed the film called {name}")) is held


def test_dropped_passages_are_counted() -> None:
    passages = [Passage(str(n), "", f"So: {QUESTION}" if n % 2 else "Something else entirely.") for n in range(60)]
    chosen = QuestionFilter([QUESTION, "Who is he?", QUESTION.upper()])
    assert [p.id for p in chosen(passages)] == [str(n) for n in range(0, 60, 2)]
    assert chosen.dropped == 30


def test_questions_are_read_from_files_of_rows(tmp_path: Path) -> None:
    path = tmp_path / "dev.jsonl"
    path.write_text("\n".join(json.dumps({"id": n, "question": f"Question {n}?"}) for n in range(3)) + '\n{"x": 1}\n')
    assert list(read_questions(path)) == ["Question 0?", "Question 1?", "Question 2?"]
    path.write_text('{"id": 1}\n')
    with pytest.raises(CorpusError, match="no questions"):
        list(read_questions(path))


WORDS = st.lists(st.sampled_from(["who", "is", "the", "of", "Ada"]), max_size=14)


@given(WORDS, st.lists(WORDS, max_size=4))
def test_the_filter_finds_the_same_as_a_plain_search(text_words: list[str], questions: list[list[str]]) -> None:
    text = f" {' '.join(text_words).lower()} "
    plain = any(len(words) >= 5 and f" {' '.join(words).lower()} " in text for words in questions)
    assert (
        QuestionFilter(" ".join(words) + "?" for words in questions).holds(Passage("a", "", ", ".join(text_words)))
        is plain
    )


@pytest.mark.parametrize(
    ("name", "content", "cause"),
    [
        ("none.jsonl", None, "There is no"),
        ("q.txt", "Who?", "is not a file of questions"),
        ("q.jsonl", "{broken", "is not JSON"),
        ("q.jsonl", "{}", "holds no questions"),
    ],
)
def test_the_error_for_other_files_says_what_a_file_of_questions_is(
    tmp_path: Path, name: str, content: str | None, cause: str
) -> None:
    if content is not None:
        (tmp_path / name).write_text(f"{content}\n", encoding="utf-8")
    with pytest.raises(CorpusError, match=cause) as failure:
        list(read_questions(tmp_path / name))
    assert 'Each row has a field "question".' in failure.value.remedy
    assert "--skip-broken" not in str(failure.value) and "document" not in str(failure.value)
