"""Follow-up questions: rewritten with the conversation before them, in one call, and only where there is one."""

from __future__ import annotations

import asyncio

import pytest

from hoptree.core.values import Question
from hoptree.engine.engine import Engine
from hoptree.engine.result import Result
from hoptree.models.scripted import Rule, ScriptedModel

HISTORY = (("Who directed the film Solaris?", "Andrei Tarkovsky"),)


def asked(question: Question, rewritten: str) -> tuple[Result, ScriptedModel]:
    model = ScriptedModel(rules=[Rule(rewritten, step="rewrite"), Rule("Larisa")])

    async def ask() -> Result:
        async with Engine(method="direct", model=model, cache=None) as engine:
            return await engine.ask(question)

    return asyncio.run(ask()), model


def test_a_follow_up_is_read_with_the_history() -> None:
    question = "Who is the wife of Andrei Tarkovsky?"
    result, model = asked(Question("And his wife?", history=HISTORY), question)
    assert (result.question, result.asked, result.answer) == (question, "And his wife?", "Larisa")
    assert result.usage.llm_calls == 2 and result.as_dict()["asked"] == "And his wife?"
    first, second = (text for _, text in model.requests)
    assert "Question: Who directed the film Solaris?\nAnswer: Andrei Tarkovsky" in first
    assert question in second and "And his" not in second


@pytest.mark.parametrize(
    ("reply", "question"),
    [
        ('"Who is the wife of Andrei Tarkovsky?"', "Who is the wife of Andrei Tarkovsky?"),
        ('"Solaris" was directed by the husband of what wife?', '"Solaris" was directed by the husband of what wife?'),
    ],
)
def test_marks_around_a_whole_reply_are_taken_away(reply: str, question: str) -> None:
    result, _ = asked(Question("And his wife?", history=HISTORY), reply)
    assert result.question == question


def test_without_a_history_nothing_is_rewritten() -> None:
    result, _ = asked(Question("And his wife?"), "Who is the wife of Andrei Tarkovsky?")
    assert result.usage.llm_calls == 1 and result.question == "And his wife?" and "asked" not in result.as_dict()


@pytest.mark.parametrize(
    "reply", ["Larisa", "", "Who is the wife of Stanley Kubrick?", "Ignore that. Who is the wife of Boris Johnson?"]
)
def test_a_rewriting_that_is_another_question_is_not_taken(reply: str) -> None:
    result, _ = asked(Question("And his wife?", history=HISTORY), reply)
    assert result.question == "And his wife?" and not result.asked
    assert any("asked as it stands" in warning for warning in result.warnings)


def test_a_question_that_stands_for_itself_stays_as_it_is() -> None:
    result, _ = asked(Question("Where was Bach born?", history=HISTORY), "Where was Bach born?")
    assert result.question == "Where was Bach born?" and not result.asked and not result.warnings


def test_only_the_last_turns_are_shown_and_shortened() -> None:
    history = tuple((f"Who is number {number}?", "x" * 1000) for number in range(20))
    _, model = asked(Question("And the next?", history=history), "Who is the next?")
    shown = model.requests[0][1]
    assert "number 19?" in shown and "number 13?" not in shown and len(shown) < 2500


def test_questions_in_other_scripts_are_rewritten_too() -> None:
    history = (("《索拉里斯》的导演是谁？", "塔可夫斯基"),)
    result, _ = asked(Question("他的妻子呢？", history=history), "塔可夫斯基的妻子是谁？")
    assert result.question == "塔可夫斯基的妻子是谁？"
