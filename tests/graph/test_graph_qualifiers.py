"""Qualifiers of facts, however many statements their subjects and values have."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.graph.graph_files import jsonl

from hoptree.graph import neighbours as qualifiers
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.facts import Neighbourhood
from hoptree.graph.loading import load_graph


def loaded(tmp_path: Path, rows: list[dict[str, object]]) -> EmbeddedGraph:
    load_graph(tmp_path / "kg", [jsonl(tmp_path / "rows.jsonl", rows)])
    return EmbeddedGraph(tmp_path / "kg")


def award(who: str, what: str, year: int) -> dict[str, object]:
    return {"s": who, "p": "award received", "o": what, "qualifiers": {"year": str(year)}}


def years(neighbourhood: Neighbourhood) -> list[str]:
    return [qualifier.value.text for fact in neighbourhood.facts for qualifier in fact.qualifiers]


def test_every_award_has_its_year(tmp_path: Path) -> None:
    graph = loaded(tmp_path, [award("Ada Moor", f"Prize {number}", 1900 + number) for number in range(50)])
    neighbourhood = asyncio.run(graph.facts("name:Ada Moor"))
    assert sorted(years(neighbourhood)) == [str(1900 + number) for number in range(50)] and neighbourhood.complete
    assert all(len(fact.qualifiers) == 1 for fact in neighbourhood.facts)


def test_a_prize_that_many_got_has_the_year_of_each(tmp_path: Path) -> None:
    rows = [award(f"Winner {number}", "The Prize", 1900 + number) for number in range(60)]
    rows += [award("Winner 7", f"Prize {number}", 1800 + number) for number in range(60)]
    graph = loaded(tmp_path, rows)
    neighbourhood = asyncio.run(graph.facts("name:The Prize"))
    assert sorted(years(neighbourhood)) == [str(1900 + number) for number in range(60)] and neighbourhood.complete


def test_a_fact_with_more_statements_than_are_looked_at_is_told_as_incomplete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [award("Ada Moor", "The Prize", 1900 + number) for number in range(8)]
    graph = loaded(tmp_path, rows)
    assert asyncio.run(graph.facts("name:Ada Moor")).complete
    monkeypatch.setattr(qualifiers, "_MAX_STATEMENTS", 5)
    neighbourhood = asyncio.run(graph.facts("name:Ada Moor"))
    assert not neighbourhood.complete and 5 <= len(years(neighbourhood)) < 8


def test_a_statement_may_have_many_qualifiers(tmp_path: Path) -> None:
    qualifiers = [["member", f"Member {number}"] for number in range(40)]
    graph = loaded(tmp_path, [{"s": "The Band", "p": "played at", "o": "The Hall", "qualifiers": qualifiers}])
    neighbourhood = asyncio.run(graph.facts("name:The Band"))
    assert len(neighbourhood.facts[0].qualifiers) == 40 and neighbourhood.complete
