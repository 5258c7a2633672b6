"""Prompts of one's own: what they replace, what is refused, and where their digests are kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.methods.asked import Shelf

from hoptree.core.errors import HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.engine.own_prompts import _check_demonstrations, files_of, open_prompts, write_prompts
from hoptree.engine.prompts import packaged_names, packaged_text, prompt_for, using_prompts
from hoptree.engine.registry import Method, find_method, list_methods
from hoptree.engine.result import Result
from hoptree.methods.steps.continuation import load_worked_examples
from hoptree.methods.steps.decompose import load_bank
from hoptree.methods.steps.route import load_strategies
from hoptree.models.scripted import Rule, ScriptedModel

READ = "--- system\nBe brief.\n--- user\n{documents}\n\nAsked: {question}\n"


def folder(tmp_path: Path, **texts: str) -> Path:
    """A folder of prompts; `__` in a name is a slash, and the file is a text unless its name says otherwise."""
    for name, text in texts.items():
        path = tmp_path / (name.replace("__", "/") + ("" if name.endswith("jsonl") else ".txt"))
        path = path.with_name(path.name.replace("_jsonl", ".jsonl"))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return tmp_path


def ask(method: str, prompts: Any, reply: str = "Providence") -> tuple[Result, list[str]]:
    model = ScriptedModel(rules=[Rule(reply)])

    async def answer() -> Result:
        corpus = Shelf(Passage("p", "Chazelle", "He was born in Providence."))
        async with Engine(method=method, model=model, corpus=corpus, cache=None, prompts=prompts) as engine:
            return await engine.ask("Where was Chazelle born?")

    result = asyncio.run(answer())
    return result, [text for _, text in model.requests]


def test_a_prompt_is_replaced_for_one_method_or_for_all_that_share_it(tmp_path: Path) -> None:
    mine = folder(tmp_path, oner__read=READ)
    result, (sent,) = ask("oner", mine)
    assert sent == "passage: He was born in Providence.\n\nAsked: Where was Chazelle born?"
    assert result.answer == "Providence" and set(result.prompts) == {"oner/read.txt"}
    assert result.as_dict()["prompts"] == result.prompts
    assert "Asked:" not in ask("replug", mine)[1][0] and not ask("replug", mine)[0].prompts
    shared = folder(tmp_path / "shared-by-all", shared__read=READ)
    assert all("Asked:" in ask(method, shared)[1][0] for method in ("oner", "replug"))


def test_a_method_s_own_file_counts_before_the_shared_one(tmp_path: Path) -> None:
    mine = open_prompts(folder(tmp_path, oner__read=READ, shared__read=READ.replace("Asked", "Shared")))
    assert "Asked:" in ask("oner", mine)[1][0] and "Shared:" in ask("replug", mine)[1][0]
    assert set(mine.of(find_method("oner"))) == {"oner/read.txt", "shared/read.txt"}


def test_ours_unchanged_are_no_prompts_of_one_s_own(tmp_path: Path) -> None:
    method = find_method("taikc")
    written = write_prompts(method, tmp_path)
    assert {path.name for path in written} == {name.partition("/")[2] for name in files_of(method)}
    bank = tmp_path / "taikc" / "bank.jsonl"
    bank.write_bytes(bank.read_bytes().replace(b"\n", b"\r\n"))
    assert open_prompts(tmp_path).texts == {}
    with using_prompts({}, "taikc"):
        assert prompt_for("taikc", "read").name == "shared/read"


@pytest.mark.parametrize("method", [method.name for method in list_methods()])
def test_what_is_written_for_every_method_can_be_read_again(method: str, tmp_path: Path) -> None:
    assert write_prompts(find_method(method), tmp_path)
    assert open_prompts(tmp_path).texts == {}
    with pytest.raises(HoptreeError, match="is there already"):
        write_prompts(find_method(method), tmp_path)


def test_every_shared_prompt_that_a_method_names_is_there_and_used() -> None:
    used = {name for method in list_methods() for name in files_of(method)}
    assert {name for name in used if name.startswith("shared/")} == {
        name for name in packaged_names() if name.startswith("shared/")
    }
    assert all(len(files_of(method)) >= len(method.shared_prompts) for method in list_methods())


def test_a_method_of_another_package_may_use_all_that_is_shared(tmp_path: Path) -> None:
    async def other(*asked: Any) -> Any: ...

    mine = open_prompts(folder(tmp_path, shared__read=READ))
    assert set(mine.of(Method("other", "Another one", other, ()))) == {"shared/read.txt"}
    assert not mine.of(find_method("search_r1"))


def test_demonstrations_and_strategies_are_replaced_too(tmp_path: Path) -> None:
    shot = {"kind": "bridge", "question": "Where was A's wife born?", "plan": {"query1": {"question": "Who?"}}}
    worked = {"question": "Q?", "documents": [{"title": "T", "text": "X."}], "answer": "So the answer is: X."}
    ways = [json.loads(line) | {"when": "always."} for line in (packaged_text("dyplan/ways.jsonl") or "").splitlines()]
    mine = open_prompts(
        folder(
            tmp_path,
            taikc__bank_jsonl=json.dumps(shot) + "\n",
            shared__worked_jsonl=json.dumps(worked),
            dyplan__ways_jsonl="\n".join(map(json.dumps, ways)),
        )
    )
    before = load_bank()
    with using_prompts(mine.texts, "taikc"):
        assert [row.question for row in load_bank()] == ["Where was A's wife born?"]
        assert len(load_worked_examples()) == 1
        assert {way.when for way in load_strategies("dyplan")} == {"always."}
    assert load_bank() == before and len(load_worked_examples()) > 1


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("taikc__decompos", "{question}", "Did you mean taikc/decompose.txt?"),
        ("shared__reed", READ, "Did you mean shared/read.txt?"),
        ("oner__decompose", "{question}", "oner uses read.txt, read_asked_first.txt."),
        ("note", "Buy milk.", "is no prompt and no file of demonstrations"),
        ("oner__read", READ + "{titles}", "has the unknown variable {titles}. It takes {documents}, {question}."),
        ("oner__read", READ.replace("{question}", "{questoin}"), "Did you mean {question}?"),
        ("oner__read", "Answer {question}", "lacks the variable {documents}."),
        ("oner__read", "", "lacks the variable {documents}"),
        ("oner__read", READ + "--- assistant\nYes: ", "does not end with the user's"),
        ("oner__read", "Hello\n" + READ, "does not begin with a section"),
        ("oner__read", "--- system\n--- user\n{documents} {question}", "has an empty section"),
        ("taikc__bank_jsonl", "{}\n", "A line is an object with kind (text), question (text), plan (object)."),
        ("taikc__bank_jsonl", "{\n", "is no JSON"),
        ("taikc__bank_jsonl", "", "has no line"),
        ("cot__worked_jsonl", '{"question": "", "documents": ["x"], "answer": ""}', "is no demonstration"),
        ("dyplan__ways_jsonl", '{"name": "Guess", "when": "always."}', "Direct, Plan, Reason, Retrieval."),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(name: str, text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(HoptreeError) as caught:
        open_prompts(folder(tmp_path, **{name: text}))
    assert told in str(caught.value) and caught.value.exit_code == 2 and "\n" not in str(caught.value)


def test_a_folder_that_is_not_there_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    with pytest.raises(HoptreeError, match="hoptree methods prompts NAME"):
        open_prompts(tmp_path / "nowhere")
    (tmp_path / ".DS_Store").write_bytes(b"\xff")
    assert open_prompts(tmp_path).texts == {}
    folder(tmp_path, oner__read="x")
    (tmp_path / "oner" / "read.txt").write_bytes(b"{question} \xff")
    with pytest.raises(HoptreeError, match="UTF-8"):
        open_prompts(tmp_path)


def test_questions_at_once_keep_their_own_prompts(tmp_path: Path) -> None:
    mine = open_prompts(folder(tmp_path, direct__direct="My words: {question}"))
    model = ScriptedModel(rules=[Rule("x")], latency=0.01)

    async def both() -> list[Result]:
        engines = [Engine(method="direct", model=model, cache=None, prompts=given) for given in (mine, None)]
        return list(await asyncio.gather(*(engine.ask("Why?") for engine in engines)))

    results = asyncio.run(both())
    assert [bool(result.prompts) for result in results] == [True, False]
    assert sorted("My words" in text for _, text in model.requests) == [False, True]


def test_a_list_that_is_empty_in_ours_may_hold_anything(tmp_path: Path) -> None:
    ours = json.dumps({"question": "Q?", "documents": []})
    _check_demonstrations(tmp_path, json.dumps({"question": "R?", "documents": [{"title": "T"}]}), ours)
    with pytest.raises(HoptreeError, match="is no demonstration"):
        _check_demonstrations(tmp_path, json.dumps({"question": "R?", "documents": "T"}), ours)
