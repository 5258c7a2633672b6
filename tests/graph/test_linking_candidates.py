"""Entities for a mention or a whole question, from the index of a graph's names."""

from __future__ import annotations

import asyncio
import errno
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cpu_limit import cpu_limit
from tests.graph.graph_files import jsonl
from tests.small_indexes import replace_file

from hoptree.core.errors import GraphError, GraphUnavailable
from hoptree.graph.embedded import EmbeddedGraph
from hoptree.graph.entity_linking import IndexedCandidates, LookupCandidates, open_candidates
from hoptree.graph.facts import Candidates
from hoptree.graph.loading import load_graph
from hoptree.graph.names_index import NameIndex, open_name_index

FACTS: list[Mapping[str, object]] = [
    {
        "s": "Roger Marquis",
        "s_id": "Q7358590",
        "p": "place of death",
        "p_id": "P20",
        "o": "Holyoke",
        "o_id": "Q1637790",
    },
    {
        "s": "Bartolomé Blanche",
        "s_id": "Q560228",
        "p": "place of death",
        "p_id": "P20",
        "o": "Santiago",
        "o_id": "Q2887",
    },
    {"s": "The Stratton Story", "s_id": "Q2292080", "p": "composer", "p_id": "P86", "o": "Adolph Deutsch"},
    {"id": "Q900", "label": "John Campbell"},
    {"id": "Q17", "label": "John Campbell"},
    {"s_id": "Q347825", "s": "John Campbell", "p": "occupation", "o": "writer"},
    {"s_id": "Q347825", "s": "John Campbell", "p": "place of death", "p_id": "P20", "o": "Holyoke", "o_id": "Q1637790"},
    {"id": "Q333430", "label": "Charles Wilson (Texas politician)", "aliases": ["Charlie Wilson"]},
    {"id": "Q8006", "label": "黒澤明"},
    {"id": "P20", "label": "place of death", "aliases": ["died in"]},
]


def loaded(kg: Path, *rows: Mapping[str, object], name: str = "rows.jsonl") -> EmbeddedGraph:
    load_graph(kg, [jsonl(kg.parent / name, rows)])
    return EmbeddedGraph(kg)


@pytest.fixture
def candidates(tmp_path: Path) -> Candidates:
    return open_candidates(loaded(tmp_path / "kg", *FACTS))


def of_text(candidates: Candidates, text: str, limit: int = 10) -> list[str]:
    return [candidate.entity.id for candidate in asyncio.run(candidates.of_text(text, limit=limit))]


def of_mention(candidates: Candidates, mention: str, limit: int = 10) -> list[str]:
    return [candidate.entity.id for candidate in asyncio.run(candidates.of_mention(mention, limit=limit))]


@pytest.mark.parametrize(
    ("question", "entity"),
    [
        ("Where did roger marquis die", "Q7358590"),
        ("where did Roger Marqius die", "Q7358590"),
        ("what is roger marquis's place of death?", "Q7358590"),
        ("where did bartolome blanche die", "Q560228"),
        ("who did the music for stratton story", "Q2292080"),
        ("is charles wilson male or female", "Q333430"),
        ("is charlie wilson (texas politician) male", "Q333430"),
        ("黒澤明はどこで生まれましたか", "Q8006"),
    ],
)
def test_a_question_finds_its_entity_without_marks(candidates: Candidates, question: str, entity: str) -> None:
    assert of_text(candidates, question)[0] == entity


def test_a_mention_finds_its_entity(candidates: Candidates) -> None:
    assert of_mention(candidates, "Roger Marquis") == ["Q7358590"]
    assert of_mention(candidates, "ROGER MARQUISS")[0] == "Q7358590"
    assert of_mention(candidates, "stratton story")[0] == "Q2292080"
    assert of_mention(candidates, "") == of_mention(candidates, "…") == of_mention(candidates, "zzzzzz") == []
    exact, near = (
        asyncio.run(candidates.of_mention("charlie wilson")),
        asyncio.run(candidates.of_mention("charly wilson")),
    )
    assert exact[0].score == 1 > near[0].score > 0 and near[0].entity.aliases == ("Charlie Wilson",)


def test_namesakes_come_by_their_facts_then_by_their_ids(candidates: Candidates) -> None:
    assert of_mention(candidates, "john campbell") == ["Q347825", "Q17", "Q900"]
    assert of_text(candidates, "which country is john campbell from", 2) == ["Q347825", "Q17"]
    assert of_text(candidates, "who is john campbell") == of_text(candidates, "who is john campbell")


def test_many_namesakes_leave_room_for_another_name(tmp_path: Path) -> None:
    rows: list[Mapping[str, object]] = [{"id": f"Q{number}", "label": "New York"} for number in range(1, 10)]
    candidates = open_candidates(loaded(tmp_path / "kg", *rows, {"id": "Q99", "label": "Syracuse"}))
    assert "Q99" in of_text(candidates, "who was born in syracuse new york", 5)


def test_properties_are_no_entities(candidates: Candidates) -> None:
    assert of_mention(candidates, "place of death") == [] and of_mention(candidates, "died in") == []


def test_names_are_never_part_of_a_query(candidates: Candidates) -> None:
    for odd in ('" OR key:*', "a" * 10_000, "\ud800", "key:x AND (", "* ? ~2 ^3"):
        of_text(candidates, odd)
        of_mention(candidates, odd)


def test_a_long_question_of_many_known_words_ends_in_time(tmp_path: Path) -> None:
    rows: list[Mapping[str, object]] = [
        {"id": f"Q{n}", "label": f"river number{n % 50} of stone"} for n in range(1, 3000)
    ]
    candidates = open_candidates(loaded(tmp_path / "kg", *rows))
    with cpu_limit(5):
        assert of_text(candidates, "which river number7 of stone " * 2000)
    assert isinstance(candidates, IndexedCandidates)
    hurried = IndexedCandidates(candidates._graph, candidates._index, seconds=0)
    assert len(hurried.find("river number7 of stone", 5, is_mention=False)) <= 5


def test_the_index_is_made_once_for_a_graph_and_anew_when_it_changes(tmp_path: Path) -> None:
    kg = tmp_path / "kg"
    graph = loaded(kg, *FACTS)
    counts: list[int] = []
    open_name_index(graph, on_progress=counts.append)
    (first,) = kg.glob("names-*")
    stamp = (first / "meta.json").stat().st_mtime_ns
    open_candidates(EmbeddedGraph(kg))
    assert (first / "meta.json").stat().st_mtime_ns == stamp
    old = open_candidates(graph)
    changed = loaded(kg, {"id": "Q5", "label": "Angie Estes"}, name="more.jsonl")
    assert of_mention(open_candidates(changed), "angie estes") == ["Q5"]
    (second,) = kg.glob("names-*")
    assert second != first
    assert of_mention(old, "roger marquis") == ["Q7358590"]  # whoever has the old one open keeps it
    assert of_mention(open_candidates(graph), "angie estes") == []  # and may make it again, beside the new one
    assert sorted(kg.glob("names-*")) == sorted((first, second))


def test_what_was_cut_off_or_damaged_is_told_or_made_anew(tmp_path: Path) -> None:
    kg = tmp_path / "kg"
    graph = loaded(kg, *FACTS)
    (kg / "names-0-older").mkdir()
    open_name_index(graph)
    (index,) = kg.glob("names-*")
    for path in index.glob("*.store"):
        replace_file(path, b"broken")
    with pytest.raises(GraphError, match=r"damaged.*Remove this folder"):
        NameIndex(index).exact_name(("roger", "marquis"))
    (index / "hoptree-names.json").unlink()  # as one that was not finished
    (index / "meta.json").unlink()
    assert open_name_index(graph).exact_name(("roger", "marquis")) == [("Q7358590", ("roger", "marquis"))]
    assert list(kg.glob("names-*")) == [index]


def test_a_graph_that_may_not_be_written_to_has_its_index_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = loaded(tmp_path / "kg", *FACTS)
    cache = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    make_folder = tempfile.mkdtemp
    refused = [graph.folder]

    def mkdtemp(*, prefix: str, dir: Path) -> str:  # noqa: A002 - as the library calls it
        if dir in refused:
            raise OSError(errno.EROFS, "Read-only file system")
        return make_folder(prefix=prefix, dir=dir)

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    assert of_mention(open_candidates(graph), "roger marquis") == ["Q7358590"]
    (name,) = (cache / "hoptree/names").glob("names-*")
    assert of_mention(open_candidates(graph), "roger marquis") == ["Q7358590"]
    assert list((cache / "hoptree/names").iterdir()) == [name] and not list(graph.folder.glob("names-*"))
    refused.append(cache / "hoptree/names")
    shutil.rmtree(name)
    with pytest.raises(GraphUnavailable, match="Read-only file system"):
        open_candidates(graph)


def test_a_graph_elsewhere_is_asked_for_exact_names(tmp_path: Path) -> None:
    graph = loaded(tmp_path / "kg", *FACTS)
    looked = LookupCandidates(graph)
    assert of_mention(looked, "Charlie Wilson") == ["Q333430"] and of_mention(looked, "charly wilson") == []
    assert of_text(looked, "Did John Campbell's friend meet Roger Marquis?", 3) == ["Q17", "Q7358590", "Q900"]
