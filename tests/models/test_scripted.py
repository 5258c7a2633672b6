"""Scripts: what a rule says, and what a model that serves for days keeps."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from hoptree.core.errors import InputError
from hoptree.models.model import Message, Request
from hoptree.models.scripted import Rule, ScriptedModel


def ask(model: ScriptedModel, text: str) -> str:
    reply = asyncio.run(model.generate(Request((Message("user", text),)), step="direct/answer"))
    return reply.choices[0].text


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (Rule("It is $1.", regex=r"film (\w+)"), "It is Solaris."),
        (Rule("$2, $1", regex=r"(\w+) film (\w+)"), "Solaris, old"),
        (Rule("$1 costs $5", regex=r"film (\w+)"), "Solaris costs $5"),
        (Rule("$1 costs $100, $10", regex=r"film (\w+)"), "Solaris costs $100, $10"),
        (Rule("[$1]", regex=r"film Solaris( twice)?"), "[]"),
        (Rule("$1", regex="film"), "$1"),
        (Rule("$1"), "$1"),
    ],
)
def test_a_reply_quotes_what_its_pattern_matched(rule: Rule, said: str) -> None:
    assert ask(ScriptedModel(rules=[rule]), "the old film Solaris?") == said


def test_a_script_of_a_file_keeps_no_requests(tmp_path: Path) -> None:
    rules = {"replies": [{"reply": "yes"}]}
    (tmp_path / "script.json").write_text(json.dumps(rules))
    served, tested = ScriptedModel(str(tmp_path / "script.json")), ScriptedModel(rules=[Rule("yes")])
    for model in (served, tested):
        assert ask(model, "is it?") == "yes"
    assert (len(served.requests), len(tested.requests)) == (0, 1)


@pytest.mark.parametrize("text", ["[]", "{}", '{"replies": {}}'])
def test_a_script_without_replies_says_what_it_lacks(text: str, tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="cannot be used: it has no list of replies"):
        ScriptedModel(str(path))


def test_a_script_that_is_not_there_is_told_in_words(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"m\.json cannot be read: there is none\."):
        ScriptedModel(str(tmp_path / "m.json"))
