"""BM25: what is found, in which order, and how a query is read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from tests.retrieval.bm25_passages import PASSAGES, found

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.index import text_index as texts
from hoptree.retrieval.index.folder import Index, Settings
from hoptree.retrieval.indexing import add_to_index, compact_index, index_passages, remove_from_index
from hoptree.retrieval.retriever import BM25, open_retriever


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> BM25:
    folder = tmp_path_factory.mktemp("bm25") / "index"
    index_passages(PASSAGES, folder)
    return BM25(Index(folder))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Who directed the film Whiplash?", "whiplash"),
        ("Denis Villeneuve's films", "arrival"),
        ("directing Arrivals", "arrival"),
        ("O'Brien", "obrien"),
        ("O’Brien", "obrien"),
        ('"At Swim-Two-Birds"', "obrien"),
        ("lodz", "lodz"),
        ("ŁÓDŹ", "lodz"),
        ("東京", "tokyo"),
        ("столица", "moscow"),
    ],
)
def test_the_best_passage_comes_first(index: BM25, query: str, first: str) -> None:
    assert found(index, query)[0] == first


@pytest.mark.parametrize(
    "query",
    [
        "film AND (",
        'title:whiplash "',
        "film) OR [2014 TO *]",
        "film~ ^3 +whiplash -arrival",
        "{film} \\ / film:",
        "film' OR 1=1 --",
        "film 😀 \0 \u202e",
        "film \ud83d",
    ],
)
def test_a_query_is_text_and_no_language(index: BM25, query: str) -> None:
    assert "whiplash" in found(index, query)


@pytest.mark.parametrize("query", ["", "   ", "the of and", "?!", "“the of and”", "zzzzqqqq", "한국어", "x" * 70_000])
def test_a_query_of_which_no_word_is_known_finds_nothing(index: BM25, query: str) -> None:
    assert found(index, query) == []


@pytest.mark.parametrize("k", [-1, 0, 1, 2, 1000])
def test_at_most_k_are_found(index: BM25, k: int) -> None:
    assert len(found(index, "film directed", k)) == min(max(k, 0), 2)


def test_scores_fall_and_are_positive(index: BM25) -> None:
    scores = [passage.score for passage in index.search_now("film directed by Denis", 5)]
    assert scores == sorted(scores, reverse=True)
    assert scores[-1] > 0


def test_a_passage_comes_back_whole(index: BM25) -> None:
    (passage,) = index.search_now("Łódź", 1)
    assert (passage.id, passage.title, passage.text) == ("lodz", "Łódź", "Łódź is a city in Poland.")


def test_searching_at_once_is_the_same_as_one_by_one(index: BM25) -> None:
    queries = ["film", "Whiplash", "Arrival", "O'Brien"] * 5

    async def run() -> list[tuple[Passage, ...]]:
        return await asyncio.gather(*(index.search(query, k=2) for query in queries))

    assert asyncio.run(run()) == [index.search_now(query, 2) for query in queries]


def test_a_word_in_the_title_counts_more(tmp_path: Path) -> None:
    index_passages(
        [Passage("a", "Other", "about Arrival here"), Passage("b", "Arrival", "about other here")], tmp_path / "i"
    )
    assert found(BM25(Index(tmp_path / "i")), "Arrival") == ["b", "a"]


@pytest.mark.parametrize("count", [8, 40, 400])
def test_ties_are_broken_by_id_however_the_corpus_was_ordered(tmp_path: Path, count: int) -> None:
    passages = [Passage(f"{number:03}", "Same", "the same words") for number in range(count)]
    index_passages(passages, tmp_path / "up")
    index_passages(reversed(passages), tmp_path / "down")
    expected = ["000", "001", "002"]
    assert found(BM25(Index(tmp_path / "up")), "same words") == expected
    assert found(BM25(Index(tmp_path / "down")), "same words") == expected


_FREQUENT = tuple(
    Passage(f"p{number:03}", "", f"river {'bank ' * (number % 3)}{'heron' if number % 7 == 0 else ''} {word} {word}")
    for number, word in enumerate(["otter", "stone", "reed", "moss", "fern"] * 20)
)


@pytest.mark.parametrize(
    "query", ["river heron otter bank", "unknown words river heron and more otter", "river bank", "river"]
)
def test_frequent_words_count_where_they_do_not_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """With work spared, what is found has the score it always had, and the best are the same."""
    index_passages(_FREQUENT, tmp_path / "i")
    index = BM25(Index(tmp_path / "i"))
    everything = index.search_now(query, 100)
    monkeypatch.setattr(texts, "_MAX_SCORED", 40)
    monkeypatch.setattr(texts, "_MIN_SEARCH_WORDS", 1)
    monkeypatch.setattr(texts, "_MIN_CANDIDATES", 12)
    monkeypatch.setattr(texts, "_CANDIDATES_PER_RESULT", 2)
    spared = index.search_now(query, 5)
    assert [hit.id for hit in spared] == [hit.id for hit in everything[:5]]
    assert [hit.score for hit in spared] == pytest.approx([hit.score for hit in everything[:5]], abs=2e-4)


def test_words_that_only_ask_are_not_looked_for(tmp_path: Path) -> None:
    passages = [Passage("1", "Who", "Which who, and where did he do what?"), Passage("2", "", "A whale.")]
    index_passages(passages, tmp_path / "i")
    index = BM25(Index(tmp_path / "i"))
    assert [hit.id for hit in index.search_now("Where do which whales swim?", 5)] == ["2"]
    assert [hit.id for hit in index.search_now("Who did what?", 5)] == ["1"], "unless there is nothing else"


# Accents, filters, titles


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("english", "Re\u0301sume\u0301 of Ko\u0308ln", "résumé Köln"),
        ("english", "résumé Köln", "Re\u0301sume\u0301"),
        ("english", "Cafés", "cafe"),
        ("english", "Émile Chautard and Hélène", "Emile"),
        ("english", "Emile and Helene", "Hélène"),
        ("german", "Die Häuser", "Haus"),
        ("french", "les étoiles", "etoile"),
    ],
)
def test_accents_never_stand_in_the_way(tmp_path: Path, language: str, text: str, query: str) -> None:
    index_passages([Passage("a", "", text), Passage("b", "", "other")], tmp_path / "idx", settings=Settings(language))
    assert found(BM25(Index(tmp_path / "idx")), query) == ["a"]


@pytest.mark.parametrize(("language", "words"), [("german", "für über während"), ("french", "même étaient étions")])
def test_stop_words_with_accents_are_stop_words(tmp_path: Path, language: str, words: str) -> None:
    index_passages([Passage("a", "", f"{words} Licht")], tmp_path / "idx", settings=Settings(language))
    assert found(BM25(Index(tmp_path / "idx")), words) == []


def test_filters_look_at_metadata_documents_and_titles(tmp_path: Path) -> None:
    passages = [
        Passage("a", "One", "film", metadata=(("x", "y=z"),)),
        Passage("b", "Two", "film", metadata=(("x=y", "z"),)),
        Passage("c#1", "Two", "film", document="c", start=0, end=4),
        Passage("c#2", "Two", "film", document="c", start=5, end=9, metadata=(("x", "1"), ("x", "2"))),
    ]
    index_passages(passages, tmp_path / "idx")
    index = BM25(Index(tmp_path / "idx"))

    def kept(**where: str) -> list[str]:
        return [
            passage.id for passage in index.search_now("film", 9, {k.replace("_", "="): v for k, v in where.items()})
        ]

    assert (kept(x="y=z"), kept(x_y="z")) == (["a"], ["b"])
    assert (kept(x="1"), kept(x="2"), kept(x="3")) == (["c#2"], ["c#2"], [])
    assert (kept(document="c"), kept(document="a"), kept(document="z")) == (["c#1", "c#2"], ["a"], [])
    assert (kept(title="Two"), kept(title="two")) == (["b", "c#1", "c#2"], [])
    assert kept(title="Two", document="c", x="2") == ["c#2"]


@pytest.mark.parametrize("name", ["a.pdf", "C++ (new) [1].pdf", "größe#2.pdf", "a\\d.pdf"])
@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_a_file_in_a_filter_means_all_its_pages(tmp_path: Path, kind: str, name: str) -> None:
    pages = [
        Passage(f"{each}#page={number}#1", "One", "film", document=f"{each}#page={number}", start=0, end=4)
        for each in (name, "b.pdf", "aXpdf", f"{name}.gz")
        for number in (1, 12)
    ]
    index_passages(pages, tmp_path / "idx")
    retriever = open_retriever(tmp_path / "idx", kind)

    def kept(document: str) -> list[str]:
        return [hit.id for hit in asyncio.run(retriever.search("film", k=9, where={"document": document}))]

    assert kept(name) == [f"{name}#page=1#1", f"{name}#page=12#1"] and kept(f"{name}#page=1") == [f"{name}#page=1#1"]


@pytest.fixture(params=["now", "before"])
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Passage], Path], None]:
    """Index passages as now, or as older versions did, whose passages have no titles among their tags."""

    def index(passages: list[Passage], folder: Path) -> None:
        with monkeypatch.context() as older:
            if request.param == "before":
                older.setattr("hoptree.retrieval.index.text_writer.TITLE", "not kept")
            index_passages(passages, folder)
        assert Index(folder).texts._titles_tagged() == (request.param == "now")

    return index


def test_titles_are_tags_once_a_folder_of_an_older_version_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, folder = tmp_path / "rows.jsonl", tmp_path / "i"
    rows.write_text('{"id": "new", "title": "Paris", "text": "a city"}\n', encoding="utf-8")
    with monkeypatch.context() as older:
        older.setattr("hoptree.retrieval.index.text_writer.TITLE", "not kept")
        index_passages([Passage("old", "Paris", "a city"), Passage("town", "Town", "a city")], folder)
    add_to_index([rows], folder)  # which leaves the others as they are
    for tagged in (False, True):
        index = Index(folder)
        assert sorted(hit.id for hit in BM25(index).search_now("city", 3, {"title": "Paris"})) == ["new", "old"]
        assert index.texts._titles_tagged() == tagged
        compact_index(folder)


def test_a_title_stands_for_its_sections_too(tmp_path: Path, version: Callable[[list[Passage], Path], None]) -> None:
    titles = ["Ilse Korven", "Ilse Korven › Family", "Ilse Korven › Family › Youth", "Ilse Korvens › Family"]
    passages = [Passage(str(place), title, "film") for place, title in enumerate(titles)]
    version(passages, tmp_path / "idx")
    index = BM25(Index(tmp_path / "idx"))
    found = {title: sorted(p.id for p in index.search_now("film", 9, {"title": title})) for title in titles}
    assert found == {titles[0]: ["0", "1", "2"], titles[1]: ["1", "2"], titles[2]: ["2"], titles[3]: ["3"]}


# Large indexes: the frequent words do not find


def _spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_MAX_SCORED", 50)
    monkeypatch.setattr(texts, "_MIN_CANDIDATES", 10)


def test_rare_words_that_find_little_do_not_keep_the_others_from_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rare = [Passage(word, "", f"a {word}") for word in ("quokka", "wombat", "numbat")]
    index_passages([*rare, *(Passage(f"p{n:03}", "", "river bank water") for n in range(100))], tmp_path / "i")
    _spared(monkeypatch)
    found_now = found(BM25(Index(tmp_path / "i")), "quokka wombat numbat river bank water", 8)
    assert sorted(found_now[:3]) == ["numbat", "quokka", "wombat"] and len(found_now) == 8
    remove_from_index(tmp_path / "i", ids=["quokka", "wombat", "numbat"])
    assert len(found(BM25(Index(tmp_path / "i")), "quokka wombat numbat river", 8)) == 8


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("Where is John Doe?", "doe"),
        ("songs by The Who", "who"),
        ("who wrote about a doe", "doe"),
        ("does the band The Who tour", "who"),
    ],
)
def test_names_that_look_like_question_words_are_looked_for(tmp_path: Path, query: str, first: str) -> None:
    passages = [
        Passage("doe", "John Doe", "A doe and a man."),
        Passage("smith", "John Smith", "John wrote, where he was, songs by the dozen."),
        Passage("who", "The Who", "A band."),
        Passage("band", "Band", "The tour of a band and its songs."),
    ]
    index_passages(passages, tmp_path / "i")
    assert found(BM25(Index(tmp_path / "i")), query)[0] == first


def test_a_title_is_found_however_many_others_fit_the_words_better(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Callable[[list[Passage], Path], None]
) -> None:
    monkeypatch.setattr(texts, "_TITLE_CANDIDATES", (5, 40, 320))
    towns = [Passage(f"t{n}", f"Town {n}", "city city city") for n in range(30)]
    version([*towns, Passage("paris", "Paris", "a city " + "of many words " * 30)], tmp_path / "i")
    index = BM25(Index(tmp_path / "i"))
    assert [hit.id for hit in index.search_now("city", 3, {"title": "Paris"})] == ["paris"]


@pytest.mark.parametrize("title", ["Born American", "It"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_title_is_found_though_many_others_have_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: Callable[[list[Passage], Path], None], title: str, k: int
) -> None:
    """Or though all its words are stop words, and narrow nothing."""
    monkeypatch.setattr(texts, "_TITLE_CANDIDATES", (5, 40, 320))
    others = [Passage(f"t{n:03}", f"Town {n}", "An American was born, and it has a city city.") for n in range(200)]
    wanted = [Passage(f"w{n}", title, "Words of a city " + "with many words " * 30) for n in range(2)]
    version([*others, *wanted], tmp_path / "i")
    found_now = BM25(Index(tmp_path / "i")).search_now("city", k, {"title": title})
    assert [hit.id for hit in found_now] == ["w0", "w1"][:k]


@pytest.mark.parametrize("asked", ["NFC", "NFD"])
@pytest.mark.parametrize("written", ["NFC", "NFD"])
@pytest.mark.parametrize("kind", ["bm25", "linked"])
def test_filters_do_not_see_how_accents_are_written(
    tmp_path: Path, kind: str, written: Literal["NFC", "NFD"], asked: Literal["NFC", "NFD"]
) -> None:
    name = normalize(written, "Café")
    passages = [
        Passage("1", name, "film", document=name, start=0, end=4, metadata=((name, name),)),
        Passage(name, "Other", "film"),
        Passage("2", "Cafe", "film", metadata=(("Cafe", "Cafe"),)),
    ]
    index_passages(passages, tmp_path / "idx")
    retriever = open_retriever(tmp_path / "idx", kind)
    value = normalize(asked, "Café")
    for where, expected in (({"title": value}, ["1"]), ({value: value}, ["1"]), ({"document": value}, ["1", name])):
        assert [hit.id for hit in asyncio.run(retriever.search("film", k=5, where=where))] == expected


def test_what_is_written_in_parts_is_found_by_what_is_written_as_one(tmp_path: Path) -> None:
    index_passages([Passage("a", "", "がくせい"), Passage("b", "", "other")], tmp_path / "i")
    assert found(BM25(Index(tmp_path / "i")), "か\u3099くせい") == ["a"]


def test_a_search_is_remembered_until_damage_is_found(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "i")
    index = Index(tmp_path / "i")
    retriever = BM25(index)
    first = asyncio.run(retriever.search("film", k=2))
    assert asyncio.run(retriever.search("film", k=2)) is first
    assert asyncio.run(retriever.search("film", k=1)) == first[:1]
    index._damage.append(CorpusError("It is damaged.", "Build it again."))
    with pytest.raises(CorpusError):
        asyncio.run(retriever.search("film", k=2))
