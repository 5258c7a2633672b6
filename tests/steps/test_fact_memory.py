"""Facts of one question: the same one once, the surest first, contradictions side by side."""

from __future__ import annotations

import pytest

from hoptree.steps.memory import FactMemory, Held, relation_key
from hoptree.values import Fact


def held(said: str, sure: float = 0.9, *, relation: str = "father", by: str = "p1", step: int = 1) -> Held:
    return Held(Fact("Jean", relation, said, sure, by), title=f"Title {by}", step=step)


def test_the_same_fact_stays_once_with_its_greater_confidence() -> None:
    memory = FactMemory()
    assert memory.add(held("Louis", 0.6)) == "added"
    assert memory.add(held("LOUIS", 0.8)) == "surer"
    assert memory.add(held("Louis", 0.7)) == "known"
    assert len(memory) == 1 and memory.answers("Jean died.", {"fathe"}).fact.confidence == 0.8  # type: ignore[union-attr]


@pytest.mark.parametrize(("sure", "outcome"), [(0.5, "added"), (0.49, "unsure"), (float("nan"), "unsure")])
def test_what_is_unsure_does_not_enter(sure: float, outcome: str) -> None:
    assert FactMemory(0.5).add(held("Louis", sure)) == outcome


def test_the_surest_are_shown_and_of_equals_the_latest() -> None:
    memory = FactMemory()
    for number, (relation, sure) in enumerate((("age", 0.6), ("son", 0.9), ("wife", 0.6), ("home", 0.95))):
        memory.add(held("x", sure, relation=relation, step=number))
    assert [line.split(" | ")[1] for line in memory.render(3).splitlines()] == ["home", "son", "wife"]
    assert memory.render(0) == "" and FactMemory().render() == ""


def test_what_is_asked_for_is_shown_first() -> None:
    memory = FactMemory()
    memory.add(held("x", 0.9, relation="son"))
    memory.add(late := held("y", 0.6, relation="wife"))
    assert memory.render(1, first=late) == "- Jean | wife | y"


def test_sources_that_differ_are_named_and_a_list_is_no_contradiction() -> None:
    memory = FactMemory()
    memory.add(held("Louis", relation="child"))
    memory.add(held("Marie", 0.8, relation="child"))
    assert memory.conflicts() == () and memory.render() == "- Jean | child | Louis, Marie"
    memory.add(held("Henri", 0.7, relation="child", by="p2"))
    (group,) = memory.conflicts()
    assert [one.fact.object for one in group] == ["Louis", "Marie", "Henri"]
    assert 'Henri (by "Title p2"); the sources differ' in memory.render()


@pytest.mark.parametrize(
    ("sentence", "sought", "found"),
    [
        ("Jean has a father.", "father", True),
        ("JEAN's father", "father's", True),
        ("Jeanne has a father.", "father", False),
        ("Jean was born there.", "father born", False),
        ("Jean was there.", "", False),
        ("Louis has a father.", "father", False),
    ],
)
def test_only_the_relation_sought_of_a_subject_that_is_named_answers(sentence: str, sought: str, found: bool) -> None:
    memory = FactMemory()
    memory.add(held("Louis"))
    assert (memory.answers(sentence, relation_key(sought)) is not None) is found


def test_a_relation_is_known_by_its_words() -> None:
    assert relation_key("the father of") == relation_key("Father") == relation_key("father named") == {"fathe"}
    assert relation_key("of the") == frozenset() and relation_key("date of birth") == {"date", "birth"}
