"""One of a few ways, however a model names it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.core.values import Token
from hoptree.methods.steps.route import list_strategies, load_strategies
from hoptree.text.parse_labels import likeliest_label, read_choice

STRATEGIES = ("Direct", "Plan", "Reason", "Retrieval")
LETTERS = ("A", "B", "C")
YES_NO = ("Yes", "No")


@pytest.mark.parametrize(
    ("reply", "meant"),
    [
        ("Direct", "Direct"),
        ("retrieval.", "Retrieval"),
        ("**Plan**", "Plan"),
        ("Strategy: Reason", "Reason"),
        ("Retrieve documents", "Retrieval"),
        ("Reasoning", "Reason"),
        ("Directly, as I know it.", "Direct"),
        ("The best strategy is Plan, not Direct.", "Plan"),
        ("I would use Retrieval here.", "Retrieval"),
        ("For this reason I would take Direct", "Direct"),
        ("Use retrieval", "Retrieval"),
        ("Either Plan or Direct", ""),
        ("The director of the film is unknown", ""),
        ("Really hard", ""),
        ("RAG", ""),
        ("", ""),
        ("???", ""),
    ],
)
def test_a_strategy_by_its_name(reply: str, meant: str) -> None:
    assert read_choice(reply, STRATEGIES) == meant


@pytest.mark.parametrize(
    ("reply", "meant"),
    [
        ("A", "A"),
        ("b", "B"),
        ("c) several steps", "C"),
        ("(B)", "B"),
        ("**C**", "C"),
        ("B: one step", "B"),
        ("Label: C", "C"),
        ("The answer is B.", "B"),
        ("A is right", "A"),
        ("A question like this takes several steps: C", "C"),
        ("A simple question", ""),
        ("This is a B question", "B"),
        ("Class B or C", ""),
        ("because", ""),
        ("D", ""),
    ],
)
def test_a_letter_that_is_no_article(reply: str, meant: str) -> None:
    assert read_choice(reply, LETTERS) == meant


@pytest.mark.parametrize(
    ("reply", "meant"),
    [
        ("Yes", "Yes"),
        ("no.", "No"),
        ("Yes, I need to look it up: I have no idea.", "Yes"),
        ("Answer: no", "No"),
        ("I have no idea who that is.", ""),
        ("Nobody knows", ""),
        ("I would say yes", "Yes"),
    ],
)
def test_yes_or_no(reply: str, meant: str) -> None:
    assert read_choice(reply, YES_NO) == meant


@given(st.text(), st.sampled_from([STRATEGIES, LETTERS, YES_NO]))
def test_anything_is_read_as_a_name_or_as_none(reply: str, names: tuple[str, ...]) -> None:
    assert read_choice(reply, names) in (*names, "")


@given(
    st.sampled_from([*STRATEGIES, *LETTERS, *YES_NO]),
    st.sampled_from(["", " ", "**", '"', "(", "\n", "- "]),
    st.sampled_from(["", ".", "**", '"', ")", "\n", "!"]),
)
def test_a_name_alone_is_read_whatever_marks_are_around_it(name: str, before: str, after: str) -> None:
    names = next(choices for choices in (STRATEGIES, LETTERS, YES_NO) if name in choices)
    assert read_choice(f"{before}{name}{after}", names) == name


def test_the_likeliest_of_the_labels_counts_and_nothing_else() -> None:
    first = Token("D", -0.1, top=(("D", -0.1), (" C", -3.0), ("B", -4.0)))
    assert (
        likeliest_label(
            (
                first,
                Token("A", -0.1),
            ),
            LETTERS,
        )
        == "C"
    )
    assert (
        likeliest_label(
            (
                Token(" ", -0.1),
                Token("B", -0.1),
            ),
            LETTERS,
        )
        == "B"
    )
    assert likeliest_label((Token("x", -0.1),), LETTERS) == ""
    assert likeliest_label((), LETTERS) == ""


@pytest.mark.parametrize("method", ["adaptive_rag", "dyplan"])
def test_ways_are_told_a_line_each(method: str) -> None:
    lines = list_strategies(load_strategies(method)).splitlines()
    assert [line.partition(" - ")[0] for line in lines] == list(LETTERS if method == "adaptive_rag" else STRATEGIES)
    assert all(len(line) > 20 for line in lines)
