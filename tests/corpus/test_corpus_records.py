"""Rows of the usual passage files are recognised by their fields."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.document import Problems
from hoptree.corpus.files import find_files
from hoptree.corpus.read import read_documents, read_passages


def rows(folder: Path, *items: Any, name: str = "a.jsonl") -> list[Passage]:
    path = folder / name
    path.write_text("\n".join(json.dumps(item) for item in items), encoding="utf-8")
    return list(read_passages(path))


def fields(passages: list[Passage]) -> list[tuple[str, str, str]]:
    return [(passage.id, passage.title, passage.text) for passage in passages]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"id": "a", "title": "T", "text": "x"}, ("a", "T", "x")),
        ({"_id": "a", "title": "", "text": "x", "metadata": {}}, ("a", "", "x")),
        ({"id": 7, "text": "x"}, ("7", "", "x")),
        ({"id": 2**70, "text": "x"}, (str(2**70), "", "x")),
        ({"idx": 0, "title": "T", "text": "x"}, ("0", "T", "x")),
        ({"id": "a", "contents": '"Red Kite"\nA film.\nOf 2014.'}, ("a", "Red Kite", "A film.\nOf 2014.")),
        ({"id": "a", "contents": "No title here."}, ("a", "", "No title here.")),
        ({"id": "a", "title": "T", "section": "Early life", "text": "x"}, ("a", "T › Early life", "x")),
        ({"id": "a", "title": ["T"], "text": "x"}, ("a", "T", "x")),
        ({"id": "a", "title": None, "text": "x", "aliases": None, "metadata": None}, ("a", "", "x")),
        ({"id": "a", "title": 1984, "text": "x"}, ("a", "1984", "x")),
        ({"id": "a", "title": 0.5, "text": "x"}, ("a", "0.5", "x")),
    ],
)
def test_a_row_is_a_passage_with_its_own_id(
    tmp_path: Path, row: dict[str, Any], expected: tuple[str, str, str]
) -> None:
    (passage,) = rows(tmp_path, row)
    assert fields([passage]) == [expected]
    assert (passage.document, passage.start, passage.end) == (passage.id, 0, len(passage.text))


@pytest.mark.parametrize("key", [None, True, False, "", " ", float("nan")])
def test_a_row_without_an_id_has_a_digest_as_its_id(tmp_path: Path, key: object) -> None:
    first, second = rows(tmp_path, {"id": key, "title": "T", "text": "x"}, {"title": "T", "text": "y"})
    assert len(first.id) == 16 and first.id != second.id
    assert rows(tmp_path, {"title": "T", "text": "x"}) == [first]


def test_equal_rows_without_ids_are_one_passage(tmp_path: Path) -> None:
    assert len(rows(tmp_path, {"title": "T", "text": "x"}, {"title": "T", "text": "x"})) == 1


def test_rows_without_ids_and_with_other_fields_are_two_passages(tmp_path: Path) -> None:
    first, second = rows(tmp_path, {"text": "x", "year": 1999}, {"text": "x", "year": 2000})
    assert first.id != second.id
    assert rows(tmp_path, {"year": 2000, "text": "x"}) == [second]


def test_aliases_and_other_fields_are_kept(tmp_path: Path) -> None:
    row = {
        "id": "a",
        "text": "x",
        "aliases": ["A", "", 3],
        "metadata": {"year": 1999, "deep": {"er": 1}, "tags": ["p", "q"], "none": None},
        "url": "https://example.org",
        "open": True,
        "score": float("inf"),
        "rows": [[1]],
    }
    (passage,) = rows(tmp_path, row)
    assert passage.aliases == ("A", "3")
    assert passage.metadata == (
        ("year", "1999"),
        ("tags", "p"),
        ("tags", "q"),
        ("url", "https://example.org"),
        ("open", "true"),
    )


def test_an_empty_text_is_no_passage_and_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "title": "T", "text": " "}\n{"_id": "b", "text": ""}\n{"id":"c","text":"x"}')
    problems = Problems(limit=0)
    assert [passage.id for passage in read_passages(path, problems=problems)] == ["c"]
    assert problems.counts == {"empty documents": 2} and problems.notes[0].startswith("Line 1 of a.jsonl")


def test_lone_surrogates_are_replaced_and_pairs_kept(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a\\udc00", "title": "\\ud83d\\ude00", "text": "x\\ud83dy", "k\\ud800": "\\uD800"}')
    (passage,) = read_passages(path)
    assert fields([passage]) == [("a\ufffd", "😀", "x\ufffdy")] and passage.metadata == (("k\ufffd", "\ufffd"),)


def test_the_last_of_two_fields_with_the_same_name_counts(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "text": "first", "title": "T", "text": "last"}')
    assert [passage.text for passage in read_passages(path)] == ["last"]


CONTEXT = [["Red Kite", ["A film.", " By Ada."]], ["Ada", ["A director.", "Born 1970."]]]
EXPECTED = [
    ("Red Kite (85686298)", "Red Kite", "A film. By Ada."),
    ("Ada (4c13eef9)", "Ada", "A director. Born 1970."),
]


@pytest.mark.parametrize(
    "question",
    [
        {"_id": "q", "question": "Who?", "context": CONTEXT},
        {"question": "?", "context": {"title": ["Red Kite", "Ada"], "sentences": [text for _, text in CONTEXT]}},
        {"question": "?", "context": {"title": ["Red Kite", "Ada"], "content": [text for _, text in CONTEXT]}},
        {"_id": "q", "question": "Who?", "context": json.dumps(CONTEXT)},
        {
            "id": "q",
            "question": "Who?",
            "paragraphs": [
                {"idx": 0, "title": "Red Kite", "paragraph_text": "A film. By Ada.", "is_supporting": True},
                {"idx": 1, "title": "Ada", "paragraph_text": "A director. Born 1970.", "is_supporting": False},
            ],
        },
    ],
)
def test_each_passage_of_questions_is_read_once(tmp_path: Path, question: dict[str, Any]) -> None:
    assert fields(rows(tmp_path, question, question)) == EXPECTED
    assert fields(rows(tmp_path, [question, question], name="a.json")) == EXPECTED


def test_a_title_with_two_texts_is_two_passages_with_different_ids(tmp_path: Path) -> None:
    questions = [{"question": "?", "context": [["Ada", [text]]]} for text in ("One.", "Two.", "One.")]
    first, second = rows(tmp_path, *questions)
    assert first.id != second.id and (first.title, second.title) == ("Ada", "Ada")
    assert rows(tmp_path, *questions[::-1]) == [first, second]
    assert rows(tmp_path, questions[1]) == [second]


def test_a_context_without_a_title_has_its_digest_as_its_id(tmp_path: Path) -> None:
    (passage,) = rows(tmp_path, {"question": "?", "context": [["", ["One."]]]})
    assert re.fullmatch("[0-9a-f]{16}", passage.id)


@pytest.mark.parametrize(
    "context", [[], [3], [["T"]], [["T", None]], [[None, ["x"]]], {"title": 3}, "[", "text", [["T", [1, ["x"]]]]]
)
def test_an_invalid_context_raises_no_error(tmp_path: Path, context: object) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"question": "Who?", "context": context}))
    problems = Problems()
    assert len(list(read_passages(path, problems=problems))) <= 1


@pytest.mark.parametrize(
    "more",
    [
        {"context": []},
        {"context": ["near the sea", "in spring"]},
        {"context": CONTEXT},
        {"question": "Who?", "context": []},
        {"question": "Who?", "context": ["near the sea"]},
        {"question": "Who?", "context": [["T", []]], "paragraphs": []},
        {"question": "Who?", "paragraphs": [{"idx": 0}]},
    ],
)
def test_a_question_with_a_text_and_no_contexts_is_a_passage(tmp_path: Path, more: dict[str, object]) -> None:
    assert fields(rows(tmp_path, {"id": "a", "title": "T", "text": "Own.", **more})) == [("a", "T", "Own.")]


def test_a_passage_has_the_same_id_in_every_file_of_questions(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(json.dumps({"question": "Who?", "context": CONTEXT}))
    assert fields(list(read_passages(tmp_path))) == EXPECTED * 2


def test_a_kilt_page_is_cut_by_its_sections(tmp_path: Path) -> None:
    text = [
        "Ada\n",
        "A director.\n",
        "Section::::Life.\n",
        "Born 1970.\n",
        "Section::::Life.:Youth.\n",
        "BULLET::::- Wild.\n",
    ]
    passages = rows(tmp_path, {"wikipedia_id": "12", "wikipedia_title": "Ada", "text": text, "categories": "x"})
    assert fields(passages) == [
        ("12#1", "Ada", "A director."),
        ("12#2", "Ada › Life", "Born 1970."),
        ("12#3", "Ada › Life › Youth", "- Wild."),
    ]
    assert {passage.document for passage in passages} == {"12"}


def test_a_wikiextractor_page_is_cut_and_a_passage_with_a_url_is_not(tmp_path: Path) -> None:
    body = " ".join(["word"] * 300)
    page = {"id": "12", "url": "https://en.wikipedia.org/wiki?curid=12", "title": "Ada", "text": f"Ada\n\n{body}"}
    assert [(p.id, len(p.text.split())) for p in rows(tmp_path, page)] == [("12#1", 200), ("12#2", 100)]
    assert [p.id for p in rows(tmp_path, page | {"url": "https://example.org"})] == ["12"]


def test_tsv_passages_of_dpr_and_ms_marco_are_read(tmp_path: Path) -> None:
    path = tmp_path / "psgs.tsv"
    path.write_text('id\ttext\ttitle\n1\t"Aaron ""the"" priest"\tAaron\n2\t"A" and "B"\t\nbroken\n')
    problems = Problems()
    assert fields(list(read_passages(path, problems=problems))) == [
        ("1", "Aaron", 'Aaron "the" priest'),
        ("2", "", '"A" and "B"'),
    ]
    assert problems.sentences == ["Line 4 of psgs.tsv has 1 fields, not 3."]
    path.write_text("0\tThe first.\n1\tThe second.\n")
    assert fields(list(read_passages(path))) == [("0", "", "The first."), ("1", "", "The second.")]


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "a.json"
    with path.open("w", encoding="utf-8") as out:
        out.write("[")
        for number in range(20_000):
            out.write(f'{"," if number else ""}{{"id": {number}, "text": "{"words and more " * 30}"}}')
        out.write("]")
    tracemalloc.start()
    count = sum(1 for _ in read_documents(next(find_files(path)), problems=Problems()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 20_000 and peak < 6 * 2**20 < path.stat().st_size


@pytest.mark.parametrize(
    ("header", "expected_title"),
    [("pid\tpassage", ""), ("_id\ttitle\ttext", "Ada"), ("title\tcontents\tID", "Ada"), ("Text\tId\tlang", "")],
)
def test_a_table_is_read_by_its_column_names(tmp_path: Path, header: str, expected_title: str) -> None:
    values = {"pid": "7", "_id": "7", "id": "7", "passage": "A film.", "text": "A film.", "contents": "A film."}
    values |= {"title": "Ada", "lang": "en"}
    row = "\t".join(values[name] for name in header.lower().split("\t"))
    (tmp_path / "a.tsv").write_text(f"{header}\n{row}\n")
    assert fields(list(read_passages(tmp_path / "a.tsv"))) == [("7", expected_title, "A film.")]


@pytest.mark.parametrize(
    ("first", "row"),
    [
        ("country\tcapital\tpopulation", "country: Latvia; capital: Riga; population: 1"),
        ("1\t2020\t500", "Latvia | Riga | 1"),
        ("a", "Latvia | Riga | 1"),
    ],
)
def test_a_table_without_passages_is_read_row_by_row(tmp_path: Path, first: str, row: str) -> None:
    (tmp_path / "a.tsv").write_text(f"{first}\nLatvia\tRiga\t1\n")
    (passage,) = read_passages(tmp_path / "a.tsv", problems=Problems(limit=0))
    assert passage.text.endswith(row) and passage.title == "a"


@pytest.mark.parametrize(
    ("title", "columns", "row"),
    [
        ("Prices", "Item,Price,Unit", "Oil,3,l"),
        ("Prices, Europe", "Item,Price,Unit", "Oil,3,l"),
        ("Prices, 2024", "Item;Price;Unit", "Oil;3;l"),
        ("Prices", "Item\tPrice\tUnit", "Oil\t3\tl"),
    ],
)
def test_a_title_above_the_column_names_is_no_column_name(tmp_path: Path, title: str, columns: str, row: str) -> None:
    (tmp_path / "a.csv").write_text(f"{title}\n\n{columns}\n{row}\n{row}\n")
    (passage,) = read_passages(tmp_path / "a.csv", problems=Problems(limit=0))
    assert passage.text == "\n\n".join((title, *["Item: Oil; Price: 3; Unit: l"] * 2))


def test_rows_of_a_csv_file_with_texts_are_passages(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,title,text\n7,Riga,"A city, on\nthe Daugava."\n8,Oslo,A city.\n')
    rows = [(passage.id, passage.title, passage.text) for passage in read_passages(tmp_path / "a.csv")]
    assert rows == [("7", "Riga", "A city, on\nthe Daugava."), ("8", "Oslo", "A city.")]


@pytest.mark.parametrize(
    ("field", "value", "what"),
    [
        ("title", ["T", "U"], "a title that is neither a string nor a number, which is"),
        ("title", {"en": "T"}, "a title that is neither a string nor a number, which is"),
        ("section", ["S", "T"], "a section that is neither a string nor a number, which is"),
        ("metadata", "year=1999", "metadata that are not a JSON object, which are"),
        ("metadata", [1], "metadata that are not a JSON object, which are"),
        ("aliases", {"en": "A"}, "aliases that are neither strings nor numbers, which are"),
        ("aliases", ["A", ["B"]], "aliases that are neither strings nor numbers, which are"),
    ],
)
def test_a_field_of_the_wrong_type_is_left_out_and_reported(
    tmp_path: Path, field: str, value: object, what: str
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": "a", "text": "x", field: value}), encoding="utf-8")
    problems = Problems()
    (passage,) = read_passages(path, problems=problems)
    assert (passage.id, passage.title, passage.text, passage.metadata) == ("a", "", "x", ())
    assert problems.counts == {"fields of the wrong type": 1} and problems.broken == 1
    assert problems.sentences == [f"Line 1 of a.jsonl has {what} left out."]
    with pytest.raises(CorpusError, match=r"Line 1 of a\.jsonl"):
        list(read_passages(path))


def test_one_alias_needs_no_list(tmp_path: Path) -> None:
    (passage,) = rows(tmp_path, {"id": "a", "text": "x", "aliases": "Nyslott"})
    assert passage.aliases == ("Nyslott",)


def test_a_page_with_a_title_of_the_wrong_type_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"id": "a", "title": ["T", "U"], "text": ["One.", "Two."]}', encoding="utf-8")
    problems = Problems()
    (passage,) = read_passages(path, problems=problems)
    assert passage.title == "" and problems.counts == {"fields of the wrong type": 1}
    path.write_text('{"id": "a", "title": ["T"], "text": ["One.", "Two."]}', encoding="utf-8")
    assert [passage.title for passage in read_passages(path)] == ["T"]


LONG = "a " * 250_000


@pytest.mark.parametrize(
    ("row", "note"),
    [
        ({"id": "a", "title": LONG, "text": "word " * 50_000}, "has a title of 500,000 characters, which is cut"),
        ({"id": "a", "title": "T", "aliases": [LONG], "text": "word " * 50_000}, "beside its text, which are left out"),
        ({"id": "a", "title": "T", "text": "word " * 50_000, "about": LONG}, "beside its text, which are left out"),
        (
            {"question": "Q?", "context": [[LONG, ["word " * 50_000]]]},
            "has a title of 499,999 characters, which is cut",
        ),
        ({"title": "T", "text": ["T", f"Section::::{LONG}", "word " * 50_000]}, ""),
        ({"id": "a", "contents": f"{LONG}\nword"}, ""),
    ],
)
def test_titles_aliases_and_metadata_of_a_row_have_limits(tmp_path: Path, row: dict[str, Any], note: str) -> None:
    """A title of 500,000 characters made an index 100 times as long as its file."""
    path, problems = tmp_path / "a.jsonl", Problems()
    path.write_text(json.dumps(row), encoding="utf-8")
    passages = list(read_passages(path, problems=problems))
    beside = [len(p.id) + len(p.document) + len(p.title) + len(str((p.aliases, p.metadata))) for p in passages]
    assert len(passages) > 100 and max(beside) < 4_000
    assert sum(len(passage.text) for passage in passages) > 240_000, "the text is all there"
    assert note in " ".join(problems.report()) and (note or not problems.report())


def test_an_overlong_id_is_refused(tmp_path: Path) -> None:
    path, problems = tmp_path / "a.jsonl", Problems()
    path.write_text(json.dumps({"id": LONG, "title": "T", "text": "x"}) + '\n{"id": "b", "title": "T", "text": "y"}')
    assert fields(list(read_passages(path, problems=problems))) == [("b", "T", "y")]
    assert problems.report() == ("Line 1 of a.jsonl has an id of 500,000 characters.",)
