"""Which passages an answer cites, and in which order."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from hoptree.core.values import Passage
from hoptree.engine.answer_sentence import CITATIONS, cite_answer
from hoptree.engine.support import describe_answer
from hoptree.text.grounding import supports_answer

FILES = Passage(
    "p", "Files", "The settings lie in ~/.config/x.toml. An older one is read from `/etc/x`; there is a default."
)


@pytest.mark.parametrize(
    ("answer", "held"),
    [
        ("~/.config/x.toml, /etc/x", True),
        ("`~/.config/x.toml` and `/etc/x`.", True),
        ("~/.config/x.toml, /etc/x, and a default", True),
        ("~/.config/x.toml, /opt/x", False),
        ("~/.config/x.toml, config-x.toml", False),
    ],
)
def test_a_list_is_held_where_all_its_parts_stand_to_the_letter(answer: str, held: bool) -> None:
    assert supports_answer(answer, [FILES]) is held
    fields: dict[str, Any] = {
        "nodes": (),
        "evidence": [FILES],
        "cited": (),
        "read": [FILES],
        "computed": False,
        "measured": None,
    }
    sentence, confidence = describe_answer("Where do the settings lie?", answer, "external", **fields)
    assert confidence is not None and (confidence.level == "a guess") is not held
    assert sentence.endswith("[1].") is held


def test_citations_come_in_ascending_order() -> None:
    passages = [
        Passage("a", "Bach", "Bach died in Leipzig."),
        Passage("b", "B", "Leipzig."),
        Passage("c", "C", "Leipzig."),
    ]
    for places in permutations(range(3)):
        sentence = cite_answer("Where did Bach die?", "Leipzig", places, passages)
        assert CITATIONS.findall(sentence) == ["[1][2][3]"]
    middle = [passages[1], passages[0], passages[2]]
    assert cite_answer("Where did Bach die?", "Leipzig", [2, 1, 0], middle) == (
        "Bach died in Leipzig [1]: “Bach died in Leipzig.” [2][3]"
    )
