"""Vectors on disk: found again after every save, whatever was added and removed, and never half of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.small_indexes import replace_file

from hoptree.core.errors import CorpusError
from hoptree.retrieval import vectors as module
from hoptree.retrieval.vectors import Vectors, VectorWriter, expected_bytes

np = pytest.importorskip("numpy")
pytest.importorskip("usearch")

FAR = 2**63


def rows(count: int, dimensions: int = 16, seed: int = 0) -> Any:
    drawn = np.random.default_rng(seed).standard_normal((count, dimensions)).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


def build(folder: Path, count: int, **options: Any) -> Any:
    drawn = rows(count)
    writer = VectorWriter.create(folder, 16, **options)
    writer.add([FAR + place for place in range(count)], drawn)
    writer.save()
    return drawn


def brute(drawn: dict[int, Any], query: Any, k: int) -> list[int]:
    scored = [(-round(float(row @ query), 5), key) for key, row in drawn.items()]
    return [key for _, key in sorted(scored)[:k]]


def test_the_nearest_are_found_best_first_with_their_cosine(tmp_path: Path) -> None:
    drawn = build(tmp_path, 300)
    vectors = Vectors(tmp_path)
    hits = vectors.search(drawn[7], 5)
    assert hits[0] == (FAR + 7, 1.0)
    assert [key for key, _ in hits] == brute({FAR + place: row for place, row in enumerate(drawn)}, drawn[7], 5)
    assert all(score == pytest.approx(float(drawn[key - FAR] @ drawn[7]), abs=2e-6) for key, score in hits)
    assert (len(vectors), vectors.dtype, vectors.dimensions) == (300, "f32", 16)


def test_ties_are_broken_by_key_even_at_the_cut(tmp_path: Path) -> None:
    row = rows(1)[0]
    writer = VectorWriter.create(tmp_path, 16)
    writer.add(list(range(200, 0, -1)), np.stack([row] * 200))
    writer.save()
    assert [key for key, _ in Vectors(tmp_path).search(row, 7)] == [1, 2, 3, 4, 5, 6, 7]


def test_more_than_there_are_gives_all_and_none_gives_none(tmp_path: Path) -> None:
    drawn = build(tmp_path, 9)
    assert len(Vectors(tmp_path).search(drawn[0], 1000)) == 9
    assert Vectors(tmp_path).search(drawn[0], 0) == []


def test_an_empty_folder_of_vectors_can_be_opened_and_filled(tmp_path: Path) -> None:
    VectorWriter.create(tmp_path, 16).save()
    assert Vectors(tmp_path).search(rows(1)[0], 3) == []
    writer = VectorWriter.open(tmp_path)
    writer.add([5], rows(1))
    writer.save()
    assert [key for key, _ in Vectors(tmp_path).search(rows(1)[0], 3)] == [5]


def test_a_row_of_zeros_is_near_to_nothing(tmp_path: Path) -> None:
    writer = VectorWriter.create(tmp_path, 16)
    writer.add([1, 2], np.stack([np.zeros(16, np.float32), rows(1)[0]]))
    writer.save()
    assert Vectors(tmp_path).search(rows(1)[0], 2) == [(2, 1.0), (1, 0.0)]


def test_few_changes_are_kept_beside_the_base_and_many_become_a_new_one(tmp_path: Path) -> None:
    drawn = build(tmp_path, 200)
    more = rows(40, seed=1)
    writer = VectorWriter.open(tmp_path)
    writer.add([1, 2], more[:2])
    assert writer.remove([FAR + 3, FAR + 3, 99]) == 1
    writer.save()
    assert {path.suffixes[0] and path.name.split("-")[0] for path in tmp_path.glob("*.usearch")} == {"base", "newer"}
    vectors = Vectors(tmp_path)
    assert len(vectors) == 201
    assert vectors.search(more[1], 1)[0][0] == 2
    assert FAR + 3 not in {key for key, _ in vectors.search(drawn[3], 201)}
    writer = VectorWriter.open(tmp_path)
    writer.add(list(range(10, 50)), more)
    writer.save()
    assert [path.name for path in tmp_path.glob("*.usearch")] == ["base-3.usearch"]
    assert len(Vectors(tmp_path)) == 241
    assert len(Vectors(tmp_path).search(drawn[0], 500)) == 241


def test_a_key_that_is_added_again_has_only_its_new_vector(tmp_path: Path) -> None:
    drawn = build(tmp_path, 100)
    writer = VectorWriter.open(tmp_path)
    writer.add([FAR], -drawn[:1])
    writer.add([FAR], drawn[1:2])
    writer.save()
    found = dict(Vectors(tmp_path).search(drawn[1], 100))
    assert len(found) == 100 and found[FAR] == 1.0


def test_what_is_not_saved_is_not_seen_and_missing_keys_are_told(tmp_path: Path) -> None:
    build(tmp_path, 50)
    writer = VectorWriter.open(tmp_path)
    writer.add([1], rows(1))
    writer.remove([FAR + 4])
    assert writer.missing([FAR, 1, 2, FAR + 4]) == [2, FAR + 4]
    assert len(writer) == 50 == len(Vectors(tmp_path))
    assert VectorWriter.open(tmp_path).missing([FAR + 4, 1]) == [1]


def test_a_reader_keeps_its_vectors_while_a_writer_replaces_them(tmp_path: Path) -> None:
    drawn = build(tmp_path, 100)
    old = Vectors(tmp_path)
    writer = VectorWriter.open(tmp_path)
    writer.remove([FAR + place for place in range(60)])
    writer.save()
    assert old.search(drawn[5], 1) == [(FAR + 5, 1.0)]
    assert Vectors(tmp_path).search(drawn[5], 1)[0][0] != FAR + 5


def test_files_of_a_writer_that_was_killed_are_ignored_and_cleared_away(tmp_path: Path) -> None:
    drawn = build(tmp_path, 100)
    (tmp_path / "base-2.usearch").write_bytes(b"half")
    (tmp_path / "vectors.json.new").write_text('{"format"', encoding="utf-8")
    assert Vectors(tmp_path).search(drawn[5], 1) == [(FAR + 5, 1.0)]
    writer = VectorWriter.open(tmp_path)
    writer.add([1], drawn[:1])
    writer.save()
    assert not (tmp_path / "base-2.usearch").exists()
    assert len(Vectors(tmp_path)) == 101


def test_bytes_are_chosen_above_a_million_and_find_nearly_the_same(tmp_path: Path) -> None:
    assert VectorWriter.create(tmp_path / "few", 16, expected=1_000_000)._header.dtype == "f32"
    drawn = build(tmp_path / "many", 400, expected=1_000_001)
    vectors = Vectors(tmp_path / "many")
    assert vectors.dtype == "i8"
    hits = vectors.search(drawn[7], 5)
    assert hits[0][0] == FAR + 7 and hits[0][1] == pytest.approx(1.0, abs=1e-3)
    assert expected_bytes(1_000_001, 256) < expected_bytes(1_000_000, 256)


def test_bytes_keep_the_order_of_long_vectors(tmp_path: Path) -> None:
    """Their numbers are small: with one step for all rows, a unit vector of this length would use ±20 of 127."""
    drawn, queries = rows(600, 512), rows(20, 512, seed=1)
    writer = VectorWriter.create(tmp_path, 512, expected=1_000_001)
    writer.add(list(range(600)), drawn)
    writer.save()
    vectors, exact = Vectors(tmp_path), dict(enumerate(drawn))
    shared = [set(dict(vectors.search(query, 10))) & set(brute(exact, query, 10)) for query in queries]
    assert sum(map(len, shared)) / 200 > 0.93


@pytest.mark.parametrize("expected", [100, 1_000_001])
def test_a_new_base_holds_the_same_bits(tmp_path: Path, expected: int) -> None:
    drawn = build(tmp_path, 100, expected=expected)
    before = Vectors(tmp_path).search(drawn[3], 100)
    writer = VectorWriter.open(tmp_path)
    writer.add(list(range(20)), rows(20, seed=3))
    writer.save()
    writer.remove(list(range(20)))
    writer.save()
    assert [path.name for path in tmp_path.glob("*")] and Vectors(tmp_path).search(drawn[3], 100) == before


def test_above_the_limit_links_are_followed_and_survive_adding_and_removing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_EXACT_UP_TO", 200)
    drawn = build(tmp_path, 150)
    assert not Vectors(tmp_path)._header.graph
    more = rows(1500, seed=5)
    writer = VectorWriter.open(tmp_path)
    writer.add(list(range(1500)), more)
    writer.save()  # passes the limit: linked now
    writer.remove([FAR + place for place in range(150)] + list(range(100)))
    writer.save()  # more than a tenth: a new base from the linked one
    vectors = Vectors(tmp_path)
    assert vectors._header.graph and len(vectors) == 1400
    left = {place: more[place] for place in range(100, 1500)}
    found = [set(dict(vectors.search(query, 10))) & set(brute(left, query, 10)) for query in rows(30, seed=6)]
    assert sum(map(len, found)) / 300 > 0.97
    assert all(key < FAR for key, _ in vectors.search(drawn[0], 50))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from(["add", "remove", "save", "open"]), st.lists(st.integers(0, 40), unique=True)),
        max_size=12,
    )
)
def test_any_history_ends_in_what_a_dictionary_would_hold(
    tmp_path_factory: pytest.TempPathFactory, history: list[tuple[str, list[int]]]
) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    saved: dict[int, Any] = {}
    held: dict[int, Any] = {}
    writer = VectorWriter.create(folder, 16)
    writer.save()
    for place, (deed, keys) in enumerate(history):
        if deed == "add":
            fresh = rows(len(keys), seed=place)
            writer.add(keys, fresh)
            held.update(zip(keys, fresh, strict=True))
        elif deed == "remove":
            assert writer.remove(keys) == len([held.pop(key) for key in keys if key in held])
        elif deed == "save":
            writer.save()
            saved = dict(held)
        else:
            writer, held = VectorWriter.open(folder), dict(saved)
        assert len(writer) == len(held)
    vectors, query = Vectors(folder), rows(1, seed=99)[0]
    assert len(vectors) == len(saved)
    found = dict(vectors.search(query, 100))
    assert found.keys() == saved.keys()
    assert all(found[key] == pytest.approx(float(row @ query), abs=2e-6) for key, row in saved.items())


def spoil_header(folder: Path, **changes: Any) -> None:
    path = folder / "vectors.json"
    path.write_text(json.dumps({**json.loads(path.read_text(encoding="utf-8")), **changes}), encoding="utf-8")


def spoil_bytes(path: Path) -> None:
    replace_file(path, b"x" * path.stat().st_size)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda folder: (folder / "vectors.json").unlink(), "no vectors"),
        (lambda folder: (folder / "vectors.json").write_text("{", encoding="utf-8"), "damaged"),
        (lambda folder: (folder / "vectors.json").write_text("[]", encoding="utf-8"), "damaged"),
        (lambda folder: spoil_header(folder, format=9), "format 9"),
        (lambda folder: spoil_header(folder, count=7), "damaged"),
        (lambda folder: spoil_header(folder, dimensions=8), "damaged"),
        (lambda folder: spoil_header(folder, base="../base-1.usearch"), "damaged"),
        (lambda folder: spoil_header(folder, unknown=1), "damaged"),
        (lambda folder: (folder / "base-1.usearch").unlink(), "damaged"),
        (lambda folder: replace_file(folder / "base-1.usearch", b"x" * 50), "damaged"),
        (lambda folder: spoil_bytes(folder / "base-1.usearch"), "damaged"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path: Path, spoil: Any, said: str) -> None:
    build(tmp_path, 60)
    spoil(tmp_path)
    for opening in (Vectors, VectorWriter.open):
        with pytest.raises(CorpusError, match=said):
            opening(tmp_path)


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    drawn = build(tmp_path, 10)
    writer = VectorWriter.open(tmp_path)
    for keys, given_rows, said in (
        ([1], drawn[:2], "shape"),
        ([1], np.full((1, 16), np.nan, np.float32), "not finite"),
    ):
        with pytest.raises(CorpusError, match=said):
            writer.add(keys, given_rows)
    with pytest.raises(CorpusError, match="16 numbers"):
        Vectors(tmp_path).search(np.zeros(4, np.float32), 1)
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(CorpusError, match="cannot be written"):
        VectorWriter.create(tmp_path / "file" / "sub", 16).save()
