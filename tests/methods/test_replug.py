"""REPLUG: who is read alone speaks with the weight of its retrieval score."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import pytest
from tests.methods.asked import Shelf
from tests.methods.continuation_asked import Run, Scripted

from hoptree.core.values import Passage, Token
from hoptree.engine.context import Budget
from hoptree.models.model import Capability, Choice, Reply, Request
from hoptree.models.scripted import Rule
from hoptree.text.uncertainty import distributions, divergence, mix_distributions, softmax

WROTE = "Who wrote the Liederbuch?"


def passages(*scores: float) -> Shelf:
    return Shelf(*(Passage(f"p{n}", f"Page {n}", f"Text number {n}.", score) for n, score in enumerate(scores, 1)))


def run(replies: list[Rule], *scores: float, budget: Budget | None = None, **options: Any) -> Run:
    options = {"mixture": "answers", **options}
    return Run("replug", replies, question=WROTE, shelf=passages(*scores), budget=budget, **options)


def rule_for(number: int, reply: str, probability: float = 0.9) -> Rule:
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
    done = run([rule_for(1, "Ada"), rule_for(2, "Bea"), rule_for(3, "Bea")], 3.0, 2.0, 2.0)
    (event,) = done.of("decision", kind="heaviest")
    total = math.exp(3) + 2 * math.exp(2)
    assert event["weights"] == [round(math.exp(score) / total, 4) for score in (3, 2, 2)]
    assert event["scores"]["ada"] == pytest.approx(0.9 * math.exp(3) / total)
    assert event["scores"]["bea"] == pytest.approx(0.9 * 2 * math.exp(2) / total)
    assert done.result.answer == "Ada"  # by the share of the sum of scores, 4 to 3, it would be Bea


def test_likelihood_counts_as_well_as_weight() -> None:
    done = run([rule_for(1, "Ada", 0.3), rule_for(2, "Bea", 0.9)], 1.0, 0.5)
    assert done.result.answer == "Bea"


def test_the_likelihood_is_the_mean_over_tokens_not_their_product() -> None:
    long = Rule("Ada of the Long Name", contains="number 1.", logprob=[math.log(p) for p in (0.8, 0.9, 0.8, 0.9, 0.8)])
    done = run([long, rule_for(2, "Bea", 0.6)], 1.0, 1.0)
    assert done.result.answer == "Ada of the Long Name"


def test_answers_that_say_the_same_are_added_up() -> None:
    done = run([rule_for(1, "Bea"), rule_for(2, "The Ada."), rule_for(3, "ada")], 1.0, 0.9, 0.8)
    assert done.result.answer == "The Ada" and support(done) == ["p2", "p3"]


def test_large_scores_do_not_overflow() -> None:
    assert run([rule_for(1, "Ada"), rule_for(2, "Bea")], 4000.0, -4000.0).result.answer == "Ada"


def test_a_temperature_brings_scores_that_lie_far_apart_together() -> None:
    script = [rule_for(1, "Ada"), rule_for(2, "Bea"), rule_for(3, "Bea")]
    assert run(script, 15.0, 9.0, 9.0).result.answer == "Ada"
    assert run(script, 15.0, 9.0, 9.0, temperature=10.0).result.answer == "Bea"
    assert run(script, 1.0, temperature=0.0).result.error == "ConfigError"


def test_a_document_without_an_answer_does_not_vote() -> None:
    nothing = "The answer is not mentioned in the documents."
    done = run([rule_for(1, nothing), rule_for(2, ""), rule_for(3, "Ada")], 3.0, 3.0, 0.0)
    assert done.result.answer == "Ada" and support(done) == ["p3"]
    none = run([Rule(nothing)], 1.0, 1.0)
    assert none.result.answer == "" and none.result.error == ""


def test_nothing_found_is_no_answer() -> None:
    done = run([Rule("Ada")])
    assert (done.result.answer, done.steps, done.result.error) == ("", [], "")


def test_a_spent_budget_still_gives_the_best_document_answer() -> None:
    done = run([rule_for(1, "Ada"), rule_for(2, "Bea"), rule_for(3, "Cid")], 1.0, 1.0, 1.0, budget=Budget(calls=2))
    assert done.result.answer == "Ada" and done.result.stopped_by == "calls"


def test_a_model_without_probabilities_is_refused() -> None:
    refused = Run("replug", [Rule("Ada")], without=frozenset({"logprobs"}))
    assert refused.result.error == "ConfigError" and "needs logprobs" in refused.result.error_message


def test_where_an_endpoint_keeps_probabilities_back_the_weights_decide_and_the_answer_says_so() -> None:
    class Silent(Scripted):
        async def generate(self, request: Request, *, step: str) -> Reply:
            return await super().generate(replace(request, top_logprobs=0, signals=frozenset()), step=step)

    class Told(Run):
        def __init__(self) -> None:
            self.events = []
            self.method, self.shelf = "replug", passages(1.0, 0.9, 0.8)
            self.model = self.scripted = Silent(
                [rule_for(1, "Bea"), rule_for(2, "Ada"), rule_for(3, "ada")], frozenset()
            )
            self.result = asyncio.run(self._ask(WROTE, None, None, {}))

    done = Told()
    assert done.result.answer == "Ada"
    assert [event["kind"] for event in done.of("warning")] == ["no_logprobs"]


def test_titles_are_shown_on_demand() -> None:
    shown = [run([Rule("Ada")], 1.0, titles=titles).sent("read")[0].messages[-1].content for titles in (False, True)]
    assert "Page 1" not in shown[0] and "Page 1: Text number 1." in shown[1]


def test_scores_that_lie_far_apart_do_not_let_one_document_decide() -> None:
    done = run([rule_for(1, "Ada"), rule_for(2, "Bea"), rule_for(3, "Bea")], 31.0, 24.0, 21.0)
    (event,) = done.of("decision", kind="heaviest")
    total = math.exp(1) + math.exp(0.3) + math.exp(0)
    assert event["weights"] == [round(math.exp(score) / total, 4) for score in (1, 0.3, 0)]


# The paper's form: the distributions of all documents, mixed token by token.
CEO = "Of which company is Jobs the chief executive?"
Table = dict[str, dict[str, float]]
APPLE: Table = {"": {"Apple": 0.6, "Pixar": 0.4}, "Apple": {"": 0.9, " Inc": 0.1}, "Pixar": {"": 1.0}}
PIXAR: Table = {"": {"Pixar": 0.5, "Apple": 0.45, "": 0.05}, "Apple": {"": 0.3, " Inc": 0.7}, "Apple Inc": {"": 1.0}}


class Told(Scripted):
    """Writes greedily by a table of next tokens for each document; the end of a text is ""."""

    def __init__(self, tables: list[Table], without: frozenset[str] = frozenset()) -> None:
        super().__init__([], without)
        self._tables, self._without = tables, without
        self.prefixes: list[tuple[int, str]] = []

    @property
    def capabilities(self) -> frozenset[Capability]:
        gives: set[Capability] = {"logprobs", "prefix", "entropy"}
        return frozenset(capability for capability in gives if capability not in self._without)

    async def generate(self, request: Request, *, step: str) -> Reply:
        number = next(n for n in range(1, 9) if f"Text number {n}." in request.messages[-1].content)
        self.prefixes.append((number, request.prefix))
        text, tokens, finish = request.prefix, list[Token](), "length"
        while len(tokens) < request.max_tokens and finish == "length":
            places = self._tables[number - 1].get(text, {"": 1.0})
            token = max(places, key=lambda piece: places[piece])
            top = tuple((piece, math.log(p)) for piece, p in sorted(places.items(), key=lambda pair: -pair[1]))
            if token or "entropy" not in self._without:
                tokens.append(Token(token, math.log(places[token]), top[: request.top_logprobs]))
            text, finish = text + token, "length" if token else "stop"
        written = text[len(request.prefix) :]
        return Reply((Choice(written, finish=finish, tokens=tuple(tokens)),))  # type: ignore[arg-type]


class Mixed(Run):
    def __init__(
        self, tables: list[Table], *scores: float, without: frozenset[str] = frozenset(), **options: Any
    ) -> None:
        self.events = []
        self.method, self.shelf = "replug", passages(*scores)
        self.told = Told(tables, without)
        self.model = self.scripted = self.told
        self.result = asyncio.run(self._ask(CEO, None, None, options))


def test_the_paper_s_example_is_decided_by_the_mixture_and_not_by_the_first_document() -> None:
    """Shi et al. 2023, Figure 2: documents about Jobs are read alone, and what they say next is added up."""
    done = Mixed([PIXAR, APPLE, APPLE], 0.9, 0.8, 0.8)
    assert (done.result.answer, done.result.fidelity) == ("Apple", "exact")
    assert [prefix for _, prefix in done.told.prefixes] == [""] * 3 + ["Apple"] * 3, "asked again where they differ"
    (event,) = done.of("decision", kind="mixed")
    weights = softmax([0.9, 0.8, 0.8])
    assert event["weights"] == pytest.approx(weights, abs=1e-6)
    assert event["likelihoods"] == pytest.approx([0.45 * 0.3, 0.6 * 0.9, 0.6 * 0.9], abs=1e-6)
    assert "lsr" not in event


def test_a_token_that_no_document_says_first_can_win() -> None:
    tables: list[Table] = [{"": {"A": 0.5, "C": 0.4, "B": 0.1}}, {"": {"B": 0.5, "C": 0.4, "A": 0.1}}]
    assert Mixed(tables, 0.5, 0.5).result.answer == "C"


def test_the_end_is_mixed_like_any_token() -> None:
    long: Table = {"": {"Apple": 1.0}, "Apple": {" Inc": 0.8, "": 0.2}, "Apple Inc": {"": 1.0}}
    short: Table = {"": {"Apple": 1.0}, "Apple": {"": 0.55, " Inc": 0.45}}
    assert Mixed([long, short], 0.5, 0.5).result.answer == "Apple Inc"
    without = frozenset({"entropy"})
    mixed = Mixed([long, short], 0.5, 0.5, without=without)
    assert (mixed.result.answer, mixed.result.fidelity) == ("Apple", "approx"), "an end without probability is certain"


def test_an_endpoint_that_cannot_continue_a_text_is_asked_once_a_document() -> None:
    done = Mixed([PIXAR, APPLE, APPLE], 0.9, 0.8, 0.8, without=frozenset({"prefix", "entropy"}))
    assert (done.result.answer, done.result.fidelity) == ("Apple", "approx")
    assert len(done.told.prefixes) == 3


def test_lsr_s_signal_is_the_divergence_of_retrieval_from_what_the_model_prefers() -> None:
    done = Mixed([PIXAR, APPLE], 0.9, 0.8, lsr=True)
    (event,) = done.of("decision", kind="mixed")
    preferred = softmax([0.45 * 0.3, 0.6 * 0.9], 0.1)
    assert event["preferred"] == pytest.approx(preferred, abs=1e-6)
    assert event["lsr"] == pytest.approx(divergence(softmax([0.9, 0.8], 0.1), preferred))
    assert divergence([0.5, 0.5], [0.5, 0.5]) == 0 and divergence([1.0, 0.0], [0.0, 1.0]) > 10


def test_scores_that_are_no_cosines_make_the_answer_approx() -> None:
    assert Mixed([APPLE, APPLE], 31.0, 12.0).result.fidelity == "approx"


def test_distributions_are_read_off_tokens() -> None:
    part = (Token("", -1.0), Token("é", -0.1, (("é", -0.1), ("e", -3.0))))
    assert [list(place) for place in distributions(part, ended=True)] == [["é", "e"], [""]]
    assert distributions(part, ended=False)[0]["é"] == pytest.approx(math.exp(-0.1))
    assert distributions((), ended=True) == [{"": 1.0}] and distributions((), ended=False) == []
    assert distributions((Token("x", math.nan),), ended=False) == [{"x": 0.0}]
    tokens, _, ended = mix_distributions([[{"a": 1.0}], [{"a": 1.0}, {"b": 1.0}]], [0.5, 0.5], continues=True)
    assert (tokens, ended) == (["a"], False)
