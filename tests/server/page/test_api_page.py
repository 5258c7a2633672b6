"""The page of the API at /docs: every route and object of the published document, and nothing from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Route
    from tests.server.page.browsing import Watched
    from tests.server.running import Running


def test_every_route_and_object_is_drawn(watched: Watched, server: Running) -> None:
    document = server.client.get("/openapi.json").json()
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append(request.url))
    page = watched.open("docs")
    page.wait_for_selector(".operation")
    drawn = {" ".join(text.split()) for text in page.locator(".operation h3").all_inner_texts()}
    routes = {f"{method.upper()} {path}" for path, methods in document["paths"].items() for method in methods}
    assert drawn == routes | set(document["components"]["schemas"])
    assert all(url.startswith(server.url) for url in asked)

    page.click(".contents a >> text=POST /v1/ask")
    about = page.locator("#post-v1-ask").inner_text()
    assert "question" in about and "needed" in about and f"curl -X POST '{server.url}/v1/ask'" in about
    page.locator("#post-v1-ask a >> text=AskReply").first.click()
    watched.until("location.hash === '#schema-AskReply'")
    assert "evidence" in page.locator("#schema-AskReply").inner_text()
    page.set_viewport_size({"width": 375, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_while_it_loads_it_says_so(watched: Watched) -> None:
    held: list[Route] = []
    watched.page.route("**/openapi.json", lambda route: held.append(route))
    page = watched.open("docs")
    page.get_by_text("Loading …").wait_for()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    page.wait_for_selector(".operation")
    assert page.get_by_text("Loading …").count() == 0
    page.get_by_role("link", name="Runs", exact=True).click()
    page.wait_for_selector("h1 >> text=Runs")


def test_it_is_reached_from_the_page_under_the_same_policy(watched: Watched, server: Running) -> None:
    page = watched.open()
    page.get_by_role("link", name="API").click()
    page.wait_for_selector(".operation")
    assert page.url == f"{server.url}/docs"
    policies = {server.client.get(path).headers["content-security-policy"] for path in ("/", "/docs")}
    assert len(policies) == 1 and policies.pop().startswith("default-src 'self'")


@pytest.mark.parametrize(
    ("locale", "text", "summary", "note", "option"),
    [
        (
            "de-DE",
            "nötig",
            "Eine Frage beantworten und den Baum",
            "Alle Sammlungen, und ob hier",
            "Wie viele Beispiele",
        ),
        ("zh-CN", "必需", "回答一个问题，并展示答案背后的树", "所有文档库，以及此处是否接受文件", "显示多少个示例"),
    ],
)
def test_it_and_the_options_are_told_in_the_language_of_the_browser(
    browser: Browser, server: Running, locale: str, text: str, summary: str, note: str, option: str
) -> None:
    from tests.server.page.browsing import Watched

    context = browser.new_context(locale=locale, reduced_motion="reduce")
    watched = Watched(context.new_page(), server.url)
    page = watched.open("docs")
    page.wait_for_selector(".operation")
    assert page.get_attribute("html", "lang") == locale[:2]
    about = page.locator("#post-v1-ask").inner_text()
    assert summary in about and text in about and "needed" not in about
    assert note in page.locator("#schema-CorpusList").inner_text()
    page = watched.open("#/ask?method=cot_sc")
    page.wait_for_selector(".options", state="attached")
    assert option in (page.locator(".options").first.text_content() or "")
    assert watched.errors == []
    context.close()
