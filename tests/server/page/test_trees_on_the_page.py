"""The tree as such: hundreds of nodes, only what changed drawn anew, and all of it by keyboard."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.server.page.scripts import FILMS
from tests.test_line_breaks import WRAPPED

if TYPE_CHECKING:
    from playwright.sync_api import Page
    from tests.server.page.browsing import Watched

DRAWN = """async (snapshot) => {
  const { TreeView } = await import('/page/tree.js');
  window.opened = [];
  window.tree = new TreeView({ label: 'A tree', onOpen: (node) => window.opened.push(node && node.id) });
  document.getElementById('main').replaceChildren(window.tree.element);
  window.tree.update('The question', snapshot);
}"""
UPDATED = """(snapshot) => {
  const changed = new Set();
  const watch = new MutationObserver((records) => {
    for (const { target } of records) changed.add(target.closest('.row, ul')?.dataset.node ?? 'list');
  });
  watch.observe(window.tree.list, { childList: true, characterData: true, subtree: true });
  window.tree.update('The question', snapshot);
  for (const { target } of watch.takeRecords()) changed.add(target.closest('.row, ul')?.dataset.node ?? 'list');
  watch.disconnect();
  return [...changed];
}"""


def node(number: int, children: list[dict[str, Any]] | None = None, **fields: Any) -> dict[str, Any]:
    question = f"Question {number}?"
    return {
        "id": number, "question": question, "resolved": question, "answer": "", "source": "", "evidence": [],
        "state": "waiting", "children": children or [], **fields,
    }  # fmt: skip


def large(answered: int = 0) -> list[dict[str, Any]]:
    """220 nodes: four branches, each with six, each of these with eight; the first ones have answers."""
    numbers = iter(range(1, 1000))

    def root(children: list[dict[str, Any]]) -> dict[str, Any]:
        number = next(numbers)
        fields = {"answer": f"Answer {number}", "source": "external", "state": "answered"} if number <= answered else {}
        return node(number, children, **fields)

    return [root([root([root([]) for _ in range(8)]) for _ in range(6)]) for _ in range(4)]


def focused(page: Page) -> str:
    focus: str = page.evaluate("document.activeElement.dataset.node ?? document.activeElement.id")
    return focus


def test_large_trees_are_folded_and_only_changed_rows_are_drawn(watched: Watched) -> None:
    page = watched.open()
    page.evaluate(DRAWN, large())
    count = 4 + 4 * 6 + 4 * 6 * 8
    assert page.locator(".row").count() == count + 1
    assert page.locator(".row:visible").count() == 1 + 4 + 4 * 6  # the rest is folded
    assert page.locator(".tools .size").inner_text() == f"{count} sub-questions"

    assert page.evaluate(UPDATED, large()) == []
    tree = large()
    tree[0]["children"][0]["children"][0] |= {"answer": "An answer", "source": "external", "state": "answered"}
    number = tree[0]["children"][0]["children"][0]["id"]
    assert page.evaluate(UPDATED, tree) == [str(number)]

    page.get_by_role("button", name="Unfold all").click()
    assert page.locator(".row:visible").count() == count + 1
    page.get_by_role("button", name="Fold all", exact=True).click()
    assert page.locator(".row:visible").count() == 1 + 4


def test_focus_and_folds_outlast_growth_and_what_is_rebuilt_goes(watched: Watched) -> None:
    page = watched.open()
    page.evaluate(DRAWN, [node(1, [node(2), node(3)]), node(4)])
    page.focus('.row[data-node="1"]')
    page.keyboard.press("ArrowLeft")  # folded by the reader
    page.focus('.row[data-node="4"]')
    page.evaluate(UPDATED, [node(1, [node(2), node(3), node(5)]), node(6), node(4, answer="x", state="answered")])
    assert focused(page) == "4" and not page.locator('.row[data-node="5"]').is_visible()
    page.evaluate(UPDATED, [node(1, [node(7)]), node(4)])  # rebuilt under 1
    assert page.locator('.row[data-node="2"]').count() == 0 and page.locator(".row").count() == 4
    assert focused(page) == "4"


def test_what_was_rebuilt_below_a_node_is_numbered_from_it(watched: Watched) -> None:
    page = watched.open()
    page.evaluate(DRAWN, [node(1, [node(101, [node(102), node(10101)])]), node(3)])
    assert page.locator(".row .number").all_inner_texts() == ["1", "1.1", "1.2", "1.1.1", "3"]
    page.focus('.row[data-node="3"]')
    for key in "1.1.1":
        page.keyboard.press(key)
    assert focused(page) == "10101"
    many = [node(1, [node(number) for number in range(2, 150)])]
    page.evaluate(DRAWN, many)
    assert page.locator('.row[data-node="101"] .number').last.inner_text() == "101"


def test_keys_walk_the_tree(watched: Watched) -> None:
    page = watched.open()
    page.evaluate(DRAWN, [node(1, [node(2), node(3)]), node(4)])
    page.locator('.row[data-node="0"]').focus()
    walked = []
    for key in (
        "ArrowDown",
        "ArrowDown",
        "ArrowDown",
        "ArrowLeft",
        "ArrowLeft",
        "ArrowDown",
        "Home",
        "End",
        "ArrowUp",
        "ArrowRight",
        "ArrowRight",
    ):
        page.keyboard.press(key)
        walked.append(focused(page))
    assert walked == ["1", "2", "3", "1", "1", "4", "0", "4", "1", "1", "2"]
    row = page.locator('.row[data-node="1"]')
    assert row.get_attribute("aria-expanded") == "true" and row.get_attribute("aria-level") == "2"
    page.keyboard.press("4")  # by number
    assert focused(page) == "4"
    page.keyboard.press("Enter")
    page.keyboard.press("Escape")
    assert page.evaluate("window.opened") == [4, None]
    assert page.locator('.row[tabindex="0"]').count() == 1  # one stop for Tab in the whole tree


def test_the_page_by_keyboard_alone(watched: Watched) -> None:
    page = watched.open()
    page.wait_for_selector(".who select", state="attached")
    page.locator(".wordmark").focus()
    page.keyboard.press("/")
    watched.until("document.activeElement.id === 'question'")
    page.keyboard.type(FILMS)
    page.keyboard.press("Enter")
    watched.answered()
    page.wait_for_selector(".detail mark")
    for _ in range(25):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('row')"):
            break
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert page.locator(".detail h3").inner_text() == "Who directed the film Touki Bouki?"
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert focused(page) == "3" and outline == "solid"
    for _ in range(8):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('close')"):
            break
    page.keyboard.press("Enter")
    assert not page.locator(".detail").is_visible() and focused(page) == "3"


def test_the_sentence_that_was_used(watched: Watched) -> None:
    cases = [
        ("A. B. Smith was born in 1900. He died in 1950.", "1950", "He died in 1950."),
        ("The lake is 12 km long. It is 1200 m deep.", "12", "The lake is 12 km long."),
        ("ŁÓDŹ is a city. Has died in Łódź in 2000.", "łódź", "Has died in Łódź in 2000."),
        ("It was (as C++ was) new.", "C++", "It was (as C++ was) new."),
        ("It was written in C, and compiled.", "C++", None),
        ("上海是最大的城市。中国的首都是北京市。", "北京", "中国的首都是北京市。"),
        ("It was old. It was in F#.", "F#", "It was in F#."),
        ("It was in C.", "C#", None),
        ("Use u. Use \u2212u then.", "-u", "Use \u2212u then."),
        ("Use m. Use -M then.", "-m", None),
        ("我们使用Python编写。", "Python", "我们使用Python编写。"),
        ("The Berliner wrote.", "Berlin", None),
        ("Ada kam. Sie tagte am 12. März in Ulm. Bo ging.", "Ulm", "Sie tagte am 12. März in Ulm."),
        ("Nothing of the sort.", "Paris", None),
        ("To: Ada Lund\n\nWe met Ada Lund.", "Ada Lund", "We met Ada Lund."),
        ("To: Ada Lund\n\nWe met.", "Ada Lund", "To: Ada Lund"),
        ("No, it was not.", "no", None),
        ("", "x", None),
    ]
    sentence = watched.open().evaluate(
        """(cases) => import('/page/evidence.js').then(({ sentences, usedSentence }) => cases.map(([text, answer]) => {
          const parts = sentences(text);
          const place = usedSentence(parts, { answers: [answer], question: 'Where did Has die?' });
          return [parts.join(''), answer, place < 0 ? null : parts[place].trim()];
        }))""",
        cases,
    )
    assert sentence == [list(case) for case in cases]


def test_wrapped_lines_are_joined_as_in_python(watched: Watched) -> None:
    joined = watched.open().evaluate(
        "(texts) => import('/page/evidence.js').then(({ sentences }) => texts.map((text) => sentences(text).join('')))",
        [text for text, _ in WRAPPED],
    )
    assert joined == [unwrapped or text for text, unwrapped in WRAPPED]


def test_words_of_a_search_are_marked_in_scripts_without_spaces(watched: Watched) -> None:
    marked = watched.open().evaluate(
        """(cases) => import('/page/evidence.js').then(({ passages }) => cases.map(([text, words]) => {
          const [box] = passages([[{ id: 'p', text }, { words }]]);
          return [...box.querySelectorAll('mark')].map((mark) => mark.textContent);
        }))""",
        [
            ("中国的首都是北京市，首都很大。", "首都在哪里"),
            ("Ada's bees.", "bee"),
            ("一只猫。", "猫"),
            ("的确", "目的"),
        ],
    )
    assert marked == [["首都", "首都"], ["bees"], ["猫"], []]


def test_answers_of_the_graph_alone_are_told_as_such(watched: Watched) -> None:
    fact = ["Apollo 14", "landing date", "5 February 1971"]
    fields: dict[str, Any] = {"answer": "1971", "source": "external", "state": "answered"}
    page = watched.open()
    page.evaluate(DRAWN, [node(1, facts=[fact], **fields), node(2, facts=[fact], evidence=["p1"], **fields)])
    assert page.locator('.row[data-node="1"] .source.graph').inner_text() == "from the graph"
    assert page.locator('.row[data-node="2"] .source.external').inner_text() == "from documents and the graph"


SHOWN = """async (result) => {
  const { AnswerView } = await import('/page/answer.js');
  const view = new AnswerView({ question: result.question });
  document.getElementById('main').replaceChildren(view.element);
  view.show(result);
  const marks = (box) => [...box.querySelectorAll('mark')].map((mark) => mark.textContent);
  const number = (box) => box.querySelector('.cited-as')?.textContent ?? '';
  const boxes = [...view.element.querySelectorAll('article.passage, details.passage')];
  return boxes.map((box) => [box.tagName, number(box), marks(box)]);
}"""


def test_the_quoted_sentence_is_marked_and_nothing_in_passages_that_are_not_cited(watched: Watched) -> None:
    texts = ("It is by Bo Lund.", "Bo Lund, who directed, was in Rome and Ulm. He died in Ulm.", "Bo Lund acted.")
    passages = [{"id": f"p{at}", "title": f"T{at}", "text": text} for at, text in enumerate(texts)]
    who = node(1, question="Who directed it?", answer="Bo Lund", source="external", evidence=["p0", "p1", "p2"])
    result = {
        "question": "Where did the director die?",
        "answer": "Ulm",
        "sentence": "The director died in Ulm [1]: “He died in Ulm.” [2]",
        "tree": [who, node(2, question="Where was he?", answer="Ulm", source="external", evidence=["p1"])],
        "evidence": passages,
        "usage": {"seconds": 1.0},
    }
    assert watched.open().evaluate(SHOWN, result) == [
        ["ARTICLE", "[1]", [texts[0]]],
        ["ARTICLE", "[2]", ["He died in Ulm."]],
        ["DETAILS", "", []],
    ]


GRAPH = """async (result) => {
  const { graphOf, graphView } = await import('/page/graph.js');
  const { nodes, edges } = graphOf(result);
  const view = graphView(result);
  document.getElementById('main').replaceChildren(view ?? '');
  const lines = edges.map((edge) => [nodes.get(edge.from).label, edge.label, nodes.get(edge.to).label, edge.kind]);
  return { kinds: Object.fromEntries([...nodes.values()].map((node) => [node.label, node.kind])), lines };
}"""


def test_facts_and_links_around_an_answer_are_drawn(watched: Watched) -> None:
    evil = "<img src=x onerror=alert(1)>"
    result = {
        "answer": "Dakar",
        "tree": [node(1, answer="Mambéty", facts=[["Touki Bouki", "director", "Mambéty"]], evidence=["p"])],
        "evidence": [
            {"id": "p", "title": "Mambéty", "text": "Mambéty was born near Dakar."},
            {"id": "q", "title": evil, "text": "The film by Mambéty."},
        ],
    }
    page = watched.open()
    drawn = page.evaluate(GRAPH, result)
    assert drawn["kinds"] == {"Dakar": "answer", "Touki Bouki": "name", "Mambéty": "passage", evil: "passage"}
    assert drawn["lines"] == [
        ["Touki Bouki", "director", "Mambéty", "fact"],
        ["Mambéty", "", "Dakar", "holds"],  # the text of the passage has the answer
        [evil, "mentions", "Mambéty", "link"],
    ]
    assert page.locator("svg.graph circle").count() == 4 and page.locator("svg.graph img, #main img").count() == 0
    assert page.evaluate(GRAPH, {"answer": "Dakar", "tree": [], "evidence": []})["lines"] == []
    assert page.locator("svg.graph").count() == 0
    page = watched.ask(FILMS)
    watched.answered()
    page.click(".graph-view > summary")
    assert page.locator("svg.graph .answer text").text_content() == "Touki Bouki"
    boxes = "[...document.querySelectorAll('svg.graph, svg.graph .node')].map((one) => one.getBoundingClientRect())"
    drawing, *nodes = page.evaluate(f"{boxes}.map(({{ left, right }}) => [left, right])")
    assert len(nodes) >= 4 and all(drawing[0] - 1 <= left and right <= drawing[1] + 1 for left, right in nodes)


OVERLAPS = """() => {
  const texts = [...document.querySelectorAll('svg.graph text')].map((one) => [one.textContent, one.getBBox()]);
  const beside = (a, b) => a.x + a.width <= b.x || b.x + b.width <= a.x;
  const apart = (a, b) => beside(a, b) || a.y + a.height <= b.y || b.y + b.height <= a.y;
  const under = (at) => texts.slice(at + 1).filter(([, box]) => !apart(texts[at][1], box));
  return texts.flatMap(([text], at) => under(at).map(([other]) => [text, other]));
}"""


def test_no_text_of_the_graph_is_written_over_another_and_it_fits(watched: Watched) -> None:
    people = ("Otto Quill", "Inga Quill", "Asta Maria Lindqvist-Holm")
    asked = (
        "Who is the head of the Saltmere station?",
        "Who was the wife of Otto Quill?",
        "Where was Inga Quill born?",
    )
    answers = ("Otto Quill", "Inga Quill", "Bergen")
    result = {
        "answer": "Inga Quill",
        "tree": [
            node(at, question=question, resolved=question, answer=answer, evidence=["p0", "p1", "p2"][: 4 - at])
            for at, (question, answer) in enumerate(zip(asked, answers, strict=True), 1)
        ],
        "evidence": [
            {"id": f"p{at}", "title": f"People of the survey › {name}", "text": f"{name} knew Inga Quill."}
            for at, name in enumerate(people)
        ],
    }
    page = watched.open()
    assert len(page.evaluate(GRAPH, result)["lines"]) >= 5
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate("document.querySelector('svg.graph').getBoundingClientRect().width") <= 690
    assert "… › Otto Quill" in page.locator("svg.graph .passage text").all_text_contents()
