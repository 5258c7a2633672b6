"""Questions in other languages than that of the index find their passages."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.indexing import build_index
from hoptree.text.tokens import language_of

PAGES = {
    "lighthouse": "The lighthouse at the northern cape was built by two brothers. Its lamp was lit in 1902.",
    "keeper": "The keeper of the lighthouse was married to a painter from the town. They had three children.",
    "harbour": "Ships were repaired in the harbour, which was dug by miners and opened by the mayor.",
    "leuchtturm": "Die Leuchttürme am Nordkap wurden von zwei Brüdern errichtet. Ihre Lampen brannten seit 1902.",
    "waerterin": "Die Wärterin des Turms heiratete einen Maler aus der Stadt. Sie bekamen drei Kinder und zogen weg.",
    "hafen": "Im Hafen wurden Schiffe repariert. Bergleute hatten ihn gegraben, und der Bürgermeister eröffnete ihn.",
    "buch": "Das Buch der Wärterin lag auf dem Tisch in der Stube. Niemand hat es je gelesen.",
    "katzen": "Die Katzen, die dort in der Sonne lagen, waren grau und schliefen den ganzen Tag.",
    "sohn": "Der Sohn des Königs hieß Olaf und wohnte in einem Schloss bei Bergen.",
    "fischer": "Welche hatte der Fischer gefangen? Er hatte welche gesehen, sagte der Alte, und der Junge auch.",
    "brot": "Das Brot der Bäckereien wird aus Roggen gebacken. Die Müller mahlten das Korn am Bach und auf dem Berg.",
    "dengta": "北角的灯塔由两兄弟建造，灯于一九零二年点亮。海上的船只远远就能看见它的光。",
    "shouta": "守塔人嫁给了一位来自城里的画家。他们有三个孩子，后来搬到了南方的村庄。",
    "gangkou": "船只在港口修理。港口由矿工挖掘，由市长宣布启用。每年有许多商船停靠在这里。",
    "mianbao": "面包房的面包用黑麦烤制。磨坊主在小溪边磨谷物，冬天则停工休息。",
    "pain": "Le pain des boulangeries est fait de seigle. Les meuniers écrasaient les grains près des ruisseaux.",
}
QUESTIONS = {
    "Wer hat den Leuchtturm am Nordkap errichtet?": "leuchtturm",
    "Welchen Maler hat die Wärterin geheiratet?": "waerterin",
    "Welcher Bergmann grub den Hafen?": "hafen",
    "Welcher Müller mahlt Körner an den Bächen?": "brot",
    "Wo lagen die Bücher?": "buch",
    "Welche Söhne hatte der König?": "sohn",
    "灯塔是谁建造的？": "dengta",
    "画家和谁结婚了，有几个孩子？": "shouta",
    "港口是由谁挖掘的？": "gangkou",
    "面包是用什么烤制的？": "mianbao",
    "Quel meunier écrase le grain près du ruisseau ?": "pain",
    "Who built the lighthouse at the cape?": "lighthouse",
    "Whom did the keeper marry?": "keeper",
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("languages")
    for name, text in PAGES.items():
        (folder / f"{name}.txt").write_text(text, encoding="utf-8")
    build_index(folder, folder / "idx")
    return Index(folder / "idx")


@pytest.mark.parametrize(("question", "page"), QUESTIONS.items())
def test_a_question_finds_its_page(index: Index, question: str, page: str) -> None:
    assert index.texts.search(question, 1)[0][2].document == f"{page}.txt"


def test_passages_tell_their_language_and_are_counted_and_filtered_by_it(index: Index) -> None:
    assert index.texts.languages == {"german": 8, "french": 1, "chinese": 4}
    ((_, _, passage),) = index.texts.search("lampen 1902", 1, {"language": "german"})
    assert passage.document == "leuchtturm.txt" and passage.metadata == (("language", "german"),)


def test_endings_and_stop_words_are_those_of_the_question_s_language(index: Index) -> None:
    assert index.texts.query_terms("Wer hat den Leuchtturm am Nordkap errichtet?") == (
        "leuchtturm",
        "nordkap",
        "errichtet",
    )
    assert index.texts.query_terms("Who built the lighthouse?") == ("built", "lighthous")


def test_a_name_in_an_english_question_favours_no_foreign_page(tmp_path: Path) -> None:
    (tmp_path / "en.txt").write_text("Nordkap is the name of a cape in the north.", encoding="utf-8")
    (tmp_path / "de.txt").write_text("Nordkap ist der Name eines Kaps im Norden.", encoding="utf-8")
    build_index(tmp_path, tmp_path / "idx")
    texts = Index(tmp_path / "idx").texts
    assert texts.search("What is the Nordkap?", 1)[0][2].document == "en.txt"
    assert texts.search("Was ist das Nordkap?", 1)[0][2].document == "de.txt"


def test_rows_of_a_file_have_the_language_of_its_first_ones(tmp_path: Path) -> None:
    rows = "".join(
        f'{{"id": "{n}", "title": "", "text": "Das ist der Text Nummer {n} und nicht mehr."}}\n' for n in range(30)
    )
    (tmp_path / "a.jsonl").write_text(rows, encoding="utf-8")
    build_index(tmp_path, tmp_path / "idx")
    assert Index(tmp_path / "idx").texts.languages == {"german": 30}


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("Who directed Die Hard?", "english"),
        ("Name: chevrolet; Miles_per_Gallon: 18; Weight_in_lbs: 3504\n" * 9, "english"),
        ("Name: chevrolet; Miles per Gallon: 18; Weight in lbs: 3504\n" * 9, "english"),
        ("When did he die in 1990?", "english"),
        ("Nordkap", "english"),
        ("", "english"),
        ("1902 – 1990", "english"),
        ("Wie spricht man Debian aus?", "german"),
        ("¿Quién fundó Debian?", "spanish"),
        ("Qui a fondé Debian ?", "french"),
        ("Кто основал Debian?", "russian"),
        ("Debianの創設者は誰ですか", "japanese"),
        ("데비안은 누가 만들었습니까", "korean"),
        ("谁创立了Debian？", "chinese"),
        ("From: ada@a.com\nTo: bo@b.com; cy@c.com, https://www.d.com/de/la\nSubject: Test\n\nHi", "english"),
    ],
)
def test_the_language_of_a_text_is_told_by_its_script_or_its_words(text: str, language: str) -> None:
    assert language_of(text) == language
