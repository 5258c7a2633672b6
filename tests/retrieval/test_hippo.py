"""An index with facts: what is found through them, how they grow, and what becomes of those that no longer fit."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.retrieval.small_models import save_static
from tests.small_indexes import hoptree

from hoptree.core.errors import CorpusError, MissingExtra
from hoptree.core.values import Fact, Passage
from hoptree.engine.engine import Engine
from hoptree.models.scripted import ScriptedModel
from hoptree.retrieval import hippo_retriever as nearest
from hoptree.retrieval import hippo_store as taking_in
from hoptree.retrieval.encoder import open_encoder
from hoptree.retrieval.hippo_store import FILE, FOLDER, FactStore
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import (
    add_facts,
    add_to_index,
    build_index,
    compact_index,
    index_passages,
    remove_from_index,
    update_index,
)
from hoptree.retrieval.retriever import FactGuided, NameGuided, Retriever, open_retriever

pytest.importorskip("rustworkx")

PAGES = [
    Passage("film", "Grey Harbour", "Grey Harbour is a film of 1958. Its director was Arne Holt."),
    Passage("man", "A. Holt", "Arne Holt learned his trade at sea. He is a son of Ilse Korven."),
    Passage("woman", "Korven", "Ilse Korven was a painter from Bergen.", metadata=(("lang", "en"),)),
    Passage("port", "Harbours", "A harbour is where ships are kept from the sea."),
    Passage("other", "Grey", "Grey is a colour."),
]
FACTS = [
    ("Grey Harbour", "director", "Arne Holt", "film"),
    ("Arne Holt", "son of", "Ilse Korven", "man"),
    ("Ilse Korven", "occupation", "painter", "woman"),
    ("quay", "keeps", "ships", "port"),
]
ASKED = "Who was the director of Grey Harbour?"


def write(path: Path, facts: Sequence[tuple[str, str, str, str]] = FACTS) -> Path:
    rows = [{"s": s, "p": p, "o": o, "src": [src], "sentence": "…"} for s, p, o, src in facts]
    path.mkdir(exist_ok=True)
    (path / "facts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def index(tmp_path: Path) -> Path:
    index_passages(PAGES, tmp_path / "idx")
    return tmp_path / "idx"


@pytest.fixture
def known(index: Path, tmp_path: Path) -> Path:
    add_facts(write(tmp_path / "facts"), index)
    return index


def found(folder: Path, query: str = ASKED, k: int = 5, **how: Any) -> list[str]:
    return [passage.id for passage in searched(open_retriever(folder, "hippo"), query, k, **how)]


def searched(retriever: Retriever, query: str, k: int = 5, **how: Any) -> tuple[Passage, ...]:
    return asyncio.run(retriever.search(query, k=k, **how))


def near(folder: Path, query: str, k: int = 5) -> list[str]:
    retriever = open_retriever(folder, "hippo")
    assert isinstance(retriever, FactGuided)
    return [fact.relation for fact in asyncio.run(retriever.facts_near(query, k=k))]


def test_facts_lead_to_passages_that_share_no_word_with_the_query(known: Path) -> None:
    assert found(known)[:2] == ["film", "man"]
    assert "woman" in found(known) and "woman" not in [p.id for p in searched(open_retriever(known, "bm25"), ASKED)]
    first = searched(open_retriever(known, "hippo"), ASKED)[0]
    assert [name for name, _ in first.stages] == ["bm25", "hippo"] and first.score == first.stages[-1][1]
    scores = [passage.score for passage in searched(open_retriever(known, "hippo"), ASKED)]
    assert scores == sorted(scores, reverse=True) and all(scores)


def test_so_many_as_asked_for_and_those_that_fit(known: Path) -> None:
    assert (found(known, k=0), found(known, k=1)) == ([], ["film"])
    assert found(known, where={"lang": "en"}) == ["woman"]
    for page in ("film", "other", "port"):
        assert found(known, "Grey Harbour", where={"document": page}) == [page]


def test_a_query_that_no_fact_is_near_to_is_ranked_by_the_texts(known: Path) -> None:
    assert near(known, "colour") == []
    (passage,) = searched(open_retriever(known, "hippo"), "colour")
    assert (passage.id, [name for name, _ in passage.stages]) == ("other", ["bm25"])
    assert found(known, "xyzzy") == []


def test_a_search_goes_out_from_the_facts_it_is_given(known: Path) -> None:
    retriever = open_retriever(known, "hippo")
    assert isinstance(retriever, FactGuided) and retriever.signals == {"facts", "names"}
    chosen = retriever.guided([Fact("quay", "keeps", "ships", 0.7)])
    assert searched(chosen, ASKED)[0].id == "port"
    none = retriever.guided([])
    assert [p.id for p in searched(none, ASKED)] == [p.id for p in searched(open_retriever(known, "bm25"), ASKED)]
    assert len({retriever.identity, chosen.identity, none.identity}) == 3
    strange = retriever.guided([Fact("nobody", "is", "nothing", 1.0)])
    assert [p.id for p in searched(strange, ASKED)] == [p.id for p in searched(none, ASKED)]


PROFESSORS = [
    Passage("sudhof", "Südhof", "Thomas Südhof teaches at Stanford. Thomas Südhof studies Alzheimer's disease."),
    Passage("other", "Stanford", "Rob teaches at Stanford. Rob studies rivers."),
    Passage("third", "Alzheimer's", "Mary studies Alzheimer's disease in Leeds."),
]
TAUGHT = (
    ("Thomas Südhof", "teaches at", "Stanford", "sudhof"),
    ("Thomas Südhof", "studies", "Alzheimer's disease", "sudhof"),
    ("Rob", "teaches at", "Stanford", "other"),
    ("Rob", "studies", "rivers", "other"),
    ("Mary", "studies", "Alzheimer's disease", "third"),
    ("Mary", "lives in", "Leeds", "third"),
)


def test_names_lead_to_who_has_to_do_with_all_of_them(tmp_path: Path) -> None:
    """Gutiérrez et al. 2024, Figure 1: which professor of Stanford works on Alzheimer's disease?"""
    index_passages(PROFESSORS, tmp_path / "idx")
    add_facts(write(tmp_path / "facts", TAUGHT), tmp_path / "idx")
    retriever = open_retriever(tmp_path / "idx", "hippo")
    assert isinstance(retriever, NameGuided)
    both = retriever.named(["Stanford", "Alzheimer's"])
    first, *others = searched(both, "Which professor?")
    assert first.id == "sudhof" and {passage.id for passage in others} == {"other", "third"}
    assert [name for name, _ in first.stages] == ["hippo"] and first.score > others[0].score > 0
    assert searched(retriever.named(["rivers"]), "x")[0].id == "other"
    texts = [passage.id for passage in searched(open_retriever(tmp_path / "idx", "bm25"), "disease")]
    assert [p.id for p in searched(retriever.named([]), "disease")] == texts, "without a name, the first ranking"
    assert [p.id for p in searched(retriever.named(["xyzzy"]), "disease")] == texts
    assert searched(both, "x", k=0) == () and [p.id for p in searched(both, "x", where={"document": "third"})] == [
        "third"
    ]
    assert len({retriever.identity, both.identity, retriever.named(["Stanford"]).identity}) == 3


def test_many_searches_at_once_find_what_one_finds(known: Path) -> None:
    retriever = open_retriever(known, "hippo")

    async def all_at_once() -> list[tuple[Passage, ...]]:
        return await asyncio.gather(*(retriever.search(ASKED, k=5) for _ in range(20)))

    assert set(asyncio.run(all_at_once())) == {searched(retriever, ASKED)}


def test_an_index_without_facts_says_what_to_do(index: Path) -> None:
    with pytest.raises(CorpusError, match="hoptree index facts"):
        open_retriever(index, "hippo")


@pytest.mark.parametrize("method", ["hipporag", "hipporag_ircot"])
def test_methods_that_go_out_from_facts_search_by_them_unless_told_otherwise(
    known: Path, tmp_path: Path, method: str
) -> None:
    def kind(method: str, folder: Path, **how: Any) -> str:
        engine = Engine(method=method, model=ScriptedModel(rules=[]), corpus=folder, cache=None, **how)
        assert engine.retriever is not None
        return engine.retriever.kind

    index_passages(PAGES, tmp_path / "bare")
    assert kind(method, known) == "hippo"
    assert kind(method, known, retriever="linked") == "linked"
    assert kind(method, tmp_path / "bare") == kind("oner", known) == "linked"


# Growing


def test_facts_that_come_later_count_with_those_before(index: Path, tmp_path: Path) -> None:
    first = add_facts(write(tmp_path / "a", FACTS[:1]), index)
    assert (first.facts, first.new, first.gone, first.passages, first.phrases) == (1, 1, 0, 1, 2)
    before = open_retriever(index, "hippo").identity
    assert "woman" not in found(index)
    later = add_facts(write(tmp_path / "b", FACTS[1:]), index)
    assert (later.facts, later.new, later.gone, later.passages) == (4, 3, 0, 4)
    assert found(index)[:2] == ["film", "man"] and "woman" in found(index)
    assert open_retriever(index, "hippo").identity != before
    whole = tmp_path / "whole.idx"
    index_passages(PAGES, whole)
    add_facts(write(tmp_path / "all"), whole)
    at_once, grown = (searched(open_retriever(folder, "hippo"), ASKED) for folder in (whole, index))
    assert at_once == grown


def test_the_facts_of_a_passage_take_the_place_of_those_it_had(known: Path, tmp_path: Path) -> None:
    taken = add_facts(write(tmp_path / "new", [("Arne Holt", "born in", "Bergen", "man")]), known)
    assert (taken.facts, taken.new, taken.gone) == (4, 1, 1)
    assert near(known, "son of Arne Holt") != [] and "son of" not in near(known, "son of Arne Holt")


def test_facts_of_a_passage_that_changed_or_is_gone_do_not_count(tmp_path: Path) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    for page in PAGES:
        (docs / f"{page.id}.jsonl").write_text(json.dumps({"id": page.id, "title": page.title, "text": page.text}))
    index = tmp_path / "idx"
    build_index(docs, index)
    add_facts(write(tmp_path / "facts"), index)
    (docs / "man.jsonl").write_text(
        json.dumps({"id": "man", "title": "A. Holt", "text": "Arne Holt was a sailor only."})
    )
    update_index(index)
    assert "son of" not in near(index, "Arne Holt son of Ilse Korven", k=10)
    remove_from_index(index, ids=["woman"])
    assert near(index, "Ilse Korven occupation painter", k=10) == []
    taken = add_facts(write(tmp_path / "again", [("Arne Holt", "occupation", "sailor", "man")]), index)
    assert (taken.facts, taken.gone) == (3, 2)
    more = tmp_path / "more"
    more.mkdir()
    (more / "new.txt").write_text("Something else.")
    add_to_index([more], index)
    assert found(index)[0] == "film"
    for page in PAGES:
        (docs / f"{page.id}.jsonl").write_text(json.dumps({"id": page.id, "title": page.title, "text": "All is new."}))
    update_index(index)
    with pytest.raises(CorpusError, match="still holds unchanged"):
        open_retriever(index, "hippo")


def test_compacting_keeps_facts(known: Path) -> None:
    before = searched(open_retriever(known, "hippo"), ASKED)
    compact_index(known)
    assert searched(open_retriever(known, "hippo"), ASKED) == before


def test_a_run_that_ends_midway_leaves_the_index_as_it_was_and_is_gone_on_with(
    known: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = write(tmp_path / "more", [("Grey", "is a", "colour", "other")])
    with monkeypatch.context() as broken:

        async def fail(*_: Any) -> None:
            raise KeyboardInterrupt

        broken.setattr(taking_in, "_encode_all", fail)
        with pytest.raises(KeyboardInterrupt):
            add_facts(more, known)
    assert near(known, "colour") == [] and found(known)[0] == "film"
    assert add_facts(more, known).facts == 5
    assert near(known, "colour") == ["is a"]


# With an encoder

ROYAL = [
    Passage("p1", "", "king"), Passage("p2", "", "queen"), Passage("p3", "", "moon"), Passage("p4", "", "river water")
]  # fmt: skip
ROYAL_FACTS = [("king", "[UNK]", "river", "p1"), ("queen", "[UNK]", "moon", "p2"), ("moon", "[UNK]", "moon", "p3")]


def counted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that are encoded from here on."""
    texts: list[str] = []

    def counting(spec: str) -> Any:
        encoder: Any = open_encoder(spec)
        encode = encoder.encode

        async def heard(some: Sequence[str], *, role: Any) -> Any:
            texts.extend(some)
            return await encode(some, role=role)

        encoder.encode = heard
        return encoder

    monkeypatch.setattr(taking_in, "open_encoder", counting)
    return texts


def test_vectors_find_facts_and_synonyms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("usearch")
    pytest.importorskip("model2vec")
    index, spec = tmp_path / "idx", f"static/{save_static(tmp_path / 'encoder')}"
    index_passages(ROYAL, index)
    encoded = counted(monkeypatch)
    taken = add_facts(write(tmp_path / "facts", ROYAL_FACTS[:2]), index, encoder=spec)
    assert (taken.phrases, taken.synonyms, taken.encoder) == (4, 1, spec)  # king and queen, at 0.949
    assert sorted(encoded) == sorted(["king [UNK] river", "queen [UNK] moon", "king", "river", "queen", "moon"])
    encoded.clear()
    again = add_facts(write(tmp_path / "facts", ROYAL_FACTS), index)
    assert (again.facts, again.phrases, again.synonyms, again.encoder) == (3, 4, 1, spec)
    assert encoded == ["moon [UNK] moon"], "only what is new is encoded"
    retriever = open_retriever(index, "hippo")
    assert isinstance(retriever, FactGuided)
    assert retriever.signals == {"facts", "names", "synonyms"}
    (fact,) = asyncio.run(retriever.facts_near("water", k=1))
    assert (fact.subject, fact.passage_id) == ("king", "p1") and 0.6 < fact.confidence < 0.8
    reached = {p.id: p.score for p in searched(retriever.guided([fact]), "river", k=9)}
    assert reached["p1"] > reached["p2"] > 0, "the queen is reached as a synonym of the king"
    assert isinstance(retriever, NameGuided)
    assert searched(retriever.named(["water"]), "x")[0].id == "p1", "by the vector of the river"
    gone = add_facts(write(tmp_path / "gone", [("river", "[UNK]", "water", "p1")]), index)
    assert gone.phrases == 4 and gone.synonyms == 1, "river and water; the king is gone"
    assert [fact.subject for fact in asyncio.run(_near(index, "king"))] == ["queen"]
    words = add_facts(write(tmp_path / "facts", ROYAL_FACTS), index, encoder="")
    assert (words.synonyms, words.encoder) == (0, "")


async def _near(index: Path, query: str) -> tuple[Fact, ...]:
    retriever = open_retriever(index, "hippo")
    assert isinstance(retriever, FactGuided)
    return await retriever.facts_near(query, k=1)


def test_other_numbers_are_no_synonyms_and_neither_are_initials(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    pytest.importorskip("model2vec")
    index, spec = tmp_path / "idx", f"static/{save_static(tmp_path / 'encoder')}"
    index_passages(ROYAL, index)
    facts = [("king 1912", "[UNK]", "king 1913", "p1"), ("queen 1912", "[UNK]", "x", "p2")]
    assert add_facts(write(tmp_path / "facts", facts), index, encoder=spec).synonyms == 1


def test_the_encoder_of_the_index_is_taken_unless_another_is_named(tmp_path: Path) -> None:
    pytest.importorskip("usearch")
    pytest.importorskip("model2vec")
    from hoptree.retrieval.indexing import encode_index

    index, spec = tmp_path / "idx", f"static/{save_static(tmp_path / 'encoder')}"
    index_passages(ROYAL, index)
    encode_index(index, spec)
    assert add_facts(write(tmp_path / "facts", ROYAL_FACTS), index).encoder == spec
    first = searched(open_retriever(index, "hippo"), "king", k=1)[0]
    assert [name for name, _ in first.stages] == ["dense", "hippo"]
    (index / Index(index).generation.name / FOLDER / "facts" / "vectors.json").write_text("{}")
    with pytest.raises(CorpusError, match="hoptree index facts"):
        open_retriever(index, "hippo")
    add_facts(write(tmp_path / "facts", ROYAL_FACTS), index)
    assert found(index, "king")[0] == "p1"


# What is damaged or missing


def test_facts_of_other_passages_are_refused_and_those_of_some_counted(index: Path, tmp_path: Path) -> None:
    strange = [("a", "b", "c", "nowhere")]
    with pytest.raises(CorpusError, match=r"None of the 1 passages .*nowhere"):
        add_facts(write(tmp_path / "strange", strange), index)
    assert add_facts(write(tmp_path / "some", [*FACTS, *strange]), index).strange == 1
    with pytest.raises(CorpusError, match="no fact to take in"):
        add_facts(write(tmp_path / "none", []), index)


def test_damaged_facts_are_told_and_taken_in_again(known: Path, tmp_path: Path) -> None:
    path = Index(known).generation / FOLDER / FILE
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(CorpusError, match=r"are damaged.*hoptree index facts"):
        open_retriever(known, "hippo")
    assert hoptree(tmp_path, "index", "info", "--out", str(known)).returncode == 2
    assert searched(open_retriever(known, "bm25"), ASKED)
    assert add_facts(write(tmp_path / "facts"), known).facts == 4
    assert found(known)[0] == "film"
    with closing(sqlite3.connect(Index(known).generation / FOLDER / FILE)) as db, db:
        db.execute("update about set value = '99' where name = 'format'")
    with pytest.raises(CorpusError, match=r"facts\.sqlite is not what was written"):
        open_retriever(known, "hippo")
    with pytest.raises(CorpusError, match="format 99"):
        FactStore(Index(known).generation / FOLDER, known)


def test_a_missing_library_is_named(known: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rustworkx", None)
    with pytest.raises(MissingExtra, match=r"hoptree\[graph\]"):
        open_retriever(known, "hippo")


def test_words_weigh_facts_by_how_rare_they_are() -> None:
    words = nearest.ByWords(
        {1: "Arne Holt born in Bergen", 2: "Ilse Korven born in Oslo", 3: "Oslo is born"}, "english"
    )
    best = asyncio.run(words.nearest("Where was Ilse Korven born?", 2))
    assert [key for key, _ in best] == [2, 3] and best[0][1] > best[1][1] > 0
    assert asyncio.run(words.nearest("Where?", 2)) == [] == asyncio.run(words.nearest("Ilse", 0))


# From the command line


def test_the_command_tells_what_it_did_and_what_it_cannot_do(index: Path, tmp_path: Path) -> None:
    done = hoptree(tmp_path, "index", "facts", str(write(tmp_path / "facts")), "--out", str(index))
    assert done.returncode == 0, done.stderr
    assert "4 facts of 4 passages" in done.stdout and "without an encoder" in done.stderr
    told = hoptree(tmp_path, "index", "facts", str(tmp_path / "facts"), "--out", str(index), "--json")
    assert json.loads(told.stdout)["new"] == 0
    search = hoptree(tmp_path, "search", ASKED, "--corpus", str(index), "--retriever", "hippo", "--json")
    assert [row["id"] for row in json.loads(search.stdout)][:2] == ["film", "man"]
    info = hoptree(tmp_path, "index", "info", "--out", str(index))
    assert "4 facts of 4 passages, found by their words" in info.stdout
    said = json.loads(hoptree(tmp_path, "index", "info", "--out", str(index), "--json").stdout)
    assert said["facts"] == {"facts": 4, "passages": 4, "encoder": ""}
    missing = hoptree(tmp_path, "index", "facts", str(tmp_path / "nothing"), "--out", str(index))
    assert (missing.returncode, "hoptree graph extract" in missing.stderr) == (2, True)
    no_index = hoptree(tmp_path, "index", "facts", str(tmp_path / "facts"), "--out", str(tmp_path / "no.idx"))
    assert no_index.returncode == 2 and not (tmp_path / "no.idx").exists()
    encoder = hoptree(tmp_path, "index", "facts", str(tmp_path / "facts"), "--out", str(index), "--encoder", "minilmm")
    assert (encoder.returncode, "minilm" in encoder.stderr) == (2, True)
