"""Corpora on the page: made of files, asked, added to, and removed; files that are no use are told of."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import FilePayload, Page, Route
    from tests.server.page.browsing import Watched


def file(name: str, text: str) -> FilePayload:
    return {"name": name, "mimeType": "text/plain", "buffer": text.encode()}


def send(page: Page, name: str, *files: FilePayload) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Files").set_input_files(files)
    page.get_by_role("button", name="Make the corpus").click()


def test_from_files_to_a_question_and_back_to_nothing(watched: Watched) -> None:
    page = watched.open("#/corpora")
    page.wait_for_selector(".entries")
    assert "120 passages" in page.locator(".entries").inner_text()
    send(page, "letters", file("ada.txt", "Ada wrote to Charles."), file("mary.txt", "Mary met Ada in 1834."))
    page.wait_for_selector(".good")
    page.locator(".job").get_by_text("letters is ready.").wait_for()
    page.get_by_role("link", name="look at it").click()
    page.wait_for_selector("h1 >> text=letters")
    page.wait_for_selector(".entries.small li")
    assert [row.split(" ·")[0] for row in page.locator(".entries.small li > span").all_inner_texts()] == [
        "ada.txt",
        "mary.txt",
    ]

    page.get_by_label("Files").set_input_files([file("zoe.txt", "Zoe came later.")])
    page.get_by_role("button", name="Add them").click()
    page.wait_for_selector(".entries.small li:nth-child(3)")
    page.get_by_role("button", name="Remove ada.txt").click()
    assert "can no longer be found" in page.get_by_role("dialog").inner_text()
    page.get_by_role("button", name="Keep it").click()
    assert page.locator(".entries.small li").count() == 3
    page.get_by_role("button", name="Remove ada.txt").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    watched.until(
        "document.querySelectorAll('.entries.small li').length === 2 && !document.querySelector('.entries.small .job')"
    )
    page.get_by_label("Search it").fill("Charles")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".found > *")
    assert "Ada wrote" not in page.locator(".found").inner_text()
    page.get_by_label("Search it").fill("meets Ada")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".found mark")
    assert page.locator(".found mark").all_inner_texts() == ["Ada"]
    width = page.evaluate("document.querySelector('.found').clientWidth / document.querySelector('main').clientWidth")
    assert width > 0.95

    page.get_by_role("link", name="Ask it something").click()
    page.wait_for_selector(".who select", state="attached")
    assert page.get_by_label("Documents").input_value() == "letters"
    page.go_back()
    page.get_by_role("button", name="Remove this corpus").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.wait_for_selector("h1 >> text=Corpora")
    watched.until("!document.querySelector('.entries').textContent.includes('letters')")
    page.click("nav a >> text=Ask")
    watched.until("![...document.querySelectorAll('.who option')].some((one) => one.value === 'letters')")


def test_a_page_that_is_come_back_to_holds_nothing_old_to_click_on(watched: Watched) -> None:
    page = watched.open("#/corpora/sample")
    page.wait_for_selector("form.search")
    page.get_by_role("link", name="Ask it something").click()
    page.wait_for_selector(".who select", state="attached")
    held: list[Route] = []
    page.route("**/v1/corpora", lambda route: held.append(route))
    page.go_back()
    watched.until("location.hash.startsWith('#/corpora') && !document.querySelector('form.search')")
    page.get_by_text("Loading …").wait_for()
    while not held:
        page.wait_for_timeout(10)
    held[0].continue_()
    page.wait_for_selector("form.search")


def test_bad_uploads_tell_cause_and_remedy(watched: Watched) -> None:
    page = watched.open("#/corpora")
    page.wait_for_selector("form.files")
    problem = page.locator("form.files .problem")
    for name, bad in (
        ("fine", file("a.exe", "MZ")),
        ("fine", file("a.jsonl", "{not json")),
        ("fine", file("a.zip", "no archive")),
    ):
        send(page, name, bad)
        problem.wait_for()
        cause, remedy = problem.locator("p").all_inner_texts()[:2]
        assert cause and remedy, (name, bad["name"])
        page.evaluate("document.querySelector('form.files .job').replaceChildren()")
    page.reload()
    page.wait_for_selector(".entries")
    assert page.locator(".entries > li").count() == 1


def test_any_name_will_do_and_sizes_have_units(watched: Watched) -> None:
    page = watched.open("#/corpora")
    page.wait_for_selector("form.files")
    assert "At most 67 MB and 1,000 files at once." in page.locator("form.files").inner_text()
    odd = file(" .What is “Käse”: 10 * 2 = 20?\u202e.txt", "Ada keeps bees. " * 100)
    page.get_by_label("Name").fill("../Käse & Brot 2026!")
    assert "It will be called käse-brot-2026." in page.locator("form.files").inner_text()
    page.get_by_label("Files").set_input_files([odd])
    assert "1 file, 1.6 kB" in page.locator("form.files").inner_text()
    page.get_by_role("button", name="Make the corpus").click()
    page.wait_for_selector(".good")
    page.get_by_role("link", name="look at it").click()
    page.wait_for_selector("h1 >> text=käse-brot-2026")
    page.wait_for_selector(".entries.small li")
    assert page.locator(".entries.small li span").first.inner_text().startswith("What is “Käse”: 10 * 2 = 20?.txt")
    watched.open("#/corpora")
    page.wait_for_selector("form.files")
    send(page, "", file("窗口.txt", "A name without a letter of ours."))
    page.wait_for_selector(".good")
    watched.until("document.querySelector('.entries').textContent.includes('窗口')")
    page.get_by_label("Name").fill("Pumpen & مضخات 2026 «ü» हिन्दी")
    assert "It will be called pumpen-مضخات-2026-ü-हिन्दी." in page.locator("form.files").inner_text()
    for name in ("käse-brot-2026", "窗口"):
        page.evaluate(f"fetch('v1/corpora/{name}', {{ method: 'DELETE' }}).then((reply) => reply.status)")


def test_where_files_are_not_taken_the_page_says_why(watched: Watched) -> None:
    def answer(route: Route) -> None:
        listed = route.fetch().json()
        listed |= {"uploads": False, "uploads_off": "It was started with --corpora none."}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(listed))

    watched.page.route("**/v1/corpora", answer)
    page = watched.open("#/corpora")
    page.wait_for_selector(".uploads-off")
    off = page.locator(".uploads-off").inner_text()
    assert off == "Files cannot be uploaded here. It was started with --corpora none."
    assert page.locator("form.files").count() == 0


def test_files_that_were_passed_over_are_named_and_the_list_has_the_new_corpus(watched: Watched) -> None:
    def answer(route: Route) -> None:
        job = route.fetch().json()
        job["passed_over"] = [
            {"file": name, "cause": f"{name} is damaged.", "remedy": "Save it anew."} for name in ("junk.pdf", "j.pdf")
        ]
        route.fulfill(status=200, content_type="application/json", body=json.dumps(job))

    watched.page.route("**/v1/jobs/*", answer)
    page = watched.open("#/corpora")
    page.wait_for_selector(".entries")
    send(page, "mixed", file("ada.txt", "Ada wrote to Charles."))
    page.wait_for_selector(".passed-over.warm li")
    assert page.locator(".passed-over").inner_text().split("\n") == [
        "2 files have a problem:",
        "",
        "junk.pdf, j.pdf: each is damaged. Save it anew.",
    ]
    assert page.get_by_label("Name").input_value() == ""  # so that nothing is sent twice
    assert page.locator("form.files input[type=file]").evaluate("(input) => input.files.length") == 0
    watched.until("document.querySelector('.entries').textContent.includes('mixed')")
    assert page.get_by_role("link", name="look at it").is_visible()
    page.get_by_role("link", name="look at it").click()
    page.wait_for_selector("h1 >> text=mixed")
    page.get_by_label("Files").set_input_files([file("zoe.txt", "Zoe came later.")])
    page.get_by_role("button", name="Add them").click()
    page.wait_for_selector(".entries.small li:nth-child(2)")
    assert page.locator(".passed-over li").count() == 1  # the list is new, and the files are still named


def test_a_long_list_of_files_that_were_passed_over_is_folded_not_cut(watched: Watched) -> None:
    def answer(route: Route) -> None:
        job = route.fetch().json()
        job["passed_over"] = [
            {"file": f"{n}.pdf", "cause": f"{n}.pdf has {n} faults. {'Long words. ' * 20}", "remedy": ""}
            for n in range(14)
        ]
        route.fulfill(status=200, content_type="application/json", body=json.dumps(job))

    watched.page.route("**/v1/jobs/*", answer)
    page = watched.open("#/corpora")
    page.wait_for_selector(".entries")
    send(page, "folded", file("ada.txt", "Ada wrote to Charles."))
    page.wait_for_selector(".passed-over summary >> text=4 more")
    heights = page.locator(".passed-over ul").evaluate_all(
        "(lists) => lists.map((l) => l.scrollHeight - l.clientHeight)"
    )
    assert heights == [0, 0] and page.locator(".passed-over > ul > li").count() == 10


def test_a_passage_opens_in_its_source_and_a_pdf_at_its_page(watched: Watched) -> None:
    from tests.corpus.test_corpus_pdf import pdf

    page = watched.open("#/corpora")
    page.wait_for_selector("form.files")
    text = " ".join(f"Sentence {n} tells of thing {n}." for n in range(200)) + " <b>Bees</b> live in hives."
    paper: FilePayload = {"name": "b.pdf", "mimeType": "application/pdf", "buffer": pdf("Boats.", "Zebras eat grass.")}
    send(page, "sources", file("long.txt", text), paper)
    page.wait_for_selector(".good")
    watched.open("#/corpora/sources")
    page.get_by_label("Search it").fill("thing 120")
    page.get_by_role("button", name="Search", exact=True).click()
    page.set_viewport_size({"width": 800, "height": 400})
    page.get_by_role("button", name="In its source").first.click()
    source = page.get_by_role("dialog")
    assert "thing 120." in source.locator("mark").inner_text()
    top = "(element) => element.getBoundingClientRect().top"
    assert abs(source.locator("p:has(mark)").evaluate(top) - source.locator(".source-text").evaluate(top)) < 40
    assert source.locator(".around").count() == 2 and "long.txt" in source.inner_text()
    with page.context.expect_page() as opened:
        source.get_by_role("button", name="Open the file").click()
    assert opened.value.url == f"{watched.url}/v1/corpora/sources/files/long.txt"
    opened.value.wait_for_load_state()
    assert "<b>Bees</b>" in opened.value.locator("body").inner_text()  # as text
    opened.value.close()
    source.get_by_role("button", name="Close").click()

    page.get_by_label("Search it").fill("zebras")
    page.get_by_role("button", name="Search", exact=True).click()
    page.wait_for_selector(".found >> text=Zebras eat grass.")
    page.get_by_role("button", name="In its source").first.click()
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open the file at page 2").click()
    assert opened.value.url == f"{watched.url}/v1/corpora/sources/files/b.pdf#page=2"
    opened.value.close()
    page.keyboard.press("Escape")
    page.evaluate("fetch('v1/corpora/sources', { method: 'DELETE' }).then((reply) => reply.status)")


def test_text_around_a_citation_has_no_wrapped_lines(watched: Watched) -> None:
    page = watched.open("#/corpora")
    page.wait_for_selector("form.files")
    sentences = " ".join(f"The keeper of house {n} wrote a letter about thing {n} to the mayor." for n in range(200))
    send(page, "wrapped", file("long.txt", textwrap.fill(sentences, 72)))
    page.wait_for_selector(".good")
    watched.open("#/corpora/wrapped")
    page.get_by_label("Search it").fill("thing 120")
    page.get_by_role("button", name="Search", exact=True).click()
    page.get_by_role("button", name="In its source").first.click()
    page.wait_for_selector("dialog .around")
    assert page.locator("dialog .around").count() == 2
    lines = "\n".join(page.locator("dialog .quoted").all_text_contents()).split("\n")
    broken = [line for line in lines if line.strip() and not line.rstrip().endswith(".")]
    assert len(broken) <= 7  # the first line of a passage may be the end of a wrapped one
    page.keyboard.press("Escape")
    page.evaluate("fetch('v1/corpora/wrapped', { method: 'DELETE' }).then((reply) => reply.status)")


def test_a_corpus_without_a_name_is_not_named_after_a_picture_or_an_empty_file(watched: Watched) -> None:
    page = watched.open("#/corpora")
    page.wait_for_selector("form.files")
    picture: FilePayload = {"name": "photo.png", "mimeType": "image/png", "buffer": b"\x89PNG"}
    send(page, "", picture, file("nothing.txt", ""), file("harbour.txt", "Boats land here."))
    page.locator(".job").get_by_text("harbour is ready.").wait_for()
    page.evaluate("fetch('v1/corpora/harbour', { method: 'DELETE' }).then((reply) => reply.status)")
