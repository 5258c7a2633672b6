"""The page of the API at /docs: every route and object of the published document, and nothing from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


def test_it_is_reached_from_the_page_under_the_same_policy(watched: Watched, server: Running) -> None:
    page = watched.open()
    page.get_by_role("link", name="API").click()
    page.wait_for_selector(".operation")
    assert page.url == f"{server.url}/docs"
    policies = {server.client.get(path).headers["content-security-policy"] for path in ("/", "/docs")}
    assert len(policies) == 1 and policies.pop().startswith("default-src 'self'")
