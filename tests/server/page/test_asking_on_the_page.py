"""Asking on the page: the tree grows before the reader's eyes, and everything it says can be opened."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.server.page.scripts import CITY, EARLIER, FILMS, GUESSED, HURT, WRITTEN

if TYPE_CHECKING:
    from playwright.sync_api import Route
    from tests.server.page.browsing import Gated, Watched
    from tests.server.running import Running


@pytest.fixture(autouse=True)
def nothing_waits(models: dict[str, Gated]) -> Iterator[None]:
    yield
    for model in models.values():
        model.waits_at.clear()


def test_the_tree_appears_node_by_node(watched: Watched, models: dict[str, Gated]) -> None:
    model = models["films"]
    model.waits_at |= {"confident", "read", "summarise"}
    page = watched.ask(FILMS)
    page.wait_for_selector('.row[data-node="4"]')
    assert watched.row(2) == "2 When was answer 1 born?"  # a reference, not yet an answer
    assert page.locator(".row .pulse").count() == 2  # those that need no other
    assert page.locator(".answer-text").count() == 0

    model.waits_at.discard("confident")
    page.wait_for_selector('.row[data-node="1"] .source.internal')
    assert watched.row(1).endswith("Ousmane Sembène from the model’s own knowledge")
    page.wait_for_selector('.row[data-node="2"] .asked >> text=When was Ousmane Sembène born?')
    assert page.locator('.row[data-node="3"] .source').count() == 0
    assert "call" in page.locator(".so-far").inner_text()

    model.waits_at.discard("read")
    page.wait_for_selector('.row[data-node="4"] .source.external')
    assert page.locator(".answer-text").count() == 0
    page.click('.row[data-node="4"]')  # evidence opens while the answer is still being made
    assert (
        page.locator(".detail mark").inner_text()
        == "Djibril Diop Mambéty was born in 1945 near Dakar, and began as a stage actor."
    )
    assert page.locator(".detail mark b").inner_text() == "1945"

    model.waits_at.clear()
    assert watched.answered() == "Touki Bouki" and page.title() == "Touki Bouki – Hoptree"
    assert page.locator(".status").inner_text().startswith("11 calls · ")
    assert page.locator(".row .pulse").count() == 0
    assert page.locator(".detail h3").inner_text() == "When was Djibril Diop Mambéty born?"  # what was open stays so


def test_a_sentence_with_citations_stands_above_the_answer(watched: Watched) -> None:
    page = watched.ask(FILMS)
    assert watched.answered() == "Touki Bouki"
    assert page.locator(".sentence").inner_text().startswith("Touki Bouki ")
    gap = page.evaluate("""() => {
        const edges = (node) => {
            const range = new Range();
            range.selectNodeContents(node);
            return range.getBoundingClientRect();
        };
        const sentence = document.querySelector(".sentence");
        return edges(sentence.lastChild).left - edges(sentence.querySelector(".citation:last-child").firstChild).right;
    }""")
    assert abs(gap) < 1  # no space before the full stop
    page.locator(".sentence .citation").first.click()
    source = page.get_by_role("dialog")
    source.wait_for()
    assert source.locator("h2").inner_text() == "Ousmane Sembène"
    marked, paragraph = source.locator("mark").inner_text(), source.locator("p:has(mark)").inner_text()
    assert "1923" in marked and marked in paragraph and len(marked) < len(paragraph)  # only the sentence
    source.get_by_role("button", name="Close").click()
    page.wait_for_selector(".detail .passage")
    page.locator(".sentence .citation").first.click()
    source.wait_for()
    page.evaluate("location.hash = '#/corpora'")
    source.wait_for(state="detached")
    page.go_back()
    page.wait_for_selector(".detail .passage")
    numbers = sorted(set(re.findall(r"\[\d+\]", page.locator(".sentence").inner_text())))
    assert numbers and page.locator(".detail article.passage .cited-as").all_inner_texts() == numbers
    assert page.locator(".confidence").inner_text().startswith("Partly supported: only 3 of its 4 steps")


SHOWN = """async (result) => {
  const { AnswerView } = await import('/page/answer.js');
  const view = new AnswerView({ question: result.question });
  document.getElementById('main').replaceChildren(view.element);
  view.show(result);
}"""


def test_what_the_answer_rests_on_has_the_numbers_of_the_sentence(watched: Watched) -> None:
    page = watched.open()
    passages = [{"id": name, "title": name.upper(), "text": f"{name} is a town."} for name in ("a", "b", "c", "d")]
    result = {
        "question": "Where?", "answer": "b", "sentence": "It is b [2] [3]: “b is a town.” [1]", "method": "hop",
        "tree": [{"id": 1, "question": "Where?", "answer": "b", "source": "external", "evidence": ["b"]}],
        "evidence": passages, "usage": {"llm_calls": 1, "retrievals": 1},
    }  # fmt: skip
    page.evaluate(SHOWN, result)
    page.wait_for_selector(".detail .passage")
    heads = page.locator(".detail article.passage h4").all_inner_texts()
    assert [head.split()[:2] for head in heads] == [["[1]", "A"], ["[2]", "B"], ["[3]", "C"]]
    assert page.locator(".detail details.passage").count() == 1, "the fourth, without a number, is folded"


def test_what_is_cited_is_what_the_answer_rests_on(watched: Watched) -> None:
    page = watched.open()
    passage = {"id": "a", "title": "A", "text": "Ada leads the laboratory."}
    tree = [{"id": 0, "question": "Who?", "answer": "It is led by Ada", "source": "external", "evidence": ["a"]}]
    result = {"question": "Who?", "answer": "It is led by Ada", "method": "oner", "tree": tree, "evidence": [passage]}
    page.evaluate(SHOWN, result | {"sentence": "It is led by Ada [1]."})
    page.wait_for_selector(".detail .unheld")
    assert page.locator(".detail-head .label").text_content() == "What the answer rests on"
    page.evaluate(
        SHOWN, {"question": "Who?", "answer": "Ada", "sentence": "Possibly Ada.", "method": "direct", "tree": []}
    )
    page.wait_for_selector(".detail > .note")
    assert page.locator(".detail-head .label").text_content() == "Evidence"


def test_passages_without_an_answer_are_what_was_read(watched: Watched) -> None:
    page = watched.open()
    result = {
        "question": "Where?",
        "answer": "",
        "sentence": "No answer was found.",
        "abstained": True,
        "method": "hop",
    }
    page.evaluate(SHOWN, result | {"evidence": [{"id": "a", "title": "A", "text": "A is a town."}]})
    page.wait_for_selector(".detail .passage")
    assert page.locator(".detail-head .label").text_content() == "What was read"


@pytest.mark.parametrize("sent", [True, False])
def test_a_question_typed_before_the_form_is_there_is_asked_once_sent(watched: Watched, sent: bool) -> None:
    page = watched.page
    held: list[Route] = []
    page.route("**/v1/methods", lambda route: held.append(route))  # playwright takes no built-in method
    page.goto("about:blank")
    watched.open("#/ask")
    page.fill("#question", FILMS)
    if sent:
        page.press("#question", "Enter")
    assert held, "the form is not there yet"
    held[0].continue_()
    page.unroute("**/v1/methods")
    page.wait_for_selector("#field-1", state="attached")
    if sent:
        assert watched.answered() == "Touki Bouki"
    assert page.input_value("#question") == FILMS and page.locator(".pane").count() == sent


def test_a_page_that_is_shown_again_forgets_a_question_that_was_answered(watched: Watched) -> None:
    page = watched.open("#/ask")
    page.evaluate("['pagehide', 'pageshow'].forEach((name) => window.dispatchEvent(new Event(name)))")
    page.fill("#question", FILMS)
    page.press("#question", "Enter")
    assert watched.answered() == "Touki Bouki" and page.evaluate("sessionStorage.getItem('hoptree.asking')") == '""'


def test_a_follow_up_is_read_with_the_question_before_it(watched: Watched, models: dict[str, Gated]) -> None:
    page = watched.ask(FILMS)
    assert watched.answered() == "Touki Bouki"
    assert page.is_checked("#goes-on")
    models["films"].waits_at |= {"decompose", "confident"}
    page.fill("#question", "And which one is earlier?")
    page.click("button.main")
    page.wait_for_selector(f'.pane.running .row[data-node="0"] .asked >> text={EARLIER}', timeout=20_000)
    models["films"].waits_at.clear()
    page.wait_for_selector(".read-as")
    assert page.locator(".read-as").inner_text() == f"Read as: {EARLIER}"
    before = page.locator(".before")
    assert before.locator(".asked").all_inner_texts() == [FILMS] and before.locator("a").inner_text() == "Touki Bouki"
    page.reload()  # the conversation of the tab is still there
    page.wait_for_selector(".hint:not([hidden])")
    assert page.is_checked("#goes-on")
    assert before.locator(".asked").all_inner_texts() == [FILMS], "a question does not follow itself"
    page.click("button.main")
    page.wait_for_selector(".read-as")
    watched.answered()
    assert before.locator(".asked").all_inner_texts() == [FILMS] and "turn=1" in page.url
    watched.ask(GUESSED)  # a question out of an address stands for itself
    page.wait_for_selector(f'.tree[aria-label$="{GUESSED}"]')
    watched.answered()
    assert page.locator(".read-as").count() == 0 and page.locator(".before").is_hidden()


def test_a_question_without_an_answer_is_a_turn_too(watched: Watched) -> None:
    from tests.server.page.browsing import ask_address

    page = watched.open(ask_address(GUESSED))
    page.wait_for_selector(".who select", state="attached")
    data = json.dumps({"question": GUESSED, "answer": "", "abstained": True, "method": "hop", "tree": []})
    reply: dict[str, Any] = {"content_type": "text/event-stream", "body": f"event: result\ndata: {data}\n\n"}
    sent: list[Any] = []

    def answer(route: Route) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(**reply)

    page.route("**/v1/ask", answer)
    page.click("button.main")
    page.wait_for_selector("label[for=goes-on]:not([hidden])")
    page.fill("#question", "And when was she born?")
    page.click("button.main")
    page.wait_for_selector(".before:not([hidden])")
    assert page.locator(".before li").inner_text() == f"{GUESSED} No answer."
    watched.until("document.querySelector('.pane:not(.running)') !== null")
    assert sent[1]["history"] == [{"question": GUESSED, "answer": ""}]


def test_a_reload_asks_on(watched: Watched, models: dict[str, Gated]) -> None:
    models["films"].waits_at |= {"decompose", "confident"}
    page = watched.ask(FILMS)
    page.wait_for_selector(".pane.running")
    page.reload()
    page.wait_for_selector(".pane.running")
    assert page.locator(".hint").is_hidden()
    models["films"].waits_at.clear()
    assert watched.answered() == "Touki Bouki"
    page.reload()
    page.wait_for_selector(".hint:not([hidden])")
    assert page.locator(".pane").count() == 0


def test_the_next_question_takes_the_place_of_the_last(watched: Watched) -> None:
    page = watched.open("#/ask")
    page.wait_for_selector(".advanced select >> nth=0", state="attached")
    page.fill("#question", FILMS)
    page.press("#question", "Enter")
    watched.answered()
    watched.until("getSelection().toString() === document.getElementById('question').value")
    page.keyboard.type("Who?")
    assert page.input_value("#question") == "Who?"


def test_what_was_refuted_is_struck_through_beside_what_took_its_place(watched: Watched) -> None:
    page = watched.ask(GUESSED, method="treeqa", model="thoughtful", **{"o.evidence": "text"})
    watched.answered()
    row = page.locator('.row[data-node="1"]')
    assert row.locator("del").inner_text() == "Ousmane Sembène"
    assert row.locator("strong").inner_text() == "Djibril Diop Mambéty"
    assert row.locator(".verdict").inner_text() == "refuted, and corrected"
    assert page.locator(".verdict.supported").count() == 1
    row.click()
    assert "The text says that Touki Bouki was directed by" in page.locator(".detail .reasons").inner_text()


def test_words_in_doubt_are_shaded_and_what_was_done_about_them_opens(watched: Watched) -> None:
    page = watched.ask(WRITTEN, method="mind", model="doubting")
    assert watched.answered() == CITY
    assert page.locator(".parts > li").count() == 3 and page.locator(".parts > li.doubted").count() == 2
    first = page.locator(".parts > li").first
    assert first.locator("del .hit").inner_text() == "Wajda" and "u4" in (
        first.locator(".hit").get_attribute("class") or ""
    )
    assert first.locator(".again .said").inner_text() == "The Hourglass Sanatorium was directed by Wojciech Jerzy Has."
    first.locator("summary").click()
    assert "S 2.90 > θ" in first.locator(".doubt").inner_text()
    assert "found The Hourglass Sanatorium" in first.locator(".doubt").inner_text()
    assert not page.locator(".tree").is_visible()  # it would only repeat the question


@pytest.mark.parametrize("method", ["oner", "taikc"])
def test_a_guess_rests_on_nothing_that_was_read(watched: Watched, method: str) -> None:
    page = watched.ask(HURT, method=method, model="hostile")
    watched.answered()
    if not page.locator(".detail").is_visible():
        page.click('.row[data-node="0"]')
    assert page.locator(".detail .label").first.inner_text().casefold() == "what was read"
    assert page.locator(".detail > .passage").count() == 0
    read = page.locator(".detail > details.read")
    assert read.locator("summary").first.inner_text() == "Read, but no evidence: 5 passages"
    assert not read.locator(".passage").first.is_visible()
    read.locator("summary").first.click()
    assert read.locator(".passage").count() == 5 and read.locator(".passage").first.is_visible()


FAILED = """async () => {
  const { AnswerView } = await import('/page/answer.js');
  const passage = { id: 'p1', title: 'Dakar', text: 'Dakar is a city.', score: 1 };
  const node = { id: 1, question: 'Where?', answer: 'Dakar', source: 'external', evidence: ['p1'], children: [] };
  const view = new AnswerView({ question: 'Where was it?' });
  document.getElementById('main').replaceChildren(view.element);
  view.show({
    question: 'Where was it?', answer: '', tree: [node], evidence: [passage], usage: {},
    error: { class: 'EndpointError', message: 'It failed.' },
  });
}"""


def test_a_failed_question_has_no_evidence_and_its_sub_questions_have(watched: Watched) -> None:
    page = watched.open()
    page.evaluate(FAILED)
    page.click('.row[data-node="0"]')
    assert page.locator(".detail > .passage").count() == 0
    assert page.locator(".detail > details.read summary").first.inner_text() == "Read, but no evidence: 1 passage"
    page.click('.row[data-node="1"]')
    assert page.locator(".detail > .passage").count() == 1 and page.locator(".detail > .read").count() == 0


def test_an_answer_can_be_stopped(watched: Watched, models: dict[str, Gated], server: Running) -> None:
    models["films"].waits_at |= {"read"}
    page = watched.ask(FILMS)
    page.wait_for_selector('.row[data-node="1"] .source')
    assert server.client.get("/health").json()["asking"] == 1
    page.evaluate("{ const now = performance.now.bind(performance); performance.now = () => now() + 60000; }")
    page.get_by_role("button", name="Stop").click()
    page.wait_for_selector(".pane:not(.running)")
    status = page.locator(".status").inner_text()
    assert status.startswith("Stopped. What had arrived by then is shown here.")
    assert float(status.split()[-2]) > 60  # by the clock that ran until then
    assert "Ousmane Sembène" in watched.row(1) and page.locator(".pulse").count() == 0
    watched.until("fetch('health').then((told) => told.json()).then((told) => told.asking === 0)")


def test_two_answers_side_by_side(watched: Watched) -> None:
    page = watched.ask(FILMS, vs="1", method2="direct", model2="fickle")
    page.wait_for_selector(".agreement:not([hidden])")
    assert (
        page.locator(".agreement").inner_text()
        == "They differ: Touki Bouki against Black Girl · 11 calls against 1 call"
    )
    first, second = page.locator(".pane").all()
    assert first.locator(".pane-head").inner_text() == "taikc · films"
    left, other = first.bounding_box(), second.bounding_box()
    assert left and other and left["y"] == other["y"] and left["x"] + left["width"] <= other["x"]
    first.locator('.row[data-node="3"]').click()  # there is no margin here: it opens below its row
    assert first.locator('li:has(> .row[data-node="3"]) > .detail mark').count() == 1


def test_an_address_asks_nothing_by_itself_and_back_brings_answers_back(
    watched: Watched, models: dict[str, Gated]
) -> None:
    sent = len(models["films"].requests)
    page = watched.open("#/ask?q=Which%20film%3F&method=ra_isf&model=fickle&o.depth=2&b.calls=9&corpus=sample")
    page.wait_for_selector(".hint:not([hidden])")
    assert page.input_value("#question") == "Which film?"
    assert page.get_by_label("Method").first.input_value() == "ra_isf"
    assert (
        page.locator(".options .grid input").first.input_value() == "2"
        and page.get_by_label("Calls").input_value() == "9"
    )
    assert len(models["films"].requests) == sent and page.locator(".pane").count() == 0
    watched.ask(FILMS)
    watched.answered()
    first = page.url
    page.click('.row[data-node="3"]')
    page.fill("#question", GUESSED)
    page.press("#question", "Enter")
    page.wait_for_selector(f'.tree[aria-label$="{GUESSED}"]')
    watched.answered()
    page.click("nav a >> text=Corpora")
    page.wait_for_selector(".entries")
    page.go_back()
    assert page.input_value("#question") == GUESSED
    page.go_back()
    assert page.input_value("#question") == FILMS and page.url.startswith(first.partition("&node")[0])
    assert watched.answered() == "Touki Bouki"
    assert page.locator(".detail h3").inner_text() == "Who directed the film Touki Bouki?"
    assert "node=3" in page.url


def test_a_question_that_cannot_be_asked_tells_why_and_what_to_do(watched: Watched, models: dict[str, Gated]) -> None:
    page = watched.ask(FILMS, **{"o.k": "0"})
    problem = page.locator(".problem")
    problem.wait_for()
    assert "k" in problem.locator("strong").inner_text() and problem.locator("p").count() >= 2
    assert problem.get_by_role("button", name="Ask again").count() == 0  # it would be refused again


def test_a_budget_that_ends_it_leaves_the_best_so_far(watched: Watched) -> None:
    page = watched.ask(FILMS, method="hop", **{"b.calls": "3"})
    watched.answered()
    assert page.locator(".answer .label").text_content() == "Best answer so far"
    assert page.locator(".status").inner_text().startswith("3 calls · ")
    assert "not answered" in page.locator(".tree").inner_text() or "so far:" in page.locator(".tree").inner_text()


def test_who_comes_without_a_question_is_offered_some(watched: Watched) -> None:
    page = watched.open()
    page.click(".examples a >> nth=2")
    watched.answered()
    assert page.input_value("#question") == FILMS and not page.locator(".examples").is_visible()
    assert not page.locator(".hint").is_visible() and page.locator(".answer-text").inner_text() == "Touki Bouki"
    page.click(".wordmark")
    page.wait_for_selector(".examples a")
    with page.context.expect_page() as opened:
        page.click(".examples a >> nth=2", modifiers=["Control"])
    opened.value.wait_for_selector(".hint:not([hidden])")  # a new tab only shows it
    opened.value.close()


def test_suggestions_are_of_the_corpus_that_an_address_names(watched: Watched, server: Running) -> None:
    bees = b"# Honey bees\n\nHoney bees are insects.\n\n# Wax moths\n\nWax moths are pests of hives."
    upload = server.client.post("/v1/corpora", data={"name": "bees"}, files={"files": ("bees.md", bees)})
    assert server.job(upload)["state"] == "done"
    page = watched.open()
    page.wait_for_selector(".examples li")
    page.evaluate("location.hash = '#/ask?corpus=bees'")
    page.get_by_text("Questions about bees").wait_for()
    assert "Wax moths" in page.locator(".examples").inner_text()
    server.client.delete("/v1/corpora/bees")


def test_passages_that_do_not_hold_the_answer_are_only_what_was_read(watched: Watched) -> None:
    page = watched.ask("Which town lies on a river?", method="oner", model="fickle")
    watched.answered()
    assert page.locator(".detail > .passage").count() == 0 and page.locator(".detail mark").count() == 0
    assert page.locator(".detail > .read .passage").count() == 5
    assert page.locator(".detail-head .label").inner_text().casefold() == "what was read"
    page = watched.ask("Who directed Black Girl?", method="oner", model="fickle")
    page.wait_for_selector(".detail mark")
    assert page.locator(".detail-head .label").inner_text().casefold() == "what the answer rests on"
