"""Names are found by their capitals in any script."""

from __future__ import annotations

import pytest

from hoptree.text.names import name_spans


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("in which city did Wojciech Jerzy Has die?", ["Wojciech Jerzy Has"]),
        (
            "is the Lighthouse of Genoa or the Île Vierge Lighthouse taller?",
            ["Lighthouse of Genoa", "Île Vierge Lighthouse"],
        ),
        ("the son of J. R. R. Tolkien's wife", ["J. R. R. Tolkien's"]),
        ("the novel The Invention of Morel", ["The Invention of Morel"]),
        ("die Autorin über den émigré", ["Autorin"]),
        ("кто написал роман Мастер и Маргарита?", ["Мастер", "Маргарита"]),
        ("谁写了这本书", []),
        ("", []),
    ],
)
def test_names_are_found_in_any_script(text: str, names: list[str]) -> None:
    assert [text[start:end] for start, end in name_spans(text)] == names
