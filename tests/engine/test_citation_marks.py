"""Which passages an answer cites, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from hoptree.core.values import Passage
from hoptree.engine.explain import tell_answer
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
    told: dict[str, Any] = {
        "nodes": (),
        "evidence": [FILES],
        "cited": (),
        "read": 1,
        "computed": False,
        "measured": None,
    }
    sentence, confidence = tell_answer("Where do the settings lie?", answer, "external", **told)
    assert confidence is not None and (confidence.level == "a guess") is not held
    assert sentence.endswith("[1].") is held
