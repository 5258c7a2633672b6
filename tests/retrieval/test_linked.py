"""Along the names that passages mention: what links find that words do not, and where they keep out."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from tests.cpu_limit import cpu_limit
from tests.retrieval.linked_films import QUESTION, films
from tests.small_indexes import ids_of

from hoptree.core.errors import ConfigError, CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index.folder import Index, Settings
from hoptree.retrieval.index.links import Links
from hoptree.retrieval.indexing import index_passages, remove_from_index
from hoptree.retrieval.linked import Linked, LinkWeights, _keep, _names_in
from hoptree.retrieval.retriever import open_retriever


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    out = tmp_path_factory.mktemp("linked") / "idx"
    index_passages(films(), out)
    return Index(out)


def test_a_bridge_is_found_that_bm25_does_not_see(index: Index) -> None:
    assert "ada" not in ids_of(BM25(index).search_now(QUESTION, 10))
    found = Linked(index).search_now(QUESTION, 3)
    assert {*ids_of(found)[:2]} == {"kite", "ada"}
    (ada,) = [passage for passage in found if passage.id == "ada"]
    assert dict(ada.stages).keys() == {"link"}
    assert ada.score == pytest.approx(dict(ada.stages)["link"], abs=1e-3)


def test_ties_scores_and_stages_are_in_order(index: Index) -> None:
    found = Linked(index).search_now("film directed by Eva", 20)
    assert list(found) == sorted(found, key=lambda passage: (-passage.score, passage.id))
    for passage in found:
        assert passage.score == pytest.approx(sum(score for _, score in passage.stages), abs=1e-3)


@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_filters_hold_for_all_that_is_found(index: Index, kind: str) -> None:
    retriever = open_retriever(index.folder, kind)
    found = asyncio.run(retriever.search("film directed by Eva Lund3", k=50, where={"lang": "en"}))
    assert found and all(("lang", "en") in passage.metadata for passage in found)
    both = asyncio.run(retriever.search("Grey Gull3 film", k=50, where={"lang": "en", "part": "3"}))
    assert {passage.id for passage in both} <= {"f3", "d3"} and both
    assert asyncio.run(retriever.search("film", k=5, where={"lang": "fr"})) == ()
    assert asyncio.run(retriever.search("film", k=5, where={"nothing": ""})) == ()
    assert asyncio.run(retriever.search(QUESTION, k=5, where={})) == asyncio.run(retriever.search(QUESTION, k=5))


@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_a_field_with_several_values_is_found_by_each(tmp_path: Path, kind: str) -> None:
    passage = Passage("a", "Red Kite", "A film.", metadata=(("lang", "en"), ("lang", "de")))
    index_passages([passage, Passage("b", "Other", "A film.")], tmp_path / "idx")
    retriever = open_retriever(tmp_path / "idx", kind)
    for value in ("en", "de"):
        assert ids_of(asyncio.run(retriever.search("film", k=5, where={"lang": value}))) == ["a"]


def test_the_bridge_is_filtered_like_the_rest(index: Index) -> None:
    assert "ada" not in ids_of(Linked(index).search_now(QUESTION, 50, {"lang": "en"}))


@pytest.mark.parametrize("more", [False, True])
def test_links_lead_to_what_fits_from_what_does_not(tmp_path: Path, more: bool) -> None:
    """Also where a passage that fits shares a word with the question, and would do for a start."""
    passages = [
        Passage("l", "", "The lighthouse of Brinmoor was raised by Ada Fennick.", metadata=(("lang", "de"),)),
        Passage("a", "Ada Fennick", "An engineer.", metadata=(("lang", "en"),)),
        Passage("x", "Xylem", "A tissue of plants.", metadata=(("lang", "en"),)),
    ]
    toy = Passage("n", "", "A toy lighthouse for children.", metadata=(("lang", "en"),))
    index_passages([*passages, *([toy] if more else [])], tmp_path / "idx")
    linked = Linked(Index(tmp_path / "idx"))
    question = "Who is behind the Brinmoor beacon and lighthouse?"
    expected = ["a", "n"] if more else ["a"]
    found = linked.search_now(question, 5, {"lang": "en"})
    assert ids_of(found) == [name for name in ids_of(linked.search_now(question, 5)) if name != "l"] == expected
    assert ids_of(linked.search_now(question, 1, {"lang": "en"})) == ["a"]


def test_what_fits_leads_on_though_much_else_has_the_words(tmp_path: Path) -> None:
    """Even if a passage that does not fit holds the whole question."""
    other = [
        Passage(f"o{n}", "", "Where was the director of the film Red Kite born", metadata=(("lang", "de"),))
        for n in range(9)
    ]
    mine = [replace(p, metadata=(("keep", "yes"),)) if p.id in ("kite", "ada") else p for p in films()]
    index_passages([*mine, *other], tmp_path / "idx")
    found = Linked(Index(tmp_path / "idx")).search_now(QUESTION, 5, {"keep": "yes"})
    assert ids_of(found) == ["kite", "ada"]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_names_are_recognised_however_their_accents_are_written(tmp_path: Path, form: Literal["NFC", "NFD"]) -> None:
    index_passages(
        [Passage("z", "José Peña", "A painter."), Passage("b", "Barn", "A barn of José Peña.")], tmp_path / "idx"
    )
    linked = Linked(Index(tmp_path / "idx"))
    found = linked.search_now(normalize(form, "Where is José Peña?"), 2)
    assert "named" in dict(found[0].stages) and found == linked.search_now("Where is José Peña?", 2)


@pytest.mark.parametrize("kind", ["bm25", "linked"])
@pytest.mark.parametrize("query", ["the of and", "?!", "", "zzzz", "\ud800", "\0"])
def test_a_query_that_says_nothing_finds_nothing(index: Index, kind: str, query: str) -> None:
    assert asyncio.run(open_retriever(index.folder, kind).search(query, k=5)) == ()


@pytest.mark.parametrize("kind", ["bm25", "linked"])
@pytest.mark.parametrize("k", [-1, 0, 1, 30, 31, 1000, 10**6, 10**12])
def test_k_may_be_larger_than_the_corpus(index: Index, kind: str, k: int) -> None:
    found = asyncio.run(open_retriever(index.folder, kind).search("film directed childhood barn", k=k))
    assert len(found) == max(0, min(k, 30))
    assert len({passage.id for passage in found}) == len(found)


@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_a_query_of_ten_thousand_words_is_answered_in_time(index: Index, kind: str) -> None:
    retriever = open_retriever(index.folder, kind)
    query = " ".join(f"Eva Lund{n % 40} film word{n}" for n in range(2500))
    with cpu_limit(5):
        assert len(asyncio.run(retriever.search(query, k=5))) == 5


def test_a_word_that_every_passage_holds_is_no_division_by_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a large corpus such a word's score is too small to show."""
    monkeypatch.setattr("hoptree.retrieval.index.text_index._DECIMALS", 0)
    index_passages([Passage(f"{n}", f"Name Number{n}", "word") for n in range(9)], tmp_path / "idx")
    assert ids_of(Linked(Index(tmp_path / "idx")).search_now("word", 3)) == ["0", "1", "2"]


def test_without_titles_names_that_are_shared_lead_on(tmp_path: Path) -> None:
    passages = [Passage(passage.id, "", f"{passage.title}: {passage.text}") for passage in films()]
    index_passages(passages, tmp_path / "idx")
    index = Index(tmp_path / "idx")
    assert Linked(index).search_now(QUESTION, 5)[0].id == "kite"
    assert "ada" not in ids_of(BM25(index).search_now(QUESTION, 30))
    assert "ada" in ids_of(Linked(index).search_now(QUESTION, 30))


def test_what_words_find_best_keeps_its_place_and_its_order() -> None:
    total = {1: 0.5, 2: 0.4, 3: 9.0, 4: 8.0, 5: 7.0, 6: 6.0, 7: 5.0}
    _keep(total, [1, 2])
    assert sorted(total, key=lambda key: -total[key])[:5] == [3, 4, 5, 1, 2]
    few = {1: 0.5, 3: 9.0}
    _keep(few, [1])
    assert few == {1: 0.5, 3: 9.0}, "nothing is raised where there is room"


def test_a_link_brings_nothing_past_the_passage_it_starts_from(index: Index) -> None:
    """However much a link is worth: what is found through a passage is no surer than the passage itself."""
    kite, ada = Linked(index, LinkWeights(link=50.0)).search_now(QUESTION, 2)
    assert (kite.id, ada.id) == ("kite", "ada")
    assert ada.score == pytest.approx(0.95 * kite.score - 0.075, abs=0.1)
    assert ada.score < kite.score


def test_of_two_passages_as_near_as_links_can_bring_them_the_better_linked_is_first(tmp_path: Path) -> None:
    """Their scores would be the same, and their ids would decide."""
    passages = [
        Passage("kite", "Red Kite", "Red Kite is a film by Bo Berg and Ada Moor."),
        Passage("z", "Ada Moor", "Her childhood passed at Skagen."),
        Passage("a", "Bo Berg", "His childhood passed at Visby."),
        *(Passage(f"m{n}", f"Barn {n}", "Bo Berg owned a barn.") for n in range(3)),
    ]
    index_passages(passages, tmp_path / "idx")
    found = Linked(Index(tmp_path / "idx"), LinkWeights(link=50.0)).search_now("Who made Red Kite?", 3)
    assert ids_of(found) == ["kite", "z", "a"], "three more passages mention Bo Berg"


def test_a_link_that_is_worth_less_than_the_doubt_adds_nothing(index: Index) -> None:
    stages = {p.id: dict(p.stages) for p in Linked(index, LinkWeights(doubt=9.0)).search_now(QUESTION, 30)}
    assert stages["ada"]["link"] < 0.01 < dict(Linked(index).search_now(QUESTION, 2)[1].stages)["link"]


def test_a_name_that_the_question_says_is_no_news(tmp_path: Path) -> None:
    """Tallinn counts as named; that the film's page mentions it, too, adds nothing."""
    passages = [
        Passage("kite", "Red Kite", "Red Kite is a film that was made in Tallinn by Ada Moor."),
        Passage("ada", "Ada Moor", "Her childhood passed at Skagen."),
        Passage("town", "Tallinn", "A town by the sea."),
    ]
    index_passages(passages, tmp_path / "idx")
    found = Linked(Index(tmp_path / "idx")).search_now("Which wife has the maker of Red Kite in Tallinn?", 3)
    stages = {passage.id: dict(passage.stages).keys() for passage in found}
    assert stages["town"] == {"bm25", "named"} and stages["ada"] == {"link"}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("Did Saint Augustine use a calendar?", []),
        ("Was Apollo 13 a ship of Saint Augustine?", []),
        ("Is Apollo a saint?", ["apollo"]),
        ("Apollo, Saint, or Orange?", ["apollo", "saint", "orange"]),
        ("Is Saint Apollo in Red Kite?", ["red kite"]),
        ("Was President Red Kite a film?", ["red kite"]),
        ("where is apollo in red kite", ["red kite"]),
    ],
)
def test_a_word_of_a_longer_name_is_not_that_name(tmp_path: Path, query: str, said: list[str]) -> None:
    titles = ("Saint", "Apollo", "Orange", "Red Kite")
    index_passages([Passage(title, title, "Something else.") for title in titles], tmp_path / "idx")
    assert _names_in(query, Links(Index(tmp_path / "idx").links)) == said


def crowd(titles: tuple[str, ...], text: str = "A beach with an inn.") -> list[Passage]:
    """A page that leads to three others by rare names, and passages that words find after it."""
    return [
        Passage("inn", "Grand Inn", "The Grand Inn at the beach belongs to Ada Moor, Bo Berg and Eva Lund."),
        *(Passage(name, name, "Nothing is known.") for name in ("Ada Moor", "Bo Berg", "Eva Lund")),
        *(Passage(f"w{n}", title, text + " It is quiet." * 20 * n) for n, title in enumerate(titles)),
        *(Passage(f"x{n}", f"Stone {n}", "A stone.") for n in range(9)),
    ]


@pytest.mark.parametrize(
    ("titles", "staying"),
    [
        (("Hill", "Shore", "Sand", "Dune"), {"w0"}),  # the first two by words stay always: the inn's page and this
        (("Hill", "Shore", "Sand", "Beach"), {"w0", "w3"}),  # the question says its name
        (("Hill", "Shore", "Sand", "Sand"), {"w0", "w2", "w3"}),  # two of one page
    ],
)
def test_what_words_found_well_gives_way_only_to_what_is_much_better(
    tmp_path: Path, titles: tuple[str, ...], staying: set[str]
) -> None:
    index_passages(crowd(titles), tmp_path / "idx")
    question = "Who keeps the Grand Inn, near which beach?"
    index = Index(tmp_path / "idx")
    assert {passage.id[0] for passage in BM25(index).search_now(question, 5)} == {"i", "w"}
    for firm, left in ((9.0, staying), (0.0, {"w0"})):
        found = ids_of(Linked(index, LinkWeights(firm=firm)).search_now(question, 5))
        assert {name for name in found if name.startswith("w")} == left


def test_a_link_that_is_much_better_comes_among_the_passages_of_one_page(tmp_path: Path) -> None:
    """A page in many passages, all of which words find first, leads on all the same."""
    texts = (
        "Red Kite is a film by the director Ada Moor.",
        "Red Kite was born in a storm. It was cold, and nobody came.",
        "Then the film was sold, and shown in every town by the sea for a year.",
        "A kite is a bird. This one is red, and flies all day above a valley with a lake.",
        "It had no music at first. Later somebody wrote a song for it that became known in the whole land.",
    )
    chunks = [Passage(f"k{n}", "Red Kite", text, document="kite", start=n, end=n + 9) for n, text in enumerate(texts)]
    index_passages([*chunks, *(p for p in films() if p.id != "kite")], tmp_path / "idx")
    index = Index(tmp_path / "idx")
    assert {name[0] for name in ids_of(BM25(index).search_now(QUESTION, 5))} == {"k"}
    assert "ada" in ids_of(Linked(index).search_now(QUESTION, 5))


def test_passages_without_words_are_in_nobody_s_way(tmp_path: Path) -> None:
    index_passages([Passage("dots", "…", "… !!! …"), Passage("kite", "Red Kite", "A film.")], tmp_path / "idx")
    for kind in ("bm25", "linked"):
        retriever = open_retriever(tmp_path / "idx", kind)
        assert ids_of(asyncio.run(retriever.search("Red Kite", k=5))) == ["kite"]
        assert asyncio.run(retriever.search("… !!!", k=5)) == ()


def test_a_name_that_many_bear_leads_nowhere(tmp_path: Path) -> None:
    many = [Passage(f"m{n}", f"Ada Moor ({n})", f"Someone of the year {n}.") for n in range(9)]
    index_passages([*films(), *many], tmp_path / "idx")
    found = Linked(Index(tmp_path / "idx")).search_now(QUESTION, 40)
    assert not {passage.id for passage in found if passage.id.startswith("m")}


def test_a_removed_passage_is_neither_named_nor_linked(tmp_path: Path) -> None:
    index_passages(films(), tmp_path / "idx")
    remove_from_index(tmp_path / "idx", ids=["ada"])
    found = Linked(Index(tmp_path / "idx")).search_now(f"{QUESTION} Ada Moor", 40)
    assert "ada" not in ids_of(found) and found[0].id == "kite"


def test_an_index_without_links_says_so(tmp_path: Path) -> None:
    index_passages(films(), tmp_path / "idx", settings=Settings(links=False))
    with pytest.raises(CorpusError, match="has no links") as failure:
        open_retriever(tmp_path / "idx", "linked")
    assert "--links" in failure.value.remedy
    with pytest.raises(CorpusError, match="has no vectors"):
        open_retriever(tmp_path / "idx", "hybrid")
    with pytest.raises(ConfigError, match="Did you mean linked"):
        open_retriever(tmp_path / "idx", "linkd")


@pytest.mark.parametrize("kind", ["bm25", "linked"])
@pytest.mark.parametrize("worth", [0, 10**9])
def test_results_do_not_depend_on_concurrency(
    index: Index, kind: str, worth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoptree.retrieval.bm25._WORTH_A_THREAD", worth)
    retriever = open_retriever(index.folder, kind)
    queries = [f"Who directed the film Grey Gull{n % 12}, or Eva Lund{n % 7}?" for n in range(64)]
    meant = [asyncio.run(retriever.search(query, k=5)) for query in queries]

    async def at_once() -> list[tuple[Passage, ...]]:
        return await asyncio.gather(*(retriever.search(query, k=5) for query in queries))

    assert asyncio.run(at_once()) == meant
    found: dict[int, list[tuple[Passage, ...]]] = {}

    def work(number: int) -> None:
        found[number] = [asyncio.run(retriever.search(query, k=5)) for query in queries[number::4]]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(found[number] == meant[number::4] for number in range(4))


def test_a_document_of_many_passages_is_one_document(tmp_path: Path) -> None:
    chunks = [
        Passage(f"ada#{n}", "Ada Moor", said, document="ada", start=n * 50, end=n * 50 + len(said))
        for n, said in enumerate(
            ("Her childhood passed at Skagen.", "She liked boats.", "She was born in a storm.", "Later she wrote.")
        )
    ]
    index_passages([p for p in films() if p.id != "ada"] + chunks, tmp_path / "idx")
    found = ids_of(Linked(Index(tmp_path / "idx")).search_now(QUESTION, 3))
    assert {*found[:2]} == {"kite", "ada#2"}, "the passage of the document that fits the question best"


@pytest.mark.parametrize("query", ["Nyslott", "Where is Nyslott?", "The Who"])
def test_a_name_leads_to_its_passage_where_no_passage_has_a_word_of_the_query(tmp_path: Path, query: str) -> None:
    """The band's name is made of words that are not looked for."""
    passages = [
        Passage("town", "Savonlinna", "A town with a castle.", aliases=("Nyslott", "The Who")),
        Passage("castle", "Olavinlinna", "A castle in Savonlinna."),
        Passage("other", "Turku", "It lies by the sea."),
    ]
    index_passages(passages, tmp_path / "idx")
    found = Linked(Index(tmp_path / "idx")).search_now(query, 5)
    assert ids_of(found) == ["town", "castle"] and dict(found[0].stages).keys() == {"named"}


@pytest.mark.parametrize(("title", "led_to"), [("Ada Moor", ["ada"]), ("Eva Lund3", [])])
def test_links_lead_into_a_filter_in_which_no_passage_has_a_word_of_the_query(
    index: Index, title: str, led_to: list[str]
) -> None:
    assert BM25(index).search_now(QUESTION, 5, {"title": title}) == ()
    assert ids_of(Linked(index).search_now(QUESTION, 5, {"title": title})) == led_to
