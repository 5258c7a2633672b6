"""RA-ISF with robust=on: what it does not do twice; and the prompt of sub-questions that build on each other."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.methods.asked import Shelf
from tests.methods.ra_isf_asked import FIRST, ROOT, SECOND, Run, knows, listed, robust, rules

from hoptree.core.values import Passage
from hoptree.engine.prompts import prompt_for
from hoptree.methods.steps.compare import compares_again
from hoptree.models.scripted import Rule

SAME = "Are both Slava and Țerova located in the same country?"
PARTS = ("Which country is Slava located in?", "Which country is Țerova located in?")
AGAIN = (
    "Is Slava located in the same country as Țerova?",
    "Are Slava and Țerova both located in Romania?",
)


def test_robust_does_not_set_the_same_things_side_by_side_again() -> None:
    script = rules(decompose=listed(AGAIN[0], PARTS[0], AGAIN[1], PARTS[1]), read="Nobody")
    run = robust(script, question=SAME, depth=1, depth_rule="prune")
    assert [child.question for child in run.root.children] == list(PARTS)
    assert run.of("decision", kind="split")[0]["loops"] == list(AGAIN)
    plain = Run(script, question=SAME, depth=1, depth_rule="prune")
    assert len(plain.root.children) == 4, "the paper asks all"


def test_robust_with_nothing_but_the_same_comparison_keeps_what_was_read() -> None:
    run = robust(rules(decompose=listed(*AGAIN), read="Nobody"), question=SAME)
    assert not run.root.children and run.result.answer == "Nobody" and "no new sub-question" in run.root.why


def test_robust_does_not_compare_again_what_a_question_further_up_compares() -> None:
    script = rules(
        Rule(listed(PARTS[0]), step="decompose", contains=f"Question: {SAME}"),
        Rule(listed(AGAIN[0], "Where is the mountain?"), step="decompose", contains=f"Question: {PARTS[0]}"),
        know="No",
        read="unknown",
    )
    run = robust(script, question=SAME, depth=2, depth_rule="prune")
    (child,) = run.root.children
    assert [below.question for below in child.children] == ["Where is the mountain?"]


@pytest.mark.parametrize(
    ("question", "above", "again"),
    [
        (
            "Is Lorenzo Zazzeri older than Eliška Krásnohorská?",
            "Who is younger, Eliška Krásnohorská or Lorenzo Zazzeri?",
            1,
        ),
        (
            "Is Waking Up (Film) directed by someone older than the director of Closet Land?",
            "Which film has the director who is older, Closet Land or Waking Up (Film)?",
            1,
        ),
        (
            "Are Allqamari and Juch'Uy located in the same region?",
            "Are Allqamari and Juch'Uy Llallawa in the same state?",
            1,
        ),
        ("Is John Smith older than Ann Lee?", "Which film has the older director, Closet Land or Waking Up?", 0),
        ("Is Closet Land older than Ann Lee?", "Which film is older, Closet Land or Waking Up?", 0),
        ("When did Closet Land come out?", "Which film is older, Closet Land or Waking Up?", 0),
        ("Is Closet Land older than Waking Up?", "Who directed Closet Land and Waking Up?", 0),
    ],
)
def test_a_comparison_is_the_same_by_the_things_it_sets_side_by_side(question: str, above: str, again: bool) -> None:
    assert compares_again(question, ["Who?", above]) == again


THIRD = "Who made Delta Zulu?"


class Three(Shelf):
    async def search(self, query: str, *, k: int, where: Mapping[str, str] | None = None) -> tuple[Passage, ...]:
        await super().search(query, k=k, where=where)
        return (Passage(query, query, f"A text for {query}"), Passage("z", "Zeta", "Nothing."))


def test_robust_asks_memory_search_and_judges_once_though_other_passages_come_down() -> None:
    script = rules(
        Rule("relevance", step="relevance", contains="A text for"),
        Rule(listed(FIRST, THIRD), step="decompose", contains=f"Question: {ROOT}"),
        Rule(listed(THIRD, "Who else?"), step="decompose", contains=f"Question: {FIRST}"),
        read="unknown",
    )
    run = robust(script, shelf=Three(), depth=2, depth_rule="prune")
    mine = f"Question: {THIRD}"
    assert sum(mine in said for said in run.texts("know")) == 1
    assert [query for query, _ in run.shelf.asked].count(THIRD) == 1
    assert sum(mine in said for said in run.texts("relevance")) == 2, "one a passage"
    came_down = [said for said in run.texts("read") if mine in said and f"A text for {ROOT}" in said]
    assert len(came_down) == 2 and sum(f"A text for {FIRST}" in said for said in came_down) == 1
    above, below = run.root.children[1], run.root.children[0].children[0]
    assert above.question == below.question == THIRD
    records = [run.node(one.id) for one in (above, below)]
    assert records[0]["know"] is records[1]["know"] is False
    assert len(records[0]["relevance"]) == 2 and records[0]["relevance"] == records[1]["relevance"]
    assert [record["looked_by"] for record in records] == [above.id, below.id], "each read for itself"


@pytest.mark.parametrize(("linked", "prompt"), [(False, "decompose"), (True, "decompose_linked")])
def test_sub_questions_that_build_on_each_other_have_a_prompt_that_lets_them(linked: bool, prompt: str) -> None:
    run = Run(rules(knows(FIRST), knows(SECOND)), link_siblings=linked)
    (asked,) = run.of("llm", step="decompose")
    assert asked["template"].startswith(f"ra_isf/{prompt}@")
    told = prompt_for("ra_isf", prompt).sections[0].content
    assert ("without the others" in told, "the answers before it" in told) == (not linked, linked)


FILMS = Shelf(
    Passage("a", "Alpha Dawn", "Alpha Dawn is a film of 1957."),
    Passage("b", "Beta Night", "Beta Night is a film of 1950."),
)


def test_robust_does_not_decide_a_comparison_by_facts_of_another_kind() -> None:
    """The releases would have made it Beta Night."""
    script = rules(
        Rule("1957", step="read", contains="Question: When was Alpha"),
        Rule("1950", step="read", contains="Question: When was Beta"),
        decompose=listed("When was Alpha Dawn released?", "When was Beta Night released?"),
        read="Alpha Dawn",
        combine="Alpha Dawn",
    )
    question = "Which film has the director who died first, Alpha Dawn or Beta Night?"
    run = robust(script, question=question, shelf=FILMS)
    (compared,) = run.of("decision", kind="compared")
    assert (compared["value"], compared["facts"], run.result.answer) == (False, {}, "Alpha Dawn")
    assert "combine" in run.steps
