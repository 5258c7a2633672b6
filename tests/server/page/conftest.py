"""Chromium and a server for all tests of a file, and a page for each test.

Playwright keeps an event loop running in this thread, in which no other test can begin one of its own: the browser is
closed at the end of each file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext
    from tests.server.page.browsing import Gated, Watched
    from tests.server.running import Running


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    from tests.server.page.browsing import CHROMIUM

    if CHROMIUM is None:
        pytest.skip("needs Chromium")
    with found.sync_playwright() as play:
        running = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def models() -> dict[str, Gated]:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from tests.server.page import browsing

    return browsing.models()


@pytest.fixture(scope="module")
def server(browser: Browser, models: dict[str, Gated], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    from tests.server.page.browsing import settings
    from tests.server.running import running

    with running(settings(tmp_path_factory.mktemp("served"), models)) as found:
        yield found


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    yield made
    made.close()


@pytest.fixture
def watched(context: BrowserContext, server: Running) -> Iterator[Watched]:
    from tests.server.page.browsing import Watched

    found = Watched(context.new_page(), server.url)
    yield found
    found.page.close()
    assert found.errors == []
