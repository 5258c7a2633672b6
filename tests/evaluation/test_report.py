"""Reports: tables with known figures, text that stays text, and a page that works in a real browser."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.evaluation.report_runs import HOSTILE, cells, right, run, table
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import InputError
from hoptree.core.values import Usage
from hoptree.engine.context import Prices
from hoptree.evaluation.boundary import BOUNDARY
from hoptree.evaluation.report import page
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import DataGroup, Run, find_runs, read_groups
from hoptree.evaluation.report.page import Room, make_page, script_json, write_text
from hoptree.evaluation.report.plots import Scale, distribution, smoothed
from hoptree.evaluation.report.tables import NO_FIGURE, Number, Table, TableRow, as_csv, as_html, as_latex, as_markdown
from hoptree.evaluation.run_folder import RESULTS, RUN, TRACES, Row
from hoptree.retrieval.indexing import build_index

CHAIN = {
    "query1": {
        "question": "Who directed the film Whiplash?",
        "children": {"query2": {"question": "Where was #query1 born?"}},
    }
}


def tree_run(folder: Path) -> Path:
    """TAIKC over one passage that would rather be markup."""
    docs = folder / "docs.jsonl"
    text = f"Whiplash was directed by Damien Chazelle. {HOSTILE} {'long ' * 400}"
    docs.write_text(json.dumps({"id": "p1", "title": f"Whiplash {HOSTILE}", "text": text}) + "\n", encoding="utf-8")
    build_index(docs, folder / "idx")
    replies = [
        {"step": "decompose", "reply": json.dumps(CHAIN)},
        {"step": "confident", "contains": "Who directed", "reply": "RAG_REQUIRED"},
        {"step": "confident", "reply": f"Providence {HOSTILE}"},
        {"step": "read", "contains": "Who directed", "reply": "Damien Chazelle"},
        {"step": "summarise", "reply": f"A chain {HOSTILE}"},
        {"step": "final", "contains": "number 3?", "fault": "401"},
        *right(range(6)),
        {"reply": f"nonsense {HOSTILE}"},
    ]
    return run(folder, "taikc", replies, method="taikc", corpus=str(folder / "idx"), prices=Prices(1.0, 2.0))


def rows_of(scores: Iterable[float], *, errors: frozenset[int] = frozenset()) -> tuple[Row, ...]:
    usage = Usage(llm_calls=2, prompt_tokens=90, completion_tokens=10).as_dict()
    return tuple(
        Row(
            f"q{n}",
            f"Question {n}?",
            ("yes",),
            "",
            error="EndpointError" if n in errors else "",
            scores={"em": score, "f1": score, "judge": score if n not in errors else None},
            usage=usage,
        )
        for n, score in enumerate(scores)
    )


def group(**runs: tuple[Row, ...]) -> DataGroup:
    about: dict[str, Any] = {"rests_on": {}, "experiment": {}}
    total = max(len(rows) for rows in runs.values())
    made = tuple(Run(Path(name), f"id-{name}", name, about, rows, total) for name, rows in runs.items())
    return DataGroup("set", total, made)


def page_data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    loaded: dict[str, Any] = json.loads(found[1])
    return loaded


def test_tables_hold_what_the_runs_came_to(tmp_path: Path) -> None:
    good, bad = run(tmp_path, "good", right(range(8))), run(tmp_path, "bad", [*right([0, 2]), {"reply": "no"}])
    tables = tables_of(read_groups([good, bad]))
    main = table(tables, "numbers: 8 questions")
    assert [row.name for row in main.rows] == ["good", "bad"], "the data set names the group, not each run"
    assert cells(main, "good")["EM"].value == 100 and cells(main, "bad")["EM"].value == 25
    assert cells(main, "bad")["EM"].low < 25 < cells(main, "bad")["EM"].high
    assert cells(main, "good")["Judge"] is None and cells(main, "good")["Cost of 1,000"] is None, "n/a, never 0"
    assert cells(main, "good")["Calls"].value == 1 and cells(main, "good")["Questions"].text == "8"
    by_type = table(tables, "numbers: EM by type")
    assert by_type.columns == ("even (n=4)", "odd (n=4)")
    assert [cell.value for cell in cells(by_type, "bad").values()] == [50, 0]
    assert [cell.value for cell in cells(table(tables, "numbers: F1 by hops"), "bad").values()] == [50, 0]
    ids = {json.loads((one / RUN).read_text())["id"] for one in (good, bad)}
    assert all({row.run for row in one.rows} == ids for one in tables), "every figure has its run"


def test_the_best_is_bold_only_when_it_is_more_than_chance() -> None:
    clear = group(a=rows_of([1.0] * 30), b=rows_of([1.0] * 15 + [0.0] * 15), c=rows_of([0.0] * 30))
    main = tables_of([clear])[0]
    assert cells(main, "a")["EM"].best and not cells(main, "b")["EM"].best
    close = group(a=rows_of([1.0] * 30), b=rows_of([1.0] * 28 + [0.0] * 2), c=rows_of([0.0] * 30))
    assert not any(cell.best for row in tables_of([close])[0].rows for cell in row.cells if isinstance(cell, Number))
    alone = group(a=rows_of([1.0] * 30))
    assert not cells(tables_of([alone])[0], "a")["EM"].best


def test_a_failed_question_counts_as_wrong_for_every_score() -> None:
    main = tables_of([group(a=rows_of([1.0, 1.0, 1.0, 0.0], errors=frozenset({3})))])[0]
    assert cells(main, "a")["EM"].value == 75
    assert cells(main, "a")["Judge"].value == 75 and cells(main, "a")["Judge"].questions is None
    assert cells(main, "a")["Failed"].value == 1 and cells(main, "a")["Calls"].value == 2


def test_a_run_that_is_not_finished_is_marked_and_never_the_best(tmp_path: Path) -> None:
    run(tmp_path, "whole", [{"reply": "no"}])
    run(tmp_path, "half", right(range(8)), only=4)
    tables = tables_of(read_groups([tmp_path / "runs"]))
    main = table(tables, "numbers: 8 questions")
    assert cells(main, "half")["Questions"].text == "4 of 8 (not finished)"
    assert cells(main, "half")["EM"].value == 100 and not cells(main, "half")["EM"].best
    split = table(tables, "numbers: EM by type")
    assert "half (4 of 8, not finished)" in {row.name for row in split.rows}
    assert "(4 of 8, not finished)" in make_page(read_groups([tmp_path / "runs"]))


def test_runs_over_other_questions_have_their_own_table_and_a_mean_over_both(tmp_path: Path) -> None:
    one = run(tmp_path, "direct", right(range(8)))
    other = run(tmp_path / "other", "direct", right(range(4)), limit=4, name="direct on fewer")
    groups = read_groups([one, other, one])
    assert [(group.name, group.questions, len(group.runs)) for group in groups] == [("numbers", 8, 1), ("fewer", 4, 1)]
    overall = table(tables_of(groups), "All 2 data sets")
    assert cells(overall, "direct")["Mean EM"].value == 100 and len(overall.rows[0].run.split()) == 2
    assert cells(overall, "direct")["Average"].value == 100 and "Mean Judge" not in overall.columns
    text = make_page(groups)
    assert "All 2 data sets: F1 against tokens a question" in text and "direct: F1 100.0 at " in text
    assert [one["set"] for one in page_data(text)["questions"]] == [0] * 8 + [1] * 4


def test_a_run_without_an_outcome_and_more_runs_than_colours(tmp_path: Path) -> None:
    begun = run(tmp_path, "begun", right(range(8)), only=1)
    (begun / RESULTS).unlink()
    run(tmp_path, "done", right(range(8)))
    groups = read_groups([tmp_path / "runs"])
    main = tables_of(groups)[0]
    assert cells(main, "begun")["Questions"].text == "0 of 8 (not finished)" and cells(main, "begun")["EM"] is None
    assert "begun" in make_page(groups)
    many = group(**{f"r{n}": rows_of([1.0, 0.0]) for n in range(12)})
    assert 'class="c3 again"' in make_page([many]) and len(tables_of([many])[0].rows) == 12


def test_runs_of_one_name_are_told_apart(tmp_path: Path) -> None:
    run(tmp_path, "a", right(range(8)), name="same on numbers")
    run(tmp_path, "b", [*right(range(4)), {"reply": "no"}], name="same on numbers")
    assert [one.label for one in read_groups([tmp_path / "runs"])[0].runs] == ["same (a)", "same (b)"]


def test_every_format_says_the_same_and_escapes_what_is_not_its_own() -> None:
    row = TableRow("a_b & <i>|x|", "id1", (Number(31.25, 20.0, 40.5, best=True), None, "=1+1"))
    other = TableRow("other", "id2", (None, Number(1.0), None))
    one = Table("T $5 #1", ("EM %", "Judge", "x"), (row, other), ("a note",))
    markdown, latex, page_part = as_markdown([one]), as_latex([one]), as_html(one)
    assert r"| a_b &amp; &lt;i&gt;\|x\| | `id1` | **31.2** (20.0–40.5) | n/a | =1+1 |" in markdown
    assert r"a\_b \& \textless{}i\textgreater{}\textbar{}x\textbar{} & \texttt{id1}" in latex
    assert r"\textbf{31.2} {\scriptsize (20.0--40.5)} & n/a" in latex and r"\caption{T \$5 \#1}" in latex
    assert "<strong>31.2</strong> <small>20.0–40.5</small>" in page_part and "<i>" not in page_part
    lines = list(csv.DictReader(io.StringIO(as_csv([one]))))
    assert [line["value"] for line in lines][:3] == ["31.25", "n/a", "'=1+1"], "no formula for a spreadsheet"
    assert lines[0]["low"] == "20.0" and lines[0]["best"] == "1" and lines[0]["run id"] == "id1"


def test_columns_without_a_figure_are_left_out_where_people_read() -> None:
    rows = (TableRow("a", "1", (Number(1.0), None, "")), TableRow("b", "2", (None, None, "")))
    one = Table("T", ("EM", "Judge", "Options"), rows)
    for text in (as_markdown([one]), as_latex([one]), as_html(one)):
        assert "EM" in text and "Judge" not in text and "Options" not in text
    assert "Judge" in as_csv([one]) and one.as_dict()["columns"] == ["EM", "Judge", "Options"]


def test_every_two_runs_are_compared_with_a_p_value(tmp_path: Path) -> None:
    for called, knows in (("none", 0), ("half", 4), ("all", 8)):
        run(tmp_path, called, [*right(range(knows)), {"reply": "no idea"}])
    [group] = read_groups([tmp_path / "runs"])
    found = table(tables_of([group]), "numbers: paired differences in F1")
    assert found.columns == ("less all", "less half", "less none")
    by_run = cells(found, "all")
    assert by_run["less all"] == NO_FIGURE and round(by_run["less none"].value) == 100 and by_run["less none"].best
    assert by_run["less none"].after.startswith("p = 0.0")
    back = cells(found, "none")["less all"]
    assert round(back.value) == -100 and not back.best and back.after == by_run["less none"].after
    text = make_page([group])
    assert text.index("<figure") < text.index("<table"), "plots come first"


@given(
    st.recursive(
        st.text() | st.none() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_data_in_the_page_are_the_same_and_no_markup(value: object) -> None:
    text = script_json(value)
    assert json.loads(text) == value
    assert not re.search("[<>&\u2028\u2029\ud800-\udfff]", text)


def test_hostile_text_is_nowhere_markup(tmp_path: Path) -> None:
    tree_run(tmp_path)
    run(tmp_path, f"bad {HOSTILE.replace('/', ' ')}", [*right(range(2)), {"reply": HOSTILE}])
    text = make_page(read_groups([tmp_path / "runs"]))
    assert "onerror" in text, "it is there, as text"
    assert "<img" not in text.lower() and "<!--" not in text and "\u2028" not in text
    assert len(re.findall(r"</script>", text)) == 2 and len(re.findall(r"<script", text)) == 2
    assert "innerHTML" not in text and "default-src 'none'" in text
    assert not re.search(r"https?://", text), "nothing is loaded from anywhere"
    assert page_data(text)["passages"][0][1] == f"Whiplash {HOSTILE}"


def test_a_question_comes_with_its_tree_and_passages(tmp_path: Path) -> None:
    tree_run(tmp_path)
    found = page_data(make_page(read_groups([tmp_path / "runs"])))
    by_id = {one["id"]: one for one in found["questions"]}
    trace = by_id["q/1"]["outcomes"]["0"]["trace"]
    (top,) = trace["tree"]
    assert (top["answer"], top["source"], top["evidence"]) == ("Damien Chazelle", "external", ["p1"])
    assert top["children"][0]["asked"] == "Where was Damien Chazelle born?"
    assert top["children"][0]["source"] == "internal" and trace["chains"] == [f"A chain {HOSTILE}".strip()]
    assert trace["searches"][0]["found"] == [0] and len(found["passages"]) == 1, "each passage once"
    assert len(found["passages"][0][2]) == 1501 and "Passages are cut after 1,500 letters." in found["notes"]
    assert by_id["q/3"]["outcomes"]["0"]["error"] == "EndpointError"


def test_where_not_all_fits_what_went_wrong_comes_first(tmp_path: Path) -> None:
    tree_run(tmp_path)
    groups = read_groups([tmp_path / "runs"])
    full = page_data(make_page(groups))
    assert len(full["questions"]) == 8
    tight = page_data(make_page(groups, Room(outcomes=10**6, traces=6_000)))
    with_trace = {one["id"] for one in tight["questions"] if "trace" in one["outcomes"]["0"]}
    assert "q/3" in with_trace and 0 < len(with_trace) < 8
    assert any("Trees and passages are here for" in note for note in tight["notes"])
    few = page_data(make_page(groups, Room(outcomes=1_200, traces=0)))
    assert {one["id"] for one in few["questions"]} <= {"q/3", "q/6", "q/7"} and few["questions"]
    assert any(note.startswith("The list holds") for note in few["notes"])


def test_figures_have_titles_descriptions_and_run_ids(tmp_path: Path) -> None:
    out = tree_run(tmp_path)
    measures = {"questions": 9, "answered": 5, "refused": 4, "direct_f1": 0.5, "confident_f1": 0.75, "gap_f1": 0.5}
    (out / BOUNDARY).write_text(json.dumps(measures | {"knowledge_gap_f1": 0.25}), encoding="utf-8")
    text = make_page(read_groups([out]))
    name = json.loads((out / RUN).read_text())["id"]
    figures = re.findall(r"<figure>.*?</figure>", text, re.DOTALL)
    titles = [html.unescape(re.findall(r"<h3>(.*?)</h3>", figure)[0]) for figure in figures]
    assert titles == [
        "numbers: F1 against tokens a question",
        "numbers: F1 against seconds a question",
        "numbers: F1 by type",
        "numbers: F1 by hops",
        "Where answers come from: taikc",
        "numbers: attempts a sub-question took",
        "Accuracy by the model's own word",
        "Consistency",
    ]
    for figure in figures:
        assert name in figure and 'role="img"' in figure and re.search(r"<desc[^>]*>[^<]{20,}</desc>", figure)
    assert "taikc (numbers), Confident knowledge: 75.0" in figures[6] and "n/a" in figures[7]
    assert "taikc, first attempt: 50.0 %; taikc, second attempt: 50.0 %" in figures[5]
    assert "50 to 60: 100.0 %" in figures[4], "one of two sub-questions from documents, in every question"


def test_smoothed_shares_are_one_in_all_and_ticks_are_round() -> None:
    for values in ([0.5], [0.0, 1.0, 1.0], [0.2, 0.25, 0.9] * 10):
        share = smoothed(values)
        assert share(0, 1) == pytest.approx(1, abs=1e-6)
        assert sum(share(at / 10, (at + 1) / 10) for at in range(10)) == pytest.approx(1, abs=1e-6)
    assert Scale(0, 87, 0, 1).ticks() == [0, 20, 40, 60, 80]
    assert Scale(8, 900, 0, 1, log=True).ticks() == [10, 20, 50, 100, 200, 500]


@pytest.mark.parametrize("values", [[0.0] * 9, [1.0] * 9, [0.0, 1.0] * 5, [0.5] * 3])
def test_the_curve_of_a_distribution_stays_within_100_percent(values: list[float]) -> None:
    drawn = distribution("d", "t", ("memory", "documents"), "share, %", values, 0)
    curve = re.search(r'class="curve" points="([^"]*)"', drawn)
    assert curve
    tallest = min(float(y) for y in re.findall(r'<rect[^>]* y="([\d.]+)"', drawn))
    assert min(float(point.split(",")[1]) for point in curve[1].split()) >= tallest - 0.11, "no higher than all of them"


def test_the_command_writes_what_it_is_asked_for(tmp_path: Path) -> None:
    out = run(tmp_path, "good", right(range(8)))
    call = CliRunner()
    printed = call.invoke(app, ["eval", "report", str(out)])
    assert printed.exit_code == 0 and printed.output.startswith("## numbers: 8 questions\n\n| Run | Id | Questions |")
    files = [tmp_path / name for name in ("r.html", "r.md", "r.tex", "r.csv")]
    options = ["--html", str(files[0]), "--markdown", str(files[1]), "--latex", str(files[2]), "--csv", str(files[3])]
    told = json.loads(call.invoke(app, ["eval", "report", str(out.parent), *options, "--json"]).output)
    assert told["files"] == [str(path) for path in files] and all(path.stat().st_size for path in files)
    assert told["tables"][0]["rows"][0]["EM"]["value"] == 100 and told["runs"][0]["finished"] == 8
    assert files[1].read_text(encoding="utf-8") == printed.output
    before = files[0].read_bytes()
    write_text(files[0], make_page(read_groups([out])))
    assert files[0].read_bytes() == before, "the same runs make the same page"


@pytest.mark.parametrize("damage", ["nothing", "results", "scores", "run", "traces", "boundary", "html"])
def test_what_cannot_be_used_is_one_sentence_and_exit_code_2(tmp_path: Path, damage: str) -> None:
    out = run(tmp_path, "good", right(range(8)))
    target = tmp_path / "r.html"
    asked = tmp_path / "numbers" if damage == "nothing" else out
    if damage == "results":
        (out / RESULTS).write_bytes(b"{]\n" + (out / RESULTS).read_bytes())
    elif damage == "scores":
        (out / RESULTS).write_bytes((out / RESULTS).read_bytes().replace(b'"em": 1.0', b'"em": "x"', 1))
    elif damage == "run":
        (out / RUN).write_text(json.dumps(json.loads((out / RUN).read_text()) | {"name": None}), encoding="utf-8")
    elif damage == "traces":
        (out / TRACES).write_bytes(b"{]\n" + (out / TRACES).read_bytes())
    elif damage == "boundary":
        (out / BOUNDARY).write_text('{"nq": {"direct_f1": "high"}}', encoding="utf-8")
    elif damage == "html":
        target = tmp_path / "no such folder" / "r.html"
    result = CliRunner().invoke(app, ["eval", "report", str(asked), "--html", str(target)])
    assert isinstance(result.exception, InputError) and result.exception.exit_code == 2
    assert result.exception.remedy and not target.exists()


def test_no_path_at_all_and_a_run_without_traces(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        find_runs([])
    out = run(tmp_path, "good", right(range(8)))
    (out / TRACES).unlink()
    found = page_data(make_page(read_groups([out])))
    assert len(found["questions"]) == 8 and "8 questions have no trace in their runs' folders." in found["notes"]


DRIVER = """
(() => {
  const counts = {};
  const set = (id, value, event) => {
    document.getElementById(id).value = value;
    document.getElementById(id).dispatchEvent(new Event(event));
  };
  const count = () => document.querySelectorAll("#list a").length;
  counts.all = count();
  set("show", "wrong", "change"); counts.wrong = count();
  set("run", "0", "change"); counts.wrongInFirst = count();
  set("show", "failed", "change"); set("run", "", "change"); counts.failed = count();
  set("show", "flipped", "change"); counts.flipped = count();
  set("show", "all", "change"); set("words", "NUMBER 5?", "input"); counts.sought = count();
  document.body.dataset.counts = JSON.stringify(counts);
})();
"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_the_page_works_in_a_browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(tmp_path, "direct", [*right([0, 1, 7]), {"reply": "no"}])
    tree_run(tmp_path)
    part = page._part
    monkeypatch.setattr(page, "_part", lambda name: part(name) + (DRIVER if name == "page.js" else ""))
    write_text(tmp_path / "r.html", make_page(read_groups([tmp_path / "runs"])))
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--dump-dom"]
    opened = subprocess.run(
        [*browser, f"file://{tmp_path / 'r.html'}#q=0/q%2F1"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    dom = opened.stdout
    assert 'data-ready="8"' in dom, "the script ran, under the page's own policy"
    counts = re.search(r'data-counts="([^"]*)"', dom)
    expected = {"all": 8, "wrong": 6, "wrongInFirst": 5, "failed": 1, "flipped": 4, "sought": 1}
    assert counts and json.loads(html.unescape(counts[1])) == expected
    article = dom[dom.index("<article") : dom.index("</article>")]
    assert "What is number 1?" in article and "Where was Damien Chazelle born?" in article
    assert article.count('class="badge external"') == 1 and article.count('class="badge internal"') == 1
    assert "&lt;img src=x onerror=alert(1)&gt;" in article and "<img" not in dom
