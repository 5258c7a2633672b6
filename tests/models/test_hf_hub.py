"""Models of a hub by name: what is on this machine is used, and what is not is told, without waiting for the hub."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import call
from tests.models.hf_models import saved

pytest.importorskip("torch")
transformers: Any = pytest.importorskip("transformers")
weights: Any = importlib.import_module("hoptree.models.hf_weights")


def test_a_name_that_is_not_here_while_no_hub_can_be_reached(tmp_path: Path) -> None:
    """In a process of its own: where the hub is, its library reads when it is loaded."""
    environment = os.environ | {"HF_ENDPOINT": "http://127.0.0.1:9", "HF_HOME": str(tmp_path), "COLUMNS": "200"}
    asked = ("ask", "Who?", "--method", "direct", "--model", "hf/somebody/something", "--no-cache")
    done = subprocess.run(
        [sys.executable, "-m", "hoptree", *asked],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2 and done.stdout == ""
    (said,) = done.stderr.splitlines()
    assert "somebody/something is not on this machine, and http://127.0.0.1:9 does not answer" in said
    assert "hf/smollm" in said and "folder" in said


def test_what_the_hub_gave_before_is_used_while_it_cannot_be_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = saved(tmp_path / "model", "plain")
    hub: Any = importlib.import_module("huggingface_hub")
    monkeypatch.setattr(hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda name, file: str(own / file))
    given: list[dict[str, Any]] = []
    read = transformers.AutoConfig.from_pretrained

    def from_pretrained(name: str, **options: Any) -> Any:
        given.append(options)
        return read(own)

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", from_pretrained)
    assert weights.has_encoder(weights.Source("somebody/something")) is False
    assert given == [{"local_files_only": True}], "else its library would try for half a minute"


def test_models_of_a_hub_are_known_by_what_is_on_this_machine_alone(tmp_path: Path) -> None:
    hub = {"HF_HOME": str(tmp_path / "hf"), "HF_ENDPOINT": "http://127.0.0.1:9"}
    taken = tmp_path / "hf" / "hub" / "models--us--taken"
    (taken / "snapshots" / "abc").mkdir(parents=True)
    (taken / "refs").mkdir()
    (taken / "refs" / "main").write_text("abc")
    (taken / "snapshots" / "abc" / "config.json").write_text(json.dumps({"model_type": "t5"}))
    command = [sys.executable, "-m", "hoptree", "methods", "--json", "-m", "hf/us/not-taken", "-m", "hf/us/taken"]
    done = subprocess.run(command, env=os.environ | hub, capture_output=True, text=True)  # read as a process begins
    assert (done.returncode, done.stderr) == (0, "")
    found = {row["name"]: row["fidelity"] for row in json.loads(done.stdout)}
    assert found["dragin"] == {"hf/us/not-taken": None, "hf/us/taken": "approx"}, "it has an encoder"
    environment = os.environ | {"NO_COLOR": "1"}
    told = call("methods", "-m", "hf/us/not-taken", folder=tmp_path, environment=environment)
    assert told.returncode == 0 and "?: hf/us/not-taken is not on this machine" in told.stdout
