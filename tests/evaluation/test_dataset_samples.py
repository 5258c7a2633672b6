"""Choosing questions and answers: the same ones on every machine and in every run."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.evaluation.dataset_rows import OWN, lines, whole

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.values import Passage
from hoptree.evaluation.datasets.examples import DataSet, Example, digest_of
from hoptree.evaluation.datasets.reading import (
    filter_answers,
    half,
    half_of,
    read_examples,
    read_ids,
    sample,
    write_ids,
)


def many(tmp_path: Path, count: int = 40) -> Path:
    rows = [{**OWN, "id": f"q{number}"} for number in range(count)]
    return lines(tmp_path / "many.jsonl", rows)


def test_the_digest_stands_for_the_whole_file_however_it_is_spelled(tmp_path: Path) -> None:
    path = many(tmp_path)
    data = read_examples(path)
    assert read_examples(path, limit=3).digest == data.digest == digest_of(data.examples)
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert read_examples(whole(tmp_path / "same.json", rows)).digest == data.digest
    rows[7]["answers"].append("Other")
    assert read_examples(whole(tmp_path / "other.json", rows)).digest != data.digest


def test_examples_of_one_half_come_in_their_order_and_before_a_limit(tmp_path: Path) -> None:
    path = many(tmp_path)
    halves = {name: [e.id for e in read_examples(path, of_half=name).examples] for name in ("first", "second")}
    assert all(
        ids == [key for key in (f"q{n}" for n in range(40)) if half_of(key) == name] and ids
        for name, ids in halves.items()
    )
    assert [e.id for e in read_examples(path, of_half="second", limit=3).examples] == halves["second"][:3]
    drawn = [e.id for e in read_examples(path, of_half="second", limit=3, seed=1).examples]
    assert set(drawn) < set(halves["second"]) and drawn != halves["second"][:3]
    with pytest.raises(ConfigError, match="'third' is not a half"):
        read_examples(path, of_half="third")
    key = halves["first"][0]
    with pytest.raises(InputError, match=r"The second half of .* holds no questions"):
        read_examples(path, ids=[key], of_half="second")


def test_examples_are_chosen_by_limit_ids_and_seed(tmp_path: Path) -> None:
    path = many(tmp_path)
    assert [e.id for e in read_examples(path, limit=2).examples] == ["q0", "q1"]
    assert [e.id for e in read_examples(path, ids=["q7", "q3", "q5"], limit=2).examples] == ["q7", "q3"]
    write_ids(tmp_path / "ids.txt", ["q9", "q2"])
    assert [e.id for e in read_examples(path, ids=tmp_path / "ids.txt").examples] == ["q9", "q2"]
    drawn = [e.id for e in read_examples(path, limit=5, seed=3).examples]
    expected = sorted((f"q{n}" for n in range(40)), key=lambda key: hashlib.sha256(f"3:{key}".encode()).digest())
    assert drawn == expected[:5]
    for ids, words in ((["q99"], "is not in made"), (["q1", "q1"], "twice")):
        with pytest.raises(InputError, match=words):
            read_examples(path, ids=ids)


def test_a_sample_depends_on_ids_and_seed_alone(tmp_path: Path) -> None:
    examples = read_examples(many(tmp_path)).examples
    assert sample(examples, 10, 1) == sample(examples[::-1], 10, 1) == sample(examples, 20, 1)[:10]
    assert sample(examples, 10, 1) != sample(examples, 10, 2)
    with pytest.raises(InputError, match="cannot be drawn"):
        sample(examples, 41)


def test_halves(tmp_path: Path) -> None:
    examples = read_examples(many(tmp_path)).examples
    first, second = half(examples, "first"), half(examples, "second")
    assert len(first) + len(second) == 40 and not {e.id for e in first} & {e.id for e in second}
    assert all(hashlib.sha256(e.id.encode()).digest()[0] % 2 == 1 for e in second)
    assert half_of(first[0].id) == "first"
    with pytest.raises(ConfigError, match="first or second"):
        half(examples, "third")


@given(ids=st.lists(st.text(min_size=1).filter(lambda key: not _halved(key)), min_size=1, unique=True))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_recorded_ids_come_back(tmp_path: Path, ids: list[str]) -> None:
    write_ids(tmp_path / "ids.txt", ids)
    assert read_ids(tmp_path / "ids.txt") == tuple(ids)


def _halved(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)


@pytest.mark.parametrize("content", ["", "a\na\n", '"open\n', "\n"])
def test_broken_lists_of_ids_are_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "ids.txt").write_text(content, encoding="utf-8")
    with pytest.raises(InputError):
        read_ids(tmp_path / "ids.txt")
    with pytest.raises(InputError):
        read_ids(tmp_path / "none.txt")
    with pytest.raises(InputError):
        write_ids(tmp_path / "none" / "ids.txt", ["a"])


class Shelf:
    """A retriever that finds the same passages whatever it is asked."""

    kind = identity = "shelf"
    remote = False

    def __init__(self, *texts: str) -> None:
        self.passages = tuple(Passage(str(n), "Title", text) for n, text in enumerate(texts))
        self.asked: list[int] = []

    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        self.asked.append(k)
        return self.passages[:k]

    async def aclose(self) -> None:
        return None


def test_answers_that_no_document_says_are_filtered_out() -> None:
    examples = (
        Example("a", "Where?", ("Skagen", "The Skaw", "Ska", "…", "title skagens")),
        Example("b", "Who?", ("Nobody", "No one")),
    )
    data = DataSet(examples, digest_of(examples), "triviaqa", "triviaqa")
    shelf = Shelf("She lives at the skaw.", "It is called SKAGEN!")
    filtered, left_out, untouched = asyncio.run(filter_answers(data, shelf, k=1000))
    assert [e.answers for e in filtered.examples] == [("Skagen", "The Skaw"), ("Nobody", "No one")]
    assert (left_out, untouched, shelf.asked) == (3, ["b"], [1000, 1000])
    assert filtered.digest == digest_of(filtered.examples) != data.digest
