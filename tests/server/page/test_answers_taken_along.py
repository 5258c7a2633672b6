"""One box first: the rest is remembered, and an answer can be found again, copied, saved and shared."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.server.page.scripts import EARLIER, FILMS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page
    from tests.server.page.browsing import Gated, Watched
    from tests.server.running import Running


@pytest.fixture(scope="module")
def server(browser: Browser, models: dict[str, Gated], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One that remembers, with a corpus of somebody's own."""
    from dataclasses import replace

    from tests.server.page.browsing import settings
    from tests.server.running import running

    from hoptree.core.values import Passage
    from hoptree.retrieval.indexing import index_passages

    folder = tmp_path_factory.mktemp("served")
    passages = (
        Passage("w", "The Old Windmill", "The Old Windmill was built by Greta Marsh in 1870."),
        Passage("g", "Greta Marsh", "Greta Marsh was a carpenter."),
    )
    index_passages(passages, folder / "village")
    usual = settings(folder, models)
    corpora = {**usual.corpora, "village": str(folder / "village")}
    with running(replace(usual, corpora=corpora, cache=folder / "replies.sqlite")) as started:
        yield started


def saved(page: Page, name: str, folder: Path) -> tuple[str, str]:
    with page.expect_download() as download:
        page.get_by_role("button", name=name, exact=True).click()
    path = folder / "saved"
    download.value.save_as(path)
    return download.value.suggested_filename, path.read_text(encoding="utf-8")


def test_one_box_first_and_the_rest_is_remembered(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector(".examples a")
    assert page.locator("form.ask").locator("input:visible, select:visible, textarea:visible").count() == 1
    assert page.locator(".advanced .chosen").inner_text() == "taikc · films · sample"
    watched.open_advanced()
    page.get_by_label("Method").first.select_option("ra_isf")
    page.get_by_label("Model").first.select_option("fickle")
    page.locator(".settings > summary").click()
    page.get_by_label("Calls").fill("9")
    page.get_by_label("Calls").blur()
    page.reload()
    page.wait_for_selector(".advanced[open] .who select")
    assert page.get_by_label("Method").first.input_value() == "ra_isf"
    assert page.get_by_label("Model").first.input_value() == "fickle"
    assert page.get_by_label("Calls").input_value() == "9"
    page.click(".advanced > summary")
    watched.open("#/ask?q=Who%3F&method=direct&model=films&corpus=sample")
    page.reload()
    page.wait_for_selector(".hint:not([hidden])")
    assert page.locator(".advanced .chosen").inner_text() == "direct · films · sample"  # an address has its own


def test_a_method_is_not_compared_with_itself(watched: Watched) -> None:
    page = watched.open()
    watched.open_advanced()
    page.check("#compare")
    first, second = page.get_by_label("Method", exact=True).all()
    assert first.input_value() == "taikc" and second.input_value() != "taikc"
    first.select_option(second.input_value())
    assert second.input_value() != first.input_value()


def test_questions_are_made_of_ones_own_corpus(watched: Watched) -> None:
    page = watched.open("#/ask?corpus=village")
    page.wait_for_selector(".examples a >> text=How is The Old Windmill connected with Greta Marsh?")
    assert page.locator(".examples .label").first.inner_text().casefold() == "questions about village"
    page.click(".examples a >> nth=0")
    watched.until("document.querySelector('#question').value.startsWith('How is The Old Windmill')")
    watched.answered()
    assert page.locator(".advanced .chosen").inner_text().endswith("village")


def test_the_corpus_of_the_last_question_is_remembered(watched: Watched) -> None:
    page = watched.open("#/ask?corpus=village")
    page.get_by_text("Questions about village").wait_for()
    watched.open("")
    page.get_by_text("Questions about the sample").wait_for()  # it was only looked at
    watched.open("#/ask?corpus=village")
    page.get_by_text("Questions about village").wait_for()
    page.fill("#question", FILMS)
    page.keyboard.press("Enter")
    watched.answered()
    page.evaluate("sessionStorage.clear()")
    watched.open("")
    page.get_by_text("Questions about village").wait_for()
    assert page.locator(".advanced .chosen").inner_text() == "taikc · films · village"


def test_a_reload_shows_the_answers_of_the_conversation(watched: Watched, models: dict[str, Gated]) -> None:
    page = watched.ask(FILMS)
    watched.answered()
    page.fill("#question", "And which one is earlier?")
    page.click("button.main")
    page.wait_for_selector(".read-as")
    watched.answered()
    sent = len(models["films"].requests)
    page.reload()
    assert watched.answered() == "Touki Bouki" and page.locator(".hint").is_hidden()
    assert page.locator(".before .asked").all_inner_texts() == [FILMS] and page.is_checked("#goes-on")
    page.go_back()
    page.wait_for_selector(f'.tree[aria-label$="{FILMS}"]')
    assert watched.answered() == "Touki Bouki" and page.locator(".before").is_hidden()
    assert len(models["films"].requests) == sent


def test_an_answer_is_found_again_and_shared_as_it_was(watched: Watched, models: dict[str, Gated]) -> None:
    page = watched.ask(FILMS)
    assert watched.answered() == "Touki Bouki"
    page.get_by_role("button", name="Share link").click()
    page.wait_for_selector(".shared a")
    address = page.locator(".shared a").inner_text()
    assert "/#/answer/" in address
    asked = len(models["films"].requests)
    page.goto("about:blank")
    page.goto(address)
    assert watched.answered() == "Touki Bouki" and page.locator("h1").last.inner_text() == FILMS
    assert "1945" in watched.row(4) and len(models["films"].requests) == asked
    page.get_by_role("link", name="Ask it again").click()
    watched.until("location.hash.startsWith('#/ask?')")
    watched.until(f"document.querySelector('#question')?.value === {json.dumps(FILMS)}")

    watched.open("#/ask")
    page.reload()
    page.wait_for_selector(".past a")
    assert page.locator(".past").inner_text().count("Touki Bouki") >= 1
    page.click(".past a")
    assert watched.answered() == "Touki Bouki"
    watched.open("#/ask")
    page.get_by_role("button", name="Forget these").click()
    assert not page.locator(".past").is_visible()

    guess = {"question": "Sweet?", "answer": "Pancakes", "level": "a guess", "hash": "#/answer/x", "at": 0}
    page.evaluate(f"localStorage.setItem('hoptree.history', JSON.stringify([{json.dumps(guess)}]))")
    page.reload()
    page.wait_for_selector(".past a")
    assert "Pancakes · a guess · " in page.locator(".past").inner_text()
    watched.open("#/answer/nosuch")
    page.wait_for_selector(".problem")
    assert "There is no such answer here." in page.locator(".problem").inner_text()


def test_a_stored_follow_up_has_the_words_that_were_asked(watched: Watched) -> None:
    page = watched.ask(FILMS)
    watched.answered()
    page.fill("#question", "And which one is earlier?")
    page.click("button.main")
    page.wait_for_selector(".read-as")
    watched.answered()
    watched.open("#/ask")
    page.reload()
    page.locator(".past a").first.click()
    page.wait_for_selector(".read-as")
    assert page.locator("h1.as-question").inner_text() == "And which one is earlier?"
    assert page.locator(".read-as").inner_text() == f"Read as: {EARLIER}"


def test_an_answer_is_copied_and_saved(watched: Watched, tmp_path: Path) -> None:
    page = watched.ask(FILMS)
    watched.answered()
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text; }")
    page.get_by_role("button", name="Copy", exact=True).click()
    watched.until("window.copied !== undefined")
    copied = page.evaluate("window.copied").split("\n")
    assert copied[0] == FILMS and copied[1].startswith("Touki Bouki") and copied[2].startswith("[1] ")
    name, text = saved(page, "Markdown", tmp_path)
    assert name == "which-film-has-the-director-who-was-born-later-black-girl-or.md"
    assert f"# {FILMS}" in text.replace("\\", "") and "**Touki Bouki**" in text and "→ **1945**" in text
    name, text = saved(page, "JSON", tmp_path)
    assert name.endswith(".json") and json.loads(text)["answer"] == "Touki Bouki"
    name, text = saved(page, "SVG", tmp_path)
    drawn = ET.fromstring(text)
    assert drawn.tag.endswith("svg") and "Touki Bouki" in "".join(drawn.itertext())
