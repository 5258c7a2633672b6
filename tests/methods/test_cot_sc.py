"""Self-consistency: the answer that most chains come to."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.methods.continuation_asked import GRANDFATHER, Run, Scripted

from hoptree.core.values import Token
from hoptree.engine.context import Budget
from hoptree.models.model import Choice, Reply, Request
from hoptree.models.scripted import Rule


def so(answer: str) -> str:
    return f"He had a father. So the answer is: {answer}."


class Drawn(Scripted):
    """A model that says something else in each sample, with another probability where that is told."""

    drawn: tuple[tuple[str, float], ...] = ()
    most: int = 100
    """As many replies as it gives to one request, however many are asked for."""

    async def generate(self, request: Request, *, step: str) -> Reply:
        reply = await super().generate(request, step=step)
        if not step.endswith("/think") or not request.temperature:
            return reply
        choices = []
        for number in range(min(request.n, self.most)):
            drawn_text, probability = self.drawn[(request.seed + number) % len(self.drawn)]
            tokens = tuple(Token(f" {word}", math.log(probability)) for word in drawn_text.split())
            choices.append(Choice(drawn_text, tokens=tokens if request.top_logprobs else ()))
        return Reply(tuple(choices), reply.usage)


class Sampled(Run):
    """A question asked of self-consistency, with what the samples say."""

    def __init__(
        self, *drawn: str | tuple[str, float], rules: list[Rule] | None = None, most: int = 100, **options: Any
    ) -> None:
        self._most = most
        self._drawn = tuple(sample if isinstance(sample, tuple) else (sample, 0.9) for sample in drawn)
        super().__init__("cot_sc", rules or [Rule("")], **{"samples": len(drawn), **options})

    async def _ask(self, *args: Any) -> Any:
        self.model = self.scripted = Drawn(self.scripted.rules, self.scripted.without)
        self.scripted.drawn, self.scripted.most = self._drawn, self._most
        return await super()._ask(*args)

    @property
    def share(self) -> float:
        (event,) = self.of("decision", kind="share")
        return float(event["value"])


def test_most_chains_win_whatever_they_spell() -> None:
    run = Sampled(so("Jean"), so("the Duke"), so("The DUKE"), so('"Duke"'), so("Jean"))
    assert run.result.answer.casefold().endswith("duke")
    assert run.share == 0.6
    assert run.of("decision", kind="majority")[0]["votes"] == [["the Duke", 3], ["Jean", 2]]


def test_all_samples_are_one_call() -> None:
    run = Run("cot_sc", [Rule(so("Charles"))])
    assert (run.result.answer, run.steps) == ("Charles", ["think"])
    (sent,) = run.sent("think")
    assert (sent.n, sent.temperature) == (10, 0.7)
    assert len(run.result.chains) == 10


def test_a_model_without_several_samples_is_asked_with_a_seed_each() -> None:
    run = Sampled(so("Jean"), so("Charles"), so("Charles"), without=frozenset({"n_samples"}))
    assert run.result.answer == "Charles"
    assert run.share == pytest.approx(2 / 3, abs=1e-4)
    assert [(sent.n, sent.seed) for sent in run.sent("think")] == [(1, 0), (1, 1), (1, 2)]


@pytest.mark.parametrize(("most", "asked"), [(1, [(4, 0), (1, 1), (1, 2), (1, 3)]), (3, [(4, 0), (1, 3)])])
def test_what_an_endpoint_gives_too_few_of_is_asked_for_again_with_a_seed_each(
    most: int, asked: list[tuple[int, int]]
) -> None:
    """Ollama and others give one reply, whatever `n` is."""
    run = Sampled(so("Jean"), so("Charles"), so("Jean"), so("Jean"), most=most)
    assert (run.result.answer, run.share, len(run.result.chains)) == ("Jean", 0.75, 4)
    assert [(sent.n, sent.seed) for sent in run.sent("think")] == asked


def test_a_budget_that_ends_while_more_are_asked_for_leaves_the_first() -> None:
    run = Sampled(so("Jean"), so("Charles"), so("Charles"), most=1, budget=Budget(calls=1))
    assert (run.result.answer, run.result.stopped_by) == ("Jean", "calls")


@pytest.mark.parametrize(("share_of", "share"), [("all", 0.5), ("answered", 2 / 3)])
def test_chains_without_an_answer_do_not_vote_but_may_count(share_of: str, share: float) -> None:
    run = Sampled("I cannot say.", so("Charles"), so("Jean"), so("Charles"), share_of=share_of)
    assert run.result.answer == "Charles"
    assert run.share == pytest.approx(share, abs=1e-4)
    assert run.of("decision", kind="majority")[0]["unknown"] == 1


def test_of_equals_the_likeliest_chain_wins_else_the_first() -> None:
    assert Sampled((so("Jean"), 0.5), (so("Charles"), 0.8)).result.answer == "Charles"
    assert Sampled((so("Jean"), 0.8), (so("Charles"), 0.5)).result.answer == "Jean"
    assert Sampled(so("Jean"), (so("Charles"), 0.99), without=frozenset({"logprobs"})).result.answer == "Jean"


def test_where_no_chain_answers_the_greedy_one_does() -> None:
    run = Sampled("Hm.", "", "So the answer is unknown.", rules=[Rule(so("Jean"), step="think"), Rule("")])
    assert run.result.answer == "Jean"
    assert [sent.temperature for sent in run.sent("think")] == [0.7, 0.0]
    assert run.sent("think")[1].messages[-1].content == f"Question: {GRANDFATHER}"


def test_a_spent_budget_leaves_what_most_have_said_until_then() -> None:
    run = Sampled("Hm.", so("Jean"), so("Charles"), so("Charles"), budget=Budget(calls=1))
    assert (run.result.answer, run.result.stopped_by) == ("Charles", "calls")
    one_by_one = Sampled(
        so("Jean"), so("Charles"), so("Jean"), budget=Budget(calls=2), without=frozenset({"n_samples"})
    )
    assert (one_by_one.result.answer, one_by_one.result.stopped_by) == ("Charles", "calls")


def test_no_sample_at_all_is_refused() -> None:
    refused = Run("cot_sc", [Rule(so("Jean"))], samples=0).result
    assert refused.error == "ConfigError" and "1 or more" in refused.error_message
