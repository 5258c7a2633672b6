"""What names a passage must have for an answer to be well supported."""

from __future__ import annotations

import pytest

from hoptree.core.values import Passage
from hoptree.text.answer_fit import is_of_other_end, names_thing


@pytest.mark.parametrize(
    ("question", "text", "is_named"),
    [
        ("Who drives RE 205?", "Train: RE 207; from: Bern; driver: Uwe Kranz", False),
        ("Who drives RE 205?", "Train: RE 205; from: Bern; driver: Uwe Kranz", True),
        ("Who drives RE 205?", "Train: RE205; from: Bern; driver: Uwe Kranz", True),
        ("Who drives RE 205 to Bern?", "Train: RE 207; to: Bern; driver: Uwe Kranz", False),
        ("What does Model 757 weigh?", "Model: 747; weight: 80 t", False),
        ("What does Model 757 weigh?", "The 757 is a model of 60 t.", True),
        ("What is new in Debian 12.5?", "Debian 12.4 brought fixes.", False),
        ("When did Apollo-11 land?", "Apollo 11 landed in July.", True),
        ("When did Apollo 11 land?", "Apollo 12 landed in November.", False),
        ("Who married Ada Moor on March 12, 1881?", "1881-03-12: Ada Moor married Bo.", True),
    ],
)
def test_the_number_of_a_name_counts(question: str, text: str, is_named: bool) -> None:
    assert names_thing(question, Passage("p", "", text)) is is_named


@pytest.mark.parametrize(
    ("text", "is_named"),
    [
        ("Maria Kowalska-Brandt was born on 12 March 1881.", False),
        ("name: Maria Brandt; born: 1881", False),
        ("Dr. Maria Brandt was born in 1881.", False),
        ("M. Brandt was born in 1881.", False),
        ("The Maria Brandts were born in 1881.", False),
        ("Brandt was born in 1881.", True),
        ("name: Brandt; born: 1881", True),
        ("In Bern, Professor Brandt was born in 1881.", True),
        ("E. Brandt was born in 1881.", True),
        ("Later Brandt moved. Maria Brandt was born in 1881.", True),
        ("Emil Karl Brandt was born in 1881.", True),
        ("Brandt: Physicist\nKowalska: Physicist", True),
        ("He came to Bern\nBrandt came in 1881.", True),
        ("Maria Brandt: Physicist", False),
    ],
)
def test_a_last_name_behind_another_first_name_is_not_enough(text: str, is_named: bool) -> None:
    assert names_thing("When was Emil Brandt born?", Passage("p", "", text)) is is_named


@pytest.mark.parametrize(
    ("question", "answer", "sentence", "is_other"),
    [
        ("Where was Emil Brandt born?", "Bern", "He died in Bern.", True),
        ("Where was Emil Brandt born?", "Bern", "He was born in Bern.", False),
        ("Where was Emil Brandt born?", "Bern", "Born in Rome, he died in Bern.", False),
        ("Where was Emil Brandt born?", "Bern", "He came from Bern.", False),
        ("Where did Emil Brandt die?", "Bern", "He was born in Bern.", True),
        ("What is the place of birth of Emil Brandt?", "Bern", "He died in Bern.", True),
        ("Wo wurde Emil Brandt geboren?", "Bern", "Er starb in Bern.", True),
        ("Wo ist Emil Brandt gestorben?", "Bern", "Er verstarb in Bern.", False),
        ("When was Emil Brandt born?", "4 May 1952", "Emil Brandt (12 March 1881 – 4 May 1952) was Swiss.", True),
        ("When was Emil Brandt born?", "12 March 1881", "Emil Brandt (12 March 1881 – 4 May 1952) was Swiss.", False),
        ("When did Emil Brandt die?", "1881", "Emil Brandt (1881-1952) was Swiss.", True),
        ("When did Emil Brandt die?", "1952", "Emil Brandt (1881—1952) was Swiss.", False),
        ("When did Emil Brandt die?", "1952", "Emil Brandt (born 1881) was there in 1952, when he died.", False),
        ("Where did the man who was born in 1881 die?", "Bern", "He was born in Bern.", False),
        ("Wo wurde Ada Moor geboren?", "Bern", "Die Sängerin kam aus Bern, d. h. aus der Schweiz.", False),
        ("Where was Emil Brandt born?", "Bern", "Today Bern is where he lives.", False),
        ("Where did Emil Brandt die?", "Bern", "B. Moor lived in Bern.", False),
        ("Where did Emil Brandt live?", "Bern", "He died in Bern.", False),
    ],
)
def test_a_death_is_no_birth(question: str, answer: str, sentence: str, is_other: bool) -> None:
    assert is_of_other_end(question, answer, sentence) is is_other


@pytest.mark.parametrize(
    ("title", "text", "is_named"),
    [
        ("Bridges", "Bridge: Sunniberg; engineer: Christian Menn", False),
        ("", "Bridge: Sunniberg; engineer: Christian Menn", False),
        ("The Sunniberg Bridge", "Its engineer is Christian Menn.", False),
        ("Bridges", "Bridge: Salgina; engineer: Robert Maillart", True),
        ("", "The Salgina bridge is by Robert Maillart.", True),
    ],
)
def test_the_kind_of_a_thing_is_not_its_name(title: str, text: str, is_named: bool) -> None:
    assert names_thing("Who is the engineer of the Salgina Bridge?", Passage("p", title, text)) is is_named
