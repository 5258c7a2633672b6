"""`hoptree align train` at the command line: what it prints, its defaults, and that nothing is loaded before."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.models.hf_models import saved
from tests.training.lora.small_sets import many, write
from typer.testing import CliRunner, Result

from hoptree.cli import align_adapters
from hoptree.cli.main import app
from hoptree.core.errors import InputError
from hoptree.training.lora.dataset import Pace, Recipe


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft")
    folder = tmp_path_factory.mktemp("training")
    saved(folder / "base", "plain")
    rows = many(8, 6)
    write(folder / "set.jsonl", rows)
    return folder


def train(here: Path, *arguments: object, out: str = "out") -> Result:
    usual = ["-m", f"hf/{here / 'base'}", "--data", here / "set.jsonl", "--out", here / out, "--device", "cpu"]
    usual += ["--learning-rate", "0.01", "--batch", "2", "--accumulation", "2", "--rank", "2", "--epochs", "2"]
    return CliRunner().invoke(app, ["align", "train", *map(str, (*usual, *arguments))])


def test_its_defaults_are_those_of_the_recipe() -> None:
    options = inspect.signature(align_adapters.train).parameters
    usual = {**asdict(Recipe()), **asdict(Pace()), "learning_rate": None}  # sets of RA-ISF have one of their own
    assert {name: options[name].default for name in usual} == usual


def test_it_says_what_was_learnt_and_how_to_use_it(here: Path) -> None:
    printed = train(here)
    assert printed.exit_code == 0, printed.exception
    lines = printed.output.splitlines()
    assert lines[0] == f"{here / 'base'}: 8 examples, 4 steps"
    assert lines[1] == f"  {here / 'set.jsonl'}: 8 colours"
    first, blocks, last = lines[3].removeprefix("  loss ").split()
    assert float(first) > float(last) and len(blocks) == 4
    assert lines[-1] == f"use it: -m 'hf/{here / 'base'}?adapter={here / 'out'}'"
    again = train(here)
    assert again.exit_code == 0 and f"it was trained before: {here / 'out'}" in again.output


def test_one_object_and_nothing_else(here: Path) -> None:
    dry = json.loads(train(here, "--json", "--dry-run", out="json").stdout)
    assert dry["dry_run"] and dry["steps"] == 4 and not (here / "json").exists()
    summary = json.loads(train(here, "--json", out="json").stdout)
    assert summary["out"] == str(here / "json") and summary["new_steps"] == 4
    dry_run = train(here, "--dry-run", out="dry")
    assert "nothing was written" in dry_run.stdout and "hoptree: timing 1 example on cpu" in dry_run.stderr


def test_lengths_stand_beside_the_paper_s_in_tokens(here: Path) -> None:
    rows = [row | {"meta": {"kind": "taikc-gold", "part": "read", "label": "read"}} for row in many(6, 6)]
    rows[0]["meta"] |= {"part": "decompose", "label": "decompose"}
    sets = write(here / "taikc.jsonl", [row | {"id": f"t{row['id']}"} for row in rows])
    dry = json.loads(train(here, "--json", "--dry-run", "--data", sets, out="beside").stdout)
    decompose, read, overall = dry["beside_the_paper"]
    assert [lengths["rows"] for lengths in (decompose, read, overall)] == [1, 5, 6], (
        "rows of other papers are not counted"
    )
    replies = (lengths["rows"] * lengths["output"] for lengths in (decompose, read))
    assert sum(replies) == pytest.approx(6 * overall["output"], abs=0.5)
    assert overall["output"] > 1 + max(len(row["messages"][-1]["content"].split()) for row in rows) / 6
    assert "mean tokens" in train(here, "--dry-run", "--data", sets, out="beside").output


def test_only_the_first_of_several_processes_speaks(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = train(here, "--targets", "none", out="refused")
    assert isinstance(refused.exception, InputError) and refused.exception.exit_code == 2
    monkeypatch.setenv("RANK", "1")
    quiet = train(here, "--targets", "none", out="refused")
    assert (quiet.exit_code, quiet.output) == (2, "")


def test_help_loads_nothing_that_takes_long() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from hoptree.cli.main import app; "
        "assert CliRunner().invoke(app, ['align', 'train', '--help']).exit_code == 0; "
        "print([name for name in ('torch', 'peft', 'transformers', 'hoptree.training') if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == "[]"
