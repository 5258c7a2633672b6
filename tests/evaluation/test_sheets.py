"""Annotation sheets: what goes out comes back, no text is a formula, and what is wrong is named by its cell."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hoptree.core.errors import InputError
from hoptree.evaluation.annotation import (
    KNOWS,
    RELEVANT,
    RatedDecision,
    Sheet,
    neutral,
    read_sheet,
    read_sheets,
    restore,
    write_sheet,
)

NASTY = '=cmd|"/c calc"!A1; =1+1, "-2"\n@SUM(A1)\n+3'
ITEMS = [
    RatedDecision("know-000000000001", "2wiki", "know", "Who directed Äther?", "From memory: Ann", KNOWS),
    RatedDecision("relevance-0000000000e2", "2wiki", "relevance", "=1+1?", NASTY, RELEVANT),
    RatedDecision("decompose-000000000003", "nq", "decompose", "Why?", "", "1. Who?\n2. -5 °C, or not?"),
]
RISKY = re.compile(r"(?:\A|[,;\t\r\n\"])\s*[=+\-@＝＋－＠]")


@given(st.text())
@example("'=1")
@example("''")
@example("\n=")
@example(",\n=\"'-")
@example("\t@x")
def test_what_is_neutral_is_restore(text: str) -> None:
    assert restore(neutral(text)) == text


@given(st.text(alphabet="=+-@'\", ;\t\n\r\x00a＝", max_size=12))
def test_no_cell_begins_as_a_formula_wherever_it_is_cut(text: str) -> None:
    cell = neutral(text)
    assert restore(cell) == text
    assert not re.match(r"[=+\-@＝＋－＠\x00-\x1f\x7f]", cell.lstrip(" "))
    assert not re.search(r"[,;\t\r\n\"] *[=+\-@＝＋－＠]", cell)


def test_text_that_needs_nothing_stays_as_it_is() -> None:
    for text in ("Who?", "1. Who?\n2. Why?", "twenty-one", "a = b", "'t Hooft", "C++"):
        assert neutral(text) == text


def out(tmp_path: Path) -> Path:
    path = tmp_path / "sheet.csv"
    write_sheet(path, ITEMS)
    return path


def cells(path: Path) -> list[list[str]]:
    return list(csv.reader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline="")))


def save(path: Path, rows: list[list[str]], separator: str = ",", encoding: str = "utf-8-sig") -> Path:
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    return path


def filled(tmp_path: Path, change: Callable[[list[list[str]]], None], **how: str) -> Path:
    """The sheet with something done to its rows, saved as a spreadsheet would."""
    rows = cells(out(tmp_path))
    change(rows)
    return save(tmp_path / "first.csv", rows, **how)


def column(name: str) -> int:
    return ["item", "data", "module", "question", "shown", "decided", "criterion", "rating", "note", "check"].index(
        name
    )


def rate(*said: str) -> Callable[[list[list[str]]], None]:
    def change(rows: list[list[str]]) -> None:
        for row, one in zip(rows[1:], said, strict=True):
            row[column("rating")] = one

    return change


def read(path: Path) -> Sheet:
    return read_sheet(path, "first")


def test_what_goes_out_comes_back(tmp_path: Path) -> None:
    path = out(tmp_path)
    raw = path.read_bytes()
    assert raw.startswith(b"\xef\xbb\xbf"), "or Excel takes it for another encoding"
    assert not any(RISKY.search(cell) for row in cells(path) for cell in row)
    found = read(path)
    assert list(found.decisions.values()) == ITEMS and not found.ratings and not found.notes
    assert path.read_bytes() == raw


@pytest.mark.parametrize(
    ("said", "ratings"),
    [
        (("yes", "no", ""), [True, False]),
        (("Y", " NO ", "n"), [True, False, False]),
        (("1", "0", "TRUE"), [True, False, True]),
        (("1.0", "0.0", "false"), [True, False, False]),
    ],
)
def test_ratings(tmp_path: Path, said: tuple[str, ...], ratings: list[bool]) -> None:
    assert list(read(filled(tmp_path, rate(*said))).ratings.values()) == ratings


@pytest.mark.parametrize(("separator", "encoding"), [(";", "utf-8"), ("\t", "utf-16"), (",", "utf-8")])
def test_however_a_spreadsheet_saves_it(tmp_path: Path, separator: str, encoding: str) -> None:
    def change(rows: list[list[str]]) -> None:
        rate("yes", "no", "")(rows)
        rows[2][column("note")] = "=what?"
        rows[1:] = rows[:0:-1]  # sorted by the annotator
        rows.append([""] * 10)
        for row in rows:
            row[:] = [cell.replace("\n", "\r\n") for cell in row]

    found = read(filled(tmp_path, change, separator=separator, encoding=encoding))
    assert [found.decisions[one.key] for one in ITEMS] == ITEMS
    assert found.ratings == {ITEMS[0].key: True, ITEMS[1].key: False} and found.notes == {ITEMS[1].key: "=what?"}


def put(row: int, name: str, value: str) -> Callable[[list[list[str]]], None]:
    def change(rows: list[list[str]]) -> None:
        rows[row - 1][column(name)] = value

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (put(3, "rating", "maybe"), r"H3 \(rating\): 'maybe' is neither yes nor no"),
        (put(2, "note", "yes"), r"I2 \(note\): 'yes' is a rating, and belongs under rating"),
        (
            put(2, "question", "Who directed ?ther?"),
            r"D2 \(question\): 'Who directed \?ther\?' is not what was written",
        ),
        (put(4, "shown", "x"), r"E4 \(shown\)"),
        (put(4, "decided", "1. Who?"), r"F4 \(decided\)"),
        (put(3, "data", "nq"), r"B3 \(data\)"),
        (put(3, "module", "know"), r"A3 \(item\)"),
        (put(3, "module", ""), r"C3 \(module\): ''"),
        (put(3, "item", ITEMS[0].key), r"A3 \(item\)"),
        (put(3, "check", ""), r"J3 \(check\)"),
        (lambda rows: rows.append(list(rows[1])), r"A5 \(item\): know-000000000001 has a row already"),
        (lambda rows: rows[2].append("no"), r"K3: 'no' stands in no column"),
        (lambda rows: rows[0].append("mine"), r"K1 \(mine\): a sheet has no column 'mine'"),
        (lambda rows: rows[0].append("Rating"), r"K1 \(Rating\): there is a column 'rating' already"),
        (lambda rows: rows[0].__setitem__(7, "grade"), "is not a sheet: it lacks rating"),
        (lambda rows: rows.clear(), "is not a sheet"),
        (lambda rows: rows.__delitem__(slice(1, None)), "holds no decisions"),
    ],
)
def test_what_is_wrong_is_named_by_its_cell(
    tmp_path: Path, change: Callable[[list[list[str]]], None], said: str
) -> None:
    path = filled(tmp_path, change)
    before = path.read_bytes()
    with pytest.raises(InputError, match=said) as refused:
        read(path)
    assert refused.value.exit_code == 2 and refused.value.remedy and path.read_bytes() == before


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"H2 .*; H3 .*; H4 "):
        read(filled(tmp_path, rate("a", "b", "c")))


def test_files_that_are_no_sheets(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "nowhere.csv")
    path = filled(tmp_path, rate("yes", "no", ""), encoding="cp1252")
    with pytest.raises(InputError, match="not in UTF-8"):
        read(path)
    path.write_text('"item","rating"\n"a"b', encoding="utf-8")
    with pytest.raises(InputError, match="not CSV"):
        read(path)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_sheet_or_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(data)
    with pytest.raises(InputError):
        read(path)


def test_a_sheet_is_never_written_over(tmp_path: Path) -> None:
    path = out(tmp_path)
    before = path.read_bytes()
    with pytest.raises(InputError, match="may hold ratings"):
        write_sheet(path, ITEMS[:1])
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="cannot be written"):
        write_sheet(tmp_path / "nowhere" / "sheet.csv", ITEMS)


def test_annotators_are_told_apart_by_their_files(tmp_path: Path) -> None:
    places = [tmp_path / name for name in ("first.csv", "a/second.csv", "b/second.csv")]
    for place in places:
        place.parent.mkdir(exist_ok=True)
        write_sheet(place, ITEMS)
    assert [sheet.name for sheet in read_sheets(places)] == ["first", str(places[1]), str(places[2])]
    with pytest.raises(InputError, match="given twice"):
        read_sheets([places[0], tmp_path / "a" / ".." / "first.csv"])
