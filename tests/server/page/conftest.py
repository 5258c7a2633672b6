"""Chromium for files that follow each other, a server and a tab for all tests of a file, and a page for each test.

Playwright keeps an event loop running in this thread, in which no other test can begin one of its own: the browser is
closed before any of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page
    from tests.server.page.browsing import Gated, Watched
    from tests.server.running import Running


# One process for all pages: a new one for each that is opened takes longer than what most tests do in it.
_ARGUMENTS = ["--no-sandbox", "--disable-site-isolation-trials", "--renderer-process-limit=1", "--process-per-site"]


class _Chromium:
    """One that is open, or none."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._running: Browser | None = None

    def open(self) -> Browser:
        playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
        from tests.server.page.browsing import CHROMIUM

        if CHROMIUM is None:
            pytest.skip("needs Chromium")
        if self._running is None:
            play = self._closing.enter_context(playwright.sync_playwright())
            self._running = play.chromium.launch(executable_path=CHROMIUM, args=_ARGUMENTS)
            self._closing.callback(self._running.close)
        return self._running

    def close(self) -> None:
        self._closing.close()
        self._running = None


_CHROMIUM = _Chromium()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """Close the browser where the next test does not use it."""
    yield
    if "browser" not in getattr(nextitem, "fixturenames", ()):
        _CHROMIUM.close()


@pytest.fixture(scope="module")
def browser() -> Browser:
    return _CHROMIUM.open()


@pytest.fixture(scope="module")
def models() -> dict[str, Gated]:
    pytest.importorskip("fastapi", reason="needs the extra [server]")
    from tests.server.page import browsing

    return browsing.models()


@pytest.fixture(scope="module")
def server(browser: Browser, models: dict[str, Gated], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    from tests.server.page.browsing import settings
    from tests.server.running import running

    with running(settings(tmp_path_factory.mktemp("served"), models)) as started:
        yield started


@pytest.fixture(scope="module")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Without motion, which would be drawn all the while that a test waits."""
    opened = browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def tab(context: BrowserContext) -> Page:
    """Opening one takes longer than what most tests do in it."""
    return context.new_page()


@pytest.fixture
def watched(tab: Page, server: Running) -> Iterator[Watched]:
    """A page as it is when it is opened for the first time."""
    from tests.server.page.browsing import Watched

    page = Watched(tab, server.url)
    yield page
    if tab.url.startswith(server.url):
        tab.evaluate("sessionStorage.clear(), localStorage.clear()")
    tab.unroute_all(behavior="ignoreErrors")
    tab.goto("about:blank")
    tab.set_viewport_size({"width": 1280, "height": 900})
    assert page.errors == []
