"""PDF files, page by page."""

from __future__ import annotations

import base64
import subprocess
import sys
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hoptree.corpus import pdf as reading
from hoptree.corpus.document import Problems
from hoptree.corpus.pdf import _drop_running_heads
from hoptree.corpus.read import read_passages

LOCKED = (
    "JVBERi0xLjMKJeLjz9MKMSAwIG9iago8PAovUHJvZHVjZXIgPGI5NGYzMmVkYjA+Cj4+CmVuZG9iagoyIDAgb2JqCjw8Ci9UeXBl"
    "IC9QYWdlcwovQ291bnQgMQovS2lkcyBbIDQgMCBSIF0KPj4KZW5kb2JqCjMgMCBvYmoKPDwKL1R5cGUgL0NhdGFsb2cKL1BhZ2Vz"
    "IDIgMCBSCj4+CmVuZG9iago0IDAgb2JqCjw8Ci9UeXBlIC9QYWdlCi9SZXNvdXJjZXMgPDwKPj4KL01lZGlhQm94IFsgMC4wIDAu"
    "MCAzMCAzMCBdCi9QYXJlbnQgMiAwIFIKPj4KZW5kb2JqCjUgMCBvYmoKPDwKL1YgMgovUiAzCi9MZW5ndGggMTI4Ci9QIDQyOTQ5"
    "NjcyOTIKL0ZpbHRlciAvU3RhbmRhcmQKL08gPDBlNTIyOTI1YTNlNGU4NzRjM2NmYWNiZWY1MTFhNzNhYzRlYzJiZDg2NWRjZDNk"
    "NDYyNzYxNDkxN2FiZmQ3ZTQ+Ci9VIDxiNjIxMjBiMWFmNWM4YWI3MjhlZDk4MzA3NjBkNTEwYjI4YmY0ZTVlNGU3NThhNDE2NDAw"
    "NGU1NmZmZmEwMTA4Pgo+PgplbmRvYmoKeHJlZgowIDYKMDAwMDAwMDAwMCA2NTUzNSBmIAowMDAwMDAwMDE1IDAwMDAwIG4gCjAw"
    "MDAwMDAwNTkgMDAwMDAgbiAKMDAwMDAwMDExOCAwMDAwMCBuIAowMDAwMDAwMTY3IDAwMDAwIG4gCjAwMDAwMDAyNTkgMDAwMDAg"
    "biAKdHJhaWxlcgo8PAovU2l6ZSA2Ci9Sb290IDMgMCBSCi9JbmZvIDEgMCBSCi9JRCBbIDxjZWE4YmYwYjlmMDFlMmYxYzk0ZWVi"
    "MTk4OTM0NWE1Yz4gPGNlYThiZjBiOWYwMWUyZjFjOTRlZWIxOTg5MzQ1YTVjPiBdCi9FbmNyeXB0IDUgMCBSCj4+CnN0YXJ0eHJl"
    "Zgo0NzQKJSVFT0YK"
)
"""An empty page, locked with a password."""


def pdf(*pages: str, title: str = "", outline: tuple[tuple[str, int], ...] = ()) -> bytes:
    """A PDF with lines of text on each page; the outline names pages from 0 on."""
    pytest.importorskip("pypdfium2")
    first = 4
    kids = [first + 2 * number for number in range(len(pages))]
    marks = [first + 2 * len(pages) + number for number in range(len(outline))]
    objects = {
        1: f"<</Type/Catalog/Pages 2 0 R{f'/Outlines {marks[-1] + 1} 0 R' if marks else ''}>>",
        2: f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
    }
    for kid, text in zip(kids, pages, strict=True):
        lines = " ".join(f"({line}) Tj T*" for line in text.split("\n"))
        stream = f"BT /F1 8 Tf 10 TL 20 380 Td {lines} ET"
        objects[kid] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 400]/Resources<</Font<</F1 3 0 R>>>>/Contents {kid + 1} 0 R>>"
        )
        objects[kid + 1] = f"<</Length {len(stream.encode('cp1252'))}>>stream\n{stream}\nendstream"
    for number, (words, page) in enumerate(outline):
        following = f"/Next {marks[number + 1]} 0 R" if number + 1 < len(outline) else ""
        objects[marks[number]] = f"<</Title({words})/Parent {marks[-1] + 1} 0 R/Dest[{kids[page]} 0 R/Fit]{following}>>"
    if marks:
        objects[marks[-1] + 1] = f"<</Type/Outlines/First {marks[0]} 0 R/Last {marks[-1]} 0 R/Count {len(marks)}>>"
    info = max(objects) + 1
    objects[info] = f"<</Title({title})>>"
    return assembled(objects, f"/Info {info} 0 R")


def assembled(objects: dict[int, str], trailer: str = "") -> bytes:
    """A file of objects, numbered from 1 on; the first one is the catalogue."""
    body = b"%PDF-1.7\n"
    places = []
    for number in sorted(objects):
        places.append(len(body))
        body += f"{number} 0 obj{objects[number]}endobj\n".encode("cp1252")
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n{table}"
    size = len(places) + 1
    return body + f"{end}trailer<</Size {size}/Root 1 0 R{trailer}>>\nstartxref\n{len(body)}\n%%EOF".encode()


def lenient(path: Path, content: bytes) -> tuple[list[Any], Problems]:
    path.write_bytes(content)
    problems = Problems()
    return list(read_passages(path, problems=problems)), problems


DRAWN = ") Tj ET 9 9 99 99 re f BT ("
"""A page with something drawn on it, such as a scan, and without text."""


def test_each_page_is_a_document_with_its_number(tmp_path: Path) -> None:
    passages, problems = lenient(tmp_path / "a.pdf", pdf("A film of 2014", DRAWN, "By Ada", title="Red Kite"))
    assert [(p.id, p.title, p.text, p.metadata) for p in passages] == [
        ("a.pdf#page=1#1", "Red Kite", "A film of 2014", (("page", "1"),)),
        ("a.pdf#page=3#1", "Red Kite", "By Ada", (("page", "3"),)),
    ]
    assert problems.broken == 0 and "1 of 3 pages" in problems.notes[0]


@pytest.mark.parametrize(("second", "noted"), [("", []), (DRAWN, ["1 of 2 pages of a.pdf hold no text"])])
def test_a_blank_page_is_no_problem_but_a_scan_is(tmp_path: Path, second: str, noted: list[str]) -> None:
    _, problems = lenient(tmp_path / "a.pdf", pdf("A page with words.", second))
    assert [note.partition(";")[0] for note in problems.notes] == noted
    assert "empty documents" not in problems.counts
    _, problems = lenient(tmp_path / "b.pdf", pdf(second))
    assert "1 of 1 pages of b.pdf hold no text" in problems.notes[0]


JOINED = "or) Tj 8.31 0 Td (the day, but ) Tj [(th) 20 (ey)] TJ ( are"
SPACED = ") Tj 1.15 Tc (spaced) Tj 0 Tc 60 0 Td (print"
"""In Helvetica of 8 points "or" takes 7.11, and PDFium sees no space in a gap of 1.2."""


def test_words_without_a_space_between_them_are_parted_where_there_is_a_gap(tmp_path: Path) -> None:
    (first,), _ = lenient(tmp_path / "a.pdf", pdf(JOINED))
    assert first.text == "or the day, but they are"
    (spaced,), _ = lenient(tmp_path / "b.pdf", pdf(SPACED))
    assert spaced.text.split() == ["spaced", "print"]


def test_a_page_with_nothing_but_running_heads_is_no_problem(tmp_path: Path) -> None:
    texts = ("Kites soar.", "Owls hunt at night.", "", "Herons wade in water.", "Larks sing above fields.")
    passages, problems = lenient(tmp_path / "a.pdf", pdf(*(f"Red Kite\n{text}".strip() for text in texts)))
    assert [passage.text for passage in passages] == [*filter(None, texts)] and problems.notes == []


def test_lines_are_joined_and_hyphens_undone(tmp_path: Path) -> None:
    lines = (
        "The lighthouse of the northern cape was built by the brothers Brask in the sum-\n"
        "mer of 1902, and its lamp was seen from the whole coast between the two fjords until\n"
        "the war.\n"
        "- A keeper lived there with his family.\n"
        "- The Linux-\nDistribution was not yet made."
    )
    passages, _ = lenient(tmp_path / "a.pdf", pdf(lines))
    assert [passage.text for passage in passages] == [
        "The lighthouse of the northern cape was built by the brothers Brask in the summer of 1902, and its lamp was "
        "seen from the whole coast between the two fjords until the war.\n\n"
        "- A keeper lived there with his family.\n\n- The Linux-Distribution was not yet made."
    ]


@pytest.mark.parametrize(
    "lines",
    [
        "Seit der letzten großen Veröf-\nfentlichung liegt ein ganzes Jahr\nzwischen beiden neuen großen\n"
        "Versionen der Pakete.",
        "The keeper sets the lamp of the cape by the hour and by the day of the\n"
        "year, and reads the clock of the tower, see\nSection 8 of the book of the cape. If\nTIME is unset, he waits.",
    ],
)
def test_a_sentence_goes_on_with_a_capital_in_the_next_line(tmp_path: Path, lines: str) -> None:
    passages, _ = lenient(tmp_path / "a.pdf", pdf(lines))
    assert [passage.text for passage in passages] == [lines.replace("-\n", "").replace("\n", " ")]


def test_headings_items_and_short_lines_stay_apart(tmp_path: Path) -> None:
    lines = (
        "The keeper sets the lamp of the cape by the hour and by the day of the year, and then he\n- Reads the clock.\n"
        "Where it is\nThe lamp stands on the cape\nKeepers"
    )
    passages, _ = lenient(tmp_path / "a.pdf", pdf(lines))
    assert [passage.text for passage in passages] == [lines.replace("\n", "\n\n")]


def test_running_headers_footers_and_page_numbers_are_dropped(tmp_path: Path) -> None:
    words = ("Ada came.", "Bo saw it all.", "Cy is the keeper.", "Dee left.")
    pages = [f"Chapter {n}. The North\n{text}\nA Guide to Capes\n{n} / 4" for n, text in enumerate(words, 1)]
    passages, _ = lenient(tmp_path / "a.pdf", pdf(*pages))
    assert [passage.text for passage in passages] == list(words)


@pytest.mark.parametrize(
    "edges",
    [
        [
            "The committee of the city met in May.",
            "The committee of the city chose Ada.",
            "The committee of the city left.",
        ],
        ["SQLITE_BUSY is no fault.", "SQLITE_ERROR is one.", "SQLITE_FULL is one."],
        ["1999", "42 %", "7"],
        ["Total 1999", "It rained.", "It snowed."],
        ["III", "mix", "I"],
        ["Example", "", "", "", "", "Example", "", "", "", "", "Example"],
    ],
)
@pytest.mark.parametrize("form", ["{0}\nPage {1} is on {1} ships.", "Page {1} is on {1} ships.\n{0}"])
def test_lines_of_text_at_the_edge_of_a_page_are_kept(tmp_path: Path, edges: list[str], form: str) -> None:
    animals = ("cats", "dogs", "birds", "fish", "bees", "cows", "goats", "pigs", "hens", "bats", "owls")
    pages = [form.format(line, animals[at]).strip() for at, line in enumerate(edges)]
    passages, _ = lenient(tmp_path / "a.pdf", pdf(*pages))
    words = " ".join(" ".join(passage.text.split()) for passage in passages).split()
    assert sorted(words) == sorted(" ".join(pages).split())


@pytest.mark.parametrize(
    "numbers",
    [["17", "18", "19"], ["ix", "x", "xi"], ["- 4 -", "- 5 -", "- 6 -"], ["1", "2", "3"], ["第1页", "第2页", "第3页"]],
)
def test_only_numbers_in_sequence_are_page_numbers(numbers: list[str]) -> None:
    texts = ["Ada came.", "Bo saw it all.", "Cy is the keeper."]
    assert _drop_running_heads([f"{text}\n{number}" for text, number in zip(texts, numbers, strict=True)]) == [
        [text] for text in texts
    ]


def test_a_sentence_belongs_to_the_page_where_it_begins(tmp_path: Path) -> None:
    passages, _ = lenient(tmp_path / "a.pdf", pdf("One. The keeper of the", "lamp was Ada. She slept.", "Last."))
    assert [(p.text, p.metadata[0][1]) for p in passages] == [
        ("One. The keeper of the lamp was Ada.", "1"),
        ("She slept.", "2"),
        ("Last.", "3"),
    ]


def test_the_table_of_contents_names_sections(tmp_path: Path) -> None:
    pages = ("1 Beginnings\nIt began.", "It went on.\n2 Ends\nIt ended.")
    content = pdf(*pages, title="Red Kite", outline=(("Beginnings", 0), ("Ends", 1)))
    passages, _ = lenient(tmp_path / "a.pdf", content)
    assert [(p.title, p.text) for p in passages] == [
        ("Red Kite › Beginnings", "It began."),
        ("Red Kite › Beginnings", "It went on."),
        ("Red Kite › Ends", "It ended."),
    ]


def test_the_number_of_a_chapter_above_its_heading_is_part_of_it(tmp_path: Path) -> None:
    pages = ("Chapter 1\nBeginnings\nIt began.", "Chapter 2\nEnds\nIt ended.")
    content = pdf(*pages, title="Red Kite", outline=(("Beginnings", 0), ("Ends", 1)))
    passages, _ = lenient(tmp_path / "a.pdf", content)
    assert [(p.title, p.text) for p in passages] == [
        ("Red Kite › Chapter 1. Beginnings", "It began."),
        ("Red Kite › Chapter 2. Ends", "It ended."),
    ]


def test_a_file_with_a_password_is_skipped(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    passages, problems = lenient(tmp_path / "a.pdf", base64.b64decode(LOCKED))
    assert passages == [] and problems.sentences == ["a.pdf is locked with a password."]


def test_a_damaged_file_is_skipped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    intact = pdf("Some words")
    for content in (b"", b"no pdf", b"%PDF-1.7\n", intact[: len(intact) // 2], intact.replace(b"/Pages", b"/Pages[[[")):
        passages, problems = lenient(tmp_path / "a.pdf", content)
        assert passages or problems.counts["damaged documents"] == 1, content
    assert capfd.readouterr() == ("", "")


def test_without_the_library_pdf_is_skipped_and_the_extra_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdfium2", None)
    (tmp_path / "b.txt").write_text("Words.")
    problems = Problems()
    (tmp_path / "a.pdf").write_bytes(b"%PDF-1.7\n")
    assert [passage.text for passage in read_passages(tmp_path, problems=problems)] == ["Words."]
    assert problems.sentences == ["a.pdf was not read: PDF needs pip install 'hoptree[docs]'."]


@pytest.mark.parametrize("heading", ["CHAPTER {}. {}", "Article {}"])
def test_the_heading_of_a_chapter_is_no_running_head(tmp_path: Path, heading: str) -> None:
    words = ("Ada came.", "Bo sailed to Oslo by ship.", "Cy is the keeper.", "Dee left.")
    headings = [heading.format(n, name) for n, name in ((1, "CATS"), (2, "DOGS"), (3, "BIRDS"), (3, "BIRDS"))]
    pages = [f"{above}\n{text}" for above, text in zip(headings, words, strict=True)]
    passages, _ = lenient(tmp_path / "a.pdf", pdf(*pages))
    assert [passage.text.split() for passage in passages] == [*map(str.split, pages[:3]), ["Dee", "left."]]


def test_other_numbers_are_neither_items_nor_page_numbers(tmp_path: Path) -> None:
    lines = "The committee of the city met for the first time in\n1999 and the sum of what its members gave was\n42"
    passages, _ = lenient(tmp_path / "a.pdf", pdf(lines))
    assert [passage.text for passage in passages] == [lines.replace("\n", " ")]


def test_a_file_with_an_unusable_title_is_read(tmp_path: Path) -> None:
    broken = "\\376\\377\\330\\000\\000a"  # half a surrogate pair
    for title in (broken, "Microsoft Word - a.doc", "Annual report.indd"):
        passages, problems = lenient(tmp_path / "a.pdf", pdf("Words.", title=title, outline=((broken, 0),)))
        assert [(p.title, p.text) for p in passages] == [("a", "Words.")] and problems.broken == 0


def branching(depth: int) -> bytes:
    """Return a PDF of forms that each draw the next one twice, which doubles the work each time."""
    first, resources = 6, "/Resources<</XObject<</X {} 0 R>>>>"
    objects = {
        1: "<</Type/Catalog/Pages 2 0 R>>",
        2: "<</Type/Pages/Count 1/Kids[4 0 R]>>",
        3: "<<>>",
        4: f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 400]{resources.format(first)}/Contents 5 0 R>>",
        5: "<</Length 5>>stream\n/X Do\nendstream",
    }
    for number in range(first, first + depth):
        form = f"<</Type/XObject/Subtype/Form/BBox[0 0 600 400]{resources.format(number + 1)}/Length 11>>"
        objects[number] = f"{form}stream\n/X Do /X Do\nendstream"
    objects[first + depth] = "<</Type/XObject/Subtype/Form/BBox[0 0 600 400]/Length 0>>stream\n\nendstream"
    return assembled(objects)


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of a process")
def test_a_file_that_blocks_the_library_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdfium2")
    monkeypatch.setattr(reading, "_BASE_SECONDS", 1.0)
    passages, problems = lenient(tmp_path / "a.pdf", branching(30))
    assert passages == []
    assert problems.sentences == ["a.pdf cannot be read as PDF: it takes more time or memory than it may."]
    passages, problems = lenient(tmp_path / "b.pdf", pdf("Sound."))
    assert [passage.text for passage in passages] == ["Sound."]
    assert not problems.broken


@pytest.mark.skipif(sys.platform != "linux", reason="no limit on the memory of a process")
def test_a_page_that_unpacks_to_gigabytes_is_skipped(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    packer = zlib.compressobj(9)
    head = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    content = (head + block * 1_500).hex()  # without an end, which the library does not need
    bomb = assembled(
        {
            1: "<</Type/Catalog/Pages 2 0 R>>",
            2: "<</Type/Pages/Count 1/Kids[4 0 R]>>",
            3: "<<>>",
            4: "<</Type/Page/Parent 2 0 R/MediaBox[0 0 600 400]/Contents 5 0 R>>",
            5: f"<</Filter[/ASCIIHexDecode/FlateDecode]/Length {len(content)}>>stream\n{content}\nendstream",
        }
    )
    passages, problems = lenient(tmp_path / "a.pdf", bomb)
    assert passages == []
    assert problems.sentences == ["a.pdf cannot be read as PDF: it takes more time or memory than it may."]


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no /proc")
def test_the_process_does_not_outlive_the_one_that_asks(tmp_path: Path) -> None:
    pytest.importorskip("pypdfium2")
    (tmp_path / "a.pdf").write_bytes(branching(40))
    script = (
        "import sys; from hoptree.corpus import pdf; pdf._BASE_SECONDS = 900; "
        "print(pdf._PDFIUM._running().pid, flush=True); "
        "pdf._PDFIUM.read(open(sys.argv[1], 'rb').read())"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "a.pdf")], stdout=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdout
        reader = Path(f"/proc/{asking.stdout.readline().strip()}")
        while "pdfium" not in (reader / "maps").read_text():
            time.sleep(0.05)
        time.sleep(1)
        asking.kill()
    until = time.monotonic() + 300  # it may take three times as long for the file
    while reader.exists() and ") Z " not in (reader / "stat").read_text():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_process_that_has_ended_is_started_again(tmp_path: Path) -> None:
    for _ in range(2):
        passages, problems = lenient(tmp_path / "a.pdf", pdf("Sound."))
        assert [passage.text for passage in passages] == ["Sound."]
        assert not problems.broken
        process = reading._PDFIUM._process
        assert process
        process.kill()
        process.wait()


def test_text_beyond_the_limit_is_not_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_DOCUMENT_BYTES", 20_000)
    _, problems = lenient(tmp_path / "a.pdf", pdf(*["words " * 500] * 9))
    assert problems.counts["oversized lines or files"] == 1
    monkeypatch.undo()
    passages, _ = lenient(tmp_path / "a.pdf", pdf("Sound."))
    assert [passage.text for passage in passages] == ["Sound."]


@pytest.mark.parametrize(
    "content",
    [
        lambda: pdf("Sound.").replace(b"/Count 1/", b"/Count 999999/"),
        lambda: pdf("Sound.", outline=(("a" * 9_000, 0),) * 200),
    ],
    ids=["pages", "headings"],
)
def test_pages_and_headings_that_a_file_claims_are_bounded(
    content: Callable[[], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MAX_DOCUMENT_BYTES", 100_000)
    replies = reading._PDFIUM.read(content())
    assert replies
    assert len(replies) <= 102 and len(replies[0]["headings"]) <= 100
    assert "oversized" in replies[-1]


@pytest.mark.parametrize("line", ["the lamp of the cape", "Lamp of the cape number"])
def test_work_grows_linearly_with_lines_and_headings(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chars = 0
    packed = reading._without_spaces

    def counted(text: str) -> str:
        nonlocal chars
        chars += len(text)
        return packed(text)

    monkeypatch.setattr(reading, "_without_spaces", counted)
    counts = []
    for size in (500, 1_000, 2_000):
        chars = 0
        headings = reading._Headings([(1, f"Heading {number}") for number in range(size)])
        assert reading._paragraphs([line] * size, headings)
        counts.append(chars)
    assert counts[2] <= 2.1 * counts[1] <= 4.5 * counts[0]
