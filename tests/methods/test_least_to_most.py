"""Least-to-most: a list of simpler questions, each asked with the answers before it."""

from __future__ import annotations

import pytest
from tests.methods.continuation_asked import GRANDFATHER, Run

from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

FATHER = "Who is the father of Charles Bretagne?"
HIS = "Who is the father of that person?"
LIST = f"1. {FATHER}\n2. {HIS}"


def rules(listed: str = LIST, first: str = "Jean Bretagne", then: str | list[str] = "Charles Armand") -> list[Rule]:
    return [
        Rule(listed, step="decompose"),
        Rule(first, step="direct"),
        Rule(then, step="combine"),
        Rule("He had one. So the answer is: Charles.", step="think"),
    ]


def test_questions_are_asked_in_turn_with_all_answers_before_and_the_question_last() -> None:
    run = Run("least_to_most", rules(then=["Charles Armand", "Charles Armand René"]))
    assert (run.result.answer, run.steps) == ("Charles Armand René", ["decompose", "direct", "combine", "combine"])
    assert run.queries == []
    direct, second, last = (run.sent(step)[n].messages[-1].content for step, n in _ASKED)
    assert direct.startswith(f"Question: {FATHER}")
    assert f"1. {FATHER}\nJean Bretagne\n" in second and f"Question: {HIS}" in second
    assert f"1. {FATHER}\nJean Bretagne\n2. {HIS}\nCharles Armand\n" in last and f"Question: {GRANDFATHER}" in last


_ASKED = (("direct", 0), ("combine", 0), ("combine", 1))


def test_the_list_is_asked_for_with_examples() -> None:
    (sent,) = Run("least_to_most", rules()).sent("decompose")
    assert sum(message.role == "assistant" for message in sent.messages) == 3
    assert sent.messages[-1].content == f"Question: {GRANDFATHER}\nSimpler questions:"


@pytest.mark.parametrize("listed", ["", "  ", "No idea.", '{"questions": [', f"1. {GRANDFATHER}", "I cannot help."])
def test_no_simpler_question_means_step_by_step(listed: str) -> None:
    run = Run("least_to_most", rules(listed))
    assert (run.result.answer, run.steps) == ("Charles", ["decompose", "think"])
    assert run.result.tree[0].why == "no simpler question; answered step by step"


@pytest.mark.parametrize(
    "listed",
    [
        f"- {FATHER}\n- {HIS}",
        f'["{FATHER}", "{HIS}"]',
        f"Simpler questions:\n1) {FATHER} Answer: Jean\n2) {HIS} Answer: Charles\n3) {GRANDFATHER}",
        f"1. {FATHER}\n2. {FATHER.upper()}\n3. {HIS}",
    ],
)
def test_lists_are_read_in_many_forms_without_the_question_and_without_doubles(listed: str) -> None:
    run = Run("least_to_most", rules(listed))
    assert [node.question for node in run.result.tree[0].children] == [FATHER, HIS]
    assert run.steps == ["decompose", "direct", "combine", "combine"]


def test_the_paper_s_worked_example() -> None:
    """Zhou et al. 2023, Figure 1: one simpler question, whose answer the question itself is then asked with."""
    asked = (
        "Amy needs 4 minutes to get up a water slide and 1 minute to come down, and it shuts in 15 minutes. How often "
        "can she use it until then?"
    )
    simpler = "How many minutes does Amy need to go up and down once?"
    trip = "5 minutes"
    run = Run("least_to_most", rules(f"1. {simpler}", trip, "3"), question=asked)
    assert (run.result.answer, run.steps) == ("3", ["decompose", "direct", "combine"])
    assert f"1. {simpler}\n{trip}\n" in run.sent("combine")[0].messages[-1].content


def test_all_that_are_listed_are_asked_unless_a_cap_is_set() -> None:
    listed = "\n".join(f"{n}. Who is the father of person {n}?" for n in range(1, 8))
    assert len(Run("least_to_most", rules(listed)).result.tree[0].children) == 7
    capped = Run("least_to_most", rules(listed), max_sub_questions=4)
    assert len(capped.result.tree[0].children) == 4
    assert (capped.result.fidelity, Run("least_to_most", rules(listed)).result.fidelity) == ("approx", "exact")


def test_what_is_unknown_is_shown_as_that() -> None:
    run = Run("least_to_most", rules(first="I do not know the answer.", then=["", "Charles"]))
    assert f"1. {FATHER}\n[unknown]\n2. {HIS}\n[unknown]\n" in run.sent("combine")[1].messages[-1].content
    assert run.result.answer == "Charles"
    assert [node.state for node in run.result.tree[0].children] == ["unanswered", "unanswered"]


def test_a_question_that_stays_open_has_no_answer() -> None:
    run = Run("least_to_most", rules(then="The answer is not mentioned."))
    assert (run.result.answer, run.result.abstained) == ("", True)


def test_an_answer_to_a_part_is_no_answer_when_the_budget_ends() -> None:
    run = Run("least_to_most", rules(), budget=Budget(calls=3))
    assert (run.result.answer, run.result.stopped_by) == ("", "calls")
    assert run.result.tree[0].children[1].answer == "Charles Armand"
