"""The files of the distribution hoptree-weights, and how they are made."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer.main

from hoptree.cli.main import app
from hoptree.core.files import ADAPTER, WEIGHTS_MANIFEST, WEIGHTS_PACKAGE
from hoptree.engine.prompts import prompt_for
from hoptree.methods.hop.chooser import frozen_chooser
from hoptree.models.adapters import read_adapter
from hoptree.models.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "weights"
FOLDER = WEIGHTS / "src" / WEIGHTS_PACKAGE
TRAINED = ("trained_guess", "trained_plan", "trained_read")


def manifest() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((FOLDER / WEIGHTS_MANIFEST).read_text(encoding="utf-8"))
    return value


def test_every_file_is_in_the_manifest_with_its_digest() -> None:
    files = {
        file.name: file for file in FOLDER.iterdir() if file.suffix not in (".py", "") and file.name != WEIGHTS_MANIFEST
    }
    assert manifest()["files"] == {
        name: {"sha256": hashlib.sha256(file.read_bytes()).hexdigest(), "bytes": file.stat().st_size}
        for name, file in files.items()
    }
    assert ADAPTER in files
    assert (FOLDER / ADAPTER).stat().st_size <= 40_000_000


def test_the_adapter_is_for_the_default_model_and_for_the_prompts_of_today() -> None:
    adapter, stated = read_adapter(FOLDER / ADAPTER), manifest()
    assert dict(adapter.bases) == stated["bases"] and sorted(adapter.templates) == stated["templates"]
    assert CATALOGUE[0].sha256 in adapter.bases
    assert {prompt_for("hop", name).template for name in TRAINED} <= adapter.templates
    assert sum(stated["training"]["templates"].values()) == stated["training"]["examples"]


def test_the_chooser_of_hop_was_fitted_with_and_without_an_adapter() -> None:
    models = [run["model"] for run in frozen_chooser().made_from["runs"]]
    adapted = [model for model in models if "adapter=" in model]
    assert len(adapted) >= 6 and len(models) - len(adapted) >= 6


def test_the_model_card_names_the_files() -> None:
    card = (WEIGHTS / "MODEL_CARD.md").read_text(encoding="utf-8")
    stated = manifest()
    for digest in (*(file["sha256"] for file in stated["files"].values()), *stated["bases"]):
        assert digest in card
    assert all(part["digest"] in card for part in stated["training"]["sets"])
    assert "<!-- figures -->\n<!-- /figures -->" not in card


def test_the_base_install_works_without_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not any("weights" in name for name in project["dependencies"])
    extras = project["optional-dependencies"].items()
    assert [extra for extra, names in extras if "hoptree-weights>=0.1,<0.2" in names] == ["local"]
    own = tomllib.loads((WEIGHTS / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert own["name"] == "hoptree-weights" and own["dependencies"] == ["numpy>=1.26"], "the ranker scores with it"


def test_packing_writes_files_manifest_and_card(tmp_path: Path) -> None:
    """Pack a tiny adapter for a tiny base with weights/pack.py."""
    pytest.importorskip("torch")
    numpy: Any = pytest.importorskip("numpy")
    gguf: Any = pytest.importorskip("gguf")
    files: Any = pytest.importorskip("safetensors.numpy")
    adapter, here = tmp_path / "adapter", tmp_path / "weights"
    adapter.mkdir()
    (here / "src" / WEIGHTS_PACKAGE).mkdir(parents=True)
    shutil.copy(WEIGHTS / "MODEL_CARD.md", here)
    base = tmp_path / "base.gguf"
    writer = gguf.GGUFWriter(str(base), "qwen2")
    writer.add_block_count(1)
    writer.add_head_count(4)
    writer.add_tensor("blk.0.ffn_up.weight", numpy.zeros((32, 16), dtype="float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    layer = "base_model.model.model.layers.0.mlp.up_proj.lora_{}.weight"
    shapes = {"A": (2, 16), "B": (32, 2)}
    tensors = {layer.format(side): numpy.ones(shape, dtype="float32") for side, shape in shapes.items()}
    files.save_file(tensors, str(adapter / "adapter_model.safetensors"))
    (adapter / "adapter_config.json").write_text(json.dumps({"r": 2, "lora_alpha": 4}), encoding="utf-8")
    card = {
        "base": {"name": "/somewhere/bf16", "digest": "b" * 64},
        "sets": [{"file": "/somewhere/sets/hop.jsonl", "digest": "d" * 64, "rows": 3, "kinds": {"hop": 3}}],
        "templates": {"hop/trained_read@12345678": 3},
        "recipe": {"rank": 2, "dtype": ""},
        "loss": {"first": 2.0, "last": 1.0},
        "examples": 3,
        "seconds": 60.0,
    }
    (adapter / "hoptree.json").write_text(json.dumps(card), encoding="utf-8")
    figures = {"title": "F1", "about": "one H200", "command": "hoptree run …", "columns": ["a"], "rows": [[1.5]]}
    (here / "figures.json").write_text(json.dumps({"tables": [figures]}), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("pack", WEIGHTS / "pack.py")
    assert spec and spec.loader
    packing = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(packing)
    written = packing.pack(adapter, base=str(base), here=here)
    stated = json.loads(written.read_text(encoding="utf-8"))
    assert set(stated["files"]) == {ADAPTER} and "b" * 64 in stated["bases"] and len(stated["bases"]) == 2
    assert stated["templates"] == ["hop/trained_read@12345678"] and stated["training"]["sets"][0]["file"] == "hop.jsonl"
    text = (here / "MODEL_CARD.md").read_text(encoding="utf-8")
    assert "/somewhere" not in text + written.read_text(encoding="utf-8")
    for part in (
        "b" * 64,
        "d" * 64,
        stated["files"][ADAPTER]["sha256"],
        "| 1.5 |",
        "rank 2",
        "hoptree run …",
    ):
        assert part in text
    again = packing.pack(None, here=here)
    assert json.loads(again.read_text(encoding="utf-8")) == stated
    assert (here / "MODEL_CARD.md").read_text(encoding="utf-8") == text
    del card["templates"]
    (adapter / "hoptree.json").write_text(json.dumps(card), encoding="utf-8")
    with pytest.raises(Exception, match="does not say which prompts"):
        packing.pack(adapter, base=str(base), here=here)


def test_the_recipe_has_existing_commands_with_valid_options(tmp_path: Path) -> None:
    """Run the recipe with commands that only record their arguments."""
    calls = tmp_path / "calls.jsonl"
    note = f"#!{sys.executable}\nimport json, sys\nopen({str(calls)!r}, 'a').write(json.dumps(sys.argv) + '\\n')\n"
    for name in ("hoptree", "python"):
        (tmp_path / name).write_text(note, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}
    command = ["bash", str(WEIGHTS / "recipe.sh"), "DATA", str(tmp_path / "work")]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True)
    given = [json.loads(line) for line in calls.read_text(encoding="utf-8").splitlines()]
    steps = [" ".join(call[1:3]) for call in given]
    assert [step for step in dict.fromkeys(steps) if not step.startswith("index")] == [
        "align build",
        "align train",
        "align ranker",
        f"weights/pack.py {tmp_path / 'work' / 'adapter'}",
    ]
    for call in (call[1:] for call in given if call[0].endswith("hoptree")):
        words = list(call)
        parser: Any = typer.main.get_command(app)
        while hasattr(parser, "list_commands") and words[0] in parser.list_commands(None):
            parser = parser.get_command(None, words.pop(0))
        if hasattr(parser, "list_commands"):  # `hoptree index FILE` builds
            parser = parser.get_command(None, "build")
        parser.make_context("hoptree", words)  # raises for an unknown option, or one without its value
    (built,) = (call for call in given if call[1:3] == ["align", "build"])
    assert built[3] == "hop" and "weights/written.jsonl" in built
    for call in (call for call in given if call[1:3] in (["align", "build"], ["align", "ranker"])):
        excluded = {call[place + 1] for place, word in enumerate(call) if word == "--exclude"}
        assert {"DATA/not_for_training.json", "DATA/hotpotqa/dev.jsonl:300", "DATA/bamboogle/dev.jsonl"} <= excluded
        assert {
            f"{ids.stem}={ids.relative_to(ROOT)}" for ids in (ROOT / "experiments/hop/fit").glob("*.txt")
        } <= excluded
