"""MIND's memory is asked for what is in doubt: a date for a date, a place for a place."""

from __future__ import annotations

import pytest
from tests.methods.continuation_asked import DUKES, Run, Search, sure
from tests.methods.mind_asked import ARMAND, FACTS, JEAN, LAST, figure

from hoptree.models.scripted import Rule


@pytest.mark.parametrize(
    ("draft", "spared"), [(f"{JEAN} was born in Lyon.", True), (f"{JEAN} was born in 1709.", False)]
)
def test_memory_spares_a_search_only_for_the_sort_of_thing_in_doubt(draft: str, spared: bool) -> None:
    facts = Rule(f"{FACTS[0]}\n{JEAN} | place of birth | Paris", step="facts", logprob=-0.05)
    script = figure(facts)
    hit = draft.split()[-1].strip(".")
    script.insert(
        0, Rule(draft, step="draft", entropy=sure(draft, **{hit: 3.0}), attention=0.2, contains="Known facts")
    )
    run = Run("mind", script, shelf=Search(*DUKES), filters="none", k=3, retrievals=2)
    assert bool(run.values("skipped")) is spared


def test_a_doubt_of_the_words_that_announce_the_answer_is_none() -> None:
    first = Rule(LAST, step="draft", entropy=sure(LAST, answer=9.0), attention=0.2)
    run = Run("mind", [first, *figure()], shelf=Search(*DUKES))
    assert run.queries == [] and run.steps == ["extract", "draft"] and run.result.answer == ARMAND
