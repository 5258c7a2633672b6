"""Damage to files is noticed or changes nothing."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.rot import make_index, read_index, rot
from tests.evaluation.report_runs import right, script
from tests.evaluation.test_run_trouble import questions, run
from tests.graph.graph_files import TRUTHY, written
from tests.thorough import THOROUGH

from hoptree.core.errors import ConfigError
from hoptree.core.files import with_sum
from hoptree.core.public_http import HttpCache
from hoptree.engine.calls import open_calls
from hoptree.engine.trace import read_events
from hoptree.evaluation.experiment import Experiment
from hoptree.evaluation.run_folder import METRICS, TRACES, read_rows, summarise
from hoptree.models.model import Message, Request
from hoptree.models.scripted import Rule, ScriptedModel

TRIALS = 1_000 if THOROUGH else 100


def test_damage_to_an_index_never_changes_results_silently(tmp_path: Path) -> None:
    """`python -m benchmarks.rot` tries 5,000; the lock and tantivy's list of files do not matter."""
    tally = rot(make_index(tmp_path, 30), read_index, TRIALS, seed=7)
    assert not tally.wrong and not tally.crashed
    assert tally.counts["noticed"] > TRIALS * 0.9


def test_a_damaged_cached_reply_is_requested_again(tmp_path: Path) -> None:
    """A damaged reply in the cache is paid for again; an unusable cache file gives a warning."""

    def read(folder: Path) -> object:
        model = ScriptedModel(rules=[Rule("The reply to $0", regex=r"Question \d+")])
        calls = open_calls(folder / "replies.sqlite")

        async def ask(number: int) -> str:
            request = Request((Message("user", f"Question {number}"),), 20)
            return (await calls.generate(model, request, step="a/b", on_retry=lambda *_: None)).reply.text

        async def ask_all() -> list[str]:
            return [await ask(number) for number in range(12)]

        try:
            return asyncio.run(ask_all())
        finally:
            calls.close()

    (tmp_path / "cache").mkdir()
    tally = rot(tmp_path / "cache", read, TRIALS, seed=3)
    assert not tally.wrong and not tally.crashed


def test_damage_to_a_run_is_noticed_or_harmless(tmp_path: Path) -> None:
    """If cut after a complete line, results and traces are those of an unfinished run."""
    model = script(tmp_path / "m.json", right(range(6)))
    run(Experiment(questions(tmp_path, 6), method="direct", model=model), tmp_path / "run")

    def read(folder: Path) -> object:
        rows = read_rows(folder)
        summary = summarise(folder)
        events = [event.as_dict() for event in read_events(folder / TRACES)]
        assert summary["finished"] == len(rows)
        kept = json.loads((folder / METRICS).read_text(encoding="utf-8")) if (folder / METRICS).exists() else None
        return Finished((rows, summary["metrics"], events), kept)

    tally = rot(tmp_path / "run", read, TRIALS, seed=5)
    assert not tally.wrong and not tally.crashed


class Finished:
    """The content of a run; a cut run has less of it, but nothing else."""

    def __init__(self, held: tuple[list[Any], Any, list[Any]], kept: Any) -> None:
        self.held, self.kept = held, kept

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Finished)
        (rows, metrics, events), (other_rows, other_metrics, other_events) = self.held, other.held
        if (len(rows) == len(other_rows) and metrics != other_metrics) or self.kept not in (None, other.kept):
            return False
        return all(row in other_rows for row in rows) and all(event in other_events for event in events)

    __hash__ = None  # type: ignore[assignment]


def test_damage_to_a_graph_is_noticed_or_harmless(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    from hoptree.graph.embedded import EmbeddedGraph
    from hoptree.graph.loading import load_graph

    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])

    def read(folder: Path) -> object:
        graph = EmbeddedGraph(folder)
        return [graph.facts_now(entity) for entity in ("Q1615", "Q2", "Q3")]

    tally = rot(tmp_path / "kg", read, TRIALS, seed=11)
    assert not tally.wrong and not tally.crashed


def test_damage_to_the_names_of_a_graph_is_noticed_or_harmless(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    from hoptree.graph.embedded import EmbeddedGraph
    from hoptree.graph.loading import load_graph
    from hoptree.graph.names_index import NameIndex, open_name_index

    load_graph(tmp_path / "kg", [written(tmp_path / "truthy.nt", TRUTHY)])
    open_name_index(EmbeddedGraph(tmp_path / "kg"))
    (names,) = (tmp_path / "kg").glob("names-*")

    def read(folder: Path) -> object:
        index = NameIndex(folder)
        armstrong = index.with_words(["neil", "armstrong"], 5), index.with_nearly("armstong", ["neil"], 5, distance=1)
        rarity = [index.rarity(word) for word in ("neil", "armstrong", "medal")]
        return index.exact_name(["neil", "armstrong"]), armstrong, rarity, index.knows("medal")

    tally = rot(names, read, TRIALS, seed=13)
    assert not tally.wrong and not tally.crashed
    assert tally.counts["noticed"] > TRIALS * 0.9


def test_a_damaged_reply_of_a_public_server_is_requested_again(tmp_path: Path) -> None:
    """An unusable file is an error; a damaged reply in it is not."""

    def read(folder: Path) -> object:
        cache = HttpCache(folder / "graph.sqlite")
        try:
            for number in range(12):
                body = b'{"reply": "to question %d, of some length"}' % number
                if (known := cache.get("http://server/", f"Question {number}")) is None:
                    cache.put("http://server/", f"Question {number}", body)
                assert known in (None, body)
        finally:
            cache.close()
        return None

    (tmp_path / "cache").mkdir()
    tally = rot(tmp_path / "cache", read, TRIALS, seed=4)
    assert not tally.wrong and not tally.crashed


def test_a_custom_ranker_has_a_checksum(tmp_path: Path) -> None:
    pytest.importorskip("numpy")
    from hoptree.retrieval.ranker import FORMAT, PARTS, read_ranker

    parts = {
        name: {"names": list(names), "features": [[0]], "thresholds": [[0.5]], "leaves": [[0.125, 0.75]]}
        for name, names in PARTS.items()
    }
    path = tmp_path / "ranker.json"
    path.write_text(json.dumps(with_sum({"format": FORMAT, **parts})), encoding="utf-8")
    assert read_ranker(path).digest
    path.write_text(path.read_text(encoding="utf-8").replace("0.75", "0.76", 1), encoding="utf-8")
    with pytest.raises(ConfigError, match="it is not what was written"):
        read_ranker(path)
