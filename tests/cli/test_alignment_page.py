"""docs/alignment.md: every command on it can be given, and what it links to is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hoptree.cli.main import app

PAGE = Path(__file__).resolve().parents[2] / "docs" / "alignment.md"
TEXT = PAGE.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^ {4,}(?:torchrun .* -m )?(hoptree .+)$", re.sub(r" \\\n +", " ", TEXT), re.MULTILINE)


def test_the_whole_way_is_there() -> None:
    begun = {tuple(command.split()[1:4]) for command in COMMANDS}
    assert {("align", "build", kind) for kind in ("gold", "if", "kbae")} <= begun
    assert {one[:2] for one in begun} >= {("align", "train"), ("align", "eval")}
    assert {one[0] for one in begun} >= {"index", "eval", "ask", "run"}


@pytest.mark.parametrize("line", [one for one in COMMANDS if " --" in one or " -m" in one])
def test_a_command_has_the_options_it_is_given(line: str) -> None:
    words = shlex.split(line)[1:]
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands") and words[0] in command.commands:
        command = command.get_command(None, words.pop(0))
    if hasattr(command, "commands"):  # `hoptree index FILE` builds
        command = command.commands["build"]
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    given = {word.partition("=")[0] for word in words if word.startswith("-")}
    assert given and given <= known
    needed = [one for one in command.params if one.required and one.param_type_name == "option"]
    assert all(given & set(parameter.opts) for parameter in needed)


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\(([^)#]+)", TEXT)
    assert links and all((PAGE.parent / link).exists() for link in links)
