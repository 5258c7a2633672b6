"""The table of commands: what `hoptree --help` prints, and that each command is there when it is called."""

from __future__ import annotations

import inspect
import subprocess
import sys
from functools import wraps
from pathlib import Path

import pytest
import typer.main
from tests.command_line import call

from hoptree.cli.ask import ask
from hoptree.cli.commands import COMMANDS, EVALUATION_COMMANDS, evaluation_help, top_help
from hoptree.cli.main import app, load_command
from hoptree.cli.options import read_plainly

TOP = [name for names in COMMANDS.values() for name in names]
EVALUATION = [name for names in EVALUATION_COMMANDS.values() for name in names]
MAIN = "from hoptree.__main__ import main; main()"
LOADED = f"import sys; sys.argv = ['hoptree', '--help']; {MAIN}; print(*sys.modules)"


def hoptree(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return call(*arguments, folder=tmp_path, environment={})


def test_there_are_few_enough_commands_to_read() -> None:
    """16: the papers' data sets and tables are what researchers come for, and stand at the top like `run`."""
    assert len(TOP) <= 16
    assert all(f"\n  {name} " in top_help() for name in TOP)
    assert all(f"\n  {name} " in evaluation_help() for name in EVALUATION)
    assert max(map(len, (top_help() + evaluation_help()).splitlines())) <= 100


@pytest.mark.parametrize("path", [*((name,) for name in TOP), *(("eval", name) for name in EVALUATION)], ids=" ".join)
def test_every_command_can_be_loaded_and_explained(tmp_path: Path, path: tuple[str, ...]) -> None:
    done = hoptree(tmp_path, *path, "--help")
    assert done.returncode == 0, done.stderr
    assert f"Usage: hoptree {' '.join(path)}" in done.stdout


def test_help_loads_neither_the_parser_nor_a_command() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(top_help())
    modules = done.stdout.removeprefix(top_help()).split()
    assert not {"typer", "rich", "asyncio", "hoptree.cli.main", "hoptree.cli.ask"} & set(modules)


def test_help_is_the_same_by_the_parser(tmp_path: Path) -> None:
    assert hoptree(tmp_path, "-h").stdout == top_help()
    bare = hoptree(tmp_path)
    assert (bare.returncode, bare.stderr.strip()) == (2, top_help().strip())


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (("indx",), "Did you mean 'hoptree index'?"),
        (("compare", "a", "b"), "Did you mean 'hoptree eval compare'?"),
        (("update", "--out", "x"), "Did you mean 'hoptree index update'?"),
        (("remove",), "Did you mean 'hoptree index remove' or 'hoptree graph remove'?"),
        (("fit",), "Did you mean 'hoptree methods chooser fit'?"),
        (("completion",), "Did you mean 'hoptree --install-completion'?"),
        (("eval", "repot"), "Did you mean 'hoptree eval report'?"),
    ],
)
def test_a_mistyped_or_moved_command_is_pointed_out(tmp_path: Path, arguments: tuple[str, ...], hint: str) -> None:
    done = hoptree(tmp_path, *arguments)
    assert done.returncode == 2 and hint in done.stderr


def test_help_says_how_the_shell_completes_commands(tmp_path: Path) -> None:
    assert "--install-completion" in top_help()
    script = call(folder=tmp_path, environment={"PATH": "/usr/bin", "_HOPTREE_COMPLETE": "source_bash"}).stdout
    assert "_HOPTREE_COMPLETE" in script


@pytest.mark.parametrize("words", ["hoptree ask --method ta", "hoptree methods show ta"])
def test_the_shell_completes_names_of_methods(tmp_path: Path, words: str) -> None:
    asked = {"COMP_WORDS": words, "COMP_CWORD": "3", "_HOPTREE_COMPLETE": "complete_bash", "PATH": "/usr/bin"}
    assert call(folder=tmp_path, environment=asked).stdout.split() == ["taikc"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("hoptree cha", ["chat"]),
        ("hoptree chat --retriever ra", ["ranked"]),
        ("hoptree ask -m ol", ["ollama/"]),
        ("hoptree search --retriever h", ["hybrid", "hippo"]),
    ],
)
def test_the_shell_completes_short_commands_retrievers_and_models(
    tmp_path: Path, words: str, offered: list[str]
) -> None:
    place = str(len(words.split()) - 1)
    asked = {"COMP_WORDS": words, "COMP_CWORD": place, "_HOPTREE_COMPLETE": "complete_bash", "PATH": "/usr/bin"}
    assert call(folder=tmp_path, environment=asked).stdout.split() == offered


def test_groups_know_their_commands_without_loading_them() -> None:
    group = typer.main.get_command(app)
    assert list(group.commands) == TOP  # type: ignore[attr-defined]


PLAIN = [
    ["Who?"],
    ["-"],
    ["Who?", "--corpus", "docs.idx", "-m", "openai/x", "--json"],
    ["--no-cache", "--set", "k=3", "--set=worth=0", "Who is = what?", "--role", "decompose=openai/y"],
    ["Who?", "--base-url=http://x/v1?a=b", "--budget", "calls=2,cost=1", "--prices", "1/2", "--trace", "t.jsonl"],
    ["Who?", "--corpus", "--json", "--method", "taikc", "--method", "mind", "--retriever", "bm25"],
    ["Who?", "--rerank", "embed/minilm", "--graph", "wikidata", "--model="],
]
LEFT_TO_THE_PARSER = [
    ["--help"],
    ["Who?", "-h"],
    ["Who?", "docs", "What?"],
    ["Who?", "--corpus"],
    ["Who?", "--json=1"],
    ["Who?", "--no-such-option", "1"],
    ["Who?", "-mopenai/x"],
    ["--", "-Who?"],
    ["Who?", "--concurrency", "3"],
]


@pytest.mark.parametrize("named", ["", "openai/of-the-environment"])
@pytest.mark.parametrize("words", PLAIN, ids=" ".join)
def test_a_plain_question_is_read_as_by_the_parser(
    words: list[str], named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOPTREE_MODEL", named)
    by_parser: dict[str, object] = {}

    @wraps(ask)
    def record(**values: object) -> None:
        by_parser.update(values)

    monkeypatch.setattr("hoptree.cli.ask.ask", record)
    load_command("ask", "ask:ask").main(words, standalone_mode=False)
    defaults = {name: part.default for name, part in inspect.signature(ask).parameters.items() if name != "question"}
    values = read_plainly(ask, words)
    assert values is not None
    assert defaults | values == by_parser


@pytest.mark.parametrize("words", LEFT_TO_THE_PARSER, ids=" ".join)
def test_anything_else_is_left_to_the_parser(words: list[str]) -> None:
    assert read_plainly(ask, words) is None


def test_a_plain_question_needs_neither_the_parser_nor_optional_libraries(tmp_path: Path) -> None:
    hidden = "pyoxigraph numpy scipy rustworkx usearch onnxruntime fastapi pydantic httpx pypdfium2 mcp xllamacpp typer"
    code = f"import sys; sys.modules.update(dict.fromkeys('{hidden}'.split())); {MAIN}"
    (tmp_path / "model.json").write_text('{"replies": [{"reply": "Canada"}]}', encoding="utf-8")
    asked = ["ask", "Where was Elizabeth Bishop born?", "--corpus", "sample", "--model", "scripted/model.json"]
    done = subprocess.run([sys.executable, "-c", code, *asked], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "hop · scripted/model.json" in done.stdout
