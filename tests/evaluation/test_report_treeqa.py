"""A run of TreeQA, from the command to the page of its report."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.evaluation.hypothesis_runs import moon_world
from tests.evaluation.report_runs import HOSTILE
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.evaluation.report.measures import read_groups
from hoptree.evaluation.report.page import make_page, write_text


def invoke(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result.output


@pytest.fixture(scope="module")
def treeqa_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("pyoxigraph")
    folder = tmp_path_factory.mktemp("moon")
    files = moon_world(folder)
    invoke("graph", "load", files["triples"], "--out", folder / "kg")
    invoke("index", files["corpus"], "--out", folder / "idx")
    for evidence in ("hybrid", "text"):
        invoke(
            *("run", "--data", files["questions"], "--method", "treeqa", "--model", f"scripted/{files['model']}"),
            *("--corpus", folder / "idx", "--graph", folder / "kg", "--set", f"evidence={evidence}", "--no-cache"),
            *("--out", folder / "runs" / evidence, "--name", f"{evidence} on moons"),
        )
    return folder


def test_the_report_of_a_real_run(treeqa_runs: Path) -> None:
    written = treeqa_runs / "r.md"
    told = json.loads(invoke("eval", "report", treeqa_runs / "runs", "--markdown", written, "--json"))
    tables = {one["title"]: {row["run"]: row for row in one["rows"]} for one in told["tables"]}
    verdicts = tables["moons: verdicts and updates"]["hybrid"]
    assert (verdicts["Trees"]["value"], verdicts["Updates a tree"]["value"]) == (2, 0.5), "of the moon, not of Java"
    assert verdicts["Validations"]["value"] == pytest.approx((3 + 2) / 2) and verdicts["Clues"]["value"] == 1
    stages = tables["moons: costs by stage"]
    assert stages["hybrid: all"]["Tokens"]["value"] == tables["moons: 3 questions"]["hybrid"]["Tokens"]["value"]
    assert {"hybrid: build", "hybrid: rebuild", "hybrid: clue", "text: final"} <= set(stages)
    wrong = tables["moons: what went wrong, guessed"]["hybrid"]
    assert (wrong["String match, %"]["value"], wrong["Failed, %"]["value"]) == (50, 50)
    gold = tables["moons: gold found and answers"]
    assert gold["hybrid"]["Gold recall"]["value"] == pytest.approx(100 * (1 + 0.5 + 0) / 3)
    assert gold["text"]["in facts"]["value"] == 0
    split = tables["moons: by what the graph covers"]["text"]
    assert split["Hits@1, covered (n=2)"]["value"] == 100 and split["Hits@1, not covered (n=1)"]["value"] == 0
    assert "moons: verdicts and updates" in written.read_text(encoding="utf-8")


def tree_of(page: str, question: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    by_id = {one["id"]: one for one in json.loads(found[1])["questions"]}
    top: dict[str, Any] = by_id[question]["outcomes"]["0"]["trace"]["tree"][0]
    return top


def test_the_page_has_verdicts_and_what_they_rest_on(treeqa_runs: Path) -> None:
    page = make_page(read_groups([treeqa_runs / "runs"]))
    root = tree_of(page, "moon")
    assert root["draft"] == "Lyndon Johnson" and "verdict" not in root
    (landing,) = root["children"]
    assert landing["verdict"] == "refuted" and landing["struck"] == [
        f"In December 1968, by Apollo 8. {HOSTILE}".strip()
    ]
    assert landing["answer"] == "On February 5, 1971, by Apollo 14." and landing["evidence"] == ["p1"]
    assert landing["facts"][0][0] in ("Apollo program", "Apollo 14") and landing["sizes"] == [2, 2]
    (president,) = landing["children"]
    assert [one["verdict"] for one in president["tries"]] == ["unknown", "supported"]
    assert president["tries"][1]["query"] == "Richard Nixon" and president["unfounded"] == ["T9"]
    assert tree_of(page, "java")["children"][0]["verdict"] == "unknown"
    assert "<img" not in page and len(re.findall(r"<script", page)) == 2, "hostile text stays text"


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_a_browser_shows_verdicts_with_sign_and_word(treeqa_runs: Path, tmp_path: Path) -> None:
    write_text(tmp_path / "r.html", make_page(read_groups([treeqa_runs / "runs"])))
    browser = ["chromium", "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--dump-dom"]
    opened = subprocess.run(
        [*browser, f"file://{tmp_path / 'r.html'}#q=0/moon"],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )
    article = opened.stdout[opened.stdout.index("<article") : opened.stdout.index("</article>")]
    words = re.sub(r"<[^>]*>", "", article)
    assert "✗ Refuted, corrected" in words and "✓ Supported" in words
    assert re.search(r"<del[^>]*>In December 1968, by Apollo 8\.", article)
    assert "struck out: In December 1968" in words and ", replaced by:" in words
    assert "clue tried: “Richard Nixon”" in words and "2 validations: ? Unknown, ✓ Supported" in words
    assert re.search(r"fact: Apollo (program|14) — [a-z ]+ — ", words)
    assert "cited, but not among what was found: T9" in words
    assert "draft before anything was looked up: Lyndon Johnson" in words
    assert "&lt;img src=x onerror=alert(1)&gt;" in article and "<img" not in opened.stdout
