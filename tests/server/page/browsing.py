"""A real browser, and a server whose scripted models wait where a test wants to look."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tests.server.page import scripts
from tests.timing import TIMEOUT_S

from hoptree.models.model import Reply, Request
from hoptree.models.scripted import Rule, ScriptedModel
from hoptree.server.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["CHROMIUM", "Gated", "Watched", "ask_address", "models", "settings"]

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_POLL = 0.01
_LOOK = 0.05
"""Seconds between looks at the page: each passes through three processes."""


class Gated(ScriptedModel):
    """A scripted model whose steps wait until a test lets them go on."""

    def __init__(self, script: scripts.Script) -> None:
        super().__init__(rules=[Rule(**row) for row in script["replies"]], latency=0.0)
        self.waits_at: set[str] = set()

    async def generate(self, request: Request, *, step: str) -> Reply:
        while step.rpartition("/")[2] in self.waits_at:
            await asyncio.sleep(_POLL)
        return await super().generate(request, step=step)


def models() -> dict[str, Gated]:
    """One of each kind, fresh."""
    return {
        "films": Gated(scripts.films()),
        "thoughtful": Gated(scripts.thoughtful()),
        "doubting": Gated(scripts.doubting()),
        "fickle": Gated(scripts.fickle()),
        "hostile": Gated(scripts.hostile()),
        "dead": Gated(scripts.dead()),
        "failing": Gated(scripts.failing()),
    }


def settings(folder: Path, answering: Mapping[str, Any], **more: Any) -> Settings:
    """The sample, a folder for uploads, and nothing remembered."""
    return Settings(
        models=dict(answering),
        corpora={"sample": "sample"},
        corpora_folder=folder / "corpora",
        cache=None,
        method="taikc",
        **more,
    )


def ask_address(question: str, method: str = "taikc", model: str = "films", **more: str) -> str:
    return "#/ask?" + urlencode({"q": question, "method": method, "model": model, "corpus": "sample", **more})


class Watched:
    """A page and what went wrong on it: an error in its scripts fails the test that made it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.errors: list[str] = []
        page.set_default_timeout(1000 * TIMEOUT_S)
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console", lambda logged: self.errors.append(logged.text) if _is_bad(logged.type, logged.text) else None
        )

    def open(self, address: str = "") -> Page:
        self.page.goto(f"{self.url}/{address}")
        return self.page

    def ask(self, question: str, **chosen: str) -> Page:
        """Open the address of a question, and press the button."""
        self.open(ask_address(question, **chosen))
        self.page.wait_for_selector(".who select", state="attached")
        self.page.click("form.ask button.main")
        return self.page

    def open_advanced(self) -> None:
        """Show method, model, options and limits."""
        self.page.wait_for_selector(".who select", state="attached")
        if not self.page.locator(".advanced[open]").count():
            self.page.click(".advanced > summary")

    def answered(self) -> str:
        """The first answer, when no more comes: what is told last follows the answer by a moment."""
        self.page.wait_for_selector(".answer-text")
        self.page.wait_for_selector(".pane.running", state="detached")
        return self.page.locator(".answer-text").first.inner_text()

    def until(self, condition: str) -> None:
        """Wait for a JavaScript condition; the page's content policy forbids playwright's own way."""
        ends = time.monotonic() + TIMEOUT_S
        while not self.page.evaluate(condition):
            assert time.monotonic() < ends, f"it did not come to that: {condition}"
            time.sleep(_LOOK)

    def row(self, number: int) -> str:
        return " ".join(self.page.locator(f'.row[data-node="{number}"]').inner_text().split())


def _is_bad(kind: str, text: str) -> bool:
    """Errors of scripts and of the content policy; a refused request is told to the person, and not one of ours."""
    return kind == "error" and "Failed to load resource" not in text and "net::ERR" not in text
