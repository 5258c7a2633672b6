"""DyPlan: a strategy by its name, a second one where the first answer does not hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run

from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule
from hoptree.text.parse_method_replies import read_final

LAST = "So the answer is: Charles Armand."
DIALOGUE = (
    "Follow up: Who is his father?\nIntermediate answer: Jean.\n"
    "Follow up: Who is Jean's father?\nIntermediate answer: Charles Armand.\nSo the final answer is: Charles Armand."
)


def ask(
    *first: Rule,
    route: str = "Direct",
    again: str = "Retrieval",
    right: str = "Yes",
    verify: bool = False,
    **options: Any,
) -> Run:
    script = [
        *first,
        Rule(route, step="route"),
        Rule(again, step="route_again"),
        Rule(right, step="verify"),
        Rule("Louis", step="direct"),
        Rule(f"His father is Jean. {LAST}", step="think"),
        Rule(DIALOGUE),
    ]
    return Run("dyplan", script, verify=verify, **options)


@pytest.mark.parametrize(
    ("route", "steps", "queries", "answer"),
    [
        ("Direct", ["route", "direct"], 0, "Louis"),
        ("reasoning", ["route", "think"], 0, "Charles Armand"),
        ("Strategy: Retrieval", ["route", "think"], 1, "Charles Armand"),
    ],
)
def test_each_strategy_is_used(route: str, steps: list[str], queries: int, answer: str) -> None:
    run = ask(route=route)
    assert (run.steps, run.result.answer) == (steps, answer)
    assert run.shelf.asked == [(GRANDFATHER, 3)] * queries


def test_a_plan_is_self_ask_without_search() -> None:
    run = ask(route="Plan")
    assert run.result.answer == "Charles Armand" and run.queries == []
    assert run.steps[0] == "route" and "think" not in run.steps


@pytest.mark.parametrize("reply", ["", "RAG", "either Direct or Plan", "Charles Armand", "None"])
def test_a_name_that_is_none_means_retrieval(reply: str) -> None:
    run = ask(route=reply)
    assert run.values("route") == ["Retrieval"] and run.queries == [GRANDFATHER]
    assert [event["ok"] for event in run.of("parse", step="route")] == [False]


def test_the_planner_sees_the_strategies_and_the_question_alone() -> None:
    request = ask().sent("route")[0]
    assert [line.partition(" - ")[0] for line in request.messages[0].content.splitlines()[-4:]] == [
        "Direct",
        "Plan",
        "Reason",
        "Retrieval",
    ]
    assert request.messages[-1].content.startswith(f"Question: {GRANDFATHER}")


def test_without_verify_nothing_is_checked() -> None:
    assert ask(right="No").steps == ["route", "direct"]


def test_the_questions_of_the_paper_s_first_figure() -> None:
    """Parekh et al. 2025: what everybody knows is answered directly, an age is reasoned out, and both are verified."""
    script = [
        Rule("Direct", step="route", contains="first president"),
        Rule("Direct", step="route"),
        Rule("George Washington", step="direct", contains="first president"),
        Rule("19", step="direct"),
        Rule("Yes", step="verify", contains="Washington"),
        Rule("No", step="verify"),
        Rule("Reason", step="route_again"),
        Rule("Federer was born in August 1981. He won Wimbledon in July 2003. So the answer is: 21.", step="think"),
    ]
    president = Run("dyplan", script, question="Who was the first president of the USA?")
    assert (president.result.answer, president.steps) == ("George Washington", ["route", "direct", "verify"])
    federer = Run("dyplan", script, question="How old was Roger Federer when he first won a Grand Slam title?")
    assert (federer.result.answer, federer.queries) == ("21", [])
    assert federer.steps == ["route", "direct", "verify", "route_again", "think"], "verified unless verify=off"


def test_an_answer_that_holds_is_kept() -> None:
    run = ask(verify=True)
    assert (run.result.answer, run.steps) == ("Louis", ["route", "direct", "verify"])
    assert run.values("verify") == [True]
    assert "Answer: Louis" in run.sent("verify")[0].messages[-1].content


@pytest.mark.parametrize("right", ["No", "no, it is not", "", "Perhaps"])
def test_one_that_does_not_is_answered_by_another_strategy_once(right: str) -> None:
    run = ask(verify=True, right=right)
    assert run.steps == ["route", "direct", "verify", "route_again", "think"]
    assert run.result.answer == "Charles Armand" and run.queries == [GRANDFATHER]
    shown = run.sent("route_again")[0].messages
    assert "Direct -" not in shown[0].content and "Plan -" in shown[0].content
    assert "Strategy that was used: Direct" in shown[-1].content and "right: Louis" in shown[-1].content
    assert "Plan or Reason or Retrieval" in shown[-1].content.splitlines()[-1]


@pytest.mark.parametrize(("route", "dearest"), [("Direct", "Retrieval"), ("Retrieval", "Reason")])
def test_the_same_strategy_again_is_none_of_those_left(route: str, dearest: str) -> None:
    run = ask(verify=True, right="No", route=route, again=route)
    assert run.values("route") == [route, dearest]


def test_no_answer_is_wrong_without_being_asked_about() -> None:
    run = ask(Rule("I don't know", step="direct"), verify=True)
    assert run.steps == ["route", "direct", "route_again", "think"]


def test_where_the_second_finds_nothing_the_first_stays() -> None:
    unknown = [Rule("So the answer is: unknown.", step=step) for step in ("think", "conclude")]
    run = ask(*unknown, verify=True, right="No", again="Reason")
    assert run.result.answer == "Louis"


def test_a_spent_budget_leaves_the_first_answer() -> None:
    run = ask(verify=True, right="No", budget=Budget(calls=3))
    assert run.result.answer == "Louis" and run.result.stopped_by


# As the paper trains a model: one conversation.
FINAL = 'His father is Jean. Final answer: "Charles Armand".'


def trained(
    *use: str, route: str = "RAG", again: str = "RAG", right: str = "Yes", verify: bool = False, **options: Any
) -> Run:
    script = [
        Rule(route, step="route"),
        Rule(again, step="route_again"),
        Rule(right, step="verify"),
        Rule(list(use) or FINAL, step="use"),
        Rule(' "Charles Armand".', step="conclude"),
    ]
    return Run("dyplan", script, checkpoint=True, verify=verify, **options)


def test_the_trained_model_chooses_and_answers_in_one_conversation() -> None:
    run = trained()
    assert (run.result.answer, run.steps, run.result.fidelity) == ("Charles Armand", ["route", "use"], "approx")
    first, second = (run.sent(step)[0].messages for step in ("route", "use"))
    assert [line.partition(" - ")[0] for line in first[1].content.splitlines()[1:5]] == ["Direct", "Plan", "CoT", "RAG"]
    assert first[1].content.endswith(f"Question: {GRANDFATHER}")
    assert second[:2] == first and [turn.role for turn in second[2:]] == ["assistant", "user"]
    assert second[2].content == "RAG" and f"\nContext:\n[1] {DUKES[0].text}\n[2]" in second[3].content
    assert run.shelf.asked == [(GRANDFATHER, 3)] and run.of("final")[0]["source"] == "external"


@pytest.mark.parametrize("strategy", ["Direct", "Plan", "CoT"])
def test_the_other_strategies_show_no_documents(strategy: str) -> None:
    run = trained(route=f"{strategy}\n")
    assert run.queries == [] and run.sent("use")[0].messages[2].content == strategy
    assert "Context:" not in run.sent("use")[0].messages[-1].content


@pytest.mark.parametrize("reply", ["", "Retrieval", "nonsense"])
def test_an_unknown_name_is_the_last_strategy(reply: str) -> None:
    assert trained(route=reply).values("route") == ["RAG"]


def test_verify_and_a_second_strategy_go_on_in_the_conversation() -> None:
    run = trained('Final answer: "Louis".', FINAL, route="Direct", right="No", verify=True)
    assert run.steps == ["route", "use", "verify", "route_again", "use"] and run.result.answer == "Charles Armand"
    check, again, use = (run.sent(step)[-1].messages for step in ("verify", "route_again", "use"))
    assert check[4].content == 'Final answer: "Louis".' and again[6].content == "No"
    assert "Direct -" not in again[-1].content and "CoT -" in again[-1].content
    assert use[8].content == "RAG" and "[1] " in use[-1].content  # the released code shows none in the second round
    assert trained(verify=True).steps == ["route", "use", "verify"]


def test_a_reply_without_a_final_answer_is_made_to_give_one() -> None:
    run = trained("His father is Jean.")
    assert run.result.answer == "Charles Armand"
    assert run.sent("conclude")[0].prefix == "His father is Jean. Final answer:"
    assert run.of("parse", step="use")[0]["repairs"] == ["last words"]
    silent = trained("His father is Jean.", without=frozenset({"prefix"}))
    assert silent.result.answer == "" and silent.of("parse", step="use")[0]["ok"] is False


def test_a_final_answer_that_is_cut_off_is_asked_for_again() -> None:
    run = trained("His father is Jean. Final answer:")
    assert run.result.answer == "Charles Armand"
    assert run.sent("conclude")[0].prefix == "His father is Jean. Final answer:"


def test_a_final_answer_that_says_there_is_none_is_no_reply_that_cannot_be_read() -> None:
    run = trained('Final answer: "unknown".')
    assert run.result.answer == "" and run.steps == ["route", "use"]
    assert [event["ok"] for event in run.of("parse", step="use")] == [True]


def test_something_is_said_in_every_turn() -> None:
    run = trained("", FINAL, verify=True, right="No", without=frozenset({"prefix"}))
    assert run.result.answer == "Charles Armand"
    assert all(
        message.content for step in ("verify", "use") for request in run.sent(step) for message in request.messages
    )


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (FINAL, "Charles Armand"),
        ("final answer: Charles Armand", "Charles Armand"),
        ('Final answer: "Louis". No, wait. Final answer: "Charles"', "Charles"),
        ("Final answer:", ""),
        ('Final answer: "unknown"', ""),
        ("Charles Armand", ""),
        ("", ""),
    ],
)
def test_final_answers(reply: str, answer: str) -> None:
    assert read_final(reply).text == answer


@given(st.text())
def test_anything_is_read(reply: str) -> None:
    assert read_final(f"Final answer: {reply}").known in (True, False)
    assert not read_final(reply.replace(":", "")).known


def test_nothing_found_is_no_failure() -> None:
    assert trained(shelf=Shelf()).result.answer == "Charles Armand"
