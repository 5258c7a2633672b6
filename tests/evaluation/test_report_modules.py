"""Reports on methods with modules and on sweeps: who answered and why, what it cost, what an option is worth."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.report_runs import cells, right, run, table

from hoptree.core.errors import InputError, TraceError
from hoptree.core.files import unsealed
from hoptree.engine.context import Budget
from hoptree.engine.trace import read_events
from hoptree.evaluation.report.contents import modules_of, tables_of, workload
from hoptree.evaluation.report.figures import sweeps_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page, write_text
from hoptree.evaluation.report.tables import as_csv, as_latex
from hoptree.evaluation.report.trace_view import read_run_traces
from hoptree.evaluation.run_folder import RUN, TRACES, by_question, read_run
from hoptree.retrieval.indexing import build_index

REPLIES: list[dict[str, Any]] = [
    {"step": "know", "contains": "number 7?", "fault": "401"},
    {"step": "know", "contains": "number 0?", "reply": "Yes. answer 0"},
    {"step": "know", "contains": "number 1?", "reply": "Yes. something else"},
    {"step": "know", "contains": "Who is Ann?", "reply": "Yes. A person"},
    {"step": "know", "reply": "No"},
    {"step": "relevance", "regex": r"number [23]\?", "reply": "relevance"},
    {"step": "relevance", "reply": "irrelevance"},
    {"step": "read", "contains": "number 2?", "reply": "answer 2"},
    {"step": "read", "reply": "unknown"},
    {"step": "decompose", "regex": r"number [45]\?", "reply": "1. Who is Ann?\n2. Who is Bob?"},
    {"step": "decompose", "contains": "Who is Bob?", "reply": "1. What does Bob do?"},
    {"step": "decompose", "reply": "There is nothing to split."},
    {"step": "combine", "contains": "number 4?", "reply": "answer 4"},
    {"step": "combine", "reply": "Ann"},
]
"""Questions 0 and 1 are known, 2 and 3 are looked up, 4 and 5 are split, 6 leads nowhere, 7 fails."""


def index(folder: Path) -> str:
    docs = folder / "docs.jsonl"
    docs.write_text(json.dumps({"id": "p1", "title": "Numbers", "text": "Every number has one answer. Bob counts."}))
    build_index(docs, folder / "idx")
    return str(folder / "idx")


def modules_run(folder: Path, **more: Any) -> Path:
    return run(folder, "ra", REPLIES, method="ra_isf", corpus=index(folder), **more)


def test_the_tables_say_which_module_answered_and_what_the_recursion_cost(tmp_path: Path) -> None:
    modules_run(tmp_path)
    run(tmp_path, "direct", right(range(8)))
    tables = tables_of(read_groups([tmp_path / "runs"]))
    work = table(tables, "numbers: workload by module")
    assert work.columns == ("Questions", "Share, %", "Correct", "EM", "F1", "F1 of direct")
    told = {row.name: [cell.value for cell in row.cells[:4] if not isinstance(cell, str) and cell] for row in work.rows}
    assert told == {
        "ra: self-knowledge": [2, 25, 1, 50],
        "ra: passages": [2, 25, 1, 50],
        "ra: sub-questions": [2, 25, 1, 50],
        "ra: none": [1, 12.5, 0, 0],
        "ra: stopped or failed": [1, 12.5, 0, 0],
    }
    assert all(cells(work, name)["F1 of direct"].value == 100 for name in told), "the same questions, by the other run"
    spent = table(tables, "numbers: searches and sub-questions")
    assert [row.name for row in spent.rows] == ["ra"], "only of runs whose nodes say their module"
    # 2, 3 and 6 search once; 4 and 5 for themselves, for Bob and for what Bob does
    assert cells(spent, "ra")["Searches"].value == pytest.approx((3 + 2 * 3) / 8)
    assert cells(spent, "ra")["Questions asked"].value == pytest.approx((6 + 2 * 4) / 8), "also of the one that failed"
    assert cells(spent, "ra")["Most levels"].value == 2
    lines = list(csv.DictReader(io.StringIO(as_csv(tables))))
    assert {line["column"] for line in lines if line["table"] == work.title} == set(work.columns)
    assert r"\caption{numbers: workload by module}" in as_latex(tables)


def test_a_method_without_modules_has_no_such_tables_and_neither_has_a_run_without_traces(tmp_path: Path) -> None:
    plain = run(tmp_path, "direct", right(range(8)))
    titles = [one.title for one in tables_of(read_groups([plain]))]
    assert not any("module" in title or "searches and" in title for title in titles)
    assert "the module that answered" not in make_page(read_groups([plain]))
    ra = modules_run(tmp_path)
    (ra / TRACES).unlink()
    (group,) = read_groups([ra])
    assert not workload(group.runs[0]) and not modules_of(group.runs[0])


def test_a_question_that_its_budget_stopped_is_not_among_the_answered(tmp_path: Path) -> None:
    (group,) = read_groups([modules_run(tmp_path, budget=Budget(calls=4))])
    assert modules_of(group.runs[0])["stopped or failed"] == ["q/4", "q/5", "q/7"]
    assert cells(table(tables_of([group]), "numbers: searches and sub-questions"), "ra")["Most calls"].value == 4


def test_what_was_asked_counts_although_the_budget_ended_before_it_was_answered(tmp_path: Path) -> None:
    (group,) = read_groups([modules_run(tmp_path, budget=Budget(calls=4))])
    work = workload(group.runs[0])
    assert (work["q/4"].questions, work["q/4"].depth) == (3, 1), "itself, Ann and Bob, of whom nothing came back"
    asked = cells(table(tables_of([group]), "numbers: searches and sub-questions"), "ra")["Questions asked"].value
    assert asked == pytest.approx((6 + 2 * 3) / 8)


def test_the_plot_of_where_answers_come_from_calls_a_guess_one(tmp_path: Path) -> None:
    replies = [
        {"step": "decompose", "reply": '{"query1": {"question": "Which number?"}}'},
        {"step": "confident", "reply": "RAG_REQUIRED"},
        {"step": "read", "reply": "unknown"},
        {"reply": "answer 2"},
    ]
    page = make_page(read_groups([run(tmp_path, "guessed", replies, method="taikc", corpus=index(tmp_path))]))
    assert "0: from memory or a guess; 100: from documents alone" in page
    assert "8 of the answers are guesses, which no document says." in page


def test_a_run_that_was_stopped_before_any_answer_has_modules_all_the_same(tmp_path: Path) -> None:
    modules_run(tmp_path, budget=Budget(calls=1), options={"no_self_knowledge": True})
    run(tmp_path, "direct", right(range(8)))
    work = table(tables_of(read_groups([tmp_path / "runs"])), "numbers: workload by module")
    assert work.columns[-1] == "F1 of direct" and [row.name for row in work.rows] == ["ra: stopped or failed"]
    assert cells(work, "ra: stopped or failed")["Share, %"].value == 100


def test_a_tree_whose_nodes_say_no_module_is_of_no_such_method(tmp_path: Path) -> None:
    ra = modules_run(tmp_path)
    lines = (unsealed(line) for line in (ra / TRACES).read_bytes().splitlines())
    (ra / TRACES).write_bytes(b"".join(line.replace(b'"branch": ', b'"other": ') + b"\n" for line in lines))
    assert not workload(read_groups([ra])[0].runs[0])


def test_broken_records_are_passed_over_and_an_unreadable_trace_is_said(tmp_path: Path) -> None:
    ra = modules_run(tmp_path)
    before = modules_of(read_groups([ra])[0].runs[0])
    strange = [b'{"branch" ', b'["branch"]', b'{"event": "node", "run": [], "id": 0, "branch": "x"}', b'"branch"']
    strange.append(b'{"event": "node", "run": "x", "id": true, "branch": {}}')
    (ra / TRACES).write_bytes((ra / TRACES).read_bytes() + b"\n".join(strange))
    assert modules_of(read_groups([ra])[0].runs[0]) == before
    (ra / TRACES).unlink()
    (ra / TRACES).mkdir()
    with pytest.raises(InputError, match="cannot be read"):
        modules_of(read_groups([ra])[0].runs[0])


def tree_of(page: str, question: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    by_id = {one["id"]: one for one in json.loads(found[1])["questions"]}
    top: dict[str, Any] = by_id[question]["outcomes"]["0"]["trace"]["tree"][0]
    return top


def test_the_page_has_module_and_reasons_of_every_node(tmp_path: Path) -> None:
    page = make_page(read_groups([modules_run(tmp_path)]))
    top = tree_of(page, "q/4")
    assert (top["module"], top["knows"], top["judged"]) == ("sub-questions", False, {"p1": False})
    assert top["why"] == "0 of 1 passages relevant; 2 sub-questions, 0 unknown"
    known = top["children"][0]
    assert (known["module"], known["knows"], known["why"]) == ("self-knowledge", True, "the model says that it knows")
    assert "judged" not in known and tree_of(page, "q/2")["judged"] == {"p1": True}
    assert "numbers: the module that answered" in page and "ra, self-knowledge: 25.0 %" in page


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_browser_shows_module_level_and_reasons(tmp_path: Path) -> None:
    write_text(tmp_path / "r.html", make_page(read_groups([modules_run(tmp_path)])))
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--dump-dom"]
    opened = subprocess.run(
        [*browser, f"file://{tmp_path / 'r.html'}#q=0/q%2F4"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    article = opened.stdout[opened.stdout.index("<article") : opened.stdout.index("</article>")]
    words = re.sub(r"<[^>]*>", "", article)
    assert "level 0 · says that it knows: no · 0 of 1 passages relevant; 2 sub-questions, 0 unknown" in words
    assert "level 1 · the model says that it knows" in words and "judged irrelevant · Numbers" in words
    assert "level 2 · says that it knows: no" in words and ">self-knowledge<" in article


def test_traces_are_read_question_by_question(tmp_path: Path) -> None:
    """Two questions at once, one that was asked before and counts no more, one that was cut off, and a broken line."""
    path = tmp_path / "t.jsonl"
    steps = [("a", "start"), ("old", "start"), ("b", "start"), ("c", "start"), ("b", "final"), ("a", "final")]
    events = [{"event": kind, "run": name, "t": 0.0} for name, kind in steps]
    path.write_text("".join(json.dumps(event) + "\n" for event in events) + "{]\nmore\n", encoding="utf-8")
    reading = by_question(event for event in read_events(path) if event.run in "abc")
    assert [event.run for event in next(reading)] == ["b", "b"], "as soon as it is done"
    assert [event.event for event in next(reading)] == ["start", "final"]
    with pytest.raises(TraceError):
        next(reading)
    path.write_text("".join(json.dumps(event) + "\n" for event in events), encoding="utf-8")
    assert [some[0].run for some in by_question(read_events(path))] == ["b", "a", "old", "c"]


def test_all_traces_of_a_run_are_there(tmp_path: Path) -> None:
    (group,) = read_groups([modules_run(tmp_path)])
    assert set(read_run_traces(group.runs[0]).views) == {f"q/{n}" for n in range(8)}


# Sweeps


def swept_runs(folder: Path, *, models: tuple[str, ...] = ("",)) -> None:
    corpus = index(folder)
    for model in models:
        end = f", {model}" if model else ""
        for k in (9, 1, 3):
            replies = [*right(range(k - len(model))), {"reply": "no"}]
            run(folder, f"k {k}{end}", replies, method="oner", corpus=corpus, options={"k": k})


def same_model(folder: Path) -> None:
    """Runs whose scripts differ are runs with one model here."""
    for path in (folder / "runs").rglob(RUN):
        about = read_run(path.parent)
        about["rests_on"]["model"] = about["name"].removesuffix(" on numbers").partition(", ")[2]
        path.write_text(json.dumps(about), encoding="utf-8")


def test_an_option_that_varies_alone_is_drawn_as_a_line(tmp_path: Path) -> None:
    swept_runs(tmp_path)
    run(tmp_path, "titled", right(range(8)), method="oner", corpus=str(tmp_path / "idx"), options={"titles": True})
    run(tmp_path, "direct", [*right(range(4)), {"reply": "no"}])
    same_model(tmp_path)
    (group,) = read_groups([tmp_path / "runs"])
    found = sweeps_of(group)
    assert list(found) == ["k"], "whether titles are shown is no number"
    (sweep,) = found["k"]
    assert sweep.name == "oner" and [(value, run.label) for value, run in sweep.runs] == [
        (1, "k 1"),
        (3, "k 3"),
        (9, "k 9"),
    ]
    page = make_page([group])
    assert "numbers: EM by k" in page and "numbers: F1 by k" in page
    assert "oner: EM 12.5 at 1; oner: EM 37.5 at 3; oner: EM 100.0 at 9" in page
    assert "direct: EM 50.0; oner: EM 12.5" in page, "another method is a level to hold it against"
    assert "titled: EM" not in page, "it differs in something else too"


def test_lines_of_two_models_are_told_apart(tmp_path: Path) -> None:
    swept_runs(tmp_path, models=("A", "BB"))
    same_model(tmp_path)
    (group,) = read_groups([tmp_path / "runs"])
    assert {sweep.name for sweep in sweeps_of(group)["k"]} == {"oner, A", "oner, BB"}
    assert len(re.findall(r'class="series c[01]"', make_page([group]))) == 4, "two lines in each of two plots"


def test_runs_that_differ_in_more_than_the_option_are_no_sweep(tmp_path: Path) -> None:
    swept_runs(tmp_path)  # each has a script of its own, and so another model
    (group,) = read_groups([tmp_path / "runs"])
    assert sweeps_of(group) == {} and "EM by k" not in make_page([group])
