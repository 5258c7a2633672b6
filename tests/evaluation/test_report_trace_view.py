"""Reports on guesses, reasons and questions that a budget ended: one name for each, in tables, plots and pages."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.report_runs import cells, run, table
from tests.evaluation.test_report_modules import index, tree_of

from hoptree.core.files import unsealed
from hoptree.engine.context import Budget
from hoptree.evaluation.report.contents import tables_of
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page, write_text
from hoptree.evaluation.run_folder import TRACES

REPLIES: list[dict[str, Any]] = [
    {"step": "know", "reply": "No"},
    {"step": "relevance", "reply": "irrelevance"},
    {"step": "read", "regex": r"number [0-3]\?", "reply": "answer 2"},
    {"step": "read", "reply": "one answer"},
    {"step": "decompose", "reply": "1. Who is Ann?"},
    {"step": "combine", "reply": "unknown"},
]
"""Of questions 0 to 3 something is read that stands nowhere, of all others what the only passage says."""


def told_run(folder: Path, **more: Any) -> Path:
    return run(folder, "ra", REPLIES, method="ra_isf", corpus=index(folder), options={"robust": True}, **more)


def opened(page: Path, question: str, home: Path) -> str:
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--dump-dom"]
    done = subprocess.run(
        [*browser, f"file://{page}#q=0/{question}"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    )
    return done.stdout[done.stdout.index("<article") : done.stdout.index("</article>")]


@pytest.mark.parametrize("old", [False, True])
def test_guesses_have_a_row_of_their_own(tmp_path: Path, old: bool) -> None:
    """Also in runs that filed them under passages."""
    folder = told_run(tmp_path)
    if old:
        traces = folder / TRACES
        lines = (unsealed(line) for line in traces.read_bytes().splitlines())
        traces.write_bytes(
            b"".join(line.replace(b'"branch": "guess"', b'"branch": "passages"') + b"\n" for line in lines)
        )
    (group,) = read_groups([folder])
    work = table(tables_of([group]), "numbers: workload by module")
    assert [row.name for row in work.rows] == ["ra: passages", "ra: guess"]
    assert cells(work, "ra: guess")["Questions"].value == 4
    page = make_page([group])
    assert "ra, guess: 50.0 %" in page, "the plot of who answered"
    assert (tree_of(page, "q/2")["module"], tree_of(page, "q/4")["module"]) == ("guess", "passages")


def test_the_plot_of_where_answers_come_from_calls_a_guess_one(tmp_path: Path) -> None:
    page = make_page(read_groups([told_run(tmp_path)]))
    assert "0: from memory or a guess; 100: from documents alone" in page
    assert "4 of the answers are guesses, which no document says." in page


def test_the_page_says_what_decided(tmp_path: Path) -> None:
    page = make_page(read_groups([told_run(tmp_path)]))
    assert "kept from before the split, as the sub-questions gave no answer" in tree_of(page, "q/2")["why"]
    assert "two readings agree" in tree_of(page, "q/4")["why"]


def test_the_page_has_what_a_question_had_when_its_budget_ended(tmp_path: Path) -> None:
    top = tree_of(make_page(read_groups([told_run(tmp_path, budget=Budget(calls=5))])), "q/2")
    assert (top["state"], top["answer"], top["module"]) == ("stopped", "answer 2", "guess")
    assert top["why"].endswith("no answer stands in what was read; the budget of calls ended it")


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_browser_shows_what_a_question_had_when_its_budget_ended(tmp_path: Path) -> None:
    write_text(tmp_path / "r.html", make_page(read_groups([told_run(tmp_path, budget=Budget(calls=5))])))
    words = re.sub(r"<[^>]*>", " ", opened(tmp_path / "r.html", "q%2F2", tmp_path))
    shown = " ".join(words.split())
    assert "→ so far: answer 2 guess" in shown and "the budget of calls ended it" in shown
    assert "not answered (asking)" not in shown
