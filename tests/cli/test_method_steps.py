"""The steps of a method, read off its code."""

from __future__ import annotations

from functools import partial
from types import FunctionType

import pytest
from tests.methods.another import registered

from hoptree.cli.method_steps import Step, steps_of
from hoptree.core.values import Answer, Passage, Question
from hoptree.engine.context import Context
from hoptree.engine.prompts import Filled
from hoptree.engine.registry import find_method, list_methods
from hoptree.engine.schedule import together
from hoptree.methods.baselines.direct import direct
from hoptree.methods.baselines.oner import oner
from hoptree.methods.steps.answer import answer_from, direct_answer, holding


def names(method: str) -> list[str]:
    return [step.name for step in steps_of(find_method(method))]


def test_what_goes_into_a_call_comes_before_it() -> None:
    assert names("oner")[:2] == ["ctx.search", "answering.answer.answer_from"]
    assert names("direct") == ["answering.answer.direct_answer"]


def test_a_step_is_told_in_its_own_words_with_what_it_asks() -> None:
    search, read, *further = steps_of(find_method("oner"))
    about = (Context.search.__doc__ or "").split("\n\n")[0]
    assert search == Step("ctx.search", " ".join(about.split()), ("corpus",))
    assert read.asks == ("model",) and read.about.startswith("The answer that documents hold")
    assert [step.name for step in further] == ["answering.glances.glances", "answering.choose.surest"], (
        "what a switch leads to"
    )


def test_functions_inside_a_method_count_where_it_names_them() -> None:
    order = names("taikc")
    told = [
        order.index(name)
        for name in (
            "planning.decompose.decompose_tree",
            "answering.answer.confident_answer",
            "answering.answer.synthesise",
        )
    ]
    assert told == sorted(told)


def test_what_a_switch_leads_to_comes_last_and_is_marked() -> None:
    steps = {step.name: step for step in steps_of(find_method("taikc"))}
    assert steps["answering.choose.surest"].only == "robust" and steps["answering.summarise.summarise_chain"].only == ""
    marks = [bool(step.only) for step in steps.values()]
    assert marks == sorted(marks)


def test_what_comes_only_with_a_checkpoint_is_marked_however_the_code_says_so() -> None:
    for method, only in (
        ("compact", {"answering.compaction.compress_trained"}),
        ("dyplan", {"dialogues.strategy_turns.Turns"}),
        ("self_rag", {"judging.reflective.Reflective"}),
        ("adaptive_rag", {"planning.route.classify"}),
    ):
        assert {step.name for step in steps_of(find_method(method)) if step.only == "checkpoint"} == only


async def switched(question: Question, ctx: Context, *, careful: bool = False) -> Answer:
    """Do one thing or another."""
    first = ctx.titles if careful else ctx.search
    assert first
    if not careful:
        return await direct_answer(ctx, question.text)
    await ctx.entities(question.text)
    return await answer_from(ctx, question.text, ())


def test_what_follows_a_return_without_a_switch_is_behind_it() -> None:
    with registered(switched) as made:
        steps = {step.name: step.only for step in steps_of(made)}
    assert steps == {
        "ctx.search": "",
        "answering.answer.direct_answer": "",
        "ctx.titles": "careful",
        "ctx.entities": "careful",
        "answering.answer.answer_from": "careful",
    }


@pytest.mark.parametrize("method", [method.name for method in list_methods()])
def test_what_only_turns_texts_into_others_or_takes_notes_is_no_step(method: str) -> None:
    helpers = (
        "question_key",
        "answer_key",
        "clean_answer",
        "looks_unanswered",
        "note_reply",
        "show_context",
        "list_ways",
    )
    assert not [name for name in names(method) if name.endswith(helpers)]


def test_methods_of_classes_count_too() -> None:
    assert "ctx.search" in names("flare"), "in a class of its module that a step calls back"
    assert "ctx.facts" in names("treeqa"), "in another module of its package"


@pytest.mark.parametrize("method", [method.name for method in list_methods()])
def test_every_method_has_steps_and_each_asks_a_model_somewhere(method: str) -> None:
    steps = steps_of(find_method(method))
    assert any("model" in step.asks for step in steps)
    assert all(step.name and step.about for step in steps)
    if "corpus" in find_method(method).needs:
        assert any("corpus" in step.asks for step in steps), "it needs a corpus, and never searches it"


async def composed(question: Question, ctx: Context, *, careful: bool = False, other: bool = True) -> Answer:
    """Do what another does."""
    if careful:
        return await direct_answer(ctx, question.text)
    if other:
        return await oner(question, ctx)
    return await _Reader(ctx).all(question.text)


class _Reader:
    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    async def all(self, text: str) -> Answer:
        found = await together(self._one(part, partial(self._ctx.entities, limit=2)) for part in text.split())
        from hoptree.methods.steps.choose import surest

        return surest(self._ctx, found, when="final")

    async def _one(self, text: str, direct_answer: object) -> Answer:
        """Its parameter is no step, whatever it is called."""
        assert direct_answer
        import json

        json.dumps(text)
        passages: tuple[Passage, ...] = await self._ctx.search(text, k=1)
        reply = await self._ctx.generate("own", Filled((), "own"), max_tokens=3)
        holding(reply.text, passages)
        return await answer_from(self._ctx, text, passages)


def test_a_method_from_elsewhere_that_calls_another() -> None:
    with registered(composed) as made:
        steps = steps_of(made)
    assert [step.name for step in steps] == [
        "oner",
        "ctx.entities",
        "ctx.search",
        "ctx.generate own",
        "answering.answer.holding",
        "answering.answer.answer_from",
        "answering.choose.surest",
        "answering.answer.direct_answer",
    ]
    assert steps[0].asks == ("model", "corpus") and steps[0].about == find_method("oner").summary
    assert [step.only for step in steps] == [""] * 7 + ["careful"]


def test_without_source_there_are_no_steps() -> None:
    made_up = FunctionType(direct.__code__, direct.__globals__, "made_up")
    made_up.__module__ = "builtins"
    with registered(made_up) as method:
        assert steps_of(method) == ()
