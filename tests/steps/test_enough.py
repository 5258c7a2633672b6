"""Whether a reply calls what was found enough: only a yes is one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoptree.methods.steps.graph_exploration import Enough, read_enough


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        ("Enough: Yes\nAnswer: Paris", Enough(True, "Paris")),
        ("enough: yes\nanswer: Paris.", Enough(True, "Paris")),
        ("**Enough:** Yes\n**Answer:** Paris", Enough(True, "Paris")),
        ("Enough: {Yes}\nAnswer: {Paris}\nClue: none", Enough(True, "Paris")),
        ("{Yes}. By the facts the answer is {Paris}.", Enough(True, "Paris")),
        ("{YES}, it is {Paris}.", Enough(True, "Paris")),
        ("No doubt about that. {Yes} {Paris}", Enough(True, "Paris")),
        ("Yes. The answer is: No.", Enough(True, "No")),
        ('{"enough": "yes", "answer": "Paris"}', Enough(True, "")),
        (
            "Enough: No\nAnswer: unknown\nClue: the director's birthplace",
            Enough(False, "", "the director's birthplace"),
        ),
        ("Enough: No\nAnswer: Paris\nClue: None.", Enough(False, "Paris")),
        ("{No}. The facts do not tell.", Enough(False)),
        ("No, {Paris} is a guess.", Enough(False, "Paris")),
        ("Enough: No\nAnswer: unknown\n\nQuestion: Who?\nEnough: Yes\nAnswer: Bo", Enough(False)),
        ("Enough: No\nAnswer: unknown\nEnough: Yes\nAnswer: Bo", Enough(False)),
        ("Enough: Yes\nAnswer: Paris\nEnough: No\nAnswer: Bo", Enough(True, "Paris")),
        ("Sufficient: Yes", Enough(True)),
        ("Yes", Enough(True)),
        ("", Enough(False, understood=False)),
        ("Paris", Enough(False, understood=False)),
        ("Nobody knows.", Enough(False, understood=False)),
    ],
)
def test_judgements_are_read(reply: str, read: Enough) -> None:
    judgement = read_enough(reply)
    assert (judgement.enough, judgement.clue, judgement.understood) == (read.enough, read.clue, read.understood)
    assert judgement.answer == read.answer or reply.startswith('{"')


PIECES = st.sampled_from(["Enough:", "{Yes}", "{No}", "Answer:", "Clue:", "\n", " ", "Paris", "{", "}", "Question:"])


@given(st.one_of(st.text(max_size=300), st.lists(PIECES, max_size=30).map("".join)))
def test_anything_is_read_and_only_a_yes_is_enough(reply: str) -> None:
    judgement = read_enough(reply)
    assert not judgement.enough or "yes" in reply.casefold() or "true" in reply.casefold()
    assert judgement.understood or not (judgement.enough or judgement.answer or judgement.clue)
    assert "\n" not in judgement.answer and "\n" not in judgement.clue
