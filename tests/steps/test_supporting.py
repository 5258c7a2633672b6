"""What evidence holds of an answer: words that say nothing by themselves need more beside them."""

from __future__ import annotations

import pytest

from hoptree.steps.hypotheses.evidence_box import EvidenceBox
from hoptree.values import Passage

BOX = EvidenceBox(
    (
        Passage("s", "Westside School", "Westside School is in Tigard, Oregon, United States."),
        Passage("k", "Elia Kazan", "Elia Kazan was a director, born in 1909."),
        Passage("m", "Molly Day", "Molly Day was the wife of Elia Kazan."),
    )
)


@pytest.mark.parametrize(
    ("answer", "question", "held"),
    [
        ("Yes", "Is Westside School located in Oregon?", ("s",)),
        ("Yes", "Is Westside School located in Canada?", ()),
        ("No", "Is Westside School located in Canada?", ()),
        ("Elia Kazan", "Who was the spouse of Elia Kazan?", ()),
        ("Molly Day", "Who was the spouse of Elia Kazan?", ("m",)),
        ("Elia Kazan", "Was Molly Day the wife of Elia Kazan?", ("m",)),
        ("1909", "When was Elia Kazan born?", ("k",)),
        (
            "Elia Kazan",
            "Who was born first, Elia Kazan or Molly Day?",
            ("k", "m"),
        ),  # who else is named is asked elsewhere
    ],
)
def test_what_adds_nothing_to_its_question_needs_all_of_its_names(
    answer: str, question: str, held: tuple[str, ...]
) -> None:
    assert BOX.supporting(answer, question) == held
