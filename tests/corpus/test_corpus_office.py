"""Text of Word, PowerPoint, Excel and EPUB files, and the limits for hostile ones."""

from __future__ import annotations

import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.corpus.document import Problems
from hoptree.corpus.read import read_passages

OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def packed(parts: dict[str, str | bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", kind) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return out.getvalue()


def related(**targets: str) -> str:
    """The references of a part: by id, type and target."""
    rows = (
        f'<Relationship Id="{key}" Type="{OFFICE}/{target.partition(" ")[0]}" Target="{target.partition(" ")[2]}"/>'
        for key, target in targets.items()
    )
    return f'<Relationships xmlns="http://x/relationships">{"".join(rows)}</Relationships>'


def docx(body: str, **parts: str) -> bytes:
    styles = '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style><w:style w:styleId="berschrift2">'
    styles += '<w:name w:val="Heading 2"/></w:style>'
    styles += '<w:style w:styleId="Verzeichnis1"><w:name w:val="toc 1"/></w:style>'
    return packed(
        {
            "word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>',
            "word/document.xml": f'<w:document xmlns:w="{WORD}" xmlns:mc="mc"><w:body>{body}</w:body></w:document>',
            **{name.replace("_", "/"): text for name, text in parts.items()},
        }
    )


def p(text: str, style: str = "") -> str:
    chosen = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f"<w:p>{chosen}<w:r><w:t>{text}</w:t></w:r></w:p>"


def table(*rows: tuple[str, ...]) -> str:
    cells = ("".join(f"<w:tc>{p(cell)}</w:tc>" for cell in row) for row in rows)
    return f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in cells)}</w:tbl>"


def pptx(*slides: str, notes: str = "") -> bytes:
    ids = "".join(f'<p:sldId id="{255 + n}" r:id="r{n}"/>' for n in range(1, len(slides) + 1))
    parts: dict[str, str | bytes] = {
        "ppt/presentation.xml": f'<p:presentation xmlns:p="p" xmlns:r="{OFFICE}">{ids}</p:presentation>',
        "ppt/_rels/presentation.xml.rels": related(
            **{f"r{n}": f"slide slides/s{n}.xml" for n in range(1, len(slides) + 1)}
        ),
        "ppt/slides/_rels/s1.xml.rels": related(r1="notesSlide ../notes/n1.xml"),
        "ppt/notes/n1.xml": f'<p:n xmlns:p="p" xmlns:a="a">{shape("body", notes)}{shape("sldNum", "7")}</p:n>',
    }
    for number, body in enumerate(slides, 1):
        parts[f"ppt/slides/s{number}.xml"] = f'<p:sld xmlns:p="p" xmlns:a="a">{body}</p:sld>'
    return packed(parts)


def shape(kind: str, *lines: str) -> str:
    texts = "".join(f"<a:p><a:r><a:t>{line}</a:t></a:r></a:p>" for line in lines)
    return f'<p:sp><p:nvPr><p:ph type="{kind}"/></p:nvPr><p:txBody>{texts}</p:txBody></p:sp>'


def xlsx(rows: str, strings: str = "", **sheets: str) -> bytes:
    names = ["Orders", *sheets]
    listed = "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(names))
    targets = {f"r{n}": f"worksheet worksheets/sheet{n}.xml" for n in range(len(names))}
    formats = '<numFmt numFmtId="164" formatCode="[Red]yyyy\\-mm"/><numFmt numFmtId="165" formatCode="0&quot;d&quot;"/>'
    formats += '<numFmt numFmtId="166" formatCode="[h]:mm:ss"/>'
    cells = "".join(f'<xf numFmtId="{number}"/>' for number in (0, 14, 164, 165, 166, 46))
    styles = f"<numFmts>{formats}</numFmts><cellXfs>{cells}</cellXfs>"
    return packed(
        {
            "xl/workbook.xml": f'<workbook xmlns="s" xmlns:r="{OFFICE}"><sheets>{listed}</sheets></workbook>',
            "xl/_rels/workbook.xml.rels": related(
                **targets, s="sharedStrings sharedStrings.xml", t="styles /xl/styles.xml"
            ),
            "xl/sharedStrings.xml": f'<sst xmlns="s">{strings}</sst>',
            "xl/styles.xml": f'<styleSheet xmlns="s">{styles}</styleSheet>',
            **{
                f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="s"><sheetData>{text}</sheetData></worksheet>'
                for n, text in enumerate((rows, *sheets.values()))
            },
        }
    )


def epub(**pages: str) -> bytes:
    items = "".join(f'<item id="{key}" href="{key}.xhtml" media-type="application/xhtml+xml"/>' for key in pages)
    order = "".join(f'<itemref idref="{key}"/>' for key in reversed(pages))
    package = '<package xmlns="o" xmlns:dc="d"><metadata><dc:title>Red Kite</dc:title></metadata>'
    package += f"<manifest>{items}</manifest><spine>{order}</spine></package>"
    return packed(
        {
            "META-INF/container.xml": '<container xmlns="c"><rootfile full-path="O/book.opf"/></container>',
            "O/book.opf": package,
            **{f"O/{key}.xhtml": text for key, text in pages.items()},
        }
    )


def read(path: Path, content: bytes) -> tuple[list[tuple[str, str, str]], Problems]:
    path.write_bytes(content)
    problems = Problems()
    return [(x.id, x.title, x.text) for x in read_passages(path, problems=problems)], problems


def test_a_style_based_on_a_heading_is_a_heading_unless_it_is_body_text(tmp_path: Path) -> None:
    named = '<w:style w:styleId="{0}"><w:name w:val="{0}"/><w:basedOn w:val="{1}"/>{2}</w:style>'
    body_text = '<w:pPr><w:outlineLvl w:val="9"/></w:pPr>'
    styles = '<w:style w:styleId="H1"><w:name w:val="heading 1"/></w:style>'
    styles += named.format("Chapter", "H1", "") + named.format("Box", "Chapter", body_text)
    body = p("Kites", "Chapter") + p("They fly.", "Box")
    content = docx(body, **{"word/styles.xml": f'<w:styles xmlns:w="{WORD}">{styles}</w:styles>'})
    passages, _ = read(tmp_path / "a.docx", content)
    assert [(title, text) for _, title, text in passages] == [("Kites", "They fly.")]


def test_a_word_file_without_its_styles_keeps_its_headings(tmp_path: Path) -> None:
    body = (
        p("Red Kite", "Title") + p("A film.") + p("Cast", "Heading1") + p("Bo.") + p("Ort", "berschrift2") + p("Ulm.")
    )
    main = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    passages, _ = read(tmp_path / "a.docx", packed({"word/document.xml": main}))
    assert [(title, text) for _, title, text in passages] == [
        ("Red Kite", "A film."),
        ("Red Kite › Cast", "Bo."),
        ("Red Kite › Cast › Ort", "Ulm."),
    ]


def test_a_word_file_has_paragraphs_tables_and_notes_below_headings(tmp_path: Path) -> None:
    body = p("Red Kite", "H1") + p("A film &amp; more.") + p("Cast", "berschrift2")
    body += (
        table(("Name", "Role"), ("Bo", "Ada"), ("Mo", "")) + "<w:p><w:r><w:t>One</w:t><w:br/><w:t>two</w:t></w:r></w:p>"
    )
    twice = f"<mc:Choice>{p('box')}</mc:Choice><mc:Fallback>{p('box')}</mc:Fallback>"
    body += f"<w:p><mc:AlternateContent>{twice}</mc:AlternateContent></w:p>"
    body += "<w:p><w:del><w:r><w:delText>gone</w:delText></w:r></w:del></w:p>"
    body += "<w:p><w:moveFrom><w:r><w:t>One</w:t></w:r></w:moveFrom></w:p>"  # it is read at its new place
    notes = f'<w:footnotes xmlns:w="{WORD}">{p("A note.")}</w:footnotes>'
    passages, problems = read(tmp_path / "a.docx", docx(body, word_footnotes=notes, **{"word_footnotes.xml": notes}))
    assert passages == [
        ("a.docx#1", "Red Kite", "A film & more."),
        ("a.docx#2", "Red Kite › Cast", "Name: Bo; Role: Ada\n\nName: Mo\n\nOne\ntwo\n\nbox\n\nA note."),
    ]
    assert not problems.counts


def test_the_title_of_a_word_file_stands_above_its_headings(tmp_path: Path) -> None:
    body = p("Minutes of May", "Title") + p("Cash", "Heading1") + p("Nine euros.") + p("Votes", "Heading1") + p("None.")
    passages, _ = read(tmp_path / "a.docx", docx(body))
    assert passages == [
        ("a.docx#1", "Minutes of May › Cash", "Nine euros."),
        ("a.docx#2", "Minutes of May › Votes", "None."),
    ]


def test_each_slide_is_a_document_with_its_notes(tmp_path: Path) -> None:
    cell = "<a:tc><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:tc>"
    row = f"<a:tr>{cell}{cell}</a:tr>"
    rows = f"<a:tbl>{row.format('Name', 'Year')}{row.format('Kite', '2014')}</a:tbl>"
    content = pptx(shape("title", "Start") + shape("body", "One", "Two") + shape("ftr", "x"), rows, notes="Say it.")
    path = tmp_path / "deck.pptx"
    assert read(path, content)[0] == [
        ("deck.pptx#slide=1#1", "deck › Start", "One\n\nTwo\n\nSay it."),
        ("deck.pptx#slide=2#1", "deck", "Name: Kite; Year: 2014"),
    ]
    assert next(read_passages(path)).metadata == (("slide", "1"),)


def test_a_slide_that_is_named_twice_is_read_once(tmp_path: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(pptx(shape("body", "One"), shape("body", "Two")))) as archive:
        parts: dict[str, str | bytes] = {name: archive.read(name) for name in archive.namelist()}
    main = parts["ppt/presentation.xml"]
    assert isinstance(main, bytes)
    slides = read(tmp_path / "deck.pptx", packed({**parts, "ppt/presentation.xml": main.replace(b"r2", b"r1")}))[0]
    assert [text for _, _, text in slides] == ["One"]


def test_a_table_after_the_slide_number_is_read(tmp_path: Path) -> None:
    cell = "<a:tc><a:p><a:r><a:t>{}</a:t></a:r></a:p></a:tc>"
    frame = f"<p:graphicFrame><a:tbl><a:tr>{cell.format('Ada')}</a:tr></a:tbl></p:graphicFrame>"
    content = pptx(shape("title", "Start") + shape("sldNum", "7") + frame)
    assert read(tmp_path / "deck.pptx", content)[0] == [("deck.pptx#slide=1#1", "deck › Start", "Ada")]


def test_a_slide_of_few_words_has_the_language_of_the_previous_one(tmp_path: Path) -> None:
    (path := tmp_path / "deck.pptx").write_bytes(
        pptx(shape("body", "Die Lage der Firma ist gut und wir sind mit dem Jahr zufrieden"), shape("body", "Umsatz"))
    )
    assert [dict(passage.metadata)["language"] for passage in read_passages(path)] == ["german"] * 2


def test_cells_that_span_columns_and_rows_keep_their_column_names(tmp_path: Path) -> None:
    def cell(text: str, properties: str = "") -> str:
        return f"<w:tc><w:tcPr>{properties}</w:tcPr>{p(text)}</w:tc>"

    rows = (
        cell("Name") + cell("East") + cell("West"),
        cell("Both", '<w:gridSpan w:val="2"/>') + cell("five"),
        cell("Bo", '<w:vMerge w:val="restart"/>') + cell("one") + cell("two"),
        cell("", "<w:vMerge/>") + cell("three") + cell("four"),
    )
    content = docx(f"<w:tbl>{''.join(f'<w:tr>{row}</w:tr>' for row in rows)}</w:tbl>")
    assert read(tmp_path / "a.docx", content)[0][0][2] == (
        "Name: Both; West: five\n\nName: Bo; East: one; West: two\n\nName: Bo; East: three; West: four"
    )


def test_each_sheet_is_a_document_and_dates_are_dates(tmp_path: Path) -> None:
    rows = (
        '<row><c r="A1" t="s"><v>0</v></c><c r="B1" t="inlineStr"><is><t>Day</t></is></c>'
        '<c r="D1" t="s"><v>1</v></c></row>'
        '<row><c r="A2" t="str"><v>Ada</v></c><c r="B2" s="1"><v>43831</v></c><c r="D2"><v>1.10</v></c></row>'
        '<row><c t="b"><v>1</v></c><c s="2"><v>43831.5</v></c><c t="e"><v>#N/A</v></c><c s="3"><v>3</v></c></row>'
    )
    strings = "<si><t>Cust</t><r><t>omer</t></r><rPh><t>x</t></rPh></si><si><t>Amount</t></si>"
    content = xlsx(rows, strings, Notes='<row><c r="C9" t="str"><v>A remark</v></c></row>', Empty="")
    passages, problems = read(tmp_path / "a.xlsx", content)
    assert passages == [
        (
            "a.xlsx#sheet=1#1",
            "a › Orders",
            "Customer: Ada; Day: 2020-01-01; Amount: 1.1\n\nCustomer: true; Day: 2020-01-01 12:00:00; Amount: 3",
        ),
        ("a.xlsx#sheet=2#1", "a › Notes", "A remark"),
    ]
    assert not problems.counts


def test_the_title_of_a_sheet_stands_once_above_the_key_of_a_row(tmp_path: Path) -> None:
    row = '<row><c t="str"><v>{}</v></c><c t="str"><v>{}</v></c></row>'
    names = [
        ("Port", "Country"),
        *((f"Port {letter}{other}", "Peru") for letter in "abcdefghijkl" for other in "abcdefghij"),
    ]
    passages, _ = read(tmp_path / "a.xlsx", xlsx("".join(row.format(*each) for each in names)))
    assert passages[0][1:] == ("a › Orders › Port aa", "Port: Port aa; Country: Peru")


@pytest.mark.parametrize(
    ("days", "shown"),
    [("1", "1900-01-01"), ("59", "1900-02-28"), ("61", "1900-03-01"), ("0.5", "12:00:00"), ("9e9", "9e9")],
)
def test_days_are_counted_like_excel(tmp_path: Path, days: str, shown: str) -> None:
    assert read(tmp_path / "a.xlsx", xlsx(f'<row><c s="1"><v>{days}</v></c></row>'))[0][0][2] == shown


def test_each_chapter_of_an_ebook_is_a_document_in_order(tmp_path: Path) -> None:
    content = epub(b="<h1>Second</h1><p>Two.</p>", a="<!DOCTYPE html><title>a</title><p>One&nbsp;here.</p>")
    assert read(tmp_path / "k.epub", content)[0] == [
        ("k.epub#O/a.xhtml#1", "Red Kite", "One here."),
        ("k.epub#O/b.xhtml#1", "Red Kite › Second", "Two."),
    ]
    assert read(tmp_path / "k.epub.gz", gzip.compress(content))[0][0][2] == "One here."


BOMB = '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "is damaged, or of another kind"),
        (b"PK\3\4 no archive", "is damaged, or of another kind"),
        (b"\xd0\xcf\x11\xe0 old", "is locked with a password, or in a format of before 2007"),
        (packed({"x": "y"}), "is damaged, or no Word document"),
        (packed({"word/document.xml": "<a><b></a>"}), "is damaged: the XML of word/document.xml is broken"),
        (packed({"word/document.xml": f"{BOMB}<a>&b;</a>"}), "is not read: its XML declares a document type"),
        (packed({"word/document.xml": "<a>" * 9999}), "is damaged: its XML is nested too deep"),
        (packed({"word/document.xml": "<a/>"}, zipfile.ZIP_BZIP2), "is damaged: it is packed in a way"),
        (docx(p("words") * 99)[:-400], "is damaged, or of another kind"),
        (b"PK\1\2" * 30_000, "is larger than a document: it has more than 20,000 parts"),
    ],
)
def test_a_hostile_or_damaged_file_is_skipped_and_reported(tmp_path: Path, content: bytes, why: str) -> None:
    passages, problems = read(tmp_path / "a.docx", content)
    (sentence,) = problems.sentences
    assert passages == [] and sentence.startswith(f"a.docx {why}")
    assert problems.counts == {"damaged documents": 1}


def test_parts_outside_the_archive_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "secret.xhtml").write_text("<p>secret</p>")
    passages, problems = read(tmp_path / "a.epub", epub(**{"../../secret": "", "/etc/passwd": "", "a": "<p>x</p>"}))
    assert [text for _, _, text in passages] == ["x"]
    assert [sentence[:22] for sentence in problems.sentences] == ["a.epub lacks its part "] * 2


def bomb_of_blocks() -> bytes:
    """150 MB of spaces in a file of 150 kB."""
    return packed({"word/document.xml": b"<a>" + b" " * 150_000_000})


def bomb_of_references() -> bytes:
    """A string of 1 MB in ten thousand cells: ten gigabytes."""
    row = '<row><c t="s"><v>0</v></c></row>'
    return xlsx(row * 10_000, f"<si><t>{'x' * 1_000_000}</t></si>")


@pytest.mark.parametrize(("name", "make"), [("a.docx", bomb_of_blocks), ("a.xlsx", bomb_of_references)])
def test_a_zip_bomb_takes_bounded_memory(tmp_path: Path, name: str, make: object) -> None:
    assert callable(make)
    content = make()
    tracemalloc.start()
    try:
        passages, problems = read(tmp_path / name, content)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert passages == [] and problems.sentences == [f"{name} is larger than 128 MiB when unpacked, too long to read."]
    assert peak < 400 * 2**20


def test_a_part_that_says_it_is_too_large_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = bomb_of_blocks()
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda *_: pytest.fail("it was opened"))
    passages, problems = read(tmp_path / "a.docx", content)
    assert passages == [] and problems.counts == {"oversized lines or files": 1}


@pytest.mark.parametrize("name", ["a.xlsx", "a.csv", "a.md"])
def test_repeated_column_names_have_a_limit(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoptree.corpus.document.MAX_DOCUMENT_BYTES", 200_000)
    head, row = ",".join(f"{'n' * 90}{at}" for at in range(30)), ",".join("1" * 30)
    table = {"a.csv": f"{head}\n" + f"{row}\n" * 300}
    table["a.md"] = "\n".join(f"|{line.replace(',', '|')}|" for line in (head, ",".join(["-"] * 30), *[row] * 300))
    cells = "".join(f'<c t="str"><v>{cell}</v></c>' for cell in head.split(","))
    rows = f"<row>{cells}</row>" + f"<row>{'<c><v>1</v></c>' * 30}</row>" * 300
    passages, problems = read(tmp_path / name, table[name].encode() if name in table else xlsx(rows))
    assert passages == [] and problems.counts == {"oversized lines or files": 1}


@given(st.data())
def test_any_damage_is_reported_and_raises_nothing(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name, content = data.draw(
        st.sampled_from(
            [
                ("a.docx", docx(p("words", "H1") + table(("a", "b"), ("c", "d")))),
                ("a.pptx", pptx(shape("title", "x"), notes="y")),
                ("a.xlsx", xlsx("<row><c><v>1</v></c></row>")),
                ("a.epub", epub(a="<p>x</p>")),
            ]
        )
    )
    at = data.draw(st.integers(0, len(content) - 1))
    damaged = content[:at] + data.draw(st.binary(max_size=9)) + content[at + data.draw(st.integers(0, 40)) :]
    for _, _, text in read(tmp_path_factory.getbasetemp() / name, damaged)[0]:
        text.encode()


def test_a_duration_is_no_date(tmp_path: Path) -> None:
    cells = "".join(f'<c s="{style}"><v>1.5</v></c>' for style in (4, 5, 1))
    shown = "36:00:00 | 36:00:00 | 1900-01-01 12:00:00"
    assert read(tmp_path / "a.xlsx", xlsx(f"<row>{cells}</row>"))[0][0][2] == shown
