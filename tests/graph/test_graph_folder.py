"""A graph's folder: killed loads, two writers, damage."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.graph.graph_files import ENTITY, TRUTHY, jsonl, written

from hoptree.core.errors import GraphError, GraphUnavailable
from hoptree.core.files import Checksums, FolderLock
from hoptree.graph import MANIFEST
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.folder import FORMAT, changing
from hoptree.graph.loading import load_graph, remove_source

KILLED = """
import os, signal, sys
from hoptree.__main__ import main

def kill(event, given):
    if event == "os.rename" and str(given[0]).endswith(".part"):
        os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill)
main()
"""
"""A load that is killed when it has written all, and none of it is in its place."""


@pytest.fixture
def kg(tmp_path: Path) -> Path:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    return tmp_path / "kg"


def facts(kg: Path) -> int:
    return len(EmbeddedGraph(kg).facts_now("Q1615").facts)


def test_a_killed_load_leaves_the_old_graph_usable(kg: Path, tmp_path: Path) -> None:
    big = tmp_path / "big.nt"
    with big.open("w") as file:
        for number in range(1, 2_000):
            file.write(f"<{ENTITY}Q{number}> <http://www.wikidata.org/prop/direct/P1> <{ENTITY}Q1615> .\n")
    child = subprocess.run(
        [sys.executable, "-c", KILLED, "graph", "load", str(big), "--out", str(kg)],
        stderr=subprocess.DEVNULL,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL
    # Files that are the copy's own, not links to those of the old generation.
    assert any(path.stat().st_nlink == 1 for path in kg.glob("*.part/*.sst"))
    assert facts(kg) == 2
    small = jsonl(tmp_path / "more.jsonl", [{"s_id": "Q1615", "p": "spouse", "o": "Janet"}])
    load_graph(kg, [small])
    assert facts(kg) == 3 and not any(kg.glob("*.part"))


def test_a_load_that_fails_changes_nothing(kg: Path, tmp_path: Path) -> None:
    before = (kg / MANIFEST).read_bytes()
    with pytest.raises(GraphError, match="Line 1 of"):
        load_graph(kg, [written(tmp_path / "bad.nt", "bad\n")], skip_broken=0)
    assert (kg / MANIFEST).read_bytes() == before and not any(kg.glob("*.part")) and facts(kg) == 2
    new = tmp_path / "new"
    with pytest.raises(GraphError, match="Line 1 of"):
        load_graph(new, [tmp_path / "bad.nt"], skip_broken=0)
    assert not new.exists()


def test_a_load_that_is_killed_just_before_it_counts_is_forgotten(kg: Path, tmp_path: Path) -> None:
    shutil.copytree(kg / "000001", kg / "000002")
    assert facts(kg) == 2
    load_graph(kg, [jsonl(tmp_path / "more.jsonl", [{"s_id": "Q1615", "p": "spouse", "o": "Janet"}])])
    assert facts(kg) == 3 and EmbeddedGraph(kg).manifest.generation == 2


def test_a_second_writer_is_refused_and_readers_go_on(kg: Path, tmp_path: Path) -> None:
    with changing(kg):
        with pytest.raises(GraphUnavailable, match="Another process is writing"):
            load_graph(kg, [tmp_path / "truthy.nt"])
        with pytest.raises(GraphUnavailable):
            remove_source(kg, "truthy.nt")
        assert facts(kg) == 2
    assert GraphUnavailable.exit_code == 1


def test_another_version_is_named(kg: Path) -> None:
    manifest = json.loads((kg / MANIFEST).read_text())
    (kg / MANIFEST).write_text(json.dumps(manifest | {"format": FORMAT + 1}))
    with pytest.raises(GraphError, match=f"of format {FORMAT + 1}, not {FORMAT}"):
        EmbeddedGraph(kg)


@pytest.mark.parametrize(
    "change",
    [
        {"generation": "1"},
        {"sources": [{"name": "x"}]},
        {"sources": 5},
        {"languages": [1]},
        {"extra": 1},
        {"bytes": 7},
        {"generation": 9},
    ],
)
def test_a_manifest_that_does_not_fit_is_damage(kg: Path, change: dict[str, object]) -> None:
    manifest = json.loads((kg / MANIFEST).read_text())
    (kg / MANIFEST).write_text(json.dumps(manifest | change))
    with pytest.raises(GraphError, match="is damaged"):
        EmbeddedGraph(kg)


def test_lost_and_cut_files_are_damage(kg: Path, tmp_path: Path) -> None:
    (generation,) = kg.glob("[0-9]*")
    copy = shutil.copytree(kg, tmp_path / "copy")
    table = next(generation.glob("*.sst"))
    os.truncate(table, table.stat().st_size // 2)
    with pytest.raises(GraphError, match="its data files have"):
        EmbeddedGraph(kg)
    next(copy.glob("[0-9]*/CURRENT")).unlink()
    with pytest.raises(GraphError, match="is damaged"):
        EmbeddedGraph(copy)
    (copy / MANIFEST).write_text("{")
    with pytest.raises(GraphError, match="is damaged"):
        EmbeddedGraph(copy)


def test_what_is_no_graph_is_said(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="There is no knowledge graph at"):
        EmbeddedGraph(tmp_path / "none")
    with pytest.raises(GraphError, match="is not a knowledge graph"):
        EmbeddedGraph(tmp_path)
    with pytest.raises(GraphError, match="There is no knowledge graph at"):
        remove_source(tmp_path / "none", "x")
    assert not (tmp_path / "none").exists()
    (tmp_path / "000001.part").mkdir()
    with pytest.raises(GraphError, match="it is being loaded, or that was cut off"):
        EmbeddedGraph(tmp_path)


def test_a_load_that_fails_leaves_the_graph_that_another_process_has_made_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acquire, kg, replaced = FolderLock.acquire, tmp_path / "kg", list[bool]()

    def acquire_later(lock: FolderLock) -> None:
        if not replaced:
            replaced.append(True)
            load_graph(kg, [written(tmp_path / "truthy.nt", TRUTHY)])
        acquire(lock)

    monkeypatch.setattr(FolderLock, "acquire", acquire_later)
    with pytest.raises(GraphError, match=r"Nothing of none\.tsv can be read"):
        load_graph(kg, [written(tmp_path / "none.tsv", "nonsense\n")])
    assert EmbeddedGraph(kg).manifest.facts


@pytest.mark.parametrize("why", ["Too many open files", "Permission denied"])
def test_what_may_pass_is_no_reason_to_remove_a_graph(
    why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])

    def refused(self: Checksums, **_: object) -> list[str]:
        raise OSError(f"IO error: While open a file: 000012.sst: {why}")

    monkeypatch.setattr(Checksums, "check", refused)
    with pytest.raises(GraphUnavailable, match=rf"cannot be read now: .*{why}\. Allow that") as caught:
        EmbeddedGraph(tmp_path / "kg")
    assert "Remove" not in str(caught.value)
