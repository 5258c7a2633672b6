"""What is counted in code: a list that was asked for, and nothing else with a comma in it."""

from __future__ import annotations

import pytest

from hoptree.core.values import Answer
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.trace import Trace
from hoptree.methods.hop.lists import combine, split_list
from hoptree.methods.hop.parts import MAY_BE_SEVERAL, asks_for_several
from hoptree.models.scripted import ScriptedModel


def counted(question: str, answer: str) -> str:
    ctx = Context(method="hop", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("test"))
    if not asks_for_several(question) and not MAY_BE_SEVERAL.match(question):
        return ""
    count = combine(ctx, "count", {question: tuple(map(Answer, split_list(answer)))})
    return count.text if count else ""


@pytest.mark.parametrize(
    ("question", "answer", "number"),
    [
        ("Who starred in #query1?", "Kim Novak and James Stewart", "2"),
        ("Which films did Ada Moor direct?", "Low Tide, Night Train and Far Shore", "3"),
        ("What are the children of Ada Moor?", "Ben; Cora", "2"),
        ("In which countries was it shown?", "France, Spain and Italy", "3"),
        ("Which services does it offer?", "cleaning, catering and security", "3"),
        ("List the members of #query1.", "Ada Moor, Ben Hale, Jr. and Cora Lind", "3"),
    ],
)
def test_a_list_that_was_asked_for_is_counted(question: str, answer: str, number: str) -> None:
    assert counted(question, answer) == number


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Where was Ada Moor born?", "Liverpool, England"),
        ("Which city is #query1 in?", "Liverpool, England"),
        ("In which towns did Ada Moor live?", "Liverpool, England"),
        ("Which cities did Ada Moor visit?", "Liverpool, England and Nice, France"),
        ("Who is Ada Moor?", "Writer, singer"),
        ("Who was the director?", "Ada Moor, Ben Hale"),
        ("When did it begin?", "May, June"),
        ("What is the name of it?", "Low, Moor and Hale"),
        ("Which films did Ada Moor direct?", "Low Tide, which was never shown"),
        ("Which films did Ada Moor direct?", "Low Tide"),
        ("Which films did Ada Moor direct?", "3, among them Low Tide"),
        ("How many people live in #query1?", "many, they say"),
    ],
)
def test_other_commas_are_not(question: str, answer: str) -> None:
    assert counted(question, answer) == ""
