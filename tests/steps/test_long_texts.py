"""Replies and documents of any length are read in a time that grows with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.steps.broken_texts import READERS, read_all

from hoptree.core.values import Passage
from hoptree.corpus.read import read_passages
from hoptree.engine.calls import Calls
from hoptree.engine.context import Context
from hoptree.engine.prompts import show_passages
from hoptree.engine.trace import Trace
from hoptree.methods.steps.decompose import nearest_demonstrations
from hoptree.models.scripted import ScriptedModel
from hoptree.text.question_tree import make_plan


def leak_of(text: str) -> object:
    raw = {"query1": {"question": "Who?", "children": {"query2": text, "query3": "x " + text}}}
    return make_plan(raw, text[:2000], mend_leaks=True)


def shown(text: str) -> str:
    ctx = Context(method="taikc", model=ScriptedModel(rules=[]), calls=Calls(None), trace=Trace("test"))
    return show_passages(ctx, [Passage("p", text, text)], titles=True)


ALL: dict[str, Callable[[str], object]] = {
    **READERS,
    "make_plan of a long question": leak_of,
    "show_passages": shown,
    "nearest": nearest_demonstrations,
}


@pytest.mark.parametrize("reader", ALL)
def test_long_replies_are_read_in_time(reader: str) -> None:
    read_all(ALL[reader])


def test_long_documents_are_read_in_time(tmp_path: Path) -> None:
    def read(text: str) -> None:
        (tmp_path / "long.md").write_text(text, encoding="utf-8")
        list(read_passages(tmp_path / "long.md"))

    read_all(read)
