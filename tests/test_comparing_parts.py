"""The sub-questions of a comparison are planned from the words of the question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.text.comparison_plans import plan_comparison

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
    ("Which of the two films was released first, Vertigo or Jaws?", ["When was {} released?"], ["Vertigo", "Jaws"]),
    ("Who is the younger singer, Terri Nunn or Bono?", ["When was {} born?"], ["Terri Nunn", "Bono"]),
    ("Which women's magazine is older, Diva or Elle?", ["When was {} published?"], ["Diva", "Elle"]),
    ("Was the film Emma released before the comic book Maus?", ["When was {} released?"], ["Emma", "Maus"]),
    ("Was Ann Lee born before Bob Ray was born?", ["When was {} born?"], ["Ann Lee", "Bob Ray"]),
    ("Which film came out first, Alien 3 or Alien?", ["When did {} come out?"], ["Alien 3", "Alien"]),
    (
        "Is the director of Jaws older than the director of Alien?",
        ["Who is the director of {}?", "When was {} born?"],
        ["Jaws", "Alien"],
    ),
    (
        "Are the directors of Jaws and the directors of Alien from the same country?",
        ["Who is the director of {}?", "Which country is {} from?"],
        ["Jaws", "Alien"],
    ),
    ("Who was born first, Who or Cher?", ["When was {} born?"], ["Who", "Cher"]),
]
UNTOLD = [
    "Where was the director of Vertigo born?",  # compares nothing
    "Are Joe Elliott and Paul Meany both keyboardists?",  # a claim about each, which is checked and not planned
    "Which dog is native to France, Bulldog or Beagle?",
    "Who has released more solo albums, Nick Carter or Brady Seals?",
    "Which plant genus has a longer common name, Myrtus or Eustoma?",
    "Were both Pietro Salini and Domenico Ravenna born in the same place?",
    "Which band has the singer with more albums, Soil or Yes?",
    "Are Vertigo and Jaws produced in the same country?",  # the place of production is another fact than the producer's
    "Which of the two painters was a pupil of a director who was born first, Monet or Manet?",
    "Which film, whose director was born in Ohio, was released earlier, Jaws or Alien?",  # two facts
    "Which film whose producer died later was made first, Jaws or Alien?",
    "Which song has the singer whose father died first, Help or Hello?",
    "Which film has the younger director's wife, Jaws or Alien?",
    "Which film has the older lead actor, Jaws or Alien?",
    "Which film has the older lead actor Jaws or Alien?",
    "Did people think Jaws was released before Alien?",
    "Which film whose director is American came out first, Jaws or Alien?",
    "Did Jaws come out before the director of Alien was born?",
    "Which actor was older when he died, Ann Lee or Bob Ray?",
    "Which company opened its first store earlier, Alpha Inc or Beta Inc?",
    "Which band was formed first and broke up later, Soil or Yes?",
    "Which company was founded earlier by a woman, Alpha Inc or Beta Inc?",
    "Which actor's wife died first, Ann Lee or Bob Ray?",
    "Was the sequel to Jaws released before the sequel to Alien?",
    "Are the wives of Ann Lee and Bob Ray from the same country?",
    "Is the director of Jaws and Alien from the same country?",
    "Who was born earlier, the director of Jaws or Alien?",  # of both, or of the first
    "Who died first, the wife of Ann Lee or Bob Ray?",
    "Which show ran longer, Friends or Seinfeld?",
    "Which university is ranked higher, Yale or Brown?",
    "Which film has the director who was released first, Jaws or Alien?",
    "Do Leeds United and Ajax play in the same country?",
]


@pytest.mark.parametrize(("question", "chain", "things"), ASKED, ids=lambda value: str(value)[:40])
def test_sub_questions_follow_the_words_of_a_comparison(question: str, chain: list[str], things: list[str]) -> None:
    first, *later = chain
    assert plan_comparison(question) == tuple((first.format(thing), *later) for thing in things)


@pytest.mark.parametrize("question", UNTOLD)
def test_unclear_comparisons_are_left_to_a_planner(question: str) -> None:
    assert plan_comparison(question) is None


def test_an_operand_may_be_identified_by_its_role() -> None:
    assert plan_comparison("Who was born earlier, Ridley Scott or the director of Jaws?") == (
        ("When was Ridley Scott born?",),
        ("Who is the director of Jaws?", "When was {} born?"),
    )


@given(st.text(max_size=120))
def test_any_text_has_parts_or_none(text: str) -> None:
    for question in (text, f"Which film has the director who died first, {text} or {text[::-1]}?"):
        chains = plan_comparison(question)
        assert chains is None or all(asked.strip() and "{}" not in chain[0] for chain in chains for asked in chain)
