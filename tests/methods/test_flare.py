"""FLARE: fixed probabilities give a fixed trigger and a fixed query."""

from __future__ import annotations

import math

from tests.methods.continuation_asked import DUKES, GRANDFATHER, Run

from hoptree.models.scripted import Rule

FIRST = "His father is Jean Bretagne."
LAST = "So the answer is: Charles Armand."


def logprobs(text: str, **probability: float) -> list[float]:
    return [math.log(probability.get(word.strip(".,:"), 0.95)) for word in text.split()]


def test_a_sure_text_is_kept_sentence_by_sentence() -> None:
    run = Run("flare", [Rule([f"{FIRST} {LAST}", LAST], step="draft", logprob=math.log(0.9))])
    assert (run.result.answer, run.steps) == ("Charles Armand", ["draft", "draft"])
    assert run.queries == [GRANDFATHER]
    assert run.sentences(False) == [FIRST, LAST]
    assert [request.prefix for request in run.sent("draft")] == ["", FIRST]
    assert run.values("stop") == ["answer"]


def test_an_improbable_token_is_left_out_of_the_query() -> None:
    draft = "His father is Jean Bretagne."
    run = Run(
        "flare",
        [
            Rule(draft, step="draft", logprob=logprobs(draft, Jean=0.3, Bretagne=0.6)),
            Rule(f"His father is Charles. {LAST}", step="rewrite"),
            Rule(LAST, step="draft"),
        ],
        k=1,
        max_tokens=6,
    )
    assert run.shelf.asked[:2] == [(GRANDFATHER, 1), ("His father is Bretagne.", 1)]
    assert run.sentences(True)[0] == draft
    assert run.sentences(False, rewritten=True)[0] == "His father is Charles."
    (event, *_) = run.of("decision", kind="sentence")
    assert event["tokens"][3] == [" Jean", 0.3] and event["theta"] == 0.8


def test_only_the_first_sentence_of_what_is_written_again_is_kept() -> None:
    draft = "His father is Jean."
    run = Run(
        "flare",
        [
            Rule(f"His father is Charles. {LAST}", step="rewrite"),
            Rule([draft, LAST], step="draft", logprob=[math.log(p) for p in (0.95, 0.95, 0.95, 0.5)]),
        ],
        theta=0.6,
    )
    assert run.sent("draft")[1].prefix == "His father is Charles."


def test_a_sentence_of_which_nothing_is_left_asks_the_question_again() -> None:
    run = Run(
        "flare",
        [Rule(LAST, step="rewrite"), Rule("Perhaps somebody.", step="draft", logprob=math.log(0.1))],
    )
    assert run.queries == [GRANDFATHER, GRANDFATHER]
    assert run.result.answer == "Charles Armand"


def test_documents_are_in_view_of_the_first_draft_and_of_what_is_written_again() -> None:
    draft = "His father is Jean."
    run = Run(
        "flare",
        [
            Rule("His father is Charles.", step="rewrite"),
            Rule([draft, LAST], step="draft", logprob=[*[-0.01] * 3, -3.0, -0.01]),
        ],
    )
    first, second = (request.messages[-1].content for request in run.sent("draft"))
    assert "[1] Charles Bretagne Marie" in first and "Answer in the same format as before." in first
    assert second == f"Question: {GRANDFATHER}"
    assert DUKES[1].text in run.sent("rewrite")[0].messages[-1].content


def test_a_model_without_probabilities_is_refused() -> None:
    run = Run("flare", [Rule(LAST)], without=frozenset({"logprobs"}))
    assert run.result.error == "ConfigError" and "needs logprobs" in run.result.error_message


def test_a_model_that_cannot_continue_is_shown_the_text() -> None:
    draft = "His father is Jean."
    run = Run("flare", [Rule([f"{draft} {LAST}", f"{draft} {LAST}"], step="draft")], without=frozenset({"prefix"}))
    second = run.sent("draft")[1]
    assert second.prefix == "" and f"Answer so far: {draft}" in second.messages[-1].content
    assert run.result.chains == (f"{draft} {LAST}",)
    assert run.of("decision", kind="fidelity")[0]["missing"] == ["prefix"]


def test_eight_worked_examples_are_shown_and_another_draw_shows_others() -> None:
    shown = [
        [m.content for m in Run("flare", [Rule(LAST)], draw=draw).sent("draft")[0].messages if m.role == "assistant"]
        for draw in (0, 1, 1, 2)
    ]
    assert [len(examples) for examples in shown] == [8] * 4
    assert all("So the answer is: " in answer for answer in shown[0])
    assert shown[0] != shown[1] == shown[2] != shown[3]
    refused = Run("flare", [Rule(LAST)], shots=99)
    assert refused.result.error == "ConfigError"


def test_a_text_without_an_answer_is_asked_for_its_last_words() -> None:
    run = Run("flare", [Rule("His father is Jean.", step="draft"), Rule(": Charles Armand. Hm.", step="conclude")])
    assert run.result.answer == "Charles Armand"
    assert run.sent("conclude")[0].prefix == "His father is Jean. So the answer is"
    assert run.sent("conclude")[0].max_tokens == 20
    assert run.values("stop") == ["end"] and run.values("no_answer_phrase") == [True]
