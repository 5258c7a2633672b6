"""The page's browser on texts that were written with doubts."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.report_runs import HOSTILE
from tests.evaluation.writing_runs import run_folder
from tests.methods.continuation_asked import Run
from tests.methods.mind_asked import ARMAND, CHARLES, FATHER, JEAN, LAST, figure
from tests.methods.written_runs import (
    asked_dragin,
    asked_flare,
    asked_mind,
    asked_seakr,
    by_samples,
    contradicted,
    from_memory,
)
from tests.traced import changed

from hoptree.engine.generation_view import Part, Writing
from hoptree.engine.sentence_view import SentenceView, WordView
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page, write_text
from hoptree.evaluation.report.trace_view import view_writing
from hoptree.methods.mind.memory import FactRead
from hoptree.methods.steps.uncertain_sentences import WordsJudged


def shown(run: Run) -> dict[str, Any]:
    assert run.result.writing is not None
    told = view_writing(run.result.writing)
    assert json.loads(json.dumps(told, allow_nan=False)) == told
    return told


def hostile() -> Run:
    """Everything that a model or a passage can say says markup."""
    script = figure(drafts=(f"{FATHER} {HOSTILE}", FATHER, LAST), needed="[1, 2]")
    script[0].reply = json.dumps({"entities": [CHARLES, f"Name {HOSTILE}"]})
    return asked_mind(script, k=2, retrievals=1)


def page_data(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


def test_words_come_with_their_level_mark_and_numbers() -> None:
    part = shown(from_memory())["parts"][0]
    assert part["said"][:3] == [["The", 0, 2, 0.1, 1.0, 0.0], " ", ["father", 0, 0, 0.1, 1.0, 0.1]]
    assert part["said"][-2:] == [["Louis", 4, 1, 3.0, 1.0, 3.0], "."]
    assert (part["doubted"], part["compared"]) == (True, "S 3.00 > θ 0.73")
    assert shown(asked_flare())["parts"][0]["said"][-2:] == [["Bretagne", 1, 1, 0.6], "."]
    assert [piece for piece in shown(by_samples())["parts"][0]["said"] if piece[0] == "Louis"] == [["Louis", 0, 1]]


def test_searches_are_told_by_their_place_in_the_trace(tmp_path: Path) -> None:
    run = asked_flare()
    data = page_data(make_page(read_groups([run_folder(tmp_path, "flare", run)])))
    trace = data["questions"][0]["outcomes"]["0"]["trace"]
    queries = [*trace["writing"]["first"], *trace["writing"]["parts"][0]["queries"]]
    assert [query["search"] for query in queries] == [0, 1]
    assert [trace["searches"][query["search"]]["query"] for query in queries] == [query["query"] for query in queries]


def test_what_is_too_much_is_cut() -> None:
    words = tuple(WordView("x", 2 * at, 2 * at + 1, entropy=1.0) for at in range(2_000))
    parts = [Part(turn, SentenceView("x " * 2_000, words)) for turn in range(1, 100)]
    told = view_writing(Writing(tuple(parts)))
    assert (len(told["parts"]), told["more"]) == (80, 19)
    assert len(told["parts"][0]["said"]) == 501 and told["parts"][0]["said"][-1] == " …"


def test_numbers_that_are_none_do_not_spoil_the_page() -> None:
    word = WordView("x", 0, 1, entropy=None, attention=None)
    part = Part(1, SentenceView("x", (word,), True, "spread", None, None), tried=(("p1", None),))
    told = view_writing(Writing((part,), answers=(("steps", "", None),)))
    assert told["parts"][0]["said"] == [["x", 0, 0]] and "levels" not in told
    assert json.dumps(told, allow_nan=False)


def test_other_methods_have_no_such_part(tmp_path: Path) -> None:
    from hoptree.models.scripted import Rule

    run = Run("oner", [Rule("Charles Armand")])
    data = page_data(make_page(read_groups([run_folder(tmp_path, "oner", run)])))
    assert "writing" not in data["questions"][0]["outcomes"]["0"]["trace"]


def test_a_trace_with_numbers_that_are_none_makes_a_page(tmp_path: Path) -> None:
    """What a file of events holds need not come from here."""
    run = from_memory()
    for place, event in enumerate(run.events):
        if isinstance(event, WordsJudged):
            run.events[place] = changed(event, theta=float("inf"), highest=float("nan"))
        if isinstance(event, FactRead):
            run.events[place] = changed(event, confidence=float("nan"))
    page = make_page(read_groups([run_folder(tmp_path, "odd", run)]))
    assert "Infinity" not in page.split('id="data">')[1].split("</script>")[0] and page_data(page)


def opened(page: Path, question: str, home: Path) -> str:
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--dump-dom"]
    return subprocess.run(
        [*browser, f"file://{page}#q=0/{question}"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
    ).stdout


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_browser_shows_doubts_searches_and_memory(tmp_path: Path) -> None:
    runs = {
        "memory": from_memory(),
        "differ": contradicted(),
        "samples": by_samples(),
        "dragin": asked_dragin(),
        "flare": asked_flare(),
        "seakr": asked_seakr(),
        "hostile": hostile(),
    }
    for name, run in runs.items():
        run_folder(tmp_path / "runs", name, run, answers=(ARMAND,))
    write_text(tmp_path / "r.html", make_page(read_groups([tmp_path / "runs"])))
    dom = opened(tmp_path / "r.html", "q", tmp_path)
    article = dom[dom.index("<article") : dom.index("</article>")]
    assert 'data-ready="1"' in dom and "<img" not in dom, "the script ran, and no text became markup"
    assert article.count('class="writing"') == len(runs)
    words = html.unescape(re.sub(r"<[^>]*>", "", article))
    tip = "entropy 3.00, attention share 1.00, score 3.00: most unsure, in doubt"
    assert re.search(rf'<span class="u4 hit" title="{tip}">Louis</span>', article)
    assert "entropy 0.10, attention share 1.00, score 0.00: sure, carries no content: does not count" in article
    assert "S 3.00 > θ 0.73: Louis (entropy 3.00, attention share 1.00, score 3.00)" in words
    assert "It has that already, so nothing was searched for." in words and "read at 1, spared the search at 2" in words
    assert f"Sources differ: {CHARLES} | father | {JEAN} [p1] ↔ " in words
    assert "probability 0.30: unsure, in doubt" in article and "its least probable words: Jean" in words
    assert "in doubt: most samples lack it" in article and "p1: U -5.46" in words
    assert re.search(r"Answer from documents: Charles Armand \(U -6\.\d\d, taken\)", words)
    assert f"Name {HOSTILE.strip(chr(0x2028))}" in words, "as text"
    assert "searched “" not in words, "what was searched for stands where it was asked"


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_writing_without_any_sentence_is_drawn(tmp_path: Path) -> None:
    from hoptree.models.scripted import Rule

    run = Run("dragin", [Rule("", entropy=1.0)])
    assert run.result.writing == replace(
        Writing(()), stopped="no growth", asked_for_answer=True, missing=("attention",)
    )
    write_text(tmp_path / "r.html", make_page(read_groups([run_folder(tmp_path / "runs", "empty", run)])))
    assert "The end: nothing new was written; then it was asked for the answer." in opened(
        tmp_path / "r.html", "q", tmp_path
    )
