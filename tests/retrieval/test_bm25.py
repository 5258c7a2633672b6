"""The BM25 index: what is found, in which order, and what is said of an index that is damaged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal
from unicodedata import normalize

import pytest
from tests.small_indexes import put_in_place

from hoptree.errors import CorpusError, InputError
from hoptree.indexing import index_passages, remove_from_index
from hoptree.retrieval.bm25 import BM25
from hoptree.retrieval.index import texts
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.index.manifest import MANIFEST, Settings
from hoptree.retrieval.opening import open_retriever
from hoptree.values import Passage

PASSAGES = [
    Passage("whiplash", "Whiplash", "Whiplash is a film of 2014 directed by Damien Chazelle."),
    Passage("arrival", "Arrival", "Arrival is a film of 2016 directed by Denis Villeneuve."),
    Passage("obrien", "Flann O'Brien", "Flann O'Brien wrote At Swim-Two-Birds."),
    Passage("lodz", "Łódź", "Łódź is a city in Poland."),
    Passage("tokyo", "東京", "東京 は日本の首都です。"),
    Passage("moscow", "Москва", "Москва — столица России."),
]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> BM25:
    folder = tmp_path_factory.mktemp("bm25") / "index"
    index_passages(PASSAGES, folder)
    return BM25(Index(folder))


def found(index: BM25, query: str, k: int = 3) -> list[str]:
    return [passage.id for passage in index.search_now(query, k)]


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
    monkeypatch.setattr(texts, "_SCORED", 40)
    monkeypatch.setattr(texts, "_FEWEST_SOUGHT", 1)
    monkeypatch.setattr(texts, "_CANDIDATES", 12)
    monkeypatch.setattr(texts, "_RESERVE", 2)
    spared = index.search_now(query, 5)
    assert [hit.id for hit in spared] == [hit.id for hit in everything[:5]]
    assert [hit.score for hit in spared] == pytest.approx([hit.score for hit in everything[:5]], abs=2e-4)


def test_words_that_only_ask_are_not_looked_for(tmp_path: Path) -> None:
    passages = [Passage("1", "Who", "Which who, and where did he do what?"), Passage("2", "", "A whale.")]
    index_passages(passages, tmp_path / "i")
    index = BM25(Index(tmp_path / "i"))
    assert [hit.id for hit in index.search_now("Where do which whales swim?", 5)] == ["2"]
    assert [hit.id for hit in index.search_now("Who did what?", 5)] == ["1"], "unless there is nothing else"


# Building


def test_the_manifest_says_what_is_in_the_index(tmp_path: Path) -> None:
    manifest = index_passages(PASSAGES, tmp_path / "index")
    assert (manifest.passages, manifest.settings, manifest.sources) == (len(PASSAGES), Settings(), ())
    assert manifest.bytes > 1_000
    assert Index(tmp_path / "index").manifest == manifest


def test_the_digest_is_that_of_the_passages(tmp_path: Path) -> None:
    first = index_passages(PASSAGES, tmp_path / "a").digest
    assert index_passages(PASSAGES, tmp_path / "b").digest == first
    assert index_passages(PASSAGES[:-1], tmp_path / "c").digest != first


def test_two_passages_with_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="Two passages have the id 'arrival'"):
        index_passages([*PASSAGES, replace(PASSAGES[1], text="Another text.")], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_the_same_passage_twice_is_kept_once(tmp_path: Path) -> None:
    assert index_passages([*PASSAGES, PASSAGES[1]], tmp_path / "index").passages == len(PASSAGES)
    assert found(BM25(Index(tmp_path / "index")), "Arrival") == ["arrival"]


def test_an_empty_corpus_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="empty"):
        index_passages([], tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_passage_with_half_a_character_is_indexed_or_refused(tmp_path: Path) -> None:
    try:
        index_passages([*PASSAGES, Passage("odd", "T", "half \ud83d a character")], tmp_path / "index")
    except CorpusError:
        return
    assert found(BM25(Index(tmp_path / "index")), "character") == ["odd"]


def test_a_language_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="klingon"):
        index_passages(PASSAGES, tmp_path / "index", settings=Settings(language="klingon"))


def test_another_language_is_stemmed_its_own_way(tmp_path: Path) -> None:
    index_passages([Passage("a", "", "Die Häuser der Stadt")], tmp_path / "index", settings=Settings(language="german"))
    assert found(BM25(Index(tmp_path / "index")), "die der") == []
    assert found(BM25(Index(tmp_path / "index")), "Städte") == ["a"]


def test_a_new_index_takes_the_place_of_the_old(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    index_passages(PASSAGES[:1], tmp_path / "index")
    assert Index(tmp_path / "index").manifest.passages == 1
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def broken_off() -> Iterator[Passage]:
    yield PASSAGES[0]
    raise CorpusError("Line 2 is no passage.")


def test_a_build_that_fails_leaves_the_old_index(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    with pytest.raises(CorpusError, match="Line 2"):
        index_passages(broken_off(), tmp_path / "index")
    assert found(BM25(Index(tmp_path / "index")), "Arrival")[0] == "arrival"
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_a_new_index_that_cannot_be_put_in_place_leaves_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    move = Path.rename

    def refuse(path: Path, target: Path) -> Path:
        if path.suffix == ".part":
            raise PermissionError(13, "Permission denied")
        return move(path, target)

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(CorpusError, match="cannot be written"):
        index_passages(PASSAGES[:1], tmp_path / "index")
    assert Index(tmp_path / "index").manifest.passages == len(PASSAGES)


def test_an_open_index_goes_on_while_it_is_replaced(tmp_path: Path) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    old = BM25(Index(tmp_path / "index"))
    index_passages(PASSAGES[:1], tmp_path / "index")
    assert found(old, "Arrival")[0] == "arrival"


def test_a_folder_of_something_else_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_text("x")
    with pytest.raises(CorpusError, match="exists and is no index"):
        index_passages(PASSAGES, tmp_path / "photos")
    assert (tmp_path / "photos" / "one.jpg").exists()


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("x")
    with pytest.raises(CorpusError):
        index_passages(PASSAGES, tmp_path / "notes")
    assert (tmp_path / "notes").read_text() == "x"


def test_an_empty_folder_may_become_an_index(tmp_path: Path) -> None:
    (tmp_path / "index").mkdir()
    assert index_passages(PASSAGES, tmp_path / "index").passages == len(PASSAGES)


# Damage


def test_what_is_no_index_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="is no index") as caught:
        BM25(Index(tmp_path))
    assert "hoptree index" in caught.value.remedy
    with pytest.raises(CorpusError, match="There is no index"):
        BM25(Index(tmp_path / "none"))


@pytest.mark.parametrize("text", ["", "garbage", "[]", "{}", "3", '{"format": 1}', "[" * 5000])
def test_a_damaged_manifest_is_a_corpus_error(tmp_path: Path, text: str) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    (tmp_path / "index" / MANIFEST).write_text(text)
    with pytest.raises(CorpusError):
        BM25(Index(tmp_path / "index"))


@pytest.mark.parametrize(("name", "value"), [("format", 99), ("passages", 7), ("settings", {"language": "klingon"})])
def test_a_manifest_that_does_not_fit_is_a_corpus_error(tmp_path: Path, name: str, value: object) -> None:
    index_passages(PASSAGES, tmp_path / "index")
    path = tmp_path / "index" / MANIFEST
    path.write_text(json.dumps({**json.loads(path.read_text()), name: value}))
    with pytest.raises(InputError):
        BM25(Index(tmp_path / "index"))


@pytest.mark.parametrize("suffix", [".json", ".fieldnorm", ".idx", ".store", ".term"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "garbled"])
def test_a_damaged_index_is_a_corpus_error_when_opened_or_searched(tmp_path: Path, suffix: str, damage: str) -> None:
    folder = tmp_path / "index"
    index_passages(PASSAGES, folder)
    paths = [path for path in (folder / "000001" / "text").iterdir() if path.suffix == suffix and path.name[0] != "."]
    assert paths
    for path in paths:
        whole = path.read_bytes()
        if damage == "missing":
            path.unlink()
        elif damage == "garbled":
            put_in_place(path, bytes(255 - byte for byte in whole))
        else:
            put_in_place(path, b"" if damage == "empty" else whole[: len(whole) // 2])
    with pytest.raises(CorpusError):
        BM25(Index(folder)).search_now("film directed by Denis Villeneuve", 3)


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    for name in ("index.new", "index.old"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "thesis.txt").write_text("mine", encoding="utf-8")
    index_passages(PASSAGES, tmp_path / "index")
    index_passages(PASSAGES, tmp_path / "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["index", "index.new", "index.old"]
    assert (tmp_path / "index.old" / "thesis.txt").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("english", "Re\u0301sume\u0301 of Ko\u0308ln", "résumé Köln"),
        ("english", "résumé Köln", "Re\u0301sume\u0301"),
        ("english", "Cafés", "cafe"),
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


def test_a_title_stands_for_its_sections_too(tmp_path: Path) -> None:
    titles = ["Ilse Korven", "Ilse Korven › Family", "Ilse Korven › Family › Youth", "Ilse Korvens › Family"]
    passages = [Passage(str(place), title, "film") for place, title in enumerate(titles)]
    index_passages(passages, tmp_path / "idx")
    index = BM25(Index(tmp_path / "idx"))
    found = {title: sorted(p.id for p in index.search_now("film", 9, {"title": title})) for title in titles}
    assert found == {titles[0]: ["0", "1", "2"], titles[1]: ["1", "2"], titles[2]: ["2"], titles[3]: ["3"]}


# Large indexes: the frequent words do not find


def _spared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(texts, "_SCORED", 50)
    monkeypatch.setattr(texts, "_CANDIDATES", 10)


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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(texts, "_TITLED", (5, 40, 320))
    towns = [Passage(f"t{n}", f"Town {n}", "city city city") for n in range(30)]
    index_passages([*towns, Passage("paris", "Paris", "a city " + "of many words " * 30)], tmp_path / "i")
    index = BM25(Index(tmp_path / "i"))
    assert [hit.id for hit in index.search_now("city", 3, {"title": "Paris"})] == ["paris"]


@pytest.mark.parametrize("title", ["Born American", "It"])
@pytest.mark.parametrize("k", [1, 3])
def test_a_title_is_found_though_many_others_have_its_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, title: str, k: int
) -> None:
    """Or though all its words are stop words, and narrow nothing."""
    monkeypatch.setattr(texts, "_TITLED", (5, 40, 320))
    others = [Passage(f"t{n:03}", f"Town {n}", "An American was born, and it has a city city.") for n in range(200)]
    wanted = [Passage(f"w{n}", title, "Words of a city " + "with many words " * 30) for n in range(2)]
    index_passages([*others, *wanted], tmp_path / "i")
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
