"""reStructuredText, man pages, notebooks, e-mail, tables and source code are documents."""

from __future__ import annotations

import asyncio
import gzip
import json
import mailbox
from email.message import EmailMessage
from email.policy import EmailPolicy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.corpus.chunk import Chunking, chunk
from hoptree.corpus.document import Problems, TextBuilder
from hoptree.corpus.man_pages import roff_document
from hoptree.corpus.read import read_passages
from hoptree.corpus.rst import rst_document


def read(path: Path, content: str | bytes) -> list[tuple[str, str, str]]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    problems = Problems(limit=0)
    return [(x.id, x.title, x.text) for x in read_passages(path, problems=problems)]


RST = """
========
Red Kite
========

.. _start:
.. comment that is
   not read

See :ref:`the cast <cast>`, :class:`~films.Kite` and ``__x__ * y`` or `a page <https://a.org>`_::

    code here

Cast
----

.. toctree::
   :maxdepth: 2

   one
   two

.. note:: Bo played *Ada*.

.. function:: play(name)
   :noindex:

   Play the film.
"""


def test_restructured_text_has_titles_and_words_without_roles(tmp_path: Path) -> None:
    assert read(tmp_path / "a.rst", RST) == [
        ("a.rst#1", "Red Kite", "See the cast, films.Kite and __x__ * y or a page:\n\n    code here"),
        ("a.rst#2", "Red Kite › Cast", "Bo played Ada.\n\nplay(name)\n\n   Play the film."),
    ]


@given(
    st.lists(
        st.sampled_from(["===", "= =\n", "+-+\n", "|", "---", "\n", "ab", ".. ", "::", "`", "*", ":a:", " ", "   "])
    ).map("".join)
    | st.text()
)
def test_any_text_can_be_read_as_restructured_text(text: str) -> None:
    document = rst_document(text, "a.rst")
    for passage in chunk(document, Chunking()):
        assert passage.text == document.text[passage.start : passage.end]


@pytest.mark.parametrize(
    "piece", ["`", "*", ":a:`", "= ", "\n", "a\n===\n", ".. a::\n", "_", "= =\n", "= =\n\nx\n", "+-+\n|x|\n", "+--+\n"]
)
def test_time_grows_linearly_with_restructured_text(piece: str) -> None:
    with cpu_limit(5):
        rst_document(piece * (100_000 // len(piece)), "a.rst")


MAN = r''''\" t
.\" Generator: DocBook
.TH "APT\-X" "8" "2020" "APT"
.ie \n(.g .ds Aq \(aq
.de URL
\fI\\$2\fP
.  .
.if \n[.g] \{\
.  ad l
.\}
.SH "NAME"
apt\-x \- R\(:uckgriff \(co \(bu \(em \(en \(hy \(dqa\(dq \[u00DF]
.SH BESCHREIBUNG
.sp
In APT 2\&.0 ist \fBapt\fR(8) f\(:ur \f(BIalle\fP da,
.BR apt (8),
.I "two words"
.B c:\ed
it\*(Aqs \s-1SMALL\s0\h'-04'\" comment
.SS Optionen
.TP
\fB\-q\fR
Be quiet.
.ie n .IP """x""" 4
.el .IP "\f(CWx\fR" 4
Do it.
.PP
.nf
  one
  two
.fi
.TS
tab(:);
l l.
a:b
.TE
'''
MDOC = r""".Dd May 1, 2020
.Dt DU 1
.Os
.Sh NAME
.Nm du
.Nd disk usage
.Sh DESCRIPTION
.Nm
shows, with
.Fl a Ns Ar n ,
more; see
.Xr ls 1 .
.Bl -tag -width x
.It Fl h Ar x
Help.
.El
"""


@pytest.mark.parametrize("name", ["a.8.gz", "a.8", "a"])
def test_a_man_page_has_headings_and_words(tmp_path: Path, name: str) -> None:
    content = gzip.compress(MAN.encode()) if name.endswith(".gz") else MAN
    assert [(title, text) for _, title, text in read(tmp_path / name, content)] == [
        ("APT-X(8) › NAME", 'apt-x - Rückgriff © • — – - "a" ß'),
        ("APT-X(8) › BESCHREIBUNG", "In APT 2.0 ist apt(8) für alle da, apt(8), two words c:\\d it's SMALL"),
        ("APT-X(8) › BESCHREIBUNG › Optionen", '-q\nBe quiet.\n\n"x"\nDo it.\n\n  one\n  two\n\na:b'),
    ]


def test_mdoc_macros_of_a_man_page_are_read(tmp_path: Path) -> None:
    assert [(title, text) for _, title, text in read(tmp_path / "du.1", MDOC)] == [
        ("DU(1) › NAME", "du - disk usage"),
        ("DU(1) › DESCRIPTION", "du shows, with -an, more; see ls(1).\n\n-h x\nHelp."),
    ]


def test_a_text_that_begins_with_a_dot_is_no_man_page(tmp_path: Path) -> None:
    assert read(tmp_path / "a.txt", ".hidden files\nare \\fB not read.")[0][2] == ".hidden files\nare \\fB not read."


@given(
    st.lists(st.sampled_from([".SH ", ".B", "\n", '"', "\\", "\\(", "\\[u", ".It Fl ", ".de", "..", "a", " "])).map(
        "".join
    )
    | st.text()
)
def test_any_text_can_be_read_as_a_man_page(text: str) -> None:
    document = roff_document(text, "a.1")
    for passage in chunk(document, Chunking()):
        assert passage.text == document.text[passage.start : passage.end]


@pytest.mark.parametrize("piece", ["\\", '"', "\\[", "\\(", ".B ", "\n.", '\n.B "', "\\h'", "\n.It Fl", "\n.nf\na"])
def test_time_grows_linearly_with_a_man_page(piece: str) -> None:
    with cpu_limit(5):
        roff_document(piece * (100_000 // len(piece)), "a.1")
        roff_document(".B " + piece * (100_000 // len(piece)), "a.1")


def test_cells_and_outputs_of_a_notebook_are_read(tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Kites\n", "See [this](x)."]},
        {"cell_type": "code", "source": "1 + 1", "outputs": [{"data": {"text/plain": ["2"]}}, {"text": "x" * 9999}]},
        {"cell_type": "code", "source": "", "outputs": [{"data": {"image/png": "iVBOR"}}]},
    ]
    ((key, title, text),) = read(tmp_path / "a.ipynb", json.dumps({"cells": cells}))
    assert (key, title, text) == ("a.ipynb#1", "Kites", f"See this.\n\n1 + 1\n\n2\n\n{'x' * 2000}")


@pytest.mark.parametrize(
    "content", ["{", "[]", "3", '{"cells": [3]}', '{"cells": [{"cell_type": "code", "source": 3}]}']
)
def test_other_files_with_the_suffix_of_notebooks_are_skipped(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.ipynb").write_text(content)
    problems = Problems()
    assert list(read_passages(tmp_path / "a.ipynb", problems=problems)) == []
    assert problems.counts == {"damaged documents": 1}


def message(subject: str, html: bool = False) -> EmailMessage:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["Date"] = subject, "Ådne <a@b.c>", "Mon, 2 Mar 2020 10:00:00 +0000"
    mail.set_content("<p>Grüße</p>" if html else "Grüße\nfrom Riga.", subtype="html" if html else "plain")
    mail.add_attachment(b"\x89PNG", "image", "png", filename="kite.png")
    return mail


def test_the_title_of_a_message_is_its_subject_and_attachments_are_listed(tmp_path: Path) -> None:
    head = "From: Ådne <a@b.c>\nDate: Mon, 02 Mar 2020 10:00:00 +0000"
    path = tmp_path / "a.eml"
    assert read(path, message("Häuser").as_bytes()) == [
        ("a.eml#1", "Häuser", f"{head}\n\nGrüße\nfrom Riga.\n\nAttachment: kite.png")
    ]
    assert read(path, message("", html=True).as_bytes())[0][2] == f"{head}\n\nGrüße\n\nAttachment: kite.png"
    assert next(read_passages(path)).metadata[0] == ("from", "Ådne <a@b.c>")


def test_only_the_beginning_of_a_very_long_header_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library's time grows with the square of a header's length."""
    parsed: list[int] = []
    parse = EmailPolicy.header_fetch_parse

    def counting(self: EmailPolicy, name: str, value: str) -> object:
        parsed.append(len(value))
        return parse(self, name, value)

    monkeypatch.setattr(EmailPolicy, "header_fetch_parse", counting)
    (row,) = read(tmp_path / "a.eml", "From: a\nSubject: Bees" + "\n =?utf-8?q?a?=" * 50_000 + "\n\nAda keeps bees.")
    assert row[1].startswith("Bees") and row[2].endswith("Ada keeps bees.")
    assert max(parsed) == 10_000


def test_each_message_of_a_mailbox_is_a_document(tmp_path: Path) -> None:
    box = mailbox.mbox(tmp_path / "made")
    box.add(message("One"))
    box.add(message("Two"))
    box.close()
    content = (tmp_path / "made").read_bytes()
    named = [("a.mbox.gz#message=1#1", "One"), ("a.mbox.gz#message=2#1", "Two")]
    assert [row[:2] for row in read(tmp_path / "a.mbox.gz", gzip.compress(content))] == named


@given(st.binary(max_size=300))
def test_any_bytes_are_a_message_or_skipped(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    for name in ("any.eml", "any.mbox"):
        path = tmp_path_factory.getbasetemp() / name
        path.write_bytes(b"From x\nSubject: a\nContent-Type: multipart/mixed; boundary=a\n" + data)
        for passage in read_passages(path, problems=Problems(1000)):
            passage.text.encode()


def test_a_row_of_a_table_is_a_paragraph_with_column_names(tmp_path: Path) -> None:
    text = 'Name;Born;Notes\nAda;1815;"a, b\n\nc"\n\nBo;;x\n'
    assert read(tmp_path / "a.csv", text) == [
        ("a.csv#1", "a", "Name: Ada; Born: 1815; Notes: a, b c\n\nName: Bo; Notes: x")
    ]
    assert read(tmp_path / "a.tsv.gz", gzip.compress(text.replace(";", "\t").encode()))[0][2].startswith(
        "Name: Ada; Born"
    )


def test_each_row_of_a_long_table_is_a_passage_titled_by_its_key(tmp_path: Path) -> None:
    rows = "".join(
        f"{number},{'net' if number % 2 else 'admin'},tool-{number},Does task {number}.\n" for number in range(3000)
    )
    passages = read(tmp_path / "tools.csv", f"No,Section,Package,Summary\n{rows}")
    assert len(passages) == 3000
    assert passages[1234] == (
        "tools.csv#1235",
        "tools › tool-1234",
        "No: 1234; Section: admin; Package: tool-1234; Summary: Does task 1234.",
    )
    numbered = read(tmp_path / "sales.csv", "Day,Sum\n" + "".join(f"{day},7\n" for day in range(200)))
    assert numbered[5][1:] == ("sales › 5", "Day: 5; Sum: 7")
    named = [{0: f"tool-{at}", 1: "7"} for at in range(98)]
    builder = TextBuilder("gap")
    builder.add_table([{0: "Name", 1: "Sum"}, *named, {1: "7"}])  # the last row that decides has no name
    assert builder.document("gap.xlsx", "gap").sections[2].title == "gap › tool-2"
    without = read(tmp_path / "log.csv", "Level,Sum\n" + "info,7\n" * 200)
    assert len(without) < 10 and {title for _, title, _ in without} == {"log"}


def test_a_question_finds_the_row_it_names_among_thousands(tmp_path: Path) -> None:
    from hoptree.retrieval.indexing import index_passages
    from hoptree.retrieval.retriever import open_retriever

    rows = "".join(
        f"lib{number}-dev,{number % 97},Tools for lib{number} and lib{number + 1}-dev\n" for number in range(3000)
    )
    (tmp_path / "tools.csv").write_text(f"Package,Size,Summary\n{rows}")
    index_passages(read_passages(tmp_path / "tools.csv"), tmp_path / "idx")

    async def find(question: str) -> str:
        retriever = open_retriever(tmp_path / "idx")
        return (await retriever.search(question, k=1))[0].title

    assert asyncio.run(find("What is the size of lib1234-dev?")) == "tools › lib1234-dev"


def test_a_table_without_names_or_rows_keeps_its_words(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "1,2\n3,4\n")[0][2] == "1 | 2\n\n3 | 4"
    assert read(tmp_path / "a.csv", "Prices\nItem,Price,Unit\nOil,3\n")[0][2] == "Prices\n\nItem: Oil; Price: 3\n\nUnit"


def test_an_overlong_cell_is_one_broken_line(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1," + "x" * (2**20 + 1) + "\n2,3\n")
    problems = Problems()
    (passage,) = read_passages(tmp_path / "a.csv", problems=problems)
    assert passage.text == "a: 2; b: 3" and problems.counts == {"broken lines": 1}


def test_source_code_and_logs_are_read_unchanged(tmp_path: Path) -> None:
    code = "def play():\n    return 1\n"
    assert read(tmp_path / "kite.py", code) == [("kite.py#1", "kite.py", code.strip())]
    assert read(tmp_path / "Makefile", "all:\n\techo")[0][1:] == ("Makefile", "all:\n\techo")
    assert read(tmp_path / "boot.log", "a\nb")[0][1] == "boot.log"


def test_overstrikes_and_terminal_colours_are_removed(tmp_path: Path) -> None:
    bold = "".join(f"{letter}\b{letter}" for letter in "postmap") + " of _\bt_\bh_\be file"
    assert read(tmp_path / "README", f"Use {bold}.\n\b-\n")[0][2] == "Use postmap of the file.\n-"
    assert read(tmp_path / "a.log", "\x1b[1;31mERROR\x1b[0m disk is full\x1b[K")[0][2] == "ERROR disk is full"


def test_packed_scripts_are_skipped_and_counted(tmp_path: Path) -> None:
    packed = "Search.setIndex({" + ", ".join(f'"word{n}": [{n}, {n + 1}]' for n in range(2_000)) + "})"
    (tmp_path / "searchindex.js").write_text(packed, encoding="utf-8")
    (tmp_path / "own.js").write_text("// Draw the tree.\nexport function draw() {\n  return 1;\n}\n", encoding="utf-8")
    (tmp_path / "long.txt").write_text(packed, encoding="utf-8")
    problems = Problems(limit=0)
    names = {passage.document for passage in read_passages(tmp_path, problems=problems)}
    assert names == {"long.txt", "own.js"} and problems.counts["packed scripts"] == 1
    assert problems.report() == ("searchindex.js is a packed script, not text.",)


def test_json_without_passages_is_read_as_text(tmp_path: Path) -> None:
    settings = '{"name": "kite", "private": true}'
    assert read(tmp_path / "package.json", settings) == [("package.json#1", "package.json", settings)]
    events = '{"level": "warn", "message": "x"}\n{"level": "info"}'
    assert read(tmp_path / "events.jsonl", events)[0][2] == "level: warn; message: x\n\nlevel: info"
    table = '[{"country": "Latvia"}, {"country": "Norway"}]'
    assert read(tmp_path / "table.json", table)[0][2] == table


def test_many_rows_without_passages_are_no_error(tmp_path: Path) -> None:
    people = json.dumps([{"id": number, "name": "Ada"} for number in range(150)])
    assert read(tmp_path / "people.json", people)[0][2] == "id: 0; name: Ada"
    assert read(tmp_path / "people.jsonl", people[1:-1].replace("}, ", "}\n"))[0][2] == "id: 0; name: Ada"
    assert read(tmp_path / "words.json", json.dumps(["kite"] * 150))[0][2].startswith('["kite"')
    answers = "question,answer\n" + "How do I fly?,With wings.\n" * 150
    assert read(tmp_path / "faq.csv", answers)[0][2].startswith("question: How do I fly?; answer: With wings.\n")


def test_successive_years_are_column_names_and_other_numbers_are_not(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "Region,2019,2020\nNorth,5,7\n")[0][2] == "Region: North; 2019: 5; 2020: 7"
    assert read(tmp_path / "a.csv", "Ada,1815,1852\nBo,1879,1955\n")[0][2] == "Ada | 1815 | 1852\n\nBo | 1879 | 1955"


def test_a_message_with_an_unknown_encoding_is_decoded_like_a_file(tmp_path: Path) -> None:
    for head in ("", "Content-Type: text/plain; charset=unknown-8bit\n"):
        for encoding in ("utf-8", "latin-1"):
            content = f"From: a@b.c\nSubject: S\n{head}\nDie Größe passt.\n".encode(encoding)
            assert read(tmp_path / "a.eml", content)[0][2].endswith("Die Größe passt.")


def test_a_message_in_html_keeps_its_headings(tmp_path: Path) -> None:
    html = "<p>Hello</p><h1>Your flight</h1><h2>is cancelled</h2><p>Sorry.</p>"
    content = f"From: a@b.c\nSubject: S\nContent-Type: text/html\n\n{html}\n"
    assert read(tmp_path / "a.eml", content)[0][2].split("\n\n")[1:] == [
        "Hello",
        "Your flight",
        "is cancelled",
        "Sorry.",
    ]


def test_a_sentence_that_begins_with_from_begins_no_message(tmp_path: Path) -> None:
    head = "From a@b.c Mon Jan  1 00:00:00 2020\nFrom: a@b.c\nSubject: S\n\n"
    content = f"{head}We saw Riga.\n\nFrom there we went to Oslo.\n\n{head}Two.\n"
    texts = [row[2].partition("\n\n")[2] for row in read(tmp_path / "a.mbox", content)]
    assert texts == ["We saw Riga.\n\nFrom there we went to Oslo.", "Two."]


def test_restructured_text_keeps_footnotes_and_fields(tmp_path: Path) -> None:
    text = """Sums
====

.. function:: add(a, b)
   :noindex:

   Add two.

   :param a: the first
   :returns: the sum

.. deprecated:: 3.8

See [Mil02]_.

.. [Mil02] Miller wrote
   of cats.
.. [1] And of *dogs*.
.. a comment
"""
    assert read(tmp_path / "a.rst", text)[0][2] == (
        "add(a, b)\n\n   Add two.\n\n   :param a: the first\n   :returns: the sum\n\n"
        "deprecated: 3.8\n\nSee [Mil02]_.\n\n[Mil02] Miller wrote\n   of cats.\n\n[1] And of dogs."
    )


def test_passages_of_a_table_in_latin_1_are_read(tmp_path: Path) -> None:
    for name, separator in (("a.csv", ","), ("a.tsv", "\t")):
        table = separator.join(("id", "text\n7")) + f"{separator}Die Größe passt.\n"
        assert read(tmp_path / name, table.encode("latin-1")) == [("7", "", "Die Größe passt.")]


SIMPLE = """
=====  ======
Name   Born
       in
=====  ======
Ada    *Riga*
李 白  Oslo
       too
Bo
=====  ======
"""
GRID = """
+------+--------+
| Name | Born   |
|      | in     |
+======+========+
| Ada  | *Riga* |
+------+--------+
| 李白 | Oslo   |
|      | too    |
+------+--------+
| Bo            |
+------+--------+
"""


@pytest.mark.parametrize("table", [SIMPLE, GRID])
def test_tables_of_restructured_text_have_column_names(tmp_path: Path, table: str) -> None:
    text = read(tmp_path / "a.rst", f"Above.\n{table}\nBelow.\n")[0][2].replace("李 白", "李白")
    rows = ["Name: Ada; Born in: Riga", "Name: 李白; Born in: Oslo too", "Name: Bo"]
    assert text.split("\n\n") == ["Above.", *rows, "Below."]


def test_a_table_of_restructured_text_without_names_or_end_keeps_its_words(tmp_path: Path) -> None:
    for table in ("=== ===\nAda 5\nBo  7\n=== ===\n", "+---+-+\n|Ada|5|\n+---+-+\n|Bo |7|\n+---+-+\n"):
        assert read(tmp_path / "a.rst", table)[0][2] == "Ada | 5\n\nBo | 7"
    assert read(tmp_path / "a.rst", "=== ===\nAda 5\n\nBo  7\n")[0][2] == "=== ===\nAda 5\n\nBo  7"
