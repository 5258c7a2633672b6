"""Sentences with their places in the text; bars in the cases separate sentences."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cpu_limit import cpu_limit

from hoptree.text.names import sentence_spans, sentences
from hoptree.text.parse import join_words, question_key

CASES = [
    "Paris is in France.| Lyon is too.",
    "He met Dr. Smith in Rome.| They talked.",
    "J. R. R. Tolkien wrote it.| C. S. Lewis read it.",
    "It was written by J. R. R. Tolkien.",
    "She moved to the U.S. in 1990.| She stayed.",
    "She moved to the U.S.| She stayed there.",
    "The U.S. Army and the U.K. Parliament agreed.",
    "U.S. President John F. Kennedy was shot in Dallas.| He died.",
    "He lived in Washington, D.C.| His wife did not.",
    "It costs 3.5 million.| That is 1.2 times more.",
    "Version 2.0.1 is out.| Version 3 is not.",
    "Some fruits, e.g. Apples, are red.| Others, i.e. Limes, are not.",
    "He worked for Acme Inc. in Ohio.| It failed.",
    "He worked for Acme Inc.| The firm failed.",
    "Warner Bros. Pictures made it.",
    "Sammy Davis Jr. sang.| Frank Sinatra listened.",
    "It was sung by Sammy Davis Jr.| It was a hit.",
    "They sell pens, paper, etc.| They are cheap.",
    "He was born on Sept. 7, 1864, in Avignon.| He died in 1934.",
    "The train left at 5 p.m.| It was late.",
    "The train left at 5 p.m. Monday.",
    "It happened in 44 B.C. when Caesar died.",
    "He has a Ph.D. in physics.| She has none.",
    "He got his Ph.D.| Then he left.",
    'He said "No."| Then he left.',
    'He said "No!" and left.',
    '"What?" he asked.| "Nothing."',
    "“It is over.”| “Is it?”| She wept.",
    "Who wrote it?!| Nobody knows.",
    "Really???| Yes!!!| Good.",
    "Well...| He went home.",
    "Well… he went home.",
    "Wait…| What is that?",
    "The band Yahoo! is old.| So is Wham! too.",
    "It is No. 5.| No. 6 is not.",
    "See vol. 3, pp. 12 to 14.| See also fig. 2.",
    "He lived in St. Louis near Mt. Vernon.",
    "Roe v. Wade was decided in 1973.| It was overturned.",
    "She lived c. 1850 in Fr. Martin's house.",
    "The first line\n|the second line",
    "Question: Who?\n|Answer: Nobody.\n\n|Question: Why?",
    "- Paris\n|- Rome\n\n\n|* Bern",
    "1. Paris is old.| 2. Rome is older.",
    "It ended in 1934.| 5 years later it began again.",
    "He was born in 1934.| He died in",
    "The director of the film is Dr.",
    "The answer is (see above).| (It is long.)| Done.",
    "[He left.]| [She stayed.]",
    "Vitamin C.| It is good for you.",
    "¿Quién es?| ¡Nadie!| Émile lo sabe.| Él también.",
    "黒澤明は東京で生まれた。|妻は矢口陽子である。",
    "Who? Me?".replace("? M", "?| M"),
    "**Step 1.**| **The film is Wanda.**",
    "Messrs. Smith and Jones met Gen. Lee, Capt. Cook and Sen. Clay.",
    "He sat.| Paris burned.| It was Sat. Feb. 3.",
    "So the answer is: Paris.",
    "no capitals here. none at all",
    "   Space before.|   And behind.   ",
    "Adm. Nelson won.| Brig. Gen. Lee lost.| Rear Adm. Byrd flew.",
    "Msgr. Rossi met Supt. Jones and Atty. Gen. Barr.| They talked.",
    "Wm. Jones, Thos. Smith, Chas. Brown and Geo. Green met.| They ate.",
    "Pvt. Ryan, Insp. Morse and Amb. Stevens came.",
    "He lives at 5 Main St.| He likes it.",
    "He lives at 5 Main St. near St. Mary's.| The St. Louis Arch is far.",
    "The band is Godspeed You! Black Emperor.| It is Canadian.",
    "He appeared on Jeopardy!| He won.",
    "It was the World Cup!| The team won it.",
    "Die Sitzung fand am 12. März 2025 statt.| Sie dauerte bis 17. April.",
    "Im 19. Jahrhundert und im 2. Weltkrieg brannte es.| Der 3. Spieltag entfiel.",
    "Es gab Äpfel bzw. Birnen, vgl. Kap. 3 und Nr. 7.| Mehr steht in Abb. 2.",
    "I am 12. She is 13.".replace("12. ", "12.| "),
    "It has 12.| August was warm.",
]


@pytest.mark.parametrize("case", CASES)
def test_a_text_is_split_into_sentences(case: str) -> None:
    text = case.replace("|", "")
    assert [text[start:end] for start, end in sentence_spans(text)] == [part.strip() for part in case.split("|")]


def test_line_breaks_do_not_end_sentences() -> None:
    assert sentences("He was born\nin Rome. He met Dr.\nSmith.") == ("He was born in Rome.", "He met Dr. Smith.")
    assert sentence_spans(" \n ") == () and sentence_spans("") == ()


_PIECES = st.sampled_from(
    [
        ".",
        "!",
        "?",
        "…",
        " ",
        "  ",
        "\n",
        "Dr",
        "J",
        "U.S",
        "e.g",
        '"',
        "”",
        "(",
        ")",
        "The",
        "he",
        "5",
        "。",
        "東",
        "-",
    ]
)


@given(st.one_of(st.text(max_size=200), st.lists(_PIECES, max_size=60).map("".join)))
def test_sentences_cover_the_text_in_order_without_overlap(text: str) -> None:
    at = 0
    for start, end in sentence_spans(text):
        assert at <= start < end
        assert not text[at:start].strip()
        assert text[start:end] == text[start:end].strip()
        at = end
    assert not text[at:].strip()


@pytest.mark.parametrize("piece", [".", " ", "\n", '"', ". ", "J. ", ' ("', ".\n", "a", "。", "? a", "Dr. A "])
def test_time_grows_linearly_with_the_text(piece: str) -> None:
    with cpu_limit(5):
        sentence_spans("A" + piece * (60_000 // len(piece)) + "A")


@given(st.text())
def test_words_are_the_same_as_those_of_a_pattern(text: str) -> None:
    expected = " ".join(re.findall(r"[^\W_]+", text.casefold()))
    assert join_words(text, lambda part: re.findall(r"[^\W_]+", part.casefold())) == expected


def test_the_key_of_a_question_has_only_its_words() -> None:
    assert question_key("Who's_who in ŁÓDŹ – and 東京?") == "who s_who in łódź and 東 京"
