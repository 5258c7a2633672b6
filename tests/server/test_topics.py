"""Questions that are offered for a corpus come from what its passages say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi")

from hoptree.core.values import CONTENTS, Passage
from hoptree.retrieval.indexing import build_index
from hoptree.server import resources
from hoptree.server.resources import Corpora
from hoptree.server.topics import Topic, suggest_topics

POOLS = "Package pools are folders that several releases share."


def passage(title: str, text: str, document: str = "manual.html", language: str = "english") -> Passage:
    return Passage(f"{document}#1", title, text, 0.0, document, 0, len(text), (), (("language", language),))


def first(*passages: Passage) -> Topic:
    topic, *_ = suggest_topics(passages)
    return topic


def test_a_heading_that_is_a_question_is_asked_as_it_stands() -> None:
    topic = first(passage("FAQ › 3.2. Which package holds the kernel?", "It is called linux-image."))
    assert (topic["kind"], topic["title"]) == ("question", "Which package holds the kernel?")
    topic = first(passage("常见问题 › 1.1. 什么是 Debian？", "它自由。", language="chinese"))
    assert (topic["kind"], topic["title"], topic["language"]) == ("question", "什么是 Debian？", "zh")
    assert suggest_topics([passage("FAQ › Why?", "Because it is so.")]) == []


def test_what_a_passage_defines_is_asked_for() -> None:
    topic = first(passage("notes.txt", "The Soundex system is a way of matching names.", "notes.txt"))
    assert (topic["kind"], topic["title"], topic["language"]) == ("what", "Soundex system", "en")
    topic = first(passage("git-gc(1) › NAME", "git-gc - Cleanup unnecessary files"))
    assert (topic["kind"], topic["title"]) == ("what", "git-gc")
    topic = first(passage("leute", "Greta Moor (1901–1980) war eine Malerin aus Lund.", "leute.txt", "german"))
    assert (topic["kind"], topic["title"], topic["language"]) == ("who", "Greta Moor", "de")
    topic = first(passage("a", "命名管道是一个文件。", "a.txt", "chinese"))
    assert (topic["kind"], topic["title"]) == ("what", "命名管道")


def test_pronouns_and_phrases_are_no_definitions() -> None:
    for text in ("This is a test.", "Deleting a file is an action.", "It was the first.", "如果您是一个用户。"):
        for language in ("english", "chinese"):
            assert suggest_topics([passage("x", text, "x.txt", language)]) == []


def test_headings_lose_their_numbers_and_name_their_document() -> None:
    topic = first(passage("Debian Policy › 4.2. Package pools", POOLS))
    assert topic == Topic(title="Package pools", mentions=None, document="Debian Policy", kind="heading", language="en")
    assert first(passage("Handbuch › A.2. Alte Lager", "Dort liegen sie.", language="german"))["title"] == "Alte Lager"


def test_headings_are_topics_in_any_script_and_of_one_word() -> None:
    chinese = [passage(f"合同 › {name}", "卖方负责修理。", "合同.md", "chinese") for name in ("保修", "付款方式")]
    german = [passage("Vertrag › Lieferzeit", "Es sind zwei Wochen.", "vertrag.md", "german")]
    english = [passage(f"Oven › {name}", "It is of steel.", "oven.md") for name in ("Construction", "How to clean")]
    titles = [topic["title"] for topic in suggest_topics([*chinese, *german, *english])]
    assert titles == ["保修", "How to clean", "Lieferzeit", "付款方式", "Construction"]


def test_names_of_files_and_headings_of_any_document_are_no_topics() -> None:
    for title, document in (
        ("sql-vacuum", "html/sql-vacuum.html"),
        ("2026_report_final.docx", "2026_report_final.docx"),
        ("scan 0012", "scan 0012.pdf"),
        ("git-gc.html › DESCRIPTION", "git-gc.html"),
        ("notes › 1. Introduction", "notes.txt"),
        ("notes › 12.7", "notes.txt"),
        ("notes › Next topic", "notes.html"),
        ("notes › Revision History and Acknowledgements", "notes.html"),
    ):
        assert suggest_topics([passage(title, "some words without a name in them.", document)]) == []


def test_headings_of_many_documents_are_no_topics() -> None:
    many = [
        passage(f"{name} › - Purpose of this document", POOLS, f"{name}.html") for name in ("Bounce", "Relay", "Mask")
    ]
    assert suggest_topics(many) == []
    assert [topic["title"] for topic in suggest_topics(many[:1])] == ["Purpose of this document"]
    assert first(passage("Relay › • 2.1 Which hosts may send mail?", POOLS))["title"] == "Which hosts may send mail?"


@pytest.mark.parametrize("above", ["", "docs/", "docs/all/"])
def test_topics_are_of_all_folders_and_languages(above: str) -> None:
    manuals = (("mail", "english", 40), ("lager", "german", 3), ("guide", "chinese", 1))
    headings = {"english": "Queue number", "german": "Alte Warteschlange", "chinese": "命名管道的用法"}
    corpus = [
        passage(
            f"{folder} manual {at} › {headings[language]} {chr(97 + at % 26) * 3}",
            POOLS,
            f"{above}{folder}/{at}.html",
            language,
        )
        for folder, language, count in manuals
        for at in range(count)
    ]
    counted = Counter(topic["language"] for topic in suggest_topics(corpus))
    assert counted == {"en": 3, "de": 2, "zh": 1}


def test_a_short_table_has_the_language_of_its_reader() -> None:
    table = passage("Liste › Personal", "Name: Änne Grünwald; Geburtsort: Bregenz; Büro: 12")
    assert first(replace(table, metadata=()))["language"] is None
    english = replace(table, text="The name of the place is not in the list.", metadata=())
    assert first(english)["language"] == "en"


def test_long_files_are_read_in_their_middle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "_TOPIC_PASSAGES", 4)
    docs = tmp_path / "docs"
    docs.mkdir()
    parts = ("Lamps", "Wicks", "Oil", "Glass")
    for name in parts:
        text = (
            f"# {name}\n\nEdition of 2020.\n\n## How {name.lower()} are made\n\nThey are made by hand in the old way.\n"
        )
        (docs / f"{name}.md").write_text(
            text + f"\n## How {name.lower()} are sold\n\nThey are sold in spring.\n", "utf-8"
        )
    build_index(docs, tmp_path / "docs.idx")
    topics = Corpora({"docs": str(tmp_path / "docs.idx")}, None).topics("docs")
    assert len(topics) >= len(parts) and all(topic["title"].startswith("How ") for topic in topics)


def test_lists_of_contents_give_no_topics() -> None:
    contents = passage("Kilns › Which glazes are there?", "Copper Tin Zinc", "b.html")
    assert suggest_topics([replace(contents, metadata=(*contents.metadata, CONTENTS))]) == []


def test_names_take_the_place_of_file_names() -> None:
    texts = ("He met Ada Moor in Lund.", "Later, Ada Moor wrote again.", "There she saw Bo Ek once.")
    topics = suggest_topics([passage(f"{at}", text, f"{at}.txt") for at, text in enumerate(texts)])
    assert [(topic["kind"], topic["title"]) for topic in topics] == [("name", "Ada Moor"), ("name", "Bo Ek")], topics


def test_follow_ups_are_no_questions_of_their_own() -> None:
    for heading in (
        "And how about the valves here?",
        "But why is it so?",
        "What about the old pumps?",
        "Und wie geht das?",
    ):
        assert suggest_topics([passage(f"FAQ › {heading}", "It is so.")]) == []


def test_files_share_what_is_offered() -> None:
    rows = [passage(f"people › Arne Holt{n}", f"Name: Arne Holt{n}; Work: none", "people.csv") for n in range(200)]
    manual = [passage(f"Pumps › Oil the {part} well", "So it is.", "pumps.md") for part in ("gears", "valves", "pipes")]
    for passages in ([*rows, *manual], [*manual, *rows]):
        titles = [topic["title"] for topic in suggest_topics(passages)]
        assert len(titles) == 6 and sum(title.startswith("Oil") for title in titles) == 3


def test_kinds_are_offered_in_turn_and_none_twice() -> None:
    passages = [passage(f"Manual › {n}. Shelf number {n}x", "Words of it.") for n in range(1, 9)]
    passages += [passage("Manual › How is a shelf made there?", "So.")] * 3
    topics = suggest_topics(passages)
    assert [topic["kind"] for topic in topics] == ["question"] + ["heading"] * 5, topics
    assert len({topic["title"] for topic in topics}) == 6
