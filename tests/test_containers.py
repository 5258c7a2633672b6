"""Dockerfile and compose.yaml, checked without Docker, are consistent with `make demo`."""

from __future__ import annotations

import os
import re
import shlex
import stat
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.timing import TIMEOUT_S
from typer.testing import CliRunner

from hoptree.cli.main import app

ROOT = Path(__file__).parent.parent
START = ROOT / "docker" / "start.sh"
IMAGES = {"hoptree", "ollama/ollama"}
KEYS = {"build", "image", "ports", "volumes", "profiles", "command", "depends_on", "restart", "healthcheck"}


def instructions() -> list[tuple[str, str]]:
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return [(name, rest) for name, _, rest in (line.partition(" ") for line in lines)]


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text(encoding="utf-8"))
    return loaded


def test_the_image_is_small_pinned_and_runs_without_root() -> None:
    steps = instructions()
    assert steps[0] == ("FROM", "python:3.12-slim")
    assert {name for name, _ in steps} <= {
        *("FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK", "ENTRYPOINT")
    }
    users = [rest for name, rest in steps if name == "USER"]
    assert users == ["hoptree"] and max(at for at, step in enumerate(steps) if step[0] == "RUN") < steps.index(
        ("USER", "hoptree")
    )
    assert all("--no-cache-dir" in part for _, rest in steps for part in rest.split("&&") if "pip install" in part)
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    for name, rest in steps:
        for source in rest.split()[:-1] if name == "COPY" else ():
            assert (ROOT / source).exists() and f"!{source.partition('/')[0]}" in ignored, source


def test_the_image_installs_and_fetches_the_same_as_make_demo() -> None:
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("$(VENV)/demo-ready:")[2].partition("\n\n")[0]
    installed = re.search(r"install --quiet --editable (\S+) --editable (\S+)", recipe)
    fetched = re.search(r"hoptree (models pull \S+)", recipe)
    assert installed and fetched
    run = next(rest for name, rest in instructions() if name == "RUN" and "pip install" in rest)
    first, server = run.split(" && ")
    assert first == f"pip install --quiet --no-cache-dir ./{installed[1]} {installed[2]}"
    assert server.endswith("'.[server]'")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"local", "server"} <= extras.keys()
    assert f"hoptree {fetched[1]}" in START.read_text(encoding="utf-8")


def test_services_have_a_volume_and_listen_only_on_this_machine() -> None:
    services = compose()["services"]
    assert set(services) == {"hoptree", "hoptree-ollama", "ollama", "ollama-model"}
    for name, service in services.items():
        assert service.keys() <= KEYS | {"environment", "entrypoint"} and service["image"] in IMAGES
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))
        for volume in service.get("volumes", ()):
            assert volume.partition(":")[0] in compose()["volumes"]
        for other in service.get("depends_on", ()):
            assert other in services and services[other].get("profiles") == service.get("profiles"), name
    assert services["hoptree"]["volumes"] == ["data:/data"] and "profiles" not in services["hoptree"]
    assert ("VOLUME", "/data") in instructions()
    model = services["hoptree-ollama"]["command"][1].partition("openai/")[2]
    assert services["ollama-model"]["entrypoint"][-1] == model


@pytest.mark.parametrize("service", ["hoptree", "hoptree-ollama"])
def test_containers_start_commands_that_exist(tmp_path: Path, service: str) -> None:
    record = tmp_path / "words"
    fake = tmp_path / "hoptree"
    checks = 'for word in "$@"; do [ "$word" != --help ] || exit 0; done'
    writes = f'for word in "$@"; do printf "%s\\n" "$word"; done >> {shlex.quote(str(record))}'
    fake.write_text(f"#!/bin/sh\n{checks}\n{writes}\n")
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "HOPTREE_VOLUME": str(tmp_path)}
    command = compose()["services"][service].get("command", [])
    for _ in range(2):  # a second start keeps the key
        record.unlink(missing_ok=True)
        subprocess.run(
            ["sh", str(START), *command], env=environment, check=True, timeout=TIMEOUT_S, capture_output=True
        )
    words = record.read_text(encoding="utf-8").splitlines()
    pulled = words[: words.index("serve")]
    assert pulled == ([] if command else ["models", "pull", "qwen"])
    keys = tmp_path / "keys.toml"
    [key] = tomllib.loads(keys.read_text(encoding="utf-8"))["key"]
    assert len(key["secret"]) >= 16 and key["corpora"] is True and stat.S_IMODE(keys.stat().st_mode) == 0o600
    # The error is about the last word, so all others are known options.
    done = CliRunner().invoke(app, [*words[len(pulled) :], "--nosuch"])
    assert done.exit_code == 2 and "--nosuch" in done.output
    done = CliRunner().invoke(app, [*words[len(pulled) :], "--corpus", "nowhere.idx"])
    assert "nowhere.idx" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "variable", "fetches"),
    [
        (["--model", "openai/a"], "", False),
        (["--model=openai/a"], "", False),
        (["-mopenai/a"], "", False),
        ([], "openai/a", False),
        (["--method", "oner"], "", True),
        (["--help"], "", False),
        (["--corpus", "a-m=/data/a.idx"], "", True),
    ],
)
def test_the_embedded_model_is_fetched_only_where_no_other_is_named(
    tmp_path: Path, arguments: list[str], variable: str, fetches: bool
) -> None:
    fake = tmp_path / "hoptree"
    fake.write_text('#!/bin/sh\necho "$1"\n')
    fake.chmod(0o755)
    environment = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "HOPTREE_VOLUME": str(tmp_path),
        "HOPTREE_MODEL": variable,
    }
    command = ["sh", str(START), *arguments]
    done = subprocess.run(command, env=environment, check=True, timeout=TIMEOUT_S, capture_output=True, text=True)
    assert done.stdout.split() == (["models"] if fetches else []) + ["serve"]


def test_a_misspelt_option_is_refused_before_the_model_is_fetched(tmp_path: Path) -> None:
    fake = tmp_path / "hoptree"
    fake.write_text('#!/bin/sh\necho "$1" >&2\n[ "$1" != serve ]\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "HOPTREE_VOLUME": str(tmp_path)}
    command = ["sh", str(START), "--modle", "a"]
    done = subprocess.run(command, env=environment, check=False, timeout=TIMEOUT_S, capture_output=True, text=True)
    assert done.returncode and done.stderr.split()[-1] == "serve" and "models" not in done.stderr.split()
