"""What names a passage must have for an answer to be well supported."""

from __future__ import annotations

import pytest

from hoptree.core.values import Passage
from hoptree.text.answer_fit import names_thing


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
