"""Links of the documents work, commands exist, and the reference is up to date."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hoptree.cli.main import app
from hoptree.engine.events import _DECISIONS, NodeSettled, NodeStarted
from hoptree.engine.registry import list_methods

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "weights" / "MODEL_CARD.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "experiments").rglob("*.md"),
    ]
)
COMMAND = re.compile(r"^ {4,}(?:torchrun .* -m )?(hoptree .+)$", re.MULTILINE)


def commands() -> list[Any]:
    lines = []
    for page in PAGES:
        if page.parent.name != "reference":
            text = re.sub(r" \\\n +", " ", page.read_text(encoding="utf-8"))
            commands_of_page = (re.split(r"\s{2,}|\s#\s", line)[0] for line in COMMAND.findall(text))
            lines += [pytest.param(line, id=f"{page.name}: {line[:60]}") for line in dict.fromkeys(commands_of_page)]
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


@pytest.mark.parametrize("line", commands())
def test_commands_exist_with_their_options(line: str) -> None:
    words = [word for word in shlex.split(line)[1:] if word != "…"]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "list_commands") and words and words[0] in command.list_commands(None):
        command = command.get_command(None, words.pop(0))
    if hasattr(command, "list_commands") and "build" in command.list_commands(None):  # `hoptree index FILE` builds
        command = command.get_command(None, "build")
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    assert given - known - {"--help", "--version"} == set(), line
    assert not hasattr(command, "list_commands") or not words or words[0].startswith("-") or command.params, line


def imports() -> list[Any]:
    lines = []
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
            for node in ast.walk(
                ast.parse(block, feature_version=(3, 12)) if "await" not in block else _wrapped(block)
            ):
                if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "hoptree":
                    lines += [
                        pytest.param(node.module, alias.name, id=f"{page.name}: {alias.name}") for alias in node.names
                    ]
    return lines


def _wrapped(block: str) -> ast.AST:
    return ast.parse("async def example():\n" + textwrap.indent(block, "    "))


@pytest.mark.parametrize(("module", "name"), imports())
def test_examples_import_only_what_exists(module: str, name: str) -> None:
    assert hasattr(pytest.importorskip(module, exc_type=ImportError), name)


def test_the_reference_is_up_to_date() -> None:
    pytest.importorskip("fastapi")
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_reference_has_a_row_for_each_type_of_a_kind() -> None:
    """Several types share a kind, such as the start and the end of a node."""
    list_methods()
    rows = (ROOT / "docs" / "reference" / "events.md").read_text(encoding="utf-8")
    packaged = [cls for kinds in _DECISIONS.values() for cls in kinds.values() if cls.__module__.startswith("hoptree.")]
    missing = [cls.__name__ for cls in (NodeStarted, NodeSettled, *packaged) if f"| `{cls.__name__}` in `" not in rows]
    assert not missing and "`verdict`, `struck`, `facts`" in rows


def test_the_readme_fits_on_a_page() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 130 and "@@" not in text


def test_every_item_of_the_papers_is_the_same_or_explained() -> None:
    lines = (ROOT / "docs" / "reference" / "papers.md").read_text(encoding="utf-8").splitlines()
    ends = (" same |", "differs because ", "not here because ")
    counted, state = 0, False
    for line in lines:
        if not line.startswith("|"):
            state = False
        elif line.endswith("| here |"):
            state = True
        elif state and not line.startswith("|---"):
            counted += 1
            assert line.endswith(ends[0]) or any(f"| {words}" in line for words in ends[1:]), line
    assert counted > 100
