"""Line breaks inside sentences are spaces, in Python and on the page; all others stay."""

from __future__ import annotations

import pytest
from tests.cpu_limit import cpu_limit

from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import cite_answer, cut_around
from hoptree.text.line_breaks import drop_mail_head, unwrap_lines

LETTER = (
    "From: Ingrid Halvorsen of Kestrel Instruments in the harbour <ingrid@kestrel.example>\n"
    "To: Tomasz Wierzba of the laboratory\n\n"
    "Before that he worked for many years as an engineer at the\n"
    "Institute of Meteorology in Gdynia, which he left for the sake\n"
    "of the sea. The contract was negotiated by Paul Okafor in May.\n"
    "It ends in 2030.\n"
)
WRAPPED = [
    (
        LETTER,
        LETTER.replace("at the\n", "at the ").replace("sake\n", "sake "),
    ),
    ("A heading that is long enough to be a line of its own\n" + "word " * 15 + "end.", ""),
    ("Short lines\nof verse\nstay as they are.", ""),
    ("A list of things that is as wide as a paragraph would be:\n- one\n- two", ""),
    ("The first of them is a thing that is very long and has no end\n2. the second thing", ""),
    ("    return [passage for passage in read if passage.id in evidence]\n    yield from them", ""),
    ("", ""),
]


@pytest.mark.parametrize(("text", "unwrapped"), WRAPPED)
def test_lines_are_joined_where_a_paragraph_is_wrapped(text: str, unwrapped: str) -> None:
    assert unwrap_lines(text) == (unwrapped or text)
    assert len(unwrap_lines(text)) == len(text)


@pytest.mark.parametrize(
    ("answer", "begins"),
    [("", "Before that"), ("Paul Okafor", "Before that"), ("Ingrid Halvorsen", "From: "), ("nobody", "Before that")],
)
def test_the_head_of_an_e_mail_is_dropped_unless_only_it_has_the_answer(answer: str, begins: str) -> None:
    assert drop_mail_head(LETTER, answer).startswith(begins)
    assert cut_around(LETTER, answer, 300).startswith(begins)
    assert drop_mail_head("From: Ada\n", answer) == "From: Ada\n"


LOG = " ".join(f"2025-01-{day:02} level=INFO production normal" for day in range(1, 29))
TABLE = "Turbine: {}; First delivery: {}; Rated power (MW): 4.2; Project lead: Marta Oyelaran"
ROWS = " ".join(
    TABLE.format(*row)
    for row in (("Heron 9", "2021-01-02"), ("Skua 4", "2019-05-14"), ("Petrel 2", "2016-09-02"), ("Fulmar 6", "2024"))
)
LETTERED = "The yes men met. " * 20 + "The noise of the Fulmar was 104.6 dB in June. " + "They met again. " * 20


@pytest.mark.parametrize(
    ("text", "answer", "asked", "holds"),
    [
        (f"{LOG} bearing temperature above limit {LOG}", "", "bearing temperature limit", "bearing temperature"),
        (ROWS, "2016-09-02", "When was the Skua 4 delivered? 14 May 2019 And the Petrel 2?", "2019-05-14"),
        (ROWS, "2016-09-02", "When was the Petrel 2 first delivered?", "Petrel 2; First delivery: 2016-09-02"),
        (LETTERED, "yes", "Is the noise of the Fulmar below 105 dB?", "noise of the Fulmar was 104.6 dB"),
        ("前" * 400 + "北京是中国的首都" + "后" * 400, "", "中国的首都是哪里", "中国的首都"),
    ],
)  # fmt: skip
def test_an_excerpt_has_the_answer_or_most_words_asked_for(text: str, answer: str, asked: str, holds: str) -> None:
    excerpt = cut_around(text, answer, 160, asked)
    assert holds in excerpt and answer.replace("yes", "") in excerpt and len(excerpt) <= 162


def test_an_excerpt_without_any_word_of_the_question_is_the_beginning() -> None:
    assert cut_around(LOG, "", 60, "zebra").startswith("2025-01-01 level=INFO")


def test_the_stretch_of_an_excerpt_is_found_in_linear_time() -> None:
    with cpu_limit(2.0):
        cut_around("red kite " * 100_000, "kite", 200, "red kite " * 1000)


def test_a_line_of_the_head_of_an_e_mail_is_quoted_last() -> None:
    letter = "From: Ada <ada@example.org>\nTo: Bo Lund <bo@example.org>\n\nDear Bo,\n\nWe met."
    team = Passage("t", "Team", "The laboratory is led by Bo Lund.")
    sentence = cite_answer("Who leads the laboratory?", "Bo Lund", [0, 1], [Passage("m", "Letter", letter), team])
    assert "“The laboratory is led by Bo Lund.”" in sentence
    sentence = cite_answer("Who wrote the letter?", "Ada", [0], [Passage("m", "Letter", letter)])
    assert "“From: Ada <ada@example.org>”" in sentence


def test_a_quotation_is_a_whole_sentence() -> None:
    passages = [Passage("m", "Letter", LETTER)]
    answer_text = cite_answer("Where did Tomasz work before?", "Gdynia", [0], passages)
    assert (
        "“Before that he worked for many years as an engineer at the Institute of Meteorology in Gdynia, which"
        in answer_text
    )
