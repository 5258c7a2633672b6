"""REPLUG: who is read alone speaks with the weight of its retrieval score."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import Run, Scripted

from hoptree.core.values import Passage
from hoptree.engine.context import Budget
from hoptree.models.model import Reply, Request
from hoptree.models.scripted import Rule

WROTE = "Who wrote the Liederbuch?"


def passages(*scores: float) -> Shelf:
    return Shelf(*(Passage(f"p{n}", f"Page {n}", f"Text number {n}.", score) for n, score in enumerate(scores, 1)))


def run(replies: list[Rule], *scores: float, budget: Budget | None = None, **options: Any) -> Run:
    return Run("replug", replies, question=WROTE, shelf=passages(*scores), budget=budget, **options)


def said(number: int, reply: str, probability: float = 0.9) -> Rule:
    return Rule(reply, step="read", contains=f"Text number {number}.", logprob=math.log(probability))


def support(done: Run) -> list[str]:
    (final,) = done.of("final")
    return list(final["support"])


def test_every_document_is_read_alone() -> None:
    done = run([Rule("Ada")], *[1.0] * 12)
    shown = [request.messages[-1].content for request in done.sent("read")]
    assert len(shown) == 10 and done.shelf.asked == [(WROTE, 10)]
    assert all(text.count("Text number") == 1 for text in shown)
    assert done.result.answer == "Ada" and set(support(done)) == {f"p{n}" for n in range(1, 11)}


def test_the_weights_are_the_softmax_of_the_scores() -> None:
    done = run([said(1, "Ada"), said(2, "Bea"), said(3, "Bea")], 3.0, 2.0, 2.0)
    (event,) = done.of("decision", kind="heaviest")
    total = math.exp(3) + 2 * math.exp(2)
    assert event["weights"] == [round(math.exp(score) / total, 4) for score in (3, 2, 2)]
    assert event["scores"]["ada"] == pytest.approx(0.9 * math.exp(3) / total)
    assert event["scores"]["bea"] == pytest.approx(0.9 * 2 * math.exp(2) / total)
    assert done.result.answer == "Ada"  # by the share of the sum of scores, 4 to 3, it would be Bea


def test_likelihood_counts_as_well_as_weight() -> None:
    done = run([said(1, "Ada", 0.3), said(2, "Bea", 0.9)], 1.0, 0.5)
    assert done.result.answer == "Bea"


def test_the_likelihood_is_the_mean_over_tokens_not_their_product() -> None:
    long = Rule("Ada of the Long Name", contains="number 1.", logprob=[math.log(p) for p in (0.8, 0.9, 0.8, 0.9, 0.8)])
    done = run([long, said(2, "Bea", 0.6)], 1.0, 1.0)
    assert done.result.answer == "Ada of the Long Name"


def test_answers_that_say_the_same_are_added_up() -> None:
    done = run([said(1, "Bea"), said(2, "The Ada."), said(3, "ada")], 1.0, 0.9, 0.8)
    assert done.result.answer == "The Ada" and support(done) == ["p2", "p3"]


def test_large_scores_do_not_overflow() -> None:
    assert run([said(1, "Ada"), said(2, "Bea")], 4000.0, -4000.0).result.answer == "Ada"


def test_a_temperature_brings_scores_that_lie_far_apart_together() -> None:
    script = [said(1, "Ada"), said(2, "Bea"), said(3, "Bea")]
    assert run(script, 15.0, 9.0, 9.0).result.answer == "Ada"
    assert run(script, 15.0, 9.0, 9.0, temperature=10.0).result.answer == "Bea"
    assert run(script, 1.0, temperature=0.0).result.error == "ConfigError"


def test_a_document_without_an_answer_does_not_vote() -> None:
    nothing = "The answer is not mentioned in the documents."
    done = run([said(1, nothing), said(2, ""), said(3, "Ada")], 3.0, 3.0, 0.0)
    assert done.result.answer == "Ada" and support(done) == ["p3"]
    none = run([Rule(nothing)], 1.0, 1.0)
    assert none.result.answer == "" and none.result.error == ""


def test_nothing_found_is_no_answer() -> None:
    done = run([Rule("Ada")])
    assert (done.result.answer, done.steps, done.result.error) == ("", [], "")


def test_a_spent_budget_still_gives_the_best_document_answer() -> None:
    done = run([said(1, "Ada"), said(2, "Bea"), said(3, "Cid")], 1.0, 1.0, 1.0, budget=Budget(calls=2))
    assert done.result.answer == "Ada" and done.result.stopped_by == "calls"


def test_a_model_without_probabilities_is_refused() -> None:
    refused = Run("replug", [Rule("Ada")], without=frozenset({"logprobs"}))
    assert refused.result.error == "ConfigError" and "needs logprobs" in refused.result.error_message


def test_where_an_endpoint_keeps_probabilities_back_the_weights_decide_and_the_answer_says_so() -> None:
    class Silent(Scripted):
        async def generate(self, request: Request, *, step: str) -> Reply:
            return await super().generate(replace(request, top_logprobs=0), step=step)

    class Told(Run):
        def __init__(self) -> None:
            self.events = []
            self.method, self.shelf = "replug", passages(1.0, 0.9, 0.8)
            self.model = self.scripted = Silent([said(1, "Bea"), said(2, "Ada"), said(3, "ada")], frozenset())
            self.result = asyncio.run(self._ask(WROTE, None, None, {}))

    done = Told()
    assert done.result.answer == "Ada"
    assert [event["kind"] for event in done.of("warning")] == ["no_logprobs"]


def test_titles_are_shown_on_demand() -> None:
    shown = [run([Rule("Ada")], 1.0, titles=titles).sent("read")[0].messages[-1].content for titles in (False, True)]
    assert "Page 1" not in shown[0] and "Page 1: Text number 1." in shown[1]


def test_scores_that_lie_far_apart_do_not_let_one_document_decide() -> None:
    done = run([said(1, "Ada"), said(2, "Bea"), said(3, "Bea")], 31.0, 24.0, 21.0)
    (event,) = done.of("decision", kind="heaviest")
    total = math.exp(1) + math.exp(0.3) + math.exp(0)
    assert event["weights"] == [round(math.exp(score) / total, 4) for score in (1, 0.3, 0)]
