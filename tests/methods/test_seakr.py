"""SeaKR: states that lie apart lead to a search, and the passage that brings them together stays."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy
import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run

import hoptree.methods.steps.uncertain_sentences as module
from hoptree.models.scripted import Rule

FIRST = "His father is Jean."
LAST = "So the answer is: Charles Armand."
APART, NEAR, NEARER = [1e4, -1e4], [1.0, -1.0], [0.1, -0.1]


def spread_of(state: list[float], samples: int = 20) -> float:
    """The eigenvalues of k equal rows: k |z|^2 + alpha once, alpha otherwise."""
    total = samples * sum(number**2 for number in state)
    return (math.log(total + 1e-3) + (samples - 1) * math.log(1e-3)) / samples


def rules(*first: Rule, draft: str | list[str] = f"{FIRST} {LAST}", logprob: Any = -0.01) -> list[Rule]:
    return [
        *first,
        Rule("x", step="sample", hidden=NEAR),
        Rule(draft, step="draft", logprob=logprob),
        Rule(": Charles Armand.", step="conclude"),
    ]


def test_steps_whose_samples_agree_are_kept() -> None:
    run = Run("seakr", rules(draft=[f"{FIRST} {LAST}", LAST]))
    assert run.queries == [] and run.values("step") == [False, False]
    event = run.of("decision", kind="step")[0]
    assert event["spread"] == pytest.approx(spread_of(NEAR)) and event["theta"] == -6.0
    assert (run.result.answer, run.values("stop"), run.values("answers")) == ("Charles Armand", ["answer"], ["steps"])
    assert [request.prefix for request in run.sent("draft")] == ["", FIRST]
    assert run.values("fidelity") == ["exact"]


def test_twenty_samples_are_drawn_with_their_states() -> None:
    request = Run("seakr", rules()).sent("sample")[0]
    assert (request.n, request.temperature, request.max_tokens) == (20, 1.0, 100)
    assert (request.top_p, request.top_k) == (0.9, 50)
    assert request.signals == {"hidden"}


def doubted(*first: Rule, **given: Any) -> list[Rule]:
    """The first step is in doubt until the second passage is in view."""
    return rules(
        *first,
        Rule("x", step="sample", hidden=NEARER, contains="[1] Jean Bretagne"),
        Rule("x", step="sample", hidden=APART),
        Rule(f"His father is Charles Armand. {LAST}", step="draft", contains="[1] Jean Bretagne"),
        **given,
    )


def test_a_step_in_doubt_is_written_again_with_the_passage_that_settles_it() -> None:
    run = Run("seakr", doubted())
    assert run.shelf.asked == [("father Jean", 3)]
    tried = run.of("decision", kind="document")[0]
    assert tried["value"] == "p2" and [name for name, _ in tried["tried"]] == ["p1", "p2", "p3"]
    assert [sent.prefix for sent in run.sent("draft")][-1] == "His father is Charles Armand."
    assert run.sent("draft")[-1].messages[-1].content.count("[1] Jean Bretagne") == 1


def test_the_query_is_of_all_sentences_words_that_are_sure_or_given() -> None:
    """The released code forgets the words of all sentences but the last."""
    sayings = "Jean Louis grandfather Henri died."
    run = Run("seakr", doubted(draft=sayings, logprob=[-0.01, -3.0, -3.0, -0.05, -3.0]))
    assert run.queries[0] == "Jean grandfather Henri"


def test_a_step_of_which_no_word_is_left_asks_the_question() -> None:
    run = Run("seakr", doubted(draft="Perhaps Louis.", logprob=-3.0))
    assert run.queries[0] == GRANDFATHER


def test_a_repeated_query_does_not_end_the_question() -> None:
    """In the released code it does."""
    script = rules(
        Rule("x", step="sample", hidden=APART), draft=[f"{FIRST} More.", "Then his father is Jean again. More.", LAST]
    )
    run = Run("seakr", script, shelf=Shelf(), max_steps=9)
    repeated = [event["repeated"] for event in run.of("decision", kind="sub_query")]
    assert repeated[:2] == [False, True] and run.result.answer == "Charles Armand"
    assert run.values("stop") == ["answer"]


def test_a_repeated_query_is_not_searched_for_again() -> None:
    """Each time it would bring one more of the passages that did not settle it the first time."""
    script = rules(
        Rule("x", step="sample", hidden=APART), draft=[f"{FIRST} More."] * 4 + ["Then his father is Jean again. More."]
    )
    run = Run("seakr", script, max_steps=2)
    repeated = [event["repeated"] for event in run.of("decision", kind="sub_query")]
    assert repeated == [False, True] and run.queries == ["father Jean"]


@pytest.mark.parametrize(("options", "why"), [({"max_steps": 3}, "steps"), ({"max_docs": 1}, "documents")])
def test_it_ends_with_its_steps_or_documents(options: dict[str, Any], why: str) -> None:
    script = rules(Rule("x", step="sample", hidden=APART), draft=[f"Fact {n} is so. More." for n in range(99)])
    run = Run("seakr", script, **options)
    assert run.values("stop") == [why] and run.result.answer == "Charles Armand"


@pytest.mark.parametrize(
    ("state", "answer", "way"), [(APART, "Charles Armand", "steps"), (NEARER, "Jean", "documents")]
)
def test_the_surer_of_two_answers_counts(state: list[float], answer: str, way: str) -> None:
    script = rules(
        Rule(": Jean.", step="conclude", contains="Context:"),
        Rule("x", step="sample", hidden=state, contains="Context:"),
        Rule(LAST, step="draft", contains="Context:"),
        draft="",
    )
    run = Run("seakr", script)
    event = run.of("decision", kind="answers")[0]
    assert (run.result.answer, event["value"]) == (answer, way)
    assert [(how, text) for how, text, _ in event["answers"]] == [("steps", "Charles Armand"), ("documents", "Jean")]
    surenesses = [sure for *_, sure in event["answers"]]
    # Of numbers as large as these, processors lose other digits.
    assert surenesses == pytest.approx([spread_of(NEAR), spread_of(state)], rel=1e-4)
    assert run.sent("conclude")[1].prefix == "So the answer is"


def test_the_answer_from_steps_is_judged_as_it_was_made_to_be_given() -> None:
    """The released code takes the score of the step that was written freely."""
    run = Run("seakr", rules(draft=[f"{FIRST} {LAST}", LAST]))
    assert run.sent("conclude")[0].prefix == f"{FIRST} So the answer is"
    assert [request.prefix for request in run.sent("sample")][-1] == f"{FIRST} So the answer is"
    assert run.sent("sample")[-1].max_tokens == 20


def test_an_answer_that_says_unknown_does_not_count() -> None:
    unknown = Rule(": unknown.", step="conclude", contains="Context:")
    run = Run("seakr", doubted(unknown))
    event = run.of("decision", kind="answers")[0]
    assert event["value"] == "steps" and run.result.answer == "Charles Armand"
    assert [text for _, text, _ in event["answers"]] == ["Charles Armand", ""]


def test_a_model_that_says_nothing_is_looked_up_for_and_ends() -> None:
    run = Run("seakr", [Rule("", hidden=NEAR)])
    assert (run.queries, run.result.answer, run.values("stop")) == ([GRANDFATHER], "", ["no growth"])


def test_without_states_the_samples_are_turned_into_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    class Letters:
        async def encode(self, texts: list[str], *, role: str) -> Any:
            return numpy.array([[float(text.count(letter)) for letter in "aeiou"] for text in texts])

    opened: list[threading.Thread] = []

    def open_letters(name: str) -> Letters:
        opened.append(threading.current_thread())
        return Letters()

    monkeypatch.setattr(module, "shared_encoder", open_letters)
    script = [
        Rule([f"{FIRST} {LAST}", LAST], step="draft"),
        Rule(["His father is Jean.", "Hers was Marie."], step="sample"),
        Rule(": Charles Armand.", step="conclude"),
    ]
    run = Run("seakr", script, samples=2, without=frozenset({"n_samples"}))
    assert opened and threading.main_thread() not in opened  # the loop goes on meanwhile
    assert run.of("decision", kind="fidelity")[0]["missing"] == ["hidden_states"]
    assert run.of("decision", kind="step")[0]["value"] and run.result.answer == "Charles Armand"
    assert DUKES[0].id in {passage["id"] for passage in run.of("retrieve")[0]["passages"]}
    assert any("2 samples" in warning and "theta=-6" in warning for warning in run.result.warnings)


@pytest.mark.parametrize(("theta", "warned"), [(-6.0, 1), (-2.8, 1), (-2.7, 0)])
def test_a_threshold_that_no_samples_can_be_below_is_told_once(theta: float, warned: int) -> None:
    """Two samples that agree in full have a U of -2.76, where their states have this length."""
    least = spread_of(NEAR, samples=2)
    run = Run("seakr", rules(draft=[f"{FIRST} {LAST}", LAST]), samples=2, theta=theta)
    warnings = [warning for warning in run.result.warnings if "theta" in warning]
    assert len(warnings) == warned and all(f"U of {least:.2f}" in each and "tune" in each for each in warnings)
    assert run.values("step")[0] is bool(warned)


@pytest.mark.parametrize("without", [frozenset[str](), frozenset({"hidden_states"})], ids=["states", "vectors"])
def test_an_encoder_that_there_is_not_is_refused_before_any_call(without: frozenset[str]) -> None:
    run = Run("seakr", rules(), encoder="foo", without=without)
    assert run.result.error == "ConfigError" and "There is no encoder 'foo'" in run.result.error_message
    assert run.scripted.sent == [] and run.queries == []


def test_an_encoder_that_cannot_be_opened_is_refused_before_any_call() -> None:
    run = Run("seakr", rules(), encoder="static/nowhere", without=frozenset({"hidden_states"}))
    assert run.result.error == "ConfigError" and "nowhere" in run.result.error_message and run.scripted.sent == []
    assert not Run("seakr", rules(), encoder="static/nowhere").result.error, "who tells its states needs none"


def test_a_model_without_probabilities_is_refused() -> None:
    run = Run("seakr", [Rule("x")], without=frozenset({"logprobs"}))
    assert run.result.error == "ConfigError"
