"""What everybody must be able to read: contrast in both colour schemes, narrow screens, little motion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest
from tests.server.page.scripts import CITY, FILMS, GUESSED, WRITTEN

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page
    from tests.server.page.browsing import Watched
    from tests.server.running import Running

# WCAG 2.2, 1.4.3: 4.5 to 1, and 3 to 1 for large text; behind a text lie the colours of all it stands in.
CONTRASTS = """() => {
  const channel = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r / 255) + 0.7152 * channel(g / 255) + 0.0722 * channel(b / 255);
  const numbers = (colour) => (colour.match(/[\\d.]+/g) ?? []).map(Number);
  const over = ([r, g, b, a = 1], back) => [r, g, b].map((value, at) => value * a + back[at] * (1 - a));
  const behind = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) layers.push(numbers(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((back, layer) => over(layer, back), [255, 255, 255]);
  };
  const ratio = (one, other) => {
    const [dark, light] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (light + 0.05) / (dark + 0.05);
  };
  const low = [];
  let seen = 0;
  for (const element of document.querySelectorAll('body *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    const text = own || element.matches('input, select, textarea');
    const unseen = !element.getClientRects().length || element.closest('.unseen, .skip, option');
    if (!text || unseen || element.disabled) continue;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const back = behind(element);
    const found = ratio(over(numbers(style.color), back), back);
    seen += 1;
    const name = `${element.tagName}.${element.className}`;
    if (found < (large ? 3 : 4.5)) low.push(`${name} "${element.textContent.slice(0, 20)}" ${found.toFixed(2)}`);
  }
  return { low, seen };
}"""


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def in_scheme(browser: Browser, server: Running, scheme: Literal["light", "dark"]) -> Iterator[Watched]:
    from tests.server.page.browsing import Watched

    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme, reduced_motion="reduce")
    yield Watched(context.new_page(), server.url)
    context.close()


def legible(page: Page, least: int) -> None:
    contrasts = page.evaluate(CONTRASTS)
    assert contrasts["low"] == [] and contrasts["seen"] >= least


def test_contrast_and_motion_of_every_view(in_scheme: Watched, scheme: str) -> None:
    watched = in_scheme
    page = watched.ask(GUESSED, method="treeqa", model="thoughtful", **{"o.evidence": "text"})
    watched.answered()
    page.click('.row[data-node="1"]')
    for box in page.locator("details").all():
        box.evaluate("(one) => { one.open = true; }")
    legible(page, 60)
    page = watched.ask(WRITTEN, method="mind", model="doubting")
    watched.answered()
    for box in page.locator("details").all():
        box.evaluate("(one) => { one.open = true; }")
    legible(page, 60)
    page.evaluate("""() => {
      const parts = ['u1', 'u2', 'u3', 'u4'].map((kind) => `${kind}`);
      document.querySelector('.parts').replaceChildren(...parts.map((kind) => {
        const word = document.createElement('span');
        word.className = kind;
        word.textContent = kind;
        return word;
      }));
      const sources = ['external', 'internal', 'graph', 'synthesis', 'fallback', 'none', 'other'];
      document.querySelector('.status').replaceChildren(...sources.map((kind) => {
        const word = document.createElement('span');
        word.className = `source ${kind}`;
        word.textContent = kind;
        return word;
      }));
    }""")
    legible(page, 60)
    for address, wanted in (
        ("", ".examples a"),
        ("#/corpora", ".entries"),
        ("#/corpora/nowhere", ".problem"),
        ("#/runs", "h1"),
    ):
        watched.open(address)
        page.wait_for_selector(wanted)
        legible(page, 8)
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (scheme == "dark") == (int(paper.split("(")[1].split(",")[0]) < 100)
    assert page.evaluate("matchMedia('(prefers-reduced-motion: reduce)').matches")
    page.evaluate("() => { document.querySelector('h1').className = 'pulse'; }")
    assert page.evaluate("getComputedStyle(document.querySelector('.pulse')).animationName") == "none"


def test_narrow_screens_scroll_only_downwards(watched: Watched) -> None:
    page = watched.page
    page.set_viewport_size({"width": 375, "height": 800})
    watched.ask(FILMS, vs="1", method2="direct", model2="fickle")
    page.wait_for_selector(".agreement:not([hidden])")
    page.locator('.row[data-node="4"]').first.click()
    assert page.locator('li:has(> .row[data-node="4"]) > .detail mark').is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    first, second = page.locator(".pane").all()
    upper, other = first.bounding_box(), second.bounding_box()
    assert upper and other and other["y"] >= upper["y"] + upper["height"]
    for address in ("#/corpora", "#/corpora/sample", "#/runs", "#/ask"):
        watched.open(address)
        page.wait_for_selector("h1, .examples a")
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, address


@pytest.mark.parametrize("compared", [{}, {"vs": "1", "method2": "direct", "model2": "fickle"}], ids=["one", "two"])
def test_choices_fit_a_narrow_screen_beside_each_other(watched: Watched, compared: dict[str, str]) -> None:
    from tests.server.page.browsing import ask_address

    page = watched.page
    page.set_viewport_size({"width": 390, "height": 800})
    watched.open(ask_address(FILMS, **compared))
    watched.open_advanced()
    assert page.locator(".contender.second:visible").count() == bool(compared)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    boxes = [box for choice in page.locator(".who select:visible").all() if (box := choice.bounding_box())]
    assert len(boxes) >= 2 + 2 * bool(compared)
    for left, right in pairwise(boxes):
        assert left["y"] != right["y"] or left["x"] + left["width"] <= right["x"]


@pytest.mark.parametrize(
    ("locale", "ask", "placeholder", "grounds", "source", "corpora"),
    [
        ("de-AT", "Fragen", "mehr als einen Schritt", "Worauf die Antwort beruht", "aus Dokumenten", "Sammlungen"),
        ("zh-CN", "提问", "多步推理", "答案的依据", "来自文档", "文档库"),
        ("fr-FR", "Ask", "more than one step", "What the answer rests on", "from documents", "Corpora"),
    ],
)
def test_the_texts_are_in_the_language_of_the_browser(
    browser: Browser, server: Running, locale: str, ask: str, placeholder: str, grounds: str, source: str, corpora: str
) -> None:
    from tests.server.page.browsing import Watched

    context = browser.new_context(viewport={"width": 1280, "height": 900}, locale=locale, reduced_motion="reduce")
    watched = Watched(context.new_page(), server.url)
    page = watched.ask(FILMS)
    assert watched.answered() == "Touki Bouki"
    assert page.locator("form.ask button.main").inner_text() == ask
    assert placeholder in (page.get_attribute("#question", "placeholder") or "")
    assert page.locator(".detail-head .label").inner_text().casefold() == grounds.casefold()
    assert watched.row(4).endswith(source)
    assert page.locator("nav a").nth(1).inner_text() == corpora
    reason, step = {
        "de-AT": ("Teilweise belegt: nur 3 ihrer 4 Schritte beruhen auf Gelesenem.", "4 Teilfragen geplant"),
        "zh-CN": ("部分有据：4 个步骤中只有 3 个有读到的依据。", "计划了 4 个子问题"),
    }.get(locale, ("Partly supported: only 3 of its 4 steps rest on what was read.", "Planned 4 sub-questions"))
    assert page.locator(".confidence").inner_text() == reason
    assert step in (page.locator(".steps").text_content() or "")
    assert page.get_attribute("html", "lang") == (locale[:2] if locale[:2] != "fr" else "en")
    for address, wanted in (("#/corpora", "form.files"), ("#/corpora/sample", "form.search"), ("#/runs", "h1")):
        watched.open(address)
        page.wait_for_selector(wanted)
        assert page.evaluate("document.documentElement.scrollWidth") <= 1280
    assert watched.errors == []
    context.close()


def test_a_guess_and_doubts_are_told_in_german_and_once(browser: Browser, server: Running) -> None:
    from tests.server.page.browsing import Watched

    context = browser.new_context(locale="de-DE", reduced_motion="reduce")
    watched = Watched(context.new_page(), server.url)
    page = watched.ask("Wer hat den Lighthouse of Genoa gebaut?", method="oner", model="fickle")
    assert watched.answered() == "Black Girl"
    assert page.locator(".sentence").inner_text() == "Vielleicht Black Girl: nichts Gelesenes sagt es."
    assert page.locator(".answer .label").inner_text().casefold() == "geraten"
    assert page.locator(".confidence").count() == 0  # the sentence says so already
    assert page.locator(".more .warm").count() == 0  # it says so already
    watched.ask(WRITTEN, method="mind", model="doubting")
    assert watched.answered() == CITY
    assert "Wie unsicher das Modell bei jedem Wort war" in page.locator(".shades").inner_text()
    assert watched.errors == []
    context.close()


def test_the_margin_takes_the_evidence_when_there_is_room(watched: Watched) -> None:
    page = watched.ask(FILMS)
    page.wait_for_selector(".margin .detail mark")
    page.click('.row[data-node="2"]')
    page.set_viewport_size({"width": 800, "height": 800})
    page.wait_for_selector('li:has(> .row[data-node="2"]) > .detail')
    page.set_viewport_size({"width": 1280, "height": 800})
    page.wait_for_selector(".margin .detail")
    assert page.locator(".detail").count() == 1


def test_a_phone_shows_the_evidence_below_the_tree(watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 390, "height": 844})
    page = watched.ask(FILMS)
    watched.answered()
    page.wait_for_selector(".detail mark")
    tree, detail = page.locator(".tree").bounding_box(), page.locator(".detail").bounding_box()
    assert tree and detail and detail["y"] >= tree["y"] + tree["height"]
    page.click('.row[data-node="2"]')
    page.wait_for_selector('li:has(> .row[data-node="2"]) > .detail')


CITED_LONG = """async () => {
  const { AnswerView } = await import('./page/answer.js');
  const view = new AnswerView({ question: 'Where?' });
  view.element.querySelector('.column').style.width = '9.5rem';
  document.getElementById('main').replaceChildren(view.element);
  const passages = [1, 2].map((n) => ({ id: `p${n}`, title: 'A long title of many words', text: 'In Bo.' }));
  view.show({
    question: 'Where?', answer: 'Bo', sentence: 'It is a town that is called Bo [1][2].', method: 'oner', tree: [],
    evidence: passages, usage: { llm_calls: 1, retrievals: 1 },
  });
}"""


def test_a_number_stays_with_its_words_and_with_its_title(watched: Watched) -> None:
    page = watched.open()
    page.evaluate(CITED_LONG)
    held = page.locator(".sentence .held")
    assert held.inner_text().startswith("Bo [1]")
    assert held.evaluate("(span) => new Set([...span.getClientRects()].map((box) => Math.round(box.top))).size") == 1
    page.set_viewport_size({"width": 375, "height": 800})
    for head in page.locator(".passage h4").all():
        number, title = (
            head.locator(f"span >> nth={at}").evaluate("(one) => one.getClientRects()[0].top") for at in (0, 1)
        )
        assert abs(number - title) < 5


def test_a_wide_graph_scrolls_in_its_box_and_is_shaded_where_it_goes_on(watched: Watched) -> None:
    watched.page.set_viewport_size({"width": 375, "height": 800})
    page = watched.ask(FILMS)
    watched.answered()
    page.click(".graph-view > summary")
    box = page.locator(".graph-box > .wide")
    assert box.evaluate("(box) => box.scrollWidth > box.clientWidth")
    assert "gradient" in box.evaluate("(box) => getComputedStyle(box).backgroundImage")
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_the_name_of_a_corpus_fits_its_box(watched: Watched) -> None:
    page = watched.open()
    watched.open_advanced()
    documents = page.get_by_label("Documents")
    narrow = documents.bounding_box()
    name = "my-documents-of-the-office-2025"
    documents.evaluate(f"(select) => {{ select.add(new Option('{name}')); select.value = '{name}'; }}")
    wide = documents.bounding_box()
    assert narrow and wide and wide["width"] > narrow["width"] + 40
