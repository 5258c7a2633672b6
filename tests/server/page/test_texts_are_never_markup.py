"""Markup in questions, titles, passages, replies, file names and errors is shown as the text it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.server.page.scripts import EVIL, HURT

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import BrowserContext, Page
    from tests.server.page.browsing import Watched
    from tests.server.running import Running

MARK_UP = (
    "script:not([src]), main img, main iframe, main [onerror], main a[href^='javascript' i], "
    "main svg:not(.graph), main style"
)


def unhurt(page: Page) -> None:
    """Nothing of it became an element, and nothing ran."""
    page.wait_for_timeout(50)
    assert page.locator(MARK_UP).count() == 0
    assert "owned" not in page.title() or page.title().startswith("<script>")


def test_everything_that_comes_from_outside(watched: Watched, server: Running, tmp_path: Path) -> None:
    row = {"id": f"p1 {EVIL}", "title": f"Title {EVIL}", "text": f"The lighthouse says: {EVIL} and no more."}
    created = server.client.post(
        "/v1/corpora", data={"name": "bad"}, files={"files": ("evil.jsonl", json.dumps(row).encode())}
    )
    assert server.job(created)["state"] == "done"
    page = watched.ask(HURT, model="hostile", corpus="bad")
    assert watched.answered() == EVIL
    assert EVIL in watched.row(0) and EVIL in watched.row(1)
    page.click('.row[data-node="1"]')
    detail = page.locator(".detail").inner_text()
    assert f"Title {EVIL}" in detail and f"The lighthouse says: {EVIL}" in detail
    page.locator(".more summary").first.click()
    assert f"A chain. {EVIL}" in page.locator(".more").inner_text()
    page.locator(".log summary").click()
    assert EVIL in page.locator(".steps").inner_text()
    unhurt(page)

    page.goto(f"{server.url}/#/corpora/bad")
    page.fill("input[type=search]", "lighthouse")
    page.press("input[type=search]", "Enter")
    page.wait_for_selector(".found .passage")
    assert EVIL in page.locator(".found").inner_text()
    unhurt(page)


def test_addresses_are_texts_too(watched: Watched) -> None:
    page = watched.open("#/corpora/%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D1%3E")
    page.wait_for_selector(".problem")
    assert "There is no corpus “<img src=x onerror=document.title=1>”." in page.locator(".problem").inner_text()
    page.goto(f"{watched.url}/#/runs/%22%3E%3Cscript%3E")
    page.wait_for_selector(".problem")
    unhurt(page)


def test_links_made_of_values_stay_on_the_page(watched: Watched) -> None:
    page = watched.open()
    script = "import('/page/dom.js').then(({ make, link }) => MADE).then(() => 'made', (error) => error.message)"
    for wrong in ("javascript:alert(1)", "https://elsewhere.example/", "//elsewhere.example"):
        assert page.evaluate(script.replace("MADE", f"link({wrong!r}, 'x')")) == "links stay on this page"
    for name in ("onclick", "style", "src"):
        assert page.evaluate(script.replace("MADE", f"make('p', {{ {name}: 'x' }})")) == f"no {name} from values"
    assert page.evaluate(script.replace("MADE", "link('#/ask', 'x')")) == "made"


def test_a_page_of_a_corpus_is_drawn_and_runs_nothing(context: BrowserContext, server: Running) -> None:
    html = (
        "<title>Bees</title><style>h1 { color: rgb(1, 2, 3) }</style><h1>Bees live in a hive</h1>"
        "<img src=x onerror='document.title = 1'><script>document.title = 2</script>"
        "<form action='/v1/ask'><button>Go</button></form><iframe src='/health'></iframe>"
    )
    upload = server.client.post("/v1/corpora", data={"name": "pages"}, files={"files": ("bees.html", html.encode())})
    assert server.job(upload)["state"] == "done"
    got: list[str] = []
    page = context.new_page()
    page.on("response", lambda reply: got.append(reply.url))
    page.goto(address := f"{server.url}/v1/corpora/pages/files/bees.html")
    assert page.evaluate("getComputedStyle(document.querySelector('h1')).color") == "rgb(1, 2, 3)"
    page.get_by_role("button", name="Go").click()
    page.wait_for_timeout(50)
    assert page.title() == "Bees" and page.url == address and page.evaluate("origin") == "null"
    assert got == [address]
    page.close()
