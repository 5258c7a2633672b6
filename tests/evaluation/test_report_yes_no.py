"""Reports on questions that ask yes or no: how many are right whatever stands behind the first word."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.evaluation.doubting_runs import doubting_run, judged
from tests.evaluation.hypothesis_runs import Asked
from tests.evaluation.report_runs import cells, table

from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.tables import Table

COLUMN = "Yes/no"
LONG = "yes, because cats cannot read"
ANSWERED = (Asked("q1", LONG, ("yes",)), Asked("q2", "no", ("yes",)), Asked("q3", "Rome"))


def tables(folder: Path) -> list[Table]:
    return tables_of(read_groups([folder]))


def results(folder: Path) -> Table:
    return next(one for one in tables(folder) if "questions" in one.title)


def test_the_first_word_counts_where_there_are_such_questions(tmp_path: Path) -> None:
    doubting_run(tmp_path, "mind", ANSWERED, {})
    found = cells(results(tmp_path), "mind")
    assert (found[COLUMN].value, found[COLUMN].questions) == (50, 2)
    assert found["EM"].value == pytest.approx(100 / 3)
    assert any(note.startswith("Yes/no: ") for note in results(tmp_path).notes)


def test_a_failed_question_is_wrong_only_if_it_asks_yes_or_no(tmp_path: Path) -> None:
    failed = (Asked("q4", "", ("no",), error="EndpointError"), Asked("q5", "", error="EndpointError"))
    doubting_run(tmp_path, "mind", [*ANSWERED, *failed], {})
    found = cells(results(tmp_path), "mind")
    assert (round(found[COLUMN].value, 1), found[COLUMN].questions) == (33.3, 3)


def test_other_data_have_no_such_column(tmp_path: Path) -> None:
    for draw in (0, 1):
        doubting_run(tmp_path, f"mind, draw {draw}", [Asked("q", "Rome", events=judged(True))], {"draw": draw})
    assert not any(COLUMN in said for one in tables(tmp_path) for said in (*one.columns, *one.notes))


def test_draws_have_it_too(tmp_path: Path) -> None:
    for draw, answer in enumerate((LONG, "no")):
        asked = [Asked("q1", answer, ("yes",)), Asked("q2", "yes", ("yes",))]
        doubting_run(tmp_path, f"mind, draw {draw}", asked, {"draw": draw})
    found = cells(table(tables(tmp_path), "hand: over demonstration draws"), "mind")
    assert (found[COLUMN].value, round(found[f"{COLUMN}, sd"].value, 2)) == (75, 35.36)
    assert found["EM"].value == 50
