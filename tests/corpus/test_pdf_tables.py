"""Tables in PDF files are read row by row; other aligned texts stay texts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.corpus.test_corpus_pdf import assembled, lenient

Text = tuple[int, int, str]  # where it begins, counted from the lower left corner, and its words


def page(*texts: Text, bold: int = 0) -> bytes:
    """A page with texts at places, the first of them `bold`."""
    pytest.importorskip("pypdfium2")
    fonts = ["/F2" if number < bold else "/F1" for number in range(len(texts))]
    shown = (f"BT {font} 9 Tf {x} {y} Td ({words}) Tj ET" for font, (x, y, words) in zip(fonts, texts, strict=True))
    stream = "\n".join(shown)
    font = "<</Type/Font/Subtype/Type1/BaseFont/{}/Encoding/WinAnsiEncoding>>"
    named = "/Resources<</Font<</F1 3 0 R/F2 4 0 R>>>>"
    return assembled(
        {
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[5 0 R]>>",
            3: font.format("Helvetica"),
            4: font.format("Helvetica-Bold"),
            5: f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 400]{named}/Contents 6 0 R>>",
            6: f"<</Length {len(stream)}>>stream\n{stream}\nendstream",
        }
    )


def table(*rows: tuple[str, ...], top: int = 340) -> list[Text]:
    return [(50 + 160 * column, top - 14 * at, cell) for at, row in enumerate(rows) for column, cell in enumerate(row)]


def text_of(tmp_path: Path, content: bytes) -> list[str]:
    passages, problems = lenient(tmp_path / "a.pdf", content)
    assert not problems.broken
    (passage,) = passages
    return str(passage.text).split("\n\n")


SHIPS = [("Ship", "Built", "Captain"), ("Aurora", "1901", "Jane Roe"), ("Borealis", "1922", "John Poe")]
PORTS = [("Ship", "Port"), ("Aurora", "Oslo"), ("Borealis", "Riga"), ("Cora", "Ulm")]


def test_the_rows_of_a_table_have_the_names_of_their_columns(tmp_path: Path) -> None:
    ships = ["Ship: Aurora; Built: 1901; Captain: Jane Roe", "Ship: Borealis; Built: 1922; Captain: John Poe"]
    around = (50, 354, "The fleet."), (50, 280, "It sails on.")
    assert text_of(tmp_path, page(around[0], *table(*SHIPS), around[1])) == ["The fleet.", *ships, "It sails on."]
    assert text_of(tmp_path, page(*table(*PORTS), bold=2)) == [
        "Ship: Aurora; Port: Oslo",
        "Ship: Borealis; Port: Riga",
        "Ship: Cora; Port: Ulm",
    ]


def test_rows_without_names_are_lines(tmp_path: Path) -> None:
    assert text_of(tmp_path, page(*table(*SHIPS[1:], ("Cora", "1930", "Ada")))) == [
        "Aurora | 1901 | Jane Roe",
        "Borealis | 1922 | John Poe",
        "Cora | 1930 | Ada",
    ]
    assert text_of(tmp_path, page(*table(*PORTS))) == ["Ship Port", "Aurora Oslo", "Borealis Riga", "Cora Ulm"]


def test_a_cell_may_have_several_lines(tmp_path: Path) -> None:
    texts = table(*SHIPS, ("Cora", "1930", "Ada Lovelace"))
    texts += [(370, 288, "of London"), *table(("Dora", "1931", "Bo"), top=272)]
    assert text_of(tmp_path, page(*texts))[2:] == [
        "Ship: Cora; Built: 1930; Captain: Ada Lovelace of London",
        "Ship: Dora; Built: 1931; Captain: Bo",
    ]


def test_names_may_be_centred_numbers_stand_on_the_right_and_cells_be_empty(tmp_path: Path) -> None:
    names = [(75, 340, "Nr"), (105, 340, "Time"), (164, 340, "Fare"), (210, 340, "Driver")]
    rows = [("RB 101", "06:15", "1250", "Uwe Kranz"), ("RB 7", "09:20", "45", ""), ("RE 12", "11:50", "8", "Bo Otte")]
    texts = [*names]
    for at, (train, departs, fare, driver) in enumerate(rows):
        y = 322 - 18 * at
        texts += [(50, y, train), (105, y, departs), (181 - 5 * len(fare), y, fare)]
        texts += [(210, y, driver)] if driver else []
    assert text_of(tmp_path, page(*texts, bold=4)) == [
        "Nr: RB 101; Time: 06:15; Fare: 1250; Driver: Uwe Kranz",
        "Nr: RB 7; Time: 09:20; Fare: 45",
        "Nr: RE 12; Time: 11:50; Fare: 8; Driver: Bo Otte",
    ]


def test_a_row_with_empty_cells_in_between_keeps_the_names_of_its_columns(tmp_path: Path) -> None:
    columns = ("Disk", 50), ("Type", 110), ("Flag", 170), ("Mount", 230)
    rows = [("sda", "ext", "boot", "/"), ("sdb", "swap", "", "none"), ("sdc", "ntfs", "", ""), ("sdd", "", "", "/var")]
    texts = [(x, 340, name) for name, x in columns]
    texts += [(columns[at][1], 322 - 18 * y, cell) for y, row in enumerate(rows) for at, cell in enumerate(row) if cell]
    assert text_of(tmp_path, page(*texts, bold=4)) == [
        "Disk: sda; Type: ext; Flag: boot; Mount: /",
        "Disk: sdb; Type: swap; Mount: none",
        "Disk: sdc; Type: ntfs",
        "Disk: sdd; Mount: /var",
    ]


def test_narrow_columns_are_apart(tmp_path: Path) -> None:
    ships = [
        (x, 340 - 14 * at, cell) for at, row in enumerate(SHIPS) for x, cell in zip((50, 92, 121), row, strict=True)
    ]
    assert text_of(tmp_path, page(*ships, bold=3)) == [
        "Ship: Aurora; Built: 1901; Captain: Jane Roe",
        "Ship: Borealis; Built: 1922; Captain: John Poe",
    ]


def test_commands_and_running_heads_are_no_rows(tmp_path: Path) -> None:
    commands = [(50, 300 - 14 * at, f"gbp pq drop{at}") for at in range(4)]
    content = page(*commands).replace(b"/Helvetica/", b"/Courier/")
    assert "|" not in " ".join(text_of(tmp_path, content))
    assert text_of(tmp_path, page((50, 380, "Part 1"), (210, 380, "Ships"), (370, 380, "3"), *table(*SHIPS)))[-2:] == [
        "Ship: Aurora; Built: 1901; Captain: Jane Roe",
        "Ship: Borealis; Built: 1922; Captain: John Poe",
    ]


def test_a_text_in_two_columns_stays_a_text(tmp_path: Path) -> None:
    left = [(50, 340 - 11 * at, f"The northern cape has a light that is number {at},") for at in range(5)]
    right = [(320, 340 - 11 * at, f"and the southern cape has another one like {at},") for at in range(5)]
    (text,) = text_of(tmp_path, page(*left, *right))
    assert text.startswith("The northern cape has a light that is number 0, The northern") and "number 4, and" in text


def test_items_and_tables_of_contents_are_no_tables(tmp_path: Path) -> None:
    items = [
        (50 + 20 * column, 340 - 14 * at, text) for at in range(4) for column, text in ((0, f"{at}."), (1, "Oslo"))
    ]
    assert text_of(tmp_path, page(*items)) == ["0. Oslo", "1. Oslo", "2. Oslo", "3. Oslo"]
    contents = table(*((f"Chapter {at}", ". . . . . . . .", str(at)) for at in range(1, 5)))
    assert "|" not in " ".join(text_of(tmp_path, page(*contents)))
