"""A server that is killed while it answers and comes back, and one that wants a key."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from tests.server.page.scripts import FILMS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, BrowserContext
    from tests.server.page.browsing import Gated, Watched

SECRET = "a-secret-of-some-length"


@pytest.fixture
def lonely(context: BrowserContext, browser: Browser) -> Iterator[Watched]:
    """A page without a server of its own."""
    from tests.server.page.browsing import Watched

    watched = Watched(context.new_page(), "")
    yield watched
    watched.page.close()
    assert watched.errors == []


def test_a_server_that_is_killed_half_way_and_back(lonely: Watched, models: dict[str, Gated], tmp_path: Path) -> None:
    from tests.server.page.process import Killable

    watched = lonely
    with Killable(tmp_path, waits_at="read") as process:
        watched.url = process.url
        page = watched.ask(FILMS)
        page.wait_for_selector('.row[data-node="1"] .source')
        process.kill()
        problem = page.locator(".pane .problem")
        problem.wait_for()
        assert "broke off before the answer was there" in problem.inner_text()
        assert "remembered" not in problem.inner_text()  # it was started with --no-cache
        assert page.locator("#connection.lost").is_visible()
        assert "Ousmane Sembène" in watched.row(1)  # what had come is still there
        problem.get_by_role("button", name="Ask again").click()
        watched.until("document.querySelector('.pane .problem')?.textContent.includes('does not answer')")
        assert "Ousmane Sembène" in watched.row(1)  # nor is it lost by trying in vain

        process.start(waits_at="")
        page.wait_for_selector("#connection.back")
        page.get_by_role("button", name="Ask again").click()
        assert watched.answered() == "Touki Bouki" and page.locator(".pane .problem").count() == 0


def test_a_key_is_asked_for_and_kept_for_this_tab(lonely: Watched, models: dict[str, Gated], tmp_path: Path) -> None:
    from tests.server.page.browsing import settings
    from tests.server.running import running

    from hoptree.server.keys import Key

    keys = (Key("reader", hashlib.sha256(SECRET.encode()).digest(), corpora=True),)
    watched = lonely
    with running(settings(tmp_path, models, keys=keys)) as server:
        watched.url = server.url
        page = watched.open()
        page.get_by_label("Key", exact=True).fill("a-wrong-key-that-is-long")
        page.get_by_role("button", name="Use it").click()
        page.wait_for_selector("dialog .problem")
        page.get_by_label("Key", exact=True).fill(SECRET)
        page.keyboard.press("Enter")
        page.wait_for_selector(".who select", state="attached")
        assert page.evaluate("sessionStorage.getItem('hoptree.key')") == SECRET
        assert page.evaluate("localStorage.length") == 0 and SECRET not in page.url
        page.fill("#question", FILMS)
        page.press("#question", "Enter")
        watched.answered()
        page.click("nav a >> text=Corpora")
        page.wait_for_selector(".entries")
        address = f"{server.url}/v1/corpora/sample/passages/wojciech-jerzy-has"
        page.goto(address)  # a citation, as a chat client shows it
        page.wait_for_selector("mark >> text=Łódź")
        assert page.url.endswith("/#/passage/sample/wojciech-jerzy-has") and page.locator("dialog").count() == 0
        with page.context.expect_page() as opened:  # HTML that is fetched with a key has the origin of the page
            page.evaluate("import('/page/api.js').then(({ openFile }) => openFile('docs'))")
        opened.value.wait_for_load_state()
        assert "<script" in opened.value.locator("body").inner_text()
        opened.value.close()
        page.get_by_role("button", name="Forget the key").click()
        page.wait_for_selector("dialog.key")
        page.get_by_role("button", name="Not now").click()
        page.wait_for_selector(".problem")
        assert "key" in page.locator(".problem").inner_text()
