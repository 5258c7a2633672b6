"""Names and who mentions them: what counts as one, and that the graph does not depend on how it came about."""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit
from tests.small_indexes import mention_pairs, replace_file, rows, write_rows

import hoptree.retrieval.indexing.run as run
from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.retrieval.index.enrichment import link_passages
from hoptree.retrieval.index.folder import Index, Settings
from hoptree.retrieval.index.links import Links, NameFinder, capitalised_names, folded, names_of
from hoptree.retrieval.index.tantivy_files import key_of
from hoptree.retrieval.indexing import (
    add_to_index,
    build_index,
    compact_index,
    index_passages,
    remove_from_index,
    update_index,
)

# Names


@pytest.mark.parametrize(
    ("title", "aliases", "expected"),
    [
        ("Whiplash", (), ("Whiplash",)),
        ("Whiplash (2014 film)", (), ("Whiplash",)),
        ("(500) Days of Summer", (), ("(500) Days of Summer",)),
        ("(film)", (), ("(film)",)),
        ("Guide › Install › Linux", (), ("Guide", "Linux")),
        ("Guide › 4.13.1. Package Pools", (), ("Guide", "Package Pools")),
        ("Guide › Chapter 2. Leadership", (), ("Guide", "Leadership")),
        ("Clubs › 1860 München", (), ("Clubs", "1860 München")),
        ("1. FC Köln", (), ("1. FC Köln",)),
        ("F.9. btree_gist", (), ("btree_gist",)),
        ("24.2. Collation Support › 24.2.2. Managing Collations", (), ("Collation Support", "Managing Collations")),
        ("Chapter 51. Archive Modules", (), ("Archive Modules",)),
        ("F.29. pg_freespacemap › F.29.1. Functions", (), ("pg_freespacemap", "Functions")),
        ("2.0", (), ()),
        ("", ("JFK", "John F. Kennedy (president)"), ("JFK", "John F. Kennedy")),
        ("1984", (), ()),
        ("It", (), ()),
        ("---", (), ()),
        ("x" * 121, (), ()),
        ("Paris", ("Paris",), ("Paris",)),
    ],
)
def test_a_passage_bears_its_title_and_aliases(title: str, aliases: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert names_of(title, aliases) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("He met Ada Moor, of Skagen.", {"Ada Moor", "Skagen"}),
        ("The Bank of the West fell. Then it rose.", {"The Bank of the West"}),
        ("nothing here", set()),
        ("She went. Rome fell.", set()),
        ("Ludwig van Beethoven", {"Ludwig van Beethoven"}),
    ],
)
def test_names_are_written_with_capitals(text: str, expected: set[str]) -> None:
    assert capitalised_names(text) == expected


@pytest.mark.parametrize(
    ("name", "text", "there"),
    [
        ("Rome", "In Rome, again.", True),
        ("Rome", "Rome", True),
        ("Rome", "Romeo and Juliet", False),
        ("Rome", "Jerome", False),
        ("Rome", "rome", False),
        ("Rome", "ROME", False),
        ("The Red Door", "behind the Red Door.", True),
        ("Red Door", "behind the red Door", True),
        ("red door", "behind the red door", True),
        ("red door", "behind the red doors", False),
        ("O'Brien", "Flann O'Brien's book", True),
        ("O'Brien", "O Brien", False),
        ("C++", "written in C++.", True),
        ("git-prune-packed", "Also run git prune-packed to remove them.", True),
        ("git-prune-packed", "see git-prune-packed(1)", True),
        ("git-prune-packed", "Git prune packed", False),
        ("Jean-Luc", "Jean Luc", False),
        ("Łódź", "do Łódź.", True),
        ("İstanbul", "to İstanbul and back", True),
        ("Rome", "from İstanbul to Rome", True),
        ("New York", "New York New York City", True),
    ],
)
def test_a_name_stands_as_whole_words(name: str, text: str, there: bool) -> None:
    assert (name in set(NameFinder([name, "Other Name"])(text))) == there


def test_names_inside_names_are_all_found() -> None:
    finder = NameFinder(["New York", "New York City", "York City Hall", "City"])
    assert set(finder("In New York City Hall.")) == {"New York", "New York City", "York City Hall", "City"}


@given(st.text(), st.text(), st.lists(st.text(), max_size=3))
@example("İ" * 5 + " Rome", "Rome", ["İ"])
def test_no_text_is_too_strange(text: str, title: str, aliases: list[str]) -> None:
    names = names_of(title, aliases)
    assert len(names) == len(set(names))
    assert all(span in text for span in capitalised_names(text))
    assert set(NameFinder(names)(text)) <= set(names)
    for name in names:
        assert folded(folded(name)) == folded(name)


def naively(name: str, text: str) -> bool:
    """Whether a name stands between what is no word, as it is written or with a small first letter."""
    forms = {name, *({first + name[1:] for first in (name[0].lower(), name[0].upper())} if " " in name else ())}
    return any(re.search(rf"(?<!\w){re.escape(form)}(?!\w)", text) for form in forms)


WORDS = st.sampled_from(
    ["Rome", "rome", "New", "York", "new", "O'Brien", "Łódź", "é", "a_b", "x-y", "2", "東京", ".", ","]
)
SPACES = st.sampled_from([" ", " ", "", "-", ", "])
TEXTS = st.lists(st.tuples(WORDS, SPACES), min_size=1, max_size=8).map(
    lambda parts: "".join(word + space for word, space in parts).strip()
)


@given(st.lists(TEXTS, min_size=1, max_size=4, unique=True), TEXTS)
def test_names_are_found_as_a_plain_search_finds_them(names: list[str], text: str) -> None:
    names = [name for name in names if re.match(r"\w", name) and re.search(r"\w$", name)]
    assert set(NameFinder(names)(text)) == {name for name in names if naively(name, text)}


@pytest.mark.parametrize(
    "text",
    ["The x. " * 100_000, "A " * 200_000, "A." * 200_000, "a" + " " * 300_000 + "B", "(" * 300_000, "A of " * 99_999],
)
def test_long_texts_take_no_long_time(text: str) -> None:
    with cpu_limit(30):
        capitalised_names(text)
        names_of(text, (text[::-1], f"x{' ' * 100_000}y ({text})"))
        list(NameFinder(["The x", "A A"])(text))


# The graph


def corpus() -> list[Passage]:
    return [
        Passage("film", "Red Kite (film)", "Red Kite was directed by Ada Moor after the silent harbour closed."),
        Passage("book", "Red Kite (novel)", "A book by Tom Reed, not to be read in Skagen."),
        Passage("ada", "Ada Moor", "She was born in Skagen and saw Red Kite there.", aliases=("The Moor",)),
        Passage("skagen", "Skagen", "Skagen is a town. It knows the Moor and the silent harbour."),
        Passage("harbour", "silent harbour", "It lies near skagen and near Skagensund."),
        Passage("plain", "", "Without a title, but with Ada Moor."),
    ]


def test_titles_aliases_and_lower_case_names_are_mentioned(tmp_path: Path) -> None:
    index_passages(corpus(), tmp_path / "idx")
    found = mention_pairs(tmp_path / "idx")
    assert {("film", "ada moor"), ("film", "silent harbour"), ("ada", "skagen"), ("ada", "red kite")} <= found
    assert {("skagen", "the moor"), ("skagen", "silent harbour"), ("plain", "ada moor"), ("book", "tom reed")} <= found
    assert not {("film", "red kite"), ("skagen", "skagen"), ("harbour", "skagen")} & found
    links = Links(Index(tmp_path / "idx").links)
    assert links.bearing("red kite", 3) == tuple((key,) for key in sorted((key_of("film"), key_of("book"))))
    assert links.bearing("red kite", 1) == ()
    assert links.borne("the moor") and not links.borne("tom reed")
    assert links.count("skagen") == 2


@pytest.mark.parametrize("memory", [1, 300, 1000])
def test_several_rounds_give_the_same_graph_as_one(
    tmp_path: Path, memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    passages = corpus() + [
        Passage(f"{n}", f"person number {n}", f"a friend of person number {n + 1}") for n in range(40)
    ]
    index_passages(passages, tmp_path / "one")
    monkeypatch.setattr(run, "link_passages", lambda change, **more: link_passages(change, memory=memory))
    index_passages(passages, tmp_path / "many")
    assert mention_pairs(tmp_path / "many") == mention_pairs(tmp_path / "one")
    one, many = Links(Index(tmp_path / "one").links), Links(Index(tmp_path / "many").links)
    for name in ("ada moor", "person number 7", "red kite", "skagen"):
        assert (one.count(name), one.bearing(name, 9)) == (many.count(name), many.bearing(name, 9))
        assert one.mentioning(name, 9) == many.mentioning(name, 9)


def as_rows(passages: list[Passage]) -> list[dict[str, object]]:
    return [{"id": p.id, "title": p.title, "text": p.text, "aliases": list(p.aliases)} for p in passages]


@pytest.mark.parametrize("order", [range(6), range(5, -1, -1), (3, 0, 5, 1, 4, 2)])
def test_the_graph_of_additions_is_that_of_one_build(tmp_path: Path, order: list[int]) -> None:
    every = as_rows(corpus())
    files = [write_rows(tmp_path / f"{n}.jsonl", [every[n]]) for n in order]  # type: ignore[list-item]
    out = tmp_path / "idx"
    build_index(files[0], out)
    for file in files[1:]:
        add_to_index([file], out)
    index_passages(corpus(), tmp_path / "fresh")
    assert mention_pairs(out) == mention_pairs(tmp_path / "fresh")


def test_the_graph_after_an_update_is_that_of_a_fresh_build(tmp_path: Path) -> None:
    out, source = tmp_path / "idx", tmp_path / "docs.jsonl"
    write_rows(source, as_rows(corpus()), ns=10**18)  # type: ignore[arg-type]
    build_index(source, out)
    changed = [*corpus()[:2], Passage("ada", "Ada Moor-Lund", "She now lives with Tom Reed."), *corpus()[3:]]
    changed.append(Passage("tom", "Tom Reed", "He wrote of Ada Moor-Lund."))
    write_rows(source, as_rows(changed), ns=2 * 10**18)  # type: ignore[arg-type]
    update_index(out)
    build_index(source, tmp_path / "fresh")
    # What is nobody's name any more is still looked for, where capitals do not tell of it; compaction forgets it.
    assert mention_pairs(out) - {("skagen", "the moor"), ("tom", "ada moor")} == mention_pairs(tmp_path / "fresh")
    compact_index(out)
    assert mention_pairs(out) == mention_pairs(tmp_path / "fresh")


def test_the_graph_after_a_removal_is_that_of_a_fresh_build(tmp_path: Path) -> None:
    out = tmp_path / "idx"
    index_passages(corpus(), out)
    remove_from_index(out, ids=["ada", "book"])
    index_passages([passage for passage in corpus() if passage.id not in ("ada", "book")], tmp_path / "fresh")
    assert mention_pairs(out) - {("skagen", "the moor")} == mention_pairs(tmp_path / "fresh")
    links = Links(Index(out).links)
    assert not links.borne("ada moor") and links.borne("red kite")
    assert links.bearing("red kite", 1) == ((key_of("film"),),)
    compact_index(out)
    assert mention_pairs(out) == mention_pairs(tmp_path / "fresh")


def test_a_larger_graph_grows_as_it_is_built(tmp_path: Path) -> None:
    write_rows(tmp_path / "docs" / "a.jsonl", rows(300))
    build_index(tmp_path / "docs", tmp_path / "idx")
    for start in (300, 360):
        write_rows(tmp_path / "docs" / f"{start}.jsonl", rows(60, start))
        update_index(tmp_path / "idx")
    build_index(tmp_path / "docs", tmp_path / "fresh")
    made = mention_pairs(tmp_path / "idx")
    assert made == mention_pairs(tmp_path / "fresh")
    assert ("p299", "person number300") in made


def test_an_index_may_do_without_links(tmp_path: Path) -> None:
    index_passages(corpus(), tmp_path / "idx", settings=Settings(links=False))
    assert not (Index(tmp_path / "idx").links).exists()


def test_names_of_common_words_are_found_in_older_passages_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.retrieval.index.enrichment._MAX_CANDIDATES", 5)
    older = [Passage(f"o{n}", "", f"It was said of Red Kite in year {n}.") for n in range(20)]
    added = [
        Passage("kite", "Red Kite", "A film."),
        Passage("list", "", "Nothing."),
        Passage("rare", "Year 7", "Seven."),
    ]
    index_passages([*older, *added], tmp_path / "whole")
    write_rows(tmp_path / "a.jsonl", [{"id": p.id, "title": p.title, "text": p.text} for p in older])
    write_rows(tmp_path / "b.jsonl", [{"id": p.id, "title": p.title, "text": p.text} for p in added])
    build_index(tmp_path / "a.jsonl", tmp_path / "grown")
    add_to_index([tmp_path / "b.jsonl"], tmp_path / "grown")
    assert mention_pairs(tmp_path / "grown") == mention_pairs(tmp_path / "whole")
    counts = [Links(Index(tmp_path / which).links).count("red kite") for which in ("grown", "whole")]
    assert counts == [20, 20]


def test_what_common_names_lack_comes_with_the_next_compaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a name begins a sentence or stands in a longer one, it is no name of its own until somebody bears it."""
    monkeypatch.setattr("hoptree.retrieval.index.enrichment._MAX_CANDIDATES", 5)
    older = [{"id": f"o{n}", "title": "", "text": f"Kite {n} flies. It saw Kite Street."} for n in range(20)]
    write_rows(tmp_path / "a.jsonl", older)
    write_rows(tmp_path / "b.jsonl", [{"id": "kite", "title": "Kite", "text": "A toy."}])
    build_index(tmp_path / "a.jsonl", tmp_path / "idx")
    add_to_index([tmp_path / "b.jsonl"], tmp_path / "idx")
    assert Links(Index(tmp_path / "idx").links).mentioning("kite", 50) == ()
    compact_index(tmp_path / "idx")
    assert len(Links(Index(tmp_path / "idx").links).mentioning("kite", 50)) == 20


def test_accents_written_apart_are_the_same_name(tmp_path: Path) -> None:
    """As file systems have them that keep a letter and its accent as two characters."""
    city = unicodedata.normalize("NFD", "Besançon")
    index_passages(
        [Passage("a", city, "A city."), Passage("b", "Hugo", "Born in Besançon, he left.")], tmp_path / "idx"
    )
    assert Links(Index(tmp_path / "idx").links).bearing("besançon", 2) == ((key_of("a"),),)


def test_a_passage_that_is_gone_mentions_nobody(tmp_path: Path) -> None:
    rows = [{"id": f"o{n}", "title": f"Page {n}", "text": "It was said of Red Kite."} for n in range(4)]
    write_rows(tmp_path / "a.jsonl", [*rows, {"id": "kite", "title": "Red Kite", "text": "A film."}])
    build_index(tmp_path / "a.jsonl", tmp_path / "idx")
    remove_from_index(tmp_path / "idx", ids=["o1", "kite"])
    links = Links(Index(tmp_path / "idx").links)
    assert links.mentioning("red kite", 9) == tuple(sorted(key_of(f"o{n}") for n in (0, 2, 3)))
    assert not links.borne("red kite") and links.bearing("red kite", 9) == ()


def test_a_passage_may_mention_any_number_of_names(tmp_path: Path) -> None:
    lowered = [f"item number{n} of lists" for n in range(1_100)]
    page = {"id": "page", "title": "", "text": ", ".join(lowered)}
    write_rows(tmp_path / "a.jsonl", [page])
    write_rows(tmp_path / "b.jsonl", [{"id": f"n{n}", "title": name, "text": "x"} for n, name in enumerate(lowered)])
    build_index(tmp_path / "a.jsonl", tmp_path / "idx")
    add_to_index([tmp_path / "b.jsonl"], tmp_path / "idx")
    assert len(Links(Index(tmp_path / "idx").links).mentions(key_of("page"))) == 1_100


# Damage


def test_one_byte_anywhere_in_the_links_is_one_sentence_at_most(tmp_path: Path) -> None:
    index_passages([Passage("a", "Ada Moor", "Of Skagen."), Passage("b", "Skagen", "See Ada Moor.")], tmp_path)
    folder = Index(tmp_path).links
    told = 0
    for path in sorted(folder.glob("*.term")):
        whole = path.read_bytes()
        for place in range(len(whole)):
            replace_file(path, whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
            try:
                links = Links(folder)
                for name in ("ada moor", "skagen"):
                    links.count(name), links.borne(name), links.bearing(name, 5), links.mentioning(name, 5)
            except CorpusError:
                told += 1
        replace_file(path, whole)
    assert told
