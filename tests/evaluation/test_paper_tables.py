"""The papers' tables: what they name exists, files load without optional packages, and figures have their place."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from hoptree.core.errors import ConfigError, InputError
from hoptree.core.values import Usage
from hoptree.engine.registry import find_method
from hoptree.evaluation.datasets.releases import command_for
from hoptree.evaluation.paper_runs import Claim, judge_claim, read_claims
from hoptree.evaluation.paper_tables import (
    PAPERS,
    PaperPart,
    check_data,
    data_needed,
    differences,
    find_part,
    gpu_models,
    paper_table,
    read_paper,
)
from hoptree.evaluation.plan import experiments_folder, read_plan
from hoptree.evaluation.report.measures import COSTS, TITLES, Run
from hoptree.evaluation.report.tables import Number, TableRow
from hoptree.evaluation.run_folder import Row
from hoptree.training.lora.dataset import Recipe

ROOT = Path(__file__).resolve().parents[2]
PARTS = [part for name in PAPERS for part in read_paper(name).parts.values()]
FILES = [part for part in PARTS if part.file]
NUMBERED = {"taikc": (17, 13), "ra-isf": (13, 4), "treeqa": (7, 6), "mind": (4, 1)}
"""How many tables and figures each paper has."""
OPTIONAL = (
    "torch transformers numpy scipy usearch onnxruntime tokenizers model2vec pyoxigraph rustworkx xllamacpp fastapi"
)


def title(part: PaperPart) -> str:
    return part.title


@pytest.mark.parametrize("paper", PAPERS)
def test_every_table_and_figure_is_listed(paper: str) -> None:
    tables, figures = NUMBERED[paper]
    wanted = {*(f"table{n}" for n in range(1, tables + 1)), *(f"figure{n}" for n in range(1, figures + 1))}
    assert set(read_paper(paper).parts) == wanted


@pytest.mark.parametrize("part", PARTS, ids=title)
def test_each_has_a_maker_or_a_reason(part: PaperPart) -> None:
    assert [bool(how) for how in (part.file, part.counts, part.command, part.absent)].count(True) == 1
    assert part.file is None or (part.file.exists() and differences(part))
    assert part.rows or part.report or part.then or part.file is None or part.name in ("figure4", "figure13")


@pytest.mark.parametrize("part", [part for part in FILES if part.rows], ids=title)
def test_rows_and_columns_are_those_of_the_file(part: PaperPart) -> None:
    plan = part.plan()
    assert set(part.data) <= set(plan["data"])
    runs = {name.partition(", draw ")[0] for name in plan["runs"]} | set(part.not_run)
    places = {"run": runs, "data": set(plan["data"]), "part": set(part.parts), "model": {*plan["models"], "Avg"}}

    def check(figures: object, axes: list[str]) -> None:
        assert isinstance(figures, dict) == bool(axes)
        if isinstance(figures, dict):
            unknown = set(figures) - places[axes[0]] - {"model not told"}
            assert not unknown or axes[0] == "model", unknown
            for below in figures.values():
                check(below, axes[1:])

    if part.figures:
        check(part.figures, list(part.rows))
    table = paper_table(part, [], [])
    assert all(len(row.cells) == len(table.columns) for row in table.rows)
    assert not part.figures or table.rows


@pytest.mark.parametrize("paper", PAPERS)
def test_options_settings_and_ablations_exist(paper: str) -> None:
    known = read_paper(paper)
    options = {option.name for option in find_method(known.method).options}
    for fact in known.hyperparameters:
        assert fact.get("option") in {None, *options} and hasattr(Recipe(), fact.get("setting", "rank")), fact
    for fact in known.ablations:
        table, _, run = fact["run"].partition(": ")
        assert run in known.parts[table].plan()["runs"]


@pytest.mark.parametrize("paper", PAPERS)
def test_claims_name_runs_data_and_metrics_that_there_are(paper: str) -> None:
    known = read_paper(paper)
    claims = read_claims(known)
    assert len({claim.says for claim in claims}) == len(claims) >= 9
    for claim in claims:
        decided = bool(claim.below) or claim.least is not None or claim.most is not None
        assert bool(claim.undecided_because) != decided, claim
        if decided:
            plan = known.parts[claim.table].plan()
            assert {*claim.above, *claim.below} <= {name.partition(", draw ")[0] for name in plan["runs"]}, claim
            assert set(claim.data) <= set(plan["data"]), claim
            assert claim.metric in {*TITLES, *COSTS, "hits@1", "sure", "gap", "agreement"}, claim


def scored(scores: Sequence[float], *, searches: float = 1.0) -> Run:
    """A run of as many questions."""
    usage = dict.fromkeys((field.name for field in fields(Usage)), 0.0) | {"retrievals": searches}
    rows = tuple(
        Row(id=str(n), question="?", answers=("x",), answer="x", scores={"f1": score}, usage=usage)
        for n, score in enumerate(scores)
    )
    return Run(Path("nowhere"), "id", "run", {"rests_on": {}}, rows, len(rows))


def test_a_claim_holds_fails_or_cannot_be_told() -> None:
    high, low, even = scored([1.0] * 12), scored([0.0] * 12, searches=3.0), scored([1.0, 0.0] * 6)
    runs = {("m", "A", "D"): [high], ("m", "B", "D"): [low], ("m", "C", "D"): [even, even], ("n", "A", "D"): [low]}

    def verdict(**facts: Any) -> tuple[str, str]:
        found = judge_claim(Claim("it is so", "table2", **facts), runs, "m")
        return found.verdict, found.decided_by

    assert verdict(above=["A"], below=["B", "C"]) == ("holds", "A − C, F1 (D)")
    assert verdict(above=["B"], below=["A", "C"]) == ("does not hold", "B − A, F1 (D)")
    assert verdict(above=["C"], below=["C"]) == ("cannot be told", "C − C, F1 (D)")
    assert verdict(above=["A"], below=["B", "X"]) == ("cannot be told", "A − B, F1 (D); not run: X")
    assert verdict(above=["A"], below=["B"], data=["other"]) == ("cannot be told", "not run: A, B")
    assert verdict(above=["B"], below=["A"], metric="searches") == ("holds", "B − A, Searches (D)")
    assert verdict(above=["C"], below=["C"], most=3) == ("holds", "C − C, F1 (D)")
    assert verdict(above=["A"], below=["B"], most=3) == ("does not hold", "A − B, F1 (D)")
    assert verdict(above=["B"], metric="searches", most=2) == ("does not hold", "B, Searches")
    assert verdict(above=["C"], least=50) == ("cannot be told", "C, F1")
    assert verdict(undecided_because="it takes people") == ("cannot be told", "it takes people")


def test_all_experiment_files_load_without_optional_packages() -> None:
    code = f"""
import sys
sys.modules.update(dict.fromkeys({OPTIONAL!r}.split()))
from pathlib import Path
from hoptree.evaluation.plan import experiments_folder, read_plan
files = sorted(experiments_folder().rglob("*.yaml"))
print(len(files), all(read_plan(file, Path("DATA")) for file in files))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    files = len(list(experiments_folder().rglob("*.yaml")))
    assert (done.stdout, done.returncode) == (f"{files} True\n", 0), done.stderr


def test_the_wheel_holds_the_experiment_files(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("hoptree-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {"hoptree/experiments/taikc/table2.yaml", "hoptree/experiments/mind/paper.toml"} <= set(names)


def test_names_are_forgiven_and_unknown_ones_are_errors_with_the_closest() -> None:
    assert find_part("taikc", "Table 2").name == "table2"
    with pytest.raises(ConfigError, match="Did you mean table2"):
        find_part("taikc", "tabel2")
    with pytest.raises(ConfigError, match="Did you mean ra-isf"):
        find_part("ra_isf ", "table1")
    with pytest.raises(ConfigError, match="hoptree paper list mind"):
        find_part("mind", "seventh")


def test_missing_data_name_the_commands_that_bring_them(tmp_path: Path) -> None:
    part = find_part("taikc", "table2")
    assert part.file and "bamboogle/corpus.jsonl" in data_needed(part)
    with pytest.raises(InputError) as refused:
        check_data(part, read_plan(part.file, tmp_path), tmp_path)
    assert f"hoptree data get hotpotqa --data {tmp_path};" in refused.value.remedy
    assert "no release has bamboogle/corpus.jsonl" in refused.value.remedy
    assert command_for("hotpotqa/train.jsonl", Path("D")) == "hoptree data get hotpotqa --split train --data D"


def test_files_beside_the_experiment_and_models_with_settings(tmp_path: Path) -> None:
    file = tmp_path / "plan.yaml"
    file.write_text(
        "data: {Own: {questions: ./own.jsonl}}\n"
        "models: {A: {model: hf/big, base_url: ''}, B: hf/other, C: openai/far}\n"
        "runs: {direct: {method: direct}}\n",
        encoding="utf-8",
    )
    part = PaperPart("taikc", "table99", "ours", file=file)
    assert gpu_models(part) == ["hf/big", "hf/other"]
    with pytest.raises(InputError, match=r"Table 99 needs .*own\.jsonl in "):
        check_data(part, read_plan(file, tmp_path / "D"), tmp_path / "D")


def test_the_papers_figures_have_their_place() -> None:
    def row(paper: str, table: str, name: str) -> TableRow:
        rows = paper_table(find_part(paper, table), [], []).rows
        return next(row for row in rows if row.name == name)

    taikc = row("taikc", "table2", "TAIKC, Llama-3.1-8B")
    assert taikc.run == "paper" and (taikc.cells[0], taikc.cells[-1]) == (Number(49.7), Number(42.3))
    assert row("ra-isf", "table1", "Iter-RetGen, GPT-3.5").cells[:4] == (None, None, None, Number(45.2))
    table = paper_table(find_part("treeqa", "table3"), [], [])
    assert table.columns[:2] == ("DR, Qwen2.5-14B", "TreeQA, Qwen2.5-14B")
    assert "StrategyQA F1" not in paper_table(find_part("mind", "table1"), [], []).columns
    assert json.dumps(table.as_dict())
