"""The sentence that gives the answer: what is kept of it, searched for, and left when the budget ends."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.methods.continuation_asked import GRANDFATHER, Run, sure
from tests.methods.mind_asked import EXTRACTED

from hoptree.engine.context import Budget
from hoptree.models.scripted import Rule

LAST = "So the answer is: Louis Charles."
STEP = "His father is Jean."
DOUBTS: dict[str, dict[str, Any]] = {
    "flare": {"logprob": math.log(0.5)},
    "dragin": {"entropy": sure(LAST, Louis=9.0), "attention": 0.2},
    "mind": {"entropy": sure(LAST, Louis=9.0), "attention": 0.2},
}
ASIDE = [
    Rule(EXTRACTED, step="extract"),
    Rule(step="restate", entropy=1.0, attention=0.2),
    Rule("[1, 2]", step="filter"),
    Rule("none", step="facts"),
    Rule(step="look_back", attended={"answer": 0.9, "So": 0.8, "grandfather": 0.2}),
    Rule(": Jean.", step="conclude"),
    Rule(LAST, step="rewrite", entropy=0.1, attention=0.2),
    Rule("Louis Charles", step="sample", hidden=[1.0, 0.0]),
]


def run(method: str, *drafts: Rule, **options: Any) -> Run:
    return Run(method, [*drafts, *ASIDE], **options)


@pytest.mark.parametrize("without", [frozenset(), frozenset({"attention"})])
@pytest.mark.parametrize("method", ["flare", "dragin", "mind"])
def test_the_words_before_an_answer_are_not_searched_for(method: str, without: frozenset[str]) -> None:
    finished = run(method, Rule(LAST, step="draft", **DOUBTS[method]), without=without)
    assert finished.sentences(True) == [LAST]
    asked = finished.values("sub_query")[0]
    assert asked and not {"so", "answer"} & set(asked.casefold().split())


@pytest.mark.parametrize(
    ("draft", "query"),
    [
        (LAST, f"{GRANDFATHER} Louis Charles."),
        ("Therefore, the final answer is Louis Charles.", f"{GRANDFATHER} Louis Charles."),
        ("Jean was born in Thouars, so the answer is: Louis.", "Jean was born in Thouars, Louis."),
    ],
)
def test_flare_searches_for_the_answer_with_the_question(draft: str, query: str) -> None:
    assert run("flare", Rule(draft, step="draft", logprob=math.log(0.5))).queries[1] == query


def test_of_an_answer_that_is_improbable_flare_searches_for_the_question() -> None:
    assert run("flare", Rule(LAST, step="draft", logprob=math.log(0.1))).queries[1] == GRANDFATHER


@pytest.mark.parametrize("method", ["flare", "dragin", "mind"])
def test_a_draft_goes_on_to_its_last_answer(method: str) -> None:
    text = f"The answer is not clear from this. {STEP} So the answer is: Jean."
    drafts = [text, f"{STEP} So the answer is: Jean.", "So the answer is: Jean."]
    finished = run(method, Rule(drafts if method == "flare" else text, step="draft", entropy=0.0, logprob=-0.01))
    assert (finished.result.answer, finished.values("stop")) == ("Jean", ["answer"])


def test_nothing_of_a_question_that_a_model_asks_itself_is_read() -> None:
    text = f"{STEP} So the answer is: Jean. Question: Who is Eve? So the answer is: Eve."
    assert run("dragin", Rule(text, step="draft", entropy=0.0)).result.answer == "Jean"
    finished = run("dragin", Rule(f"{STEP} Question: Who is Eve? So the answer is: Eve.", step="draft", entropy=0.0))
    assert (finished.result.answer, finished.values("stop"), finished.steps) == ("Jean", ["end"], ["draft", "conclude"])


def test_an_answer_that_is_not_there_is_asked_for_once() -> None:
    finished = run("dragin", Rule(f"{STEP} The answer is unknown.", step="draft", entropy=0.0))
    assert finished.steps.count("conclude") == 1 and finished.result.answer == "Jean"


@pytest.mark.parametrize("method", ["flare", "dragin", "mind", "seakr"])
def test_a_budget_that_ends_leaves_the_answer_that_is_written(method: str) -> None:
    calls = {"flare": 1, "dragin": 1, "mind": 3, "seakr": 2}[method]
    text = f"{STEP} {LAST}"
    draft = Rule(text, step="draft", entropy=sure(text, Louis=9.0), attention=0.2, logprob=-1.0)
    finished = run(method, draft, budget=Budget(calls=calls), **({"samples": 2} if method == "seakr" else {}))
    assert (finished.result.answer, finished.result.stopped_by) == ("Louis Charles", "calls")


def test_what_was_written_again_counts_more_than_the_draft() -> None:
    text = f"{STEP} {LAST}"
    again = Rule("His father is Armand. So the answer is: Armand.", step="rewrite", logprob=-0.01)
    finished = run("flare", again, Rule(text, step="draft", logprob=-1.0), budget=Budget(calls=2))
    assert (finished.result.answer, finished.result.stopped_by) == ("Armand", "calls")


def test_a_budget_that_ends_without_an_answer_leaves_none() -> None:
    finished = run("flare", Rule(STEP, step="draft", logprob=-1.0), budget=Budget(calls=1))
    assert (finished.result.answer, finished.result.stopped_by) == ("", "calls")


@pytest.mark.parametrize("method", ["flare", "dragin", "mind", "seakr"])
def test_yes_with_its_reason_is_yes(method: str) -> None:
    reply = "So the answer is: yes, because he was his son."
    finished = run(
        method,
        Rule(": yes, because he was his son.", step="conclude"),
        Rule(reply, step="draft", entropy=0.0, logprob=-0.01),
        question="Was Jean the father of Charles?",
    )
    assert finished.result.answer == "yes"
