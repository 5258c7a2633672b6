"""Reports on methods that validate hypotheses: what went wrong, and which questions a graph covers."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from tests.evaluation.film_trees import TITLES, WHERE, WHO, film, hand_made
from tests.evaluation.hypothesis_runs import checked, looked_up, made_by_hand
from tests.evaluation.report_runs import cells, table

from hoptree.evaluation.judge import JUDGEMENTS, Judge, JudgementsFile, Verdict
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.hypothesis_tables import coverage, errors_of
from hoptree.evaluation.report.hypothesis_trees import HypothesisTree, covered, plain_name, sides
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page
from hoptree.evaluation.report.tables import as_csv, as_latex, as_markdown
from hoptree.evaluation.run_folder import Row

CLASSES = {
    "retrieval": ["lost"],
    "string match": ["words", "order"],
    "tree structure": ["unasked", "beside"],
    "ambiguous": ["several"],
    "model": ["model"],
    "failed": ["failed"],
}


def test_the_class_of_an_error_follows_the_rules(tmp_path: Path) -> None:
    groups = read_groups([made_by_hand(tmp_path, hand_made())])
    assert errors_of(groups[0].runs[0]) == CLASSES
    tables = tables_of(groups)
    wrong = table(tables, "hand: what went wrong, guessed")
    told = cells(wrong, "tree")
    assert told["No exact match"].value == 8
    assert told["String match, %"].value == pytest.approx(25) and told["String match, %"].text == "25.0 (2)"
    assert "guess by rules" in wrong.notes[0]
    for text in (as_markdown(tables), as_latex(tables), as_csv(tables)):
        assert "what went wrong, guessed" in text and "by what the graph covers" in text
    lines = list(csv.DictReader(io.StringIO(as_csv(tables))))
    assert {line["column"] for line in lines if line["table"] == wrong.title} == set(wrong.columns)
    page = make_page(groups)
    assert "tree, tree structure: 25.0 %" in page and "<h3>hand: what went wrong, guessed</h3>" in page


def judged(folder: Path, judge: str, **said: Verdict) -> None:
    """Put verdicts into the folder of a run, as `hoptree eval judge` does."""
    import asyncio

    rows = {row.id: row for row in read_groups([folder])[0].runs[0].rows}

    async def write() -> None:
        file = JudgementsFile(folder, Judge(judge, judge, "t"))
        for name, verdict in said.items():
            await file.add(rows[name], verdict)
        file.close()

    asyncio.run(write())


def test_a_judge_tells_wording_from_error_and_may_be_undecided(tmp_path: Path) -> None:
    out = made_by_hand(tmp_path, [film(name, "Oslo") for name in ("yes", "no", "neither", "divided")])
    no = {name: Verdict(name, False, False) for name in ("yes", "no", "divided")}
    judged(out, "first", **{**no, "divided": Verdict("divided", True, False)})
    neither = Verdict("neither", False, False, unparsed=True)
    judged(out, "second", **{**no, "yes": Verdict("yes", True, False), "neither": neither})
    found = errors_of(read_groups([out])[0].runs[0])
    told = {name: ids for name, ids in found.items() if ids}
    assert told == {"string match": ["yes"], "model": ["no"], "ambiguous": ["neither", "divided"]}
    assert (out / JUDGEMENTS).exists()


@pytest.mark.parametrize(
    ("text", "answer", "expected"),
    [("Rome is a city.", "Oslo", "model"), ("Oslo is a city.", "Oslo", "retrieval"), ("Romeo", "Oslo", "retrieval")],
)
def test_without_gold_pages_the_answer_itself_is_looked_for(
    text: str, answer: str, expected: str, tmp_path: Path
) -> None:
    node = checked(1, WHO, "Ann Dee", "supported", shown=["x"])
    asked = film("q", answer, looked_up(("x", "A page", text)), node, titles=())
    found = errors_of(read_groups([made_by_hand(tmp_path, [asked])])[0].runs[0])
    assert found[expected] == ["q"]


def test_gold_that_is_known_by_ids_counts_by_ids(tmp_path: Path) -> None:
    found = made_by_hand(tmp_path, [film("q", "Oslo", titles=(), gold=("a1", "a2"))])
    groups = read_groups([found])
    gold = cells(table(tables_of(groups), "hand: gold found and answers"), "tree")
    assert (gold["Gold recall"].value, gold["in facts"].value) == (50, 0)
    assert errors_of(groups[0].runs[0])["retrieval"] == ["q"]


# Which questions a graph covers


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ("Film N | director | Ann Dee", True),  # a title on the left
        ("Zed | knows | Ann Dee (director)", True),  # a title on the right, in brackets there and in the title
        ("Ann Dee | born in | Rome (since: 1970)", True),
        ("Zed | capital | Rome", True),  # the answer
        ("Zed | capital | Rome, Italy", False),  # not as a whole
        ("Zed | is | Romeo", False),
        ("Zed | is | yes", False),  # an accepted answer that no fact is about
        ("Zed | film n | Yoko", False),  # a relation is no side
    ],
)
def test_a_fact_covers_a_question_by_one_of_its_sides(fact: str, expected: bool) -> None:
    row = Row("q", WHERE, ("Rome", "yes"), "", gold_titles=TITLES)
    assert covered(row, HypothesisTree((), (), {}, (fact,), 0)) is expected


def test_names_lose_only_what_stands_in_brackets_behind_them() -> None:
    assert plain_name("Ran (film) (1985)") == "ran" and plain_name("(500) Days") == "500 days"
    assert plain_name("(film)") == "film" and sides("X | b | Y (film) (since: 1)") == ("x", "y")


def test_rows_are_split_by_what_the_graph_covers_with_the_same_questions_for_all(tmp_path: Path) -> None:
    by_graph = [film("a", "Rome"), film("b", "Rome", checked(1, WHO, "Ann Dee", "unknown", facts_shown=["X | y | Z"]))]
    by_text = [
        film("a", "Oslo", checked(1, WHO, "Ann Dee", "unknown")),
        film("b", "Rome", checked(1, WHO, "x", "unknown")),
    ]
    made_by_hand(tmp_path, by_graph, name="graph")
    made_by_hand(tmp_path, by_text, name="text")
    (group,) = read_groups([tmp_path])
    assert coverage(group) == {"covered": {"a"}, "not covered": {"b"}}
    split = table(tables_of([group]), "hand: by what the graph covers")
    assert (
        split.columns[:2] == ("EM, covered (n=1)", "EM, not covered (n=1)") and "Hits@1, covered (n=1)" in split.columns
    )
    assert [cell.value for cell in split.rows[0].cells[:2] if cell and not isinstance(cell, str)] == [100, 100]
    assert [cell.value for cell in split.rows[1].cells[:2] if cell and not isinstance(cell, str)] == [0, 100]


def test_without_any_fact_there_is_no_such_split(tmp_path: Path) -> None:
    node = checked(1, WHO, "Ann Dee", "supported", shown=["a1"])
    (group,) = read_groups([made_by_hand(tmp_path, [film("a", "Rome", node)])])
    assert coverage(group) == {} and not any("covers" in one.title for one in tables_of([group]))
