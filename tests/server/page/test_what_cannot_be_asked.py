"""What does not work here is told before it is asked, and what failed does not look like an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.page.scripts import FILMS

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route
    from tests.server.page.browsing import Gated, Watched
    from tests.server.running import Running


@pytest.fixture(scope="module")
def server(browser: Browser, models: dict[str, Gated], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One that has set an option, for all that is asked of it."""
    from tests.server.page.browsing import settings
    from tests.server.running import limits, running

    served = settings(tmp_path_factory.mktemp("served"), models, options={"taikc": {"k": 3}}, limits=limits(calls=40))
    with running(served) as started:
        yield started


def told_otherwise(page: Page, address: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Let the server tell something else at an address."""

    def answer(route: Route) -> None:
        content = route.fetch().json()
        change(content)
        route.fulfill(status=200, content_type="application/json", body=json.dumps(content))

    page.route(f"**/{address}", answer)


def test_a_failed_question_does_not_look_like_an_answer(watched: Watched) -> None:
    page = watched.ask(FILMS, model="dead")
    page.wait_for_selector(".pane:not(.running) .problem")
    assert watched.answered() == "None: an error stopped it."
    assert not page.locator(".detail").is_visible()
    assert page.get_by_role("button", name="Ask again").is_visible()  # an endpoint may come back
    assert "by itself" not in page.locator(".pane").inner_text()


def test_the_evidence_of_a_failed_question_says_that_it_failed(watched: Watched) -> None:
    page = watched.ask(FILMS, model="failing")
    page.wait_for_selector(".pane:not(.running) .problem")
    assert not page.locator(".detail").is_visible()
    for number in (0, 1):
        page.click(f'.row[data-node="{number}"]')
        assert "It failed before anything was looked up." in page.locator(".detail").inner_text()


def test_an_address_that_names_what_is_gone_says_so(watched: Watched) -> None:
    page = watched.open("#/ask?q=Which%3F&method=gone_method&model=gone_model&corpus=gone_corpus")
    page.wait_for_selector(".gone p")
    assert page.locator(".gone").inner_text().split("\n\n") == [
        "This address names the method “gone_method”, which this server does not have. “taikc” is chosen instead.",
        "This address names the model “gone_model”, which this server does not have. “films” is chosen instead.",
        "This address names the corpus “gone_corpus”, which this server does not have. “sample” is chosen instead.",
    ]
    watched.ask(FILMS)
    watched.answered()
    assert page.locator(".gone p").count() == 0


def test_limits_and_fixed_options_are_the_servers(watched: Watched) -> None:
    page = watched.open("#/ask?q=Which%3F&o.k=7")
    watched.open_advanced()
    page.click(".settings > summary")
    assert page.get_by_label("Calls").get_attribute("placeholder") == "40"
    assert page.get_by_label("Cost").count() == 0 and "no limit" not in page.content()
    k = page.locator(".options").first.get_by_label("k", exact=True)
    assert k.is_disabled() and k.input_value() == "3"
    options = page.locator(".options").first.inner_text()
    assert "How many passages a search gives. Fixed by the server's administrator." in options
    assert "With strict, only RAG_REQUIRED is a refusal, as in the paper" in options
    with page.expect_request("**/v1/ask") as asked:
        page.click("form.ask button.main")
    assert "options" not in (asked.value.post_data_json or {})
    watched.answered()


def test_what_cannot_work_here_is_not_to_be_chosen(watched: Watched) -> None:
    def change(content: dict[str, Any]) -> None:
        methods = {row["name"]: row for row in content["methods"]}
        methods["oner"] |= {"available": False, "why": "It needs luck."}

    told_otherwise(watched.page, "v1/methods", change)
    told_otherwise(
        watched.page, "v1/corpora", lambda content: [row.update(retrievers=["bm25"]) for row in content["corpora"]]
    )
    page = watched.open("#/ask?q=Which%3F&method=treeqa")
    watched.open_advanced()
    assert page.get_by_label("Method").first.locator("option[value=treeqa]").is_enabled()
    assert "has no graph for it: under “Options and limits”" in page.locator(".about").first.inner_text()
    method = page.get_by_label("Method").first.locator("option[value=oner]")
    assert method.is_disabled() and method.text_content() == "oner – It needs luck."
    dense = page.get_by_label("Retriever").locator("option[value=dense]")
    watched.until("document.querySelector('option[value=dense]').disabled")
    assert dense.text_content() == "dense – sample is not indexed for it"
    assert page.get_by_label("Retriever").locator("option[value=bm25]").is_enabled()


def test_a_long_question_leaves_room_for_its_answer(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector(".who select", state="attached")
    page.fill("#question", "word " * 1000)
    assert not page.locator("#question-length").is_visible()
    box = page.locator("#question").bounding_box()
    assert box and box["height"] <= 0.3 * 900 + 1
    page.fill("#question", "word " * 1500)
    assert page.locator("#question-length").inner_text() == "7,499 of at most 8,000 characters."
    page.click("form.ask button.main")
    watched.answered()
    root = page.locator('.row[data-node="0"]').bounding_box()
    assert root and root["height"] < 250


def test_a_question_that_is_too_long_is_kept_and_not_asked(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector(".examples a")
    pasted = "word " * 2000 + "And who is the director of it?"
    page.fill("#question", pasted)
    assert page.input_value("#question") == pasted
    shown = page.locator("#question-length.warm").inner_text()
    assert shown.startswith("Too long to be asked: 10,030 characters, at most 8,000.")
    assert page.locator("form.ask button.main").is_disabled()
    page.keyboard.press("Enter")
    assert page.locator(".pane").count() == 0
    page.fill("#question", "😀" * 8000)
    assert page.locator("form.ask button.main").is_enabled()  # characters are counted as the server does


def test_asking_nothing_is_told(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector(".who select", state="attached")
    page.click("form.ask button.main")
    assert page.locator(".hint").inner_text() == "Write a question first."
    page.fill("#question", "W")
    assert not page.locator(".hint").is_visible()


def test_the_box_grows_when_the_window_narrows(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector(".who select", state="attached")
    page.fill("#question", FILMS)
    page.set_viewport_size({"width": 375, "height": 800})
    watched.until(
        "(({ scrollHeight, clientHeight }) => scrollHeight <= clientHeight + 1)(document.querySelector('#question'))"
    )


@pytest.mark.parametrize(
    ("locale", "why", "failure"),
    [
        ("de-DE", "Diese Methode braucht einen Wissensgraphen", "ist nicht erreichbar oder hat nicht geantwortet"),
        ("zh-CN", "它需要知识图谱", "服务器所请求的端点无法连接"),
    ],
)
def test_what_cannot_be_is_told_in_the_language_of_the_reader(
    browser: Browser, server: Running, locale: str, why: str, failure: str
) -> None:
    from tests.server.page.browsing import Watched

    context = browser.new_context(locale=locale, reduced_motion="reduce")
    watched = Watched(context.new_page(), server.url)
    page = watched.ask(FILMS, model="dead")
    page.wait_for_selector(".problem")
    assert failure in page.locator(".problem").first.inner_text()
    tog = page.locator("option[value=tog]").first
    assert tog.is_disabled() and why in (tog.text_content() or "")
    context.close()
