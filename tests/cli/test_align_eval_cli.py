"""`hoptree align eval` at the command line, and adapters in the place of a model or of a role."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.models.hf_models import saved
from typer.testing import CliRunner, Result

from hoptree.cli.align_adapters import report_gains
from hoptree.cli.main import app
from hoptree.core.errors import ConfigError, InputError

PLAN = """
data: {towns: {questions: towns.jsonl}}
every: {limit: 3}
runs: {direct: {method: direct}, boundary: {method: boundary}}
"""


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def adapter_on(base: Path, out: Path, digest: str = "") -> Path:
    """Random weights, and with a digest a card that names the base by it."""
    peft, torch, transformers = (pytest.importorskip(name) for name in ("peft", "torch", "transformers"))
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_pretrained(base)
    config = peft.LoraConfig(r=2, target_modules=["q_proj"], init_lora_weights=False, task_type="CAUSAL_LM")
    peft.get_peft_model(model, config).save_pretrained(str(out))
    if digest:
        card = {"base": {"name": "tiny", "digest": digest}, "sets": [{"file": "kbae.jsonl"}], "examples": 1200}
        (out / "hoptree.json").write_text(json.dumps(card), encoding="utf-8")
    return out


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("peft")
    from hoptree.models.hf_weights import resolve_source, weights_digest

    folder = tmp_path_factory.mktemp("eval")
    base = saved(folder / "tiny", "plain", context=8192)
    adapter_on(base, folder / "kbae", weights_digest(resolve_source(str(base))))
    adapter_on(base, folder / "strange", "0" * 64)
    adapter_on(base, folder / "bare")
    rows = [{"id": f"{n}", "question": f"where is town {n}?", "answers": ["hill"]} for n in range(4)]
    (folder / "towns.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "plan.yaml").write_text(PLAN, encoding="utf-8")
    return folder


def evaluate(here: Path, *arguments: object) -> Result:
    return invoke("align", "eval", here / "plan.yaml", "-m", f"hf/{here / 'tiny'}?device=cpu", *arguments)


def test_from_a_base_and_an_adapter_to_what_changed(here: Path, tmp_path: Path) -> None:
    wanted = ("--adapter", here / "kbae", "--out", tmp_path / "out", "--no-cache")
    printed = evaluate(here, *wanted)
    assert printed.exit_code == 0, printed.exception
    lines = printed.output.splitlines()
    assert lines[0] == f"base: hf/{here / 'tiny'}?device=cpu"
    assert lines[1].endswith(f"&adapter={here / 'kbae'}, trained on 1,200 examples of kbae.jsonl")
    assert lines[2] == "towns: 3 questions" and lines[3].split()[:4] == ["Run", "Model", "EM", "F1"]
    assert [line.split()[:2] for line in lines[4:6]] == [["direct", "base"], ["direct", "kbae"]]
    assert "against base" in lines[3] and "p = " in lines[5] and "p = " not in lines[4]
    assert "boundary: does the model know what it knows?" in lines and "Right decisions" in printed.output
    assert [line.split(":")[0] for line in lines[-4:-2]] == ["  towns, base", "  towns, kbae"], "the verdicts"
    assert f"hoptree eval report {tmp_path / 'out'} --html FILE" in lines[-1]
    summary = json.loads(evaluate(here, *wanted, "--json").stdout)
    assert [row["name"] for row in summary["versions"]] == ["base", "kbae"]
    assert summary["folder"] == str(tmp_path / "out")
    assert {(row["run"], row["version"]) for row in summary["boundaries"]} == {
        ("boundary", "base"),
        ("boundary", "kbae"),
    }
    replies = [_answers(Path(row["folder"])) for row in summary["runs"]]
    assert replies[0] != replies[1], "the adapter speaks"
    assert invoke("eval", "report", tmp_path / "out", "--html", tmp_path / "page.html").exit_code == 0


def test_what_is_wrong_with_a_run_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    run: dict[str, Any] = {
        "data": "towns",
        "run": "direct",
        "version": "base",
        "folder": "out/towns",
        "against_base": {},
    }
    run |= {"questions": 9, "failed": 2, "em": 0.5, "f1": 0.5, "rests_on": {"a": 4, "b": 5}, "warnings": ["Odd."]}
    change = {"difference": 0.125, "interval": {"low": 0.01, "high": 0.2}, "adjusted_p": 0.03}
    tree = run | {"run": "taikc", "failed": 0, "warnings": [], "against_plain": {"direct": change}}
    runs = [run | {"against_plain": {}}, tree]
    report_gains({"folder": "out", "versions": [], "runs": runs, "boundaries": []})
    printed = capsys.readouterr().out
    assert "  Run    Model  F1 against direct\n  taikc  base   +12.5 [+1.0, +20.0], p = 0.0300\n" in printed
    for sentence in ("2 failed and count as wrong", "a mixture of 2 runs", "direct, base: Odd."):
        assert sentence in printed
    assert "boundary" not in printed


def _answers(run: Path) -> list[str]:
    return [json.loads(line)["answer"] for line in (run / "results.jsonl").read_text(encoding="utf-8").splitlines()]


def test_a_role_takes_an_adapter(here: Path, tmp_path: Path) -> None:
    """With `ask` and with `run`; what the other roles say comes from another model."""
    script = tmp_path / "m.json"
    tree = {"query1": {"question": "Where is town 1?", "children": {"query2": {"question": "Who wrote #query1?"}}}}
    replies = [{"step": "decompose", "reply": json.dumps(tree)}, {"reply": "RAG_REQUIRED"}]
    script.write_text(json.dumps({"replies": replies}), encoding="utf-8")
    base = f"hf/{here / 'tiny'}?device=cpu"
    used_adapters = {}
    for name, spec in (("base", base), ("adapter", f"{base}&adapter={here / 'bare'}")):
        method = ("--method", "taikc", "--set", "source=internal", "--no-cache")
        with_role = ("-m", f"scripted/{script}", "--role", f"answer={spec}", *method)
        asked = invoke("ask", "where is town 0?", *with_role, "--json")
        assert asked.exit_code == 0, asked.exception
        out = tmp_path / name
        ran = invoke("run", "--data", here / "towns.jsonl", "--limit", 1, *with_role, "--out", out)
        assert ran.exit_code == 0, ran.exception
        run = json.loads((out / "run.json").read_text(encoding="utf-8"))
        assert run["experiment"]["roles"] == {"answer": spec}
        assert ("adapter=" in str(run["rests_on"]["model"])) == (name == "adapter")
        lines = (out / "traces.jsonl").read_text(encoding="utf-8").splitlines()
        events = [event for event in map(json.loads, lines) if event["event"] == "llm"]
        assert {event["role"] for event in events} >= {"decompose", "answer"}
        used_adapters[name] = (
            [event["reply"] for event in events if event["role"] == "answer"],
            json.loads(asked.stdout)["answer"],
        )
        assert used_adapters[name][0][-1].strip() == used_adapters[name][1], "ask and run say the same"
    assert (
        used_adapters["base"][0] != used_adapters["adapter"][0]
        and used_adapters["base"][1] != used_adapters["adapter"][1]
    )


@pytest.mark.parametrize(
    ("arguments", "kind", "cause", "remedy"),
    [
        ((), InputError, "no adapter", "--adapter FOLDER"),
        (("--adapter", "tiny"), ConfigError, "holds no adapter_config.json", "peft saved"),
        (("--adapter", "strange"), ConfigError, "was trained on tiny", "--model hf/tiny"),
        (("--adapter", "bare", "--adapter", "./bare"), InputError, "given twice", "once"),
        (("--adapter", "bare", "-m", "local/smollm"), ConfigError, "takes no adapters", "hf/NAME"),
        (("--adapter", "bare", "-m", "hf/tiny?adapter=kbae"), ConfigError, "an adapter already", "hf/NAME"),
        (("--adapter", "bare", "--only", "towms"), ConfigError, "'towms'", "towns"),
    ],
)
def test_what_cannot_be_measured_is_said_before_anything_is_asked(
    here: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    kind: type[Exception],
    cause: str,
    remedy: str,
) -> None:
    monkeypatch.chdir(here)
    result = evaluate(here, *arguments, "--out", tmp_path / "out")
    assert isinstance(result.exception, kind), (result.output, result.exception)
    error: Any = result.exception
    assert cause in error.cause and remedy in error.remedy and error.exit_code == 2
    assert not (tmp_path / "out").exists()


def test_folders_of_one_name_are_told_apart_by_where_they_lie(here: Path, tmp_path: Path) -> None:
    from hoptree.training.adapter_eval import versions_of

    places = [tmp_path / "first" / "base", tmp_path / "second" / "base"]
    for place in places:
        shutil.copytree(here / "bare", place)
    versions = versions_of(f"hf/{here / 'tiny'}", [*places, here / "kbae"])
    assert [version.name for version in versions] == ["base", "first/base", "second/base", "kbae"]
    assert versions[1].model == f"hf/{here / 'tiny'}?adapter={places[0]}" and versions[1].card is None
    other = tmp_path / "other" / "first" / "base"
    shutil.copytree(here / "bare", other)
    with pytest.raises(InputError, match="the same name"):
        versions_of(f"hf/{here / 'tiny'}", [places[0], other])


def test_help_loads_nothing_that_takes_long() -> None:
    code = (
        "import sys; from typer.testing import CliRunner; from hoptree.cli.main import app; "
        "assert CliRunner().invoke(app, ['align', 'eval', '--help']).exit_code == 0; "
        "print([name for name in ('torch', 'peft', 'transformers', 'hoptree.training') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
