"""What is asked of each thing compared, by the words of the question alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.comparing import parts_of

DIRECTOR = "Who is the director of the film {}?"
ASKED = [
    ("Who was born first, Ada Lovelace or Grace Hopper?", ["When was {} born?"], ["Ada Lovelace", "Grace Hopper"]),
    ("Who died later, Ada Lovelace or Grace Hopper?", ["When did {} die?"], ["Ada Lovelace", "Grace Hopper"]),
    (
        "Which film has the director who died first, Vertigo or Jaws?",
        [DIRECTOR, "When did {} die?"],
        ["Vertigo", "Jaws"],
    ),
    ("Which film has the director born later, Vertigo or Jaws?", [DIRECTOR, "When was {} born?"], ["Vertigo", "Jaws"]),
    (
        "Which film whose director was born first, Vertigo or Jaws?",
        [DIRECTOR, "When was {} born?"],
        ["Vertigo", "Jaws"],
    ),
    ("Which film has the older director, Vertigo or Jaws?", [DIRECTOR, "When was {} born?"], ["Vertigo", "Jaws"]),
    (
        "Are the directors of the films Vertigo and Jaws from the same country?",
        [DIRECTOR, "What is the nationality of {}?"],
        ["Vertigo", "Jaws"],
    ),
    (
        "Do director of film Vertigo and director of film Jaws share the same nationality?",
        ["Who is the {}?", "What is the nationality of {}?"],
        ["director of film Vertigo", "director of film Jaws"],
    ),
    ("Which film came out first, Vertigo or Jaws?", ["When did {} come out?"], ["Vertigo", "Jaws"]),
    ("Which magazine was founded first, Diva or Elle?", ["When was {} founded?"], ["Diva", "Elle"]),
    ("Which singer is younger, Terri Nunn or Bono?", ["When was {} born?"], ["Terri Nunn", "Bono"]),
    ("Which musical film is older, Cats or The Wiz?", ["When was {} released?"], ["Cats", "The Wiz"]),
    ("Was Pepper Keenan or Rob Parissi born first?", ["When was {} born?"], ["Pepper Keenan", "Rob Parissi"]),
    (
        "Who lived longer, Ada Lovelace or Grace Hopper?",
        ["What are the dates of birth and death of {}?"],
        ["Ada Lovelace", "Grace Hopper"],
    ),
    (
        "Are Mavrolithari and Ampelakia located in the same country?",
        ["In which country is {} located?"],
        ["Mavrolithari", "Ampelakia"],
    ),
    ("Are the bands Soil and Yes from the same country?", ["Which country is {} from?"], ["Soil", "Yes"]),
    ("Which mountain is taller, K2 or Elbrus?", ["How tall is {}?"], ["K2", "Elbrus"]),
]
UNTOLD = [
    "Where was the director of Vertigo born?",  # compares nothing
    "Are Joe Elliott and Paul Meany both keyboardists?",  # a claim about each, which is checked and not planned
    "Which dog is native to France, Bulldog or Beagle?",
    "Who has released more solo albums, Nick Carter or Brady Seals?",
    "Which plant genus has a longer common name, Myrtus or Eustoma?",
    "Were both Pietro Salini and Domenico Ravenna born in the same place?",
    "Which band has the singer with more albums, Soil or Yes?",
    "Are Vertigo and Jaws produced in the same country?",  # where it was produced is another fact than whose it is
    "Which of the two painters was a pupil of a director who was born first, Monet or Manet?",
]


@pytest.mark.parametrize(("question", "chain", "things"), ASKED, ids=lambda value: str(value)[:40])
def test_the_words_of_a_comparison_tell_what_to_ask(question: str, chain: list[str], things: list[str]) -> None:
    first, *later = chain
    assert parts_of(question) == tuple((first.format(thing), *later) for thing in things)


@pytest.mark.parametrize("question", UNTOLD)
def test_what_the_words_do_not_tell_is_left_to_a_planner(question: str) -> None:
    assert parts_of(question) is None


@given(st.text(max_size=120))
def test_any_text_has_parts_or_none(text: str) -> None:
    for question in (text, f"Which film has the director who died first, {text} or {text[::-1]}?"):
        chains = parts_of(question)
        assert chains is None or all(asked.strip() and "{}" not in chain[0] for chain in chains for asked in chain)
