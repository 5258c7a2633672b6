"""The list-intersection questions of the experiments: each is whole, and each name stands where it is said to stand."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from hoptree.evaluation.datasets.reading import read_examples
from hoptree.evaluation.metrics import score_list

HERE = Path(__file__).resolve().parents[2]
QUESTIONS = HERE / "experiments" / "treeqa" / "lists.jsonl"
SHARED = HERE / ".." / "shared" / "data"
CORPORA = ("hotpotqa", "musique", "2wikimultihopqa")
ROWS: list[dict[str, Any]] = [json.loads(line) for line in QUESTIONS.read_text(encoding="utf-8").splitlines()]
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row["id"])
with_passages = pytest.mark.skipif(not SHARED.is_dir(), reason="the folder of data is not there")


@lru_cache(maxsize=1)
def passages() -> dict[str, tuple[str, str, str]]:
    """Corpus, title and text of every passage by its id."""
    found = {}
    for corpus in CORPORA:
        with gzip.open(SHARED / corpus / "corpus.jsonl.gz", "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                found[row["id"]] = (corpus, row["title"], row["text"])
    return found


def folded(text: str) -> str:
    words = re.findall(r"[\w$]+", text.casefold())
    return f" {' '.join(words)} "


def stands(name: str, passage: str) -> bool:
    """Whether a name stands in a passage, or in its title, as whole words."""
    _, title, text = passages()[passage]
    return folded(name) in folded(f"{title} | {text}")


def vouching(row: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, list[str]]:
    """The passages that say of each wanted name that the condition holds."""
    told = condition["passages"]
    return {called[0]: told if isinstance(told, list) else told[called[0]] for called in row["wanted"]}


def test_there_are_enough_of_every_kind_and_none_comes_twice() -> None:
    examples = read_examples(QUESTIONS).examples
    assert len(examples) == len(ROWS) >= 36
    assert len({folded(row["question"]) for row in ROWS}) == len(ROWS)
    assert {row["type"] for row in ROWS} == {"people", "films", "places", "organisations", "music"}
    assert [example.wanted for example in examples] == [tuple(map(tuple, row["wanted"])) for row in ROWS]


def test_questions_of_the_first_corpus_come_first() -> None:
    """So that a limit leaves those that one corpus answers."""
    order = [row["corpus"] for row in ROWS]
    assert order == sorted(order, key=[*CORPORA, "several"].index) and order.count("hotpotqa") >= 30


@each
def test_a_question_is_whole(row: dict[str, Any]) -> None:
    assert row["question"].endswith("?") and 1 <= len(row["wanted"]) <= 6
    assert len(row["conditions"]) >= 2 and all(condition["says"] for condition in row["conditions"])
    cited = {name for one in row["conditions"] for names in vouching(row, one).values() for name in names}
    assert cited == set(row["supporting_ids"]) and len(row["supporting_ids"]) == len(row["supporting_titles"])
    names = [folded(name) for called in row["wanted"] for name in called]
    assert len(set(names)) == len(names), "a name and its aliases are one"
    assert not any(folded(called[0]) in folded(row["question"]) for called in row["wanted"]), "asked and not told"


@each
def test_every_answer_scores_full_marks(row: dict[str, Any]) -> None:
    assert len(row["answers"]) >= 1
    for answer in row["answers"]:
        assert set(score_list(answer, row["wanted"]).values()) == {1.0}


@each
def test_one_condition_alone_leaves_several(row: dict[str, Any]) -> None:
    """And where both tell their candidates, what is wanted is just what they have in common."""
    told = [one["candidates"] for one in row["conditions"] if "candidates" in one]
    assert max(map(len, told)) >= 3 and max(map(len, told)) >= len(row["wanted"])
    names = [{folded(name) for name in some} for some in told]
    for called in row["wanted"]:
        assert all(some & {folded(name) for name in called} for some in names), f"{called} is in each list"
    if len(told) == len(row["conditions"]):
        assert set.intersection(*names) <= {folded(name) for called in row["wanted"] for name in called}


@with_passages
@each
def test_every_name_stands_in_the_passages_that_vouch_for_it(row: dict[str, Any]) -> None:
    for name, title in zip(row["supporting_ids"], row["supporting_titles"], strict=True):
        assert passages()[name][1] == title
    corpora = {passages()[name][0] for name in row["supporting_ids"]}
    assert row["corpus"] == (corpora.pop() if len(corpora) == 1 else "several")
    for condition in row["conditions"]:
        for called in row["wanted"]:
            for name in vouching(row, condition)[called[0]]:
                assert any(stands(said, name) for said in called), f"{called} in {name}"
        for candidate in condition.get("candidates", ()):
            (name,) = condition["passages"]
            assert stands(candidate, name), f"{candidate} in {name}"
