"""Line breaks inside sentences are spaces, in Python and on the page; all others stay."""

from __future__ import annotations

import pytest

from hoptree.core.values import Passage
from hoptree.engine.explain import cite_answer
from hoptree.text.line_breaks import unwrap_lines

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


def test_a_quotation_is_a_whole_sentence() -> None:
    passages = [Passage("m", "Letter", LETTER)]
    answer_text = cite_answer("Where did Tomasz work before?", "Gdynia", [0], passages)
    assert (
        "“Before that he worked for many years as an engineer at the Institute of Meteorology in Gdynia, which"
        in answer_text
    )
