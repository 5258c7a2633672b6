"""A script can tell what goes on inside a model, for tests of methods that look there."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import InputError
from hoptree.models.model import Choice, Message, Request, Signal
from hoptree.models.scripted import Rule, ScriptedModel

ALL: frozenset[Signal] = frozenset(("entropy", "attention", "hidden"))


def said(model: ScriptedModel, **options: Any) -> Choice:
    request = Request((Message("user", "Who wrote Hamlet?"),), **options)
    return asyncio.run(model.generate(request, step="s")).choices[0]


def test_numbers_for_each_token_in_turn() -> None:
    rule = Rule("by an unsure hand", logprob=[-0.1, -2.0], entropy=[0.5, 3.0, 1.0], attention=0.25, hidden=[1.0])
    choice = said(ScriptedModel(rules=[rule]), signals=ALL)
    assert [token.text for token in choice.tokens] == ["by", " an", " unsure", " hand"]
    assert [token.logprob for token in choice.tokens] == [-0.1, -2.0, -2.0, -2.0]
    assert [token.entropy for token in choice.tokens] == [0.5, 3.0, 1.0, 1.0]
    assert [token.attention for token in choice.tokens] == [0.25, 0.25, 0.25, None]
    assert choice.hidden == (1.0,)


def test_only_what_was_asked_for() -> None:
    model = ScriptedModel(rules=[Rule("a b", entropy=1.0, attention=0.5, hidden=[1.0])])
    assert said(model) == Choice("a b")
    assert [(t.entropy, t.attention) for t in said(model, top_logprobs=1).tokens] == [(None, None)] * 2
    assert said(model, signals=frozenset({"entropy"})).tokens[0].attention is None


def test_a_prefix_is_looked_at_word_by_word() -> None:
    rule = Rule(entropy=[1.0, 2.0], attended={"Hamlet": 0.5, "by": 0.25})
    choice = said(
        ScriptedModel(rules=[rule]), max_tokens=0, prefix="written by Bacon", signals=ALL, attention_of=((11, 16),)
    )
    assert choice.text == "" and [token.entropy for token in choice.tokens] == [1.0, 2.0, 2.0]
    seen = choice.attended
    assert seen is not None
    words = [seen.text[start:end] for start, end in seen.spans]
    assert words == ["Who", "wrote", "Hamlet?", "written", "by", "Bacon"]
    assert seen.weights == ((0.0, 0.0, 0.5, 0.0, 0.25),)


def test_it_can_tell_what_its_rules_tell() -> None:
    inside = {"entropy", "attention", "hidden_states"}
    assert not ScriptedModel(rules=[Rule("x")]).capabilities & inside
    rules = [Rule("x"), Rule("y", entropy=1.0, attended={"a": 1.0}, hidden=[0.5])]
    assert ScriptedModel(rules=rules).capabilities >= inside


@pytest.mark.parametrize(
    "numbers", [{"entropy": "high"}, {"attention": []}, {"hidden": 1.0}, {"attended": [1.0]}, {"logprob": ["a"]}]
)
def test_what_is_no_number_is_refused(tmp_path: Path, numbers: dict[str, Any]) -> None:
    path = tmp_path / "script.json"
    path.write_text(json.dumps({"replies": [{"reply": "x", **numbers}]}), encoding="utf-8")
    with pytest.raises(InputError, match="cannot be used"):
        ScriptedModel(str(path))
