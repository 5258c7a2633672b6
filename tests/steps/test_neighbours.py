"""SKR's vote: the bound, the file of labels, and whose likeness counts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hoptree.methods.baselines.skr as module
from hoptree.core.errors import ConfigError, InputError
from hoptree.methods.baselines.skr import documents_help, open_labels
from hoptree.methods.steps.route import read_labels


@pytest.mark.parametrize(
    ("better", "worse", "totals", "helps"),
    [
        # As in the released code: 47 better, 62 worse, 740 alike; int(15 * 5 / 849) is 0, and the majority decides.
        (2, 3, (47, 62, 849), False),
        (3, 2, (47, 62, 849), True),
        (0, 0, (47, 62, 849), True),
        # Without ties the bound is int(40 * 5 / 100) = 2: a majority of one is too few to do without documents.
        (2, 3, (30, 70, 100), True),
        (1, 4, (30, 70, 100), False),
        (0, 5, (30, 70, 100), False),
        # Mirrored: it is retrieving that needs a majority, and one of 2 at least.
        (3, 2, (70, 30, 100), False),
        (4, 1, (70, 30, 100), True),
        (2, 3, (70, 30, 100), False),
        (0, 0, (70, 30, 100), False),
        # As many of both: a plain majority for documents.
        (3, 2, (50, 50, 100), True),
        (2, 2, (50, 50, 100), False),
    ],
)
def test_the_bound(better: int, worse: int, totals: tuple[int, int, int], helps: bool) -> None:
    all_better, all_worse, total = totals
    assert documents_help(better, worse, all_better=all_better, all_worse=all_worse, total=total) is helps


@given(*[st.integers(0, 20)] * 3, st.integers(1, 500), st.integers(0, 500), st.integers(0, 500))
def test_a_neighbour_more_for_documents_never_speaks_against_them(
    better: int, worse: int, ties: int, all_better: int, all_worse: int, more: int
) -> None:
    counts = {"all_better": all_better, "all_worse": all_worse, "total": all_better + all_worse + ties + more}
    if worse and documents_help(better, worse, **counts):
        assert documents_help(better + 1, worse - 1, **counts)


def write(path: Path, *rows: Any) -> str:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows), "utf-8")
    return str(path)


def labelled(path: Path, **labels: str) -> str:
    return write(path, *({"question": question, "label": label} for question, label in labels.items()))


def test_ties_are_counted_and_nobodys_neighbours(tmp_path: Path) -> None:
    labels = read_labels(labelled(tmp_path / "l.jsonl", a="better", b="tie", c="worse", d="tie"))
    assert (labels.questions, labels.better, labels.ties) == (("a", "c"), (True, False), 2)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{", "Line 2 of"),
        ({"question": "b"}, "Line 2 of"),
        ({"question": "b", "label": "same"}, "better, worse and tie"),
        ({"question": 3, "label": "tie"}, "Line 2 of"),
        (["b", "tie"], "Line 2 of"),
        ("\udcff", "Line 2 of"),
    ],
)
def test_a_row_that_is_no_label_is_refused(tmp_path: Path, row: Any, message: str) -> None:
    path = tmp_path / "l.jsonl"
    line = row if isinstance(row, str) else json.dumps(row)
    good = '{"question": "a", "label": "better"}\n'
    path.write_bytes(f"{good}{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="hoptree align skr") as refused:
        read_labels(str(path))
    assert message in str(refused.value)


def test_no_file_or_none_that_tells_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="labels=FILE"):
        read_labels("")
    with pytest.raises(InputError, match="hoptree align skr"):
        read_labels(str(tmp_path / "nowhere.jsonl"))
    with pytest.raises(InputError, match="made a difference"):
        read_labels(labelled(tmp_path / "l.jsonl", a="tie"))


class Letters:
    """Turns texts into counts of letters; remembers what it was given."""

    identity = "letters"

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def encode(self, texts: Any, *, role: str) -> Any:
        self.asked.append(list(texts))
        await asyncio.sleep(0)
        return numpy.array([[float(text.count(letter)) for letter in "abc"] for text in texts])


def test_vectors_are_made_once_however_many_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = Letters()
    monkeypatch.setattr(module, "open_encoder", lambda name: letters)
    path = labelled(tmp_path / "l.jsonl", aab="better", bbc="worse")

    async def several() -> None:
        opened = await asyncio.gather(*(open_labels(path, "letters") for _ in range(9)))
        assert len({id(labels) for labels in opened}) == 1

    asyncio.run(several())
    assert letters.asked == [["aab", "bbc"]]
    asyncio.run(several())
    assert len(letters.asked) == 2  # another loop opens its own


def test_a_file_that_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "open_encoder", lambda name: Letters())

    async def twice() -> list[int]:
        counts = []
        for number in (1, 2):
            path = labelled(tmp_path / "l.jsonl", **{f"a{n}": "better" for n in range(number)})
            counts.append(len((await open_labels(path, "letters"))[0].questions))
        return counts

    assert asyncio.run(twice()) == [1, 2]
