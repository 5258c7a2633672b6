"""Prompts of one's own: what they replace, what is refused, and where their digests are kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.methods.asked import Shelf
from typer.testing import CliRunner

from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, HoptreeError
from hoptree.core.values import Passage
from hoptree.engine.engine import Engine
from hoptree.engine.own_prompts import _check_demonstrations, files_of, open_prompts, write_prompts
from hoptree.engine.prompts import (
    packaged_names,
    packaged_text,
    prompt_for,
    read_demonstrations,
    read_prompt,
    using_prompts,
)
from hoptree.engine.registry import Method, find_method, list_methods
from hoptree.engine.result import Result
from hoptree.methods.steps.chain_of_thought import load_worked_examples
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
    with pytest.raises(HoptreeError, match="exists already"):
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
    ("name", "text", "message"),
    [
        ("taikc__decompos", "{question}", "Did you mean taikc/decompose.txt?"),
        ("shared__reed", READ, "Did you mean shared/read.txt?"),
        ("oner__decompose", "{question}", "oner uses read.txt, read_asked_first.txt."),
        (
            "direct__read",
            "{question}",
            "is neither a prompt nor a file of demonstrations that is used. direct uses direct.txt.",
        ),
        ("direct__decompose", "{question}", "that is used. direct uses direct.txt."),
        ("oner__a", "{question}", "that is used. oner uses read.txt, read_asked_first.txt."),
        ("mind__direct", "{question}", "that is used. mind uses "),
        ("oner__reed", READ, "Did you mean oner/read.txt?"),
        ("oner__bank_jsonl", "{}", "that is used. oner uses read.txt, read_asked_first.txt."),
        ("shared__list_among", "{question}", "Did you mean hop/list_among.txt?"),
        ("shared__quite_another", "{question}", "that is used. Write our prompts as a start"),
        ("note", "Buy milk.", "is neither a prompt nor a file of demonstrations"),
        ("oner__read", READ + "{titles}", "has the unknown variable {titles}. It takes {documents}, {question}."),
        ("oner__read", READ.replace("{question}", "{questoin}"), "Did you mean {question}?"),
        ("oner__read", "Answer {question}", "lacks the variable {documents}."),
        ("oner__read", "", "lacks the variable {documents}"),
        ("oner__read", READ + "--- assistant\nYes: ", "does not end with the user's"),
        ("oner__read", READ + "--- assistant", "has an empty section"),
        ("oner__read", "Hello\n" + READ, "does not begin with one. Write --- system, --- user and --- assistant"),
        ("oner__read", "Hello\n--- user\n{documents} {question}", "has text before its first section"),
        ("oner__read", READ.replace("--- system", "--- System"), "unknown section '--- System'. Write --- system,"),
        ("oner__read", READ.replace("--- system", "--- system "), "unknown section '--- system '. Write --- system,"),
        ("oner__read", "--- User\n{documents} {question}", "has the unknown section '--- User'."),
        ("oner__read", READ.replace("--- system", "---system"), "has the unknown section '---system'."),
        ("oner__read", READ + "--- example\nx", "has the unknown section '--- example'."),
        ("oner__read", READ + "{question1}", "the unknown variable {question1}. It takes {documents}, {question}. Did"),
        ("oner__read", READ + "{question1}", "Did you mean {question}?"),
        ("oner__read", READ.replace("{question}", "{QUESTION}"), "Did you mean {question}?"),
        ("oner__read", READ.replace("{documents}", "{Documents}"), "Did you mean {documents}?"),
        ("oner__read", READ + "{ctx2}", "has the unknown variable {ctx2}. It takes {documents}, {question}."),
        ("taik__read", READ, "taik has no method's name. Did you mean taikc?"),
        ("TAIKC__read", READ, "Did you mean taikc?"),
        ("read", READ, "read.txt stands in no method's folder. Did you mean shared/read.txt"),
        ("quite_another__read", READ, "has no method's name. Write our prompts as a start"),
        ("oner__read", "--- system\n--- user\n{documents} {question}", "has an empty section"),
        ("taikc__bank_jsonl", "{}\n", "A line is an object with kind (text), question (text), plan (object)."),
        ("taikc__bank_jsonl", "{\n", "is not JSON"),
        ("taikc__bank_jsonl", "\n\n{\n", "Line 3 of"),
        ("taikc__bank_jsonl", "", "has no line"),
        ("taikc__bank_jsonl", "\n \n", "has no line"),
        ("cot__worked_jsonl", '{"question": "", "documents": ["x"], "answer": ""}', "is not a demonstration"),
        ("dyplan__ways_jsonl", '{"name": "Guess", "when": "always."}', "Direct, Plan, Reason, Retrieval."),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(HoptreeError) as caught:
        open_prompts(folder(tmp_path, **{name: text}))
    assert message in str(caught.value) and caught.value.exit_code == 2 and "\n" not in str(caught.value)


def test_braces_of_json_and_lines_of_dashes_are_text(tmp_path: Path) -> None:
    shown = '{"query1": "who?"} {"a": {"b": 1}} { Context } {a, b} {1} {}\n---\n| --- | --- |\n'
    mine = open_prompts(folder(tmp_path, oner__read=READ + shown))
    assert '{"query1": "who?"}' in ask("oner", mine)[1][0] and "\n---\n" in ask("oner", mine)[1][0]


@pytest.mark.parametrize("name", [name for name in packaged_names() if name.endswith(".txt")])
def test_every_prompt_of_ours_may_be_reworded(name: str, tmp_path: Path) -> None:
    ours = packaged_text(name) or ""
    mine = folder(tmp_path, **{name.removesuffix(".txt").replace("/", "__"): ours + "Be brief.\n"})
    assert set(open_prompts(mine).texts) == {name}


def test_text_before_the_first_section_is_never_dropped() -> None:
    with pytest.raises(HoptreeError, match="oner/read has text before its first section"):
        read_prompt("oner/read", "--- System\nBe brief.\n--- user\n{question}")
    assert [part.role for part in read_prompt("oner/read", "\n\n--- user\n{question}").sections] == ["user"]


def test_a_folder_one_too_deep_is_told_the_right_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_prompts(find_method("taikc"), tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    for given, right in (("mine/taikc", "mine"), (tmp_path / "mine" / "taikc", tmp_path / "mine")):
        with pytest.raises(HoptreeError) as caught:
            open_prompts(given)
        assert str(caught.value).endswith(f"Give the folder that holds taikc/: --prompts {right}")
        assert caught.value.exit_code == 2
    monkeypatch.chdir(tmp_path / "mine" / "taikc")
    with pytest.raises(HoptreeError) as caught:
        open_prompts(".")
    assert str(caught.value).endswith(f"--prompts {(tmp_path / 'mine').resolve()}")


def test_lines_of_demonstrations_end_at_line_feeds_alone(tmp_path: Path) -> None:
    shots = [
        {"kind": "bridge", "question": f"Where\u2028was\x85{name}?", "plan": {"query1": {"question": "Who?"}}}
        for name in "AB"
    ]
    lines = "\n\n".join(json.dumps(shot, ensure_ascii=False) for shot in shots) + "\n\n"
    mine = open_prompts(folder(tmp_path, taikc__bank_jsonl=lines))
    with using_prompts(mine.texts, "taikc"):
        assert [row.question for row in load_bank()] == [shot["question"] for shot in shots]
    ways = (packaged_text("dyplan/ways.jsonl") or "").replace(".", "\u2028.") + "\n\n"
    worked = json.dumps({"question": "Q\u2028?", "documents": [], "answer": "X."}, ensure_ascii=False) + "\n\n"
    mine = open_prompts(folder(tmp_path, dyplan__ways_jsonl=ways, shared__worked_jsonl=worked))
    with using_prompts(mine.texts, "dyplan"):
        assert len(load_strategies("dyplan")) == 4 and load_worked_examples()[0].question == "Q\u2028?"


@pytest.mark.parametrize("command", [("methods", "show", "taikc"), ("methods", "list"), ("run",)])
def test_prompts_that_change_nothing_are_told_in_one_line(command: tuple[str, ...], tmp_path: Path) -> None:
    of_another = folder(tmp_path / "other", oner__read=READ)
    used = folder(tmp_path / "used", taikc__read=READ)
    (empty := tmp_path / "empty").mkdir()
    for prompts in (empty, of_another, used):
        arguments = [*command, "--prompts", str(prompts)]
        if command == ("run",):
            arguments += ["--method", "taikc", "--model", "openai/none"]
            arguments += ["--data", str(tmp_path / "none.jsonl"), "--out", str(tmp_path / "run")]
        stderr = CliRunner().invoke(app, arguments).stderr
        warned = [line for line in stderr.splitlines() if line.endswith("changes nothing.")]
        user = "a method" if command[-1] == "list" else "taikc"
        sentence = f"hoptree: {prompts} has no prompt that {user} uses and that differs from ours"
        changes = prompts == used or (prompts == of_another and command[-1] == "list")
        assert warned == ([] if changes else [f"{sentence}: --prompts changes nothing."]), stderr


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
    with pytest.raises(HoptreeError, match="is not a demonstration"):
        _check_demonstrations(tmp_path, json.dumps({"question": "R?", "documents": "T"}), ours)


def test_a_step_without_a_prompt_is_told_where_to_put_it() -> None:
    with pytest.raises(ConfigError) as caught:
        prompt_for("mine", "draft")
    assert "'draft'" in str(caught.value)
    assert "mine/draft.txt under hoptree/prompts" in caught.value.remedy and "read_prompt(" in caught.value.remedy
    with pytest.raises(ConfigError) as caught:
        read_demonstrations("plans.jsonl", "mine")
    assert caught.value.remedy == "Add mine/plans.jsonl under hoptree/prompts."
