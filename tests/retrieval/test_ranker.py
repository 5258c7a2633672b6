"""The trained ranker: what it ranks, what its file may be, and when it is used."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.retrieval.linked_films import QUESTION, films

from hoptree.core.errors import ConfigError, MissingModel
from hoptree.core.files import WEIGHTS_FORMAT, WEIGHTS_MANIFEST, TrainedWeights
from hoptree.core.values import CONTENTS, Passage
from hoptree.retrieval import ranker, retriever
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import index_passages
from hoptree.retrieval.rank_features import AFTER, ALONE, CHAINED, SENTENCE
from hoptree.retrieval.ranker import FORMAT, CandidateFinder, Ranked, Trees, read_ranker
from hoptree.retrieval.retriever import open_retriever

HEARD = "hoptree.retrieval"


def stumps(names: tuple[str, ...], **worth: float) -> dict[str, Any]:
    """Trees of one level: each feature above 0 is worth so much."""
    features = [[names.index(name)] for name in worth]
    return Trees(
        np.array(features), np.zeros((len(worth), 1)), np.array([[0.0, value] for value in worth.values()])
    ).as_dict(names)


def weights(**chained: float) -> dict[str, Any]:
    parts = {"alone": stumps(ALONE, score=1.0), "sentence": stumps(SENTENCE, names_other=2.0, relation=1.0)}
    return {"format": FORMAT, "chained": stumps(CHAINED, **chained), **parts}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], Path]:
    def write(content: Any) -> Path:
        path = tmp_path / "ranker.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("ranked") / "idx"
    index_passages(films(), out)
    return out


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Return what puts a file of weights where the package would have it."""

    def install(content: str) -> Path:
        package = tmp_path / "package"
        package.mkdir()
        path = package / ranker.FILE
        path.write_text(content, encoding="utf-8")
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        found = TrainedWeights(package, {ranker.FILE: digest}, {})
        monkeypatch.setattr(ranker, "find_weights", lambda: found)
        monkeypatch.setattr(ranker, "installed_ranker", ranker.read_installed)
        return path

    return install


def ids(retriever: Any, k: int = 5, **how: Any) -> list[str]:
    return [passage.id for passage in asyncio.run(retriever.search(QUESTION, k=k, **how))]


def test_trees_add_the_leaf_that_a_row_comes_to() -> None:
    trees = Trees(
        np.array([[0, 1], [1, 1]]), np.array([[0.5, 2.0], [1.0, 3.0]]), np.array([[1.0, 2, 3, 4], [10, 20, 30, 40]])
    )
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 2.5], [1.0, 9.0]])
    assert trees.score(rows).tolist() == [11.0, 12.0, 23.0, 44.0]


def test_features_say_that_a_passage_is_led_to(folder: Path) -> None:
    linked, features = CandidateFinder(Index(folder)).find(QUESTION, 5)
    assert features is not None and {"kite", "ada"} <= {passage.id for passage in linked}
    places = {passage.id: place for place, passage in enumerate(features.candidates)}
    alone = features.alone()
    assert alone.shape == (len(places), len(ALONE))
    assert (
        alone[places["ada"], ALONE.index("mentioned")] >= 1 and alone[places["kite"], ALONE.index("title_asked")] == 1
    )
    after = features.after(np.array([places["kite"]]))[0]
    assert after.shape == (len(places), len(AFTER))
    assert after[places["ada"], AFTER.index("to")] == 1 and after[places["x0"], AFTER.index("to")] == 0
    assert after[places["x0"], AFTER.index("new")] > 0  # "born" stands there, and not on the page of the film
    chained = features.chained(alone, alone[:, 0])
    assert chained.shape == (len(places), len(CHAINED)) and np.isfinite(chained).all()


def test_passages_are_ranked_by_the_trees(folder: Path, written: Callable[[Any], Path]) -> None:
    read = read_ranker(written(weights(mentioned=1.0, title_asked=2.0)))
    retriever = Ranked(Index(folder), read)
    found = asyncio.run(retriever.search(QUESTION, k=5))
    assert [passage.id for passage in found[:2]] == ["kite", "ada"]
    assert [passage.score for passage in found[:2]] == [2.0, 1.0]
    assert dict(found[0].stages)["ranked"] == 2.0 and "rank" not in dict(found[0].stages)
    assert found == asyncio.run(retriever.search(QUESTION, k=5))
    assert read.digest in retriever.identity


def test_sentences_are_scored_by_what_they_say_and_whom_they_name(folder: Path, written: Callable[[Any], Path]) -> None:
    retriever = Ranked(Index(folder), read_ranker(written(weights(mentioned=1.0))))
    kite = Passage("kite", "Red Kite", "It rained. Red Kite is a film by Ada Moor. Its director was born late. Ends.")
    long = Passage("long", "Long", "Nothing. " * 30)
    scores = retriever.sentence_scores(QUESTION, [kite, Passage("ada", "Ada Moor", "She lived."), long])
    assert scores[:2] == [[0.0, 3.0, 1.0, 0.0], [0.0]] and scores[2] == [0.0] * 30
    assert retriever.sentence_scores(QUESTION, []) == []
    assert retriever.sentence_scores(QUESTION, [Passage("none", "", "")]) == [[]]


def test_a_chinese_question_is_not_ranked_by_features_of_words(tmp_path: Path, written: Callable[[Any], Path]) -> None:
    pages = [
        Passage("temple", "寺庙", "灵隐寺位于杭州，由印度僧人慧理创建。慧理来自西印度。"),
        Passage("group", "创建", "创建一个新组。"),
    ]
    index_passages(pages, tmp_path / "idx")
    retriever = Ranked(Index(tmp_path / "idx"), read_ranker(written(weights(least_new=-1.0, any_left=1.0))))
    found = asyncio.run(retriever.search("灵隐寺由谁创建？", k=2))
    assert [passage.id for passage in found] == ["temple", "group"]
    assert "ranked" not in dict(found[0].stages)
    assert retriever.sentence_scores("灵隐寺由谁创建？", pages) == [[0.0, 0.0], [0.0]], "none is cut"


def test_a_list_of_contents_ranks_behind_text(tmp_path: Path, written: Callable[[Any], Path]) -> None:
    text = "Copper glazes are green in an oven with air, and red in one without."
    marked = Passage("list", "Copper glazes", "Copper glazes Tin glazes", metadata=(CONTENTS,))
    index_passages([Passage("text", "Colours", text), marked], tmp_path / "idx")
    read = read_ranker(written(weights(title_asked=1.5)))  # which only the list has
    hits = asyncio.run(Ranked(Index(tmp_path / "idx"), read).search("How do Copper glazes look?", k=2))
    assert [hit.id for hit in hits] == ["text", "list"] and hits[0].score > hits[1].score


def test_copies_in_other_files_take_one_place(tmp_path: Path, written: Callable[[Any], Path]) -> None:
    text = "Copper glazes are green in an oven with air, and red in one without."
    pages = [Passage(f"{name}#1", "Colours", text, 0.0, name) for name in ("a.html", "a.pdf#page=2", "a.txt")]
    index_passages([*pages, Passage("b.txt#1", "Tin", "Tin glazes are white.", 0.0, "b.txt")], tmp_path / "idx")
    retriever = Ranked(Index(tmp_path / "idx"), read_ranker(written(weights(mentioned=1.0))))
    found = asyncio.run(retriever.search("How do glazes look?", k=2))
    assert {passage.title for passage in found} == {"Colours", "Tin"}


def test_more_are_found_than_are_ranked(folder: Path, written: Callable[[Any], Path], monkeypatch: Any) -> None:
    monkeypatch.setattr(ranker, "_FIRST", 3)
    monkeypatch.setattr(ranker, "_CANDIDATES", 3)
    retriever = Ranked(Index(folder), read_ranker(written(weights(title_asked=1.0))))
    found = asyncio.run(retriever.search(QUESTION, k=9))
    scores = [passage.score for passage in found]
    assert len({passage.id for passage in found}) == 9 and scores == sorted(scores, reverse=True)
    assert ids(retriever, 0) == []


def test_filters_hold_for_all_that_is_ranked(folder: Path, written: Callable[[Any], Path]) -> None:
    retriever = Ranked(Index(folder), read_ranker(written(weights(mentioned=1.0))))
    found = asyncio.run(retriever.search(QUESTION, k=40, where={"lang": "de"}))
    assert found and all(("lang", "de") in passage.metadata for passage in found)
    assert ids(retriever, where={"lang": "none"}) == []


def test_a_search_leaves_the_event_loop_free(folder: Path, written: Callable[[Any], Path], monkeypatch: Any) -> None:
    retriever = Ranked(Index(folder), read_ranker(written(weights(mentioned=1.0))))
    threads: list[int] = []

    def search(*_: Any) -> tuple[()]:
        threads.append(threading.get_ident())
        return ()

    monkeypatch.setattr(retriever, "search_now", search)
    ids(retriever)
    assert threads and threads[0] != threading.get_ident()


def test_queries_without_words_and_long_ones(folder: Path, written: Callable[[Any], Path]) -> None:
    retriever = Ranked(Index(folder), read_ranker(written(weights(mentioned=1.0))))
    for query in ("", "?", "the", "Red", "kite " * 500, "Zürich \ud800 \x00"):
        asyncio.run(retriever.search(query, k=3))


def broken(change: Callable[[dict[str, Any]], None]) -> str:
    data = weights(mentioned=1.0)
    change(data)
    return json.dumps(data)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "GGUF",
        "[]",
        '{"format": "another"}',
        "[" * 100_000,
        json.dumps(weights(mentioned=1.0))[:-30],
        broken(lambda data: data.pop("chained")),
        broken(lambda data: data["alone"]["names"].pop()),
        broken(lambda data: data["alone"].update(features=[[99]])),
        broken(lambda data: data["alone"].update(features=[[-1]])),
        broken(lambda data: data["chained"].update(features=[])),
        broken(lambda data: data["chained"].update(leaves=[[1.0]])),
        broken(lambda data: data["chained"].update(leaves=[[1.0, float("nan")]])),
        broken(lambda data: data["chained"].update(thresholds="x")),
        broken(lambda data: data["chained"].update(thresholds=[[0.0], [0.0, 1.0]])),
    ],
)
def test_a_file_that_is_no_ranker_is_refused_in_one_sentence(content: str, written: Callable[[Any], Path]) -> None:
    with pytest.raises(ConfigError) as caught:
        read_ranker(written(content))
    assert "holds no ranker" in caught.value.cause and "--retriever linked" in caught.value.remedy


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.json cannot be read"):
        read_ranker(tmp_path / "none.json")


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank indexes as small as the one of these tests by default."""
    monkeypatch.setattr("hoptree.retrieval.retriever._MIN_RANKED", 1)


def test_auto_does_not_rank_a_small_index(folder: Path, installed: Callable[[str], Path]) -> None:
    installed(json.dumps(weights(mentioned=1.0)))
    assert open_retriever(folder).kind == "linked"


@pytest.mark.usefixtures("any_size")
def test_auto_ranks_where_weights_are_installed(folder: Path, installed: Callable[[str], Path], tmp_path: Path) -> None:
    assert open_retriever(folder).kind == "linked"
    with pytest.raises(MissingModel, match="hoptree-weights"):
        open_retriever(folder, "ranked")
    path = installed(json.dumps(weights(mentioned=1.0)))
    assert open_retriever(folder).kind == "ranked"
    assert read_ranker(path).digest in open_retriever(folder, "ranked").identity
    from hoptree.retrieval.index.folder import Settings

    index_passages(films(2), tmp_path / "bare", settings=Settings(links=False))
    assert open_retriever(tmp_path / "bare").kind == "bm25"


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("how", ["foreign", "changed"])
def test_damaged_weights_are_named_and_search_goes_on_without(
    folder: Path, installed: Callable[[str], Path], caplog: pytest.LogCaptureFixture, how: str
) -> None:
    path = installed("{}")
    if how == "changed":
        path.write_text("{} ", encoding="utf-8")
    with caplog.at_level("WARNING", HEARD):
        retriever = open_retriever(folder)
    assert retriever.kind == "linked" and "kite" in ids(retriever)
    (record,) = caplog.records
    assert "pip install --force-reinstall hoptree-weights" in record.getMessage()
    with pytest.raises(ConfigError, match="search with --retriever linked"):
        open_retriever(folder, "ranked")


def test_the_ranker_of_an_index_goes_before_the_installed_one(
    folder: Path, installed: Callable[[str], Path], tmp_path: Path
) -> None:
    installed(json.dumps(weights(mentioned=1.0)))
    index = tmp_path / "own.idx"
    shutil.copytree(folder, index)
    (index / ranker.FILE).write_text(json.dumps(weights(mentioned=2.0)), encoding="utf-8")
    own = read_ranker(index / ranker.FILE).digest
    assert own in open_retriever(index, "ranked").identity and own not in open_retriever(folder, "ranked").identity


def test_a_package_without_a_ranker_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ranker, "find_weights", lambda: TrainedWeights(tmp_path, {}, {}))
    assert ranker.read_installed() is None
    monkeypatch.setattr(ranker, "find_weights", lambda: None)
    assert ranker.read_installed() is None


def test_the_packaged_ranker_is_one_of_ours() -> None:
    package = Path(__file__).parents[2] / "weights" / "src" / "hoptree_weights"
    manifest = json.loads((package / WEIGHTS_MANIFEST).read_text(encoding="utf-8"))
    assert manifest["format"] == WEIGHTS_FORMAT
    path = package / ranker.FILE
    assert path.stat().st_size <= 2_000_000
    assert hashlib.sha256(path.read_bytes()).hexdigest() == manifest["files"][ranker.FILE]["sha256"]
    assert len(read_ranker(path).chained.leaves) > 100


def test_every_kind_is_explained() -> None:
    assert set(retriever.KINDS) >= {"ranked", "linked", "bm25"}
