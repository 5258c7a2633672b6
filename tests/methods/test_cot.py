"""Chain of thought: one text from memory, and what it concludes."""

from __future__ import annotations

from typing import Any

import pytest
from tests.methods.continuation_asked import GRANDFATHER, Run

from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

CHAIN = "His father is Jean Bretagne. The father of Jean Bretagne is Charles Armand. So the answer is: Charles Armand."


def test_one_call_without_documents_gives_rationale_and_answer() -> None:
    run = Run("cot", [Rule(CHAIN, step="think")])
    assert (run.result.answer, run.steps, run.queries) == ("Charles Armand", ["think"], [])
    assert run.result.chains == (CHAIN,)
    (sent,) = run.sent("think")
    assert sent.messages[-1].content == f"Question: {GRANDFATHER}"
    assert (sent.temperature, sent.max_tokens, sent.n) == (0.0, 256, 1)
    assert run.of("final")[0]["source"] == "internal"
    assert run.of("parse", step="think")[0]["ok"] is True


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("At first the answer is Jean. But no: his father is. So the answer is: Charles.", "Charles"),
        ("First, his father is Jean. Second, his is Charles. The answer is {Charles Armand}.", "Charles Armand"),
        ("SO THE ANSWER IS: Charles.", "Charles"),
        ("So the answer is: **Charles**.", "Charles"),
        ("So the answer is: Charles.\n\nQuestion: Who is he? So the answer is: Nobody.", "Charles"),
        ("So the answer is: Charles. Question: Who is he? So the answer is: Nobody.", "Charles"),
        ("So the answer is: Charles Jr. I am glad to help.", "Charles Jr"),
    ],
)
def test_the_last_conclusion_of_its_own_text_counts(reply: str, answer: str) -> None:
    run = Run("cot", [Rule(reply, step="think")])
    assert (run.result.answer.removesuffix("."), run.steps) == (answer, ["think"])


def test_a_text_without_an_answer_goes_on_for_twenty_tokens() -> None:
    run = Run("cot", [Rule("His father is Jean.", step="think"), Rule(" Charles Armand.", step="conclude")])
    assert run.result.answer == "Charles Armand"
    (sent,) = run.sent("conclude")
    assert (sent.prefix, sent.max_tokens) == ("His father is Jean. So the answer is", 20)
    assert run.values("no_answer_phrase") == [True]
    assert run.of("parse")[0]["repairs"] == ["last words"]


def test_a_text_that_is_cut_off_goes_on_from_its_last_whole_sentence() -> None:
    run = Run("cot", [Rule("His father is Jean. So the", step="think", finish="length"), Rule("Charles")])
    assert run.sent("conclude")[0].prefix == "His father is Jean. So the answer is"


@pytest.mark.parametrize(
    ("reply", "ok"), [("", False), ("   \n", False), ("So the answer is: unknown.", True), ("unknown.", True)]
)
def test_what_holds_no_answer_is_no_answer(reply: str, ok: bool) -> None:
    run = Run("cot", [Rule(reply)])
    assert (run.result.answer, run.result.abstained, run.result.error) == ("", True, "")
    assert run.of("parse")[0]["ok"] is ok


def test_six_worked_examples_are_shown_or_as_many_as_told() -> None:
    def shown(**options: Any) -> list[str]:
        (sent,) = Run("cot", [Rule(CHAIN)], **options).sent("think")
        return [message.content for message in sent.messages if message.role == "assistant"]

    assert [len(shown()), len(shown(shots=0)), len(shown(shots=2))] == [6, 0, 2]
    assert shown() != shown(draw=3) == shown(draw=3)


def test_a_text_with_an_answer_is_worth_one_call_and_one_without_is_none() -> None:
    assert Run("cot", [Rule(CHAIN)], budget=Budget(calls=1)).result.answer == "Charles Armand"
    ended = Run("cot", [Rule("His father is Jean.")], budget=Budget(calls=1)).result
    assert (ended.answer, ended.stopped_by) == ("", "calls")


def test_a_model_that_cannot_continue_is_shown_its_text() -> None:
    rules = [Rule("His father is Jean.", step="think"), Rule("So the answer is: Charles.", step="conclude")]
    run = Run("cot", rules, without=frozenset({"prefix", "n_samples", "logprobs"}))
    assert run.result.answer == "Charles"
    assert "Answer so far: His father is Jean. So the answer is" in run.sent("conclude")[0].messages[-1].content
