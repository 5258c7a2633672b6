"""Runs on the page: listed, filtered, opened with their trees, and held against each other."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.page.scripts import CITY, WRITTEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Route
    from tests.server.page.browsing import Gated, Watched
    from tests.server.running import Running

SAMPLE = Path(__file__).parents[3] / "src/hoptree/sample/questions.jsonl"


def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]


def script(knows: int) -> dict[str, Any]:
    """Answers the first so many questions as they should be."""
    rules = []
    for place, question in enumerate(questions()):
        answer = question["answers"][0] if place < knows and question["answers"] else "nobody knows"
        plan = {"query1": {"question": question["question"]}}
        rules += [
            {"step": "decompose", "contains": question["question"], "reply": json.dumps(plan)},
            {"step": "confident", "contains": question["question"], "reply": "RAG_REQUIRED"},
            {"contains": question["question"], "reply": answer},
        ]
    return {"replies": [*rules, {"reply": "nothing"}]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the sample, made by the command; in a thread, since the browser's event loop would be in its way."""
    pytest.importorskip("playwright", reason="needs the package playwright")
    pytest.importorskip("scipy", reason="needs the extra [eval]")
    from typer.testing import CliRunner

    from hoptree.cli.main import app

    folder = tmp_path_factory.mktemp("runs")
    for name, method, knows in (("few", "direct", 6), ("many", "taikc", 16)):
        model = folder / f"{name}.json"
        model.write_text(json.dumps(script(knows)), encoding="utf-8")
        options = ["--method", method, "--model", f"scripted/{model}", "--data", str(SAMPLE)]
        options += ["--corpus", "sample", "--retriever", "bm25"]
        options += ["--no-cache", "--out", str(folder / "runs" / name)]
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(CliRunner().invoke, app, ["run", *options]).result()
        assert done.exit_code == 0 and re.search(r" calls, [\d,]+ tokens read, [\d,]+ written, ", done.output), (
            done.output
        )
    return folder / "runs"


@pytest.fixture(scope="module")
def server(
    runs: Path, browser: Browser, models: dict[str, Gated], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    from tests.server.page.browsing import settings
    from tests.server.running import running

    with running(settings(tmp_path_factory.mktemp("served"), models, runs=runs)) as started:
        yield started


def test_from_the_list_to_a_tree(runs: Path, watched: Watched) -> None:
    page = watched.open("#/runs")
    page.wait_for_selector("table")
    assert page.locator("tbody tr").count() == 2
    heads = page.locator("thead th").all_inner_texts()
    row = dict(zip(heads, page.locator("tbody tr >> nth=0").locator("td").all_inner_texts(), strict=True))
    assert row["Calls a question"] == "1" and "20" in row["Date"] and row["Cost"] == "–"
    page.click("tbody a >> text=taikc on questions")
    page.wait_for_selector(".filters")
    assert "20 questions" in page.locator(".filters").inner_text()
    page.get_by_label("Answer", exact=True).select_option("wrong")
    watched.until("location.hash.includes('verdict=wrong')")
    watched.until("![...document.querySelectorAll('.sign')].some((one) => one.textContent !== 'wrong')")
    wrong = page.locator(".entries > li").count()
    page.get_by_label("Type", exact=True).select_option("comparison")
    watched.until("location.hash.includes('type=comparison')")
    watched.until(f"document.querySelectorAll('.entries > li').length < {wrong}")
    page.go_back()
    watched.until(f"document.querySelectorAll('.entries > li').length === {wrong}")
    page.get_by_label("Answer", exact=True).select_option("right")
    watched.until("[...document.querySelectorAll('.sign')].every((one) => one.textContent === 'right')")
    page.click(f".entries a >> text={WRITTEN}")
    assert watched.answered() == CITY and "guess: nothing that was read clearly says so" in watched.row(1)
    page.click('.row[data-node="1"]')
    watched.until("location.href.endsWith('?node=1')")
    page.reload()
    page.wait_for_selector(".detail h3")  # the address says which node is open
    assert page.locator(".detail h3").inner_text() == WRITTEN


def test_a_narrow_screen_keeps_the_words_of_the_table_whole(runs: Path, watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 375, "height": 800})
    page = watched.open("#/runs")
    page.wait_for_selector("table")
    head = page.locator("thead tr").bounding_box()
    assert head and head["height"] < 60, "under three lines"
    box = page.locator("tbody tr >> nth=0").bounding_box()
    assert box and box["height"] < 120
    assert page.evaluate("document.documentElement.scrollWidth") <= 375, "the table scrolls, not the page"


def test_a_run_that_is_not_there_is_told_in_words_for_people(runs: Path, watched: Watched) -> None:
    page = watched.open("#/runs/nosuch")
    page.wait_for_selector(".problem")
    problem = page.locator(".problem").inner_text()
    assert "There is no run 'nosuch'." in problem and "“Runs” lists all runs" in problem and "/v1/" not in problem


def test_two_runs_against_each_other(runs: Path, watched: Watched) -> None:
    page = watched.open("#/runs")
    page.wait_for_selector("table")
    go = page.get_by_role("button", name="Compare the two")
    assert go.is_disabled()
    for box in page.locator("tbody input").all():
        box.check()
    held: list[Route] = []
    page.route("**/v1/compare?*", lambda route: held.append(route))
    go.click()
    page.get_by_text("Loading …").wait_for()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    page.wait_for_selector(".verdict-line")
    page.unroute_all()
    verdict = page.locator(".verdict-line").inner_text()
    assert "points of F1 better" in verdict and "95 %" in verdict and "p " in verdict
    assert page.locator(".entries > li").count() >= 5
    page.click(".entries a >> nth=0")
    page.wait_for_selector(".panes.two .answer-text >> nth=1")
    assert page.locator(".panes.two .tree").count() == 2
    page.go_back()
    page.wait_for_selector(".verdict-line")


WORDS_CUT = """() => [...document.querySelectorAll('#runs td.text')].flatMap((cell) => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const cut = [];
  while (texts.nextNode()) {
    for (const { 0: word, index } of texts.currentNode.data.matchAll(/[\\w.]+/g)) {
      const range = document.createRange();
      range.setStart(texts.currentNode, index);
      range.setEnd(texts.currentNode, index + word.length);
      if (new Set([...range.getClientRects()].map((box) => box.top)).size > 1) cut.push(word);
    }
  }
  return cut;
})"""
"""The words of the table of runs that are written on more than one line."""


def test_a_report_fits_a_window_of_1280_pixels_and_begins_with_plots(
    runs: Path, watched: Watched, tmp_path: Path
) -> None:
    from hoptree.evaluation.report.measures import read_groups
    from hoptree.evaluation.report.page import make_page

    report = tmp_path / "report.html"
    report.write_text(make_page(read_groups([runs])), encoding="utf-8")
    page = watched.page
    page.goto(report.as_uri())
    page.wait_for_selector("#list a")
    widths = "[...document.querySelectorAll('.wide')].map((one) => one.scrollWidth - one.clientWidth)"
    assert page.evaluate("document.documentElement.scrollWidth") <= 1280 and max(page.evaluate(widths)) <= 0
    assert page.evaluate(f"({WORDS_CUT})()") == []
    assert page.locator("th:text-is('Judge')").count() == 0
    text = page.evaluate("document.body.textContent").lower()
    assert "critical path" not in text and "fidelity" not in text and "longest chain, s" in text
    assert page.locator("th:text-is('As published')").count() == 1
    assert page.locator("#runs td:text-is('of no paper'), #runs td:text-is('yes')").count() == 2
    assert page.locator("th:text-is('Graph')").count() == 0, "no run had one"
    first = page.locator("section").first
    plot, table = first.locator("figure").first.bounding_box(), first.locator("table").first.bounding_box()
    assert plot and table and plot["y"] < table["y"]
    matrix = page.get_by_role("region", name="questions: paired differences in F1")
    assert "p = " in matrix.inner_text() and "less direct" in matrix.inner_text()


def test_a_file_of_show_has_the_view_of_the_page(
    runs: Path, watched: Watched, browser: Browser, tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from hoptree.cli.main import app

    for name, more in (("one.html", ["--id", "q01"]), ("all.html", [])):
        command = ["show", str(runs / "many"), *more, "--html", str(tmp_path / name)]
        with ThreadPoolExecutor(1) as thread:
            done = thread.submit(CliRunner().invoke, app, command).result()
        assert done.exit_code == 0, done.output
    context = browser.new_context(locale="de-DE")
    german = context.new_page()
    german.goto((tmp_path / "one.html").as_uri())
    german.locator(".answer .label").wait_for()
    assert german.get_attribute("html", "lang") == "de"
    context.close()
    page = watched.page
    page.goto((tmp_path / "one.html").as_uri())
    assert watched.answered() == CITY
    page.click('.row[data-node="1"]')
    assert page.locator(".detail h3").inner_text() == WRITTEN
    assert page.get_by_role("button", name="Markdown").is_visible()
    assert page.get_by_role("button", name="Share link").count() == 0
    page.goto((tmp_path / "all.html").as_uri())
    page.wait_for_selector("details.entry >> nth=19")
    page.locator("details.entry > summary").first.click()
    page.wait_for_selector("details.entry .tree")
