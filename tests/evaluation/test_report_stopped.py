"""Reports on trees that a budget ended: they are in every table, and the tables say so."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.hypothesis_runs import Asked, checked, llm, looked_up, made_by_hand, planned
from tests.evaluation.report_runs import cells, table

from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.hypothesis_tables import errors_of
from hoptree.evaluation.report.measures import read_groups

WHO, WHERE = "Who directed film N?", "Where was the director of film N born?"
PLAN = planned((0, WHERE, "Rome"), (1, WHO, "Ann Dee"))
PAGE = ("a1", "Ann Dee", "Ann Dee was born in Oslo.")
BEGUN = {"event": "node", "id": 1, "state": "asking", "resolved": WHO}
TABLES = ("verdicts and updates", "gold found and answers", "what went wrong, guessed")


def asked(name: str, *events: Any, stopped: str = "calls") -> Asked:
    told = [llm("build", 10), PLAN, BEGUN, looked_up(PAGE), llm("validate", 5, node=1), *events]
    return Asked(name, "Oslo", titles=("Ann Dee",), question=WHERE, events=told, stopped_by=stopped)


def test_a_run_in_which_every_question_was_stopped_is_in_the_tables(tmp_path: Path) -> None:
    groups = read_groups([made_by_hand(tmp_path, [asked("a"), asked("b")])])
    tables = tables_of(groups)
    told = cells(table(tables, "hand: verdicts and updates"), "tree")
    assert (told["Trees"].value, told["Nodes"].value, told["Updates a tree"].value) == (2, 0, 0)
    assert told["Supported, %"] is None
    assert sum(map(len, errors_of(groups[0].runs[0]).values())) == 2
    for name in TABLES:
        notes = table(tables, f"hand: {name}").notes
        assert "Stopped by their budget: tree 2 of 2." in notes[-1]


def test_questions_that_were_stopped_are_counted_beside_others(tmp_path: Path) -> None:
    verdict = checked(1, WHO, "Ann Dee", "supported", shown=["a1"])
    questions = [asked("a", verdict, stopped=""), asked("b", verdict), asked("c")]
    tables = tables_of(read_groups([made_by_hand(tmp_path, questions)]))
    told = cells(table(tables, "hand: verdicts and updates"), "tree")
    assert told["Trees"].value == 3 and told["Nodes"].value == pytest.approx(2 / 3)
    assert told["Supported, %"].value == 100, "of the nodes that have a verdict"
    assert all("tree 2 of 3" in table(tables, f"hand: {name}").notes[-1] for name in TABLES)


def test_where_nothing_was_stopped_nothing_is_said_of_it(tmp_path: Path) -> None:
    verdict = checked(1, WHO, "Ann Dee", "supported", shown=["a1"])
    tables = tables_of(read_groups([made_by_hand(tmp_path, [asked("a", verdict, stopped="")])]))
    assert not any("Stopped" in note for name in TABLES for note in table(tables, f"hand: {name}").notes)


def test_what_the_paper_does_not_have_is_another_stage(tmp_path: Path) -> None:
    beyond = [llm("weigh", 1, node=1), llm("read", 20), llm("final", 300), llm("final", 4000)]
    verdict = checked(1, WHO, "Ann Dee", "supported", shown=["a1"])
    groups = read_groups([made_by_hand(tmp_path, [asked("a", *beyond, verdict, stopped="")])])
    stages = table(tables_of(groups), "hand: costs by stage")
    tokens = {row.name: cells(stages, row.name)["Tokens"].value for row in stages.rows}
    assert tokens["tree: final"] == 4000, "the conclusion of the whole; one before it is that of a node"
    assert tokens["tree: other"] == 321 and tokens["tree: validation"] == 5
