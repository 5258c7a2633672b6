"""A load never puts nothing, or the half of a file, in the place of facts."""

from __future__ import annotations

import gzip
import shutil
from pathlib import Path

import pytest
from tests.graph.graph_files import TRUTHY, jsonl, written
from tests.small_indexes import hoptree

from hoptree.core.errors import GraphError
from hoptree.graph import MANIFEST
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.loading import load_graph

# Names so long that half of a few rows is more than the reader of an archive holds at once: what it holds is lost.
ROWS = [{"s": f"Person {number}", "p": "knows", "o": f"{number} knows " * 50} for number in range(2_400)]


@pytest.fixture(scope="module")
def loaded_graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    load_graph(folder / "kg", [jsonl(folder / "a.jsonl", ROWS[:6]), packed(folder)])
    return folder


@pytest.fixture
def kg(loaded_graph: Path, tmp_path: Path) -> Path:
    """A copy of that graph, beside the files it was loaded from."""
    shutil.copytree(loaded_graph, tmp_path, dirs_exist_ok=True)
    return tmp_path / "kg"


def packed(folder: Path, share: float = 1.0) -> Path:
    packed_rows = gzip.compress(jsonl(folder / "rows", ROWS).read_bytes())
    (folder / "t.jsonl.gz").write_bytes(packed_rows[: int(len(packed_rows) * share)])
    return folder / "t.jsonl.gz"


def unchanged(kg: Path, before: bytes) -> None:
    assert (kg / MANIFEST).read_bytes() == before and not any(kg.glob("*.part"))
    assert len(EmbeddedGraph(kg).facts_now("name:Person 5", direction="out").facts) == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "a.jsonl is empty"),
        (b"\n \n\n", "a.jsonl is empty"),
        (b'[{"s": "a", "p": "b", "o": "c"}]\n', "Nothing of a.jsonl can be read.*Line 1 of a.jsonl"),
        (bytes(range(128, 256)) * 3, "Nothing of a.jsonl can be read"),
        (gzip.compress(b'{"s": "a", "p": "b", "o": "c"}\n', mtime=0)[:20], "a.jsonl is cut or damaged, and nothing"),
    ],
)
def test_a_file_that_gives_nothing_does_not_replace_its_source(
    kg: Path, tmp_path: Path, content: bytes, words: str
) -> None:
    before = (kg / MANIFEST).read_bytes()
    (tmp_path / "a.jsonl").write_bytes(content)
    for append in (False, True):
        with pytest.raises(GraphError, match=words):
            load_graph(kg, [tmp_path / "a.jsonl"], append=append)
        unchanged(kg, before)
    with pytest.raises(GraphError, match=words):
        load_graph(tmp_path / "new", [tmp_path / "a.jsonl"])
    assert not (tmp_path / "new").exists()


def test_a_wrong_form_is_refused_with_its_remedy(kg: Path, tmp_path: Path) -> None:
    before = (kg / MANIFEST).read_bytes()
    done = hoptree(tmp_path, "graph", "load", "a.jsonl", "--form", "nt", "--out", "kg")
    assert done.returncode == 2 and done.stdout == ""
    assert "Nothing of a.jsonl can be read as nt (6 broken places)" in done.stderr and "--form" in done.stderr
    unchanged(kg, before)


@pytest.mark.parametrize("share", [0.5, 0.99])
def test_a_cut_file_does_not_replace_a_whole_one(kg: Path, tmp_path: Path, share: float) -> None:
    before = (kg / MANIFEST).read_bytes()
    cut = packed(tmp_path, share)
    with pytest.raises(GraphError, match=r"t\.jsonl\.gz is cut or damaged.*2,400 facts") as refused:
        load_graph(kg, [cut])
    assert "--source" in refused.value.remedy
    unchanged(kg, before)
    loaded = load_graph(kg, [cut], source="the first half")
    assert loaded.sources[0].facts > 500 and "damaged" in loaded.examples[-1]


def test_facts_are_not_replaced_by_names_alone(kg: Path, tmp_path: Path) -> None:
    jsonl(tmp_path / "a.jsonl", [{"id": "Q1", "label": "one"}])
    with pytest.raises(GraphError, match=r"6 facts of the source a\.jsonl .* none"):
        load_graph(kg, [tmp_path / "a.jsonl"])
    assert load_graph(kg, [tmp_path / "a.jsonl"], append=True).sources[0].facts == 6
    assert load_graph(kg, [tmp_path / "a.jsonl"], empty=True).sources[0].facts == 0


def test_what_is_all_left_out_is_nothing(kg: Path, tmp_path: Path) -> None:
    label = next(line for line in TRUTHY.splitlines() if line.endswith("@ar ."))
    with pytest.raises(GraphError, match=r"Nothing of ar\.nt is kept: 1 triple"):
        load_graph(kg, [written(tmp_path / "ar.nt", label)])


def test_an_empty_file_is_loaded_if_that_is_said(kg: Path, tmp_path: Path) -> None:
    written(tmp_path / "a.jsonl", "")
    done = hoptree(tmp_path, "graph", "load", "a.jsonl", "--out", "kg")
    assert done.returncode == 2 and "--empty" in done.stderr and "hoptree graph remove" in done.stderr
    done = hoptree(tmp_path, "graph", "load", "a.jsonl", "--out", "kg", "--empty")
    assert done.returncode == 0 and "a.jsonl: 0 facts" in done.stdout, done.stderr
    written(tmp_path / "a.jsonl", "nonsense\n")
    with pytest.raises(GraphError, match=r"Nothing of a\.jsonl can be read"):
        load_graph(kg, [tmp_path / "a.jsonl"], empty=True)
