"""A training from sets to a folder: what it leaves, how it goes on after kill -9, and what it refuses."""

from __future__ import annotations

import asyncio
import errno
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from tests.models.encoder_decoders import saved as saved_encoder_decoder
from tests.models.hf_asking import ask, asking
from tests.models.hf_models import saved
from tests.training.lora.small_sets import chat, many, write

import hoptree
from hoptree.core.errors import ConfigError, HoptreeError, InputError, MissingExtra
from hoptree.core.files import FolderLock, atomic_write
from hoptree.training.lora import train as training
from hoptree.training.lora.dataset import Pace, Recipe
from hoptree.training.lora.train import TrainingSpec, train

RECIPE = Recipe(rank=4, alpha=8, learning_rate=0.01, epochs=2, batch=2, accumulation=2, dropout=0.1, max_length=128)
STEPS = 12
PEFT_FILES = ("adapter_config.json", "adapter_model.safetensors")

CHILD = """
import json, os, signal, sys
from pathlib import Path
from hoptree.training.lora.dataset import Pace, Recipe
from hoptree.training.lora.train import TrainingSpec, train

model, data, out, recipe, at_step, at_save = json.loads(sys.argv[1])
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
put = Path.replace

def replace(self, target):
    if self.name.startswith("state.") and at_save:
        kill()
    return put(self, target)

Path.replace = replace
wanted = TrainingSpec(model, (Path(data),), Path(out), Recipe(**recipe), Pace("cpu", 2))
train(wanted, on_progress=lambda done, total, loss: kill() if done == at_step else None)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rows = many(21, 10)
    rows[0]["meta"]["template"] = rows[1]["meta"]["template"] = "hop/trained_read@12345678"
    return write(tmp_path_factory.mktemp("data") / "set.jsonl", rows)


@pytest.fixture
def wanted(base: Path, data: Path, tmp_path: Path) -> TrainingSpec:
    return TrainingSpec(f"hf/{base}", (data,), tmp_path / "out", RECIPE, Pace("cpu", 2))


def killed(wanted: TrainingSpec, *, at_step: int = 0, at_save: bool = False) -> None:
    said = [wanted.model, str(wanted.data[0]), str(wanted.out), asdict(wanted.recipe), at_step, at_save]
    child = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(said)],
        env={**os.environ, "PYTHONPATH": str(Path(hoptree.__file__).parent.parent)},
        capture_output=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()


def log_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "log.jsonl").read_text(encoding="utf-8").splitlines()]


def stopping(at_step: int) -> Callable[[int, int, float], None]:
    def stop(done: int, total: int, loss: float) -> None:
        if done == at_step:
            raise KeyboardInterrupt

    return stop


@pytest.mark.timeout(300)
def test_killed_twice_it_ends_with_the_bytes_of_one_that_never_was(wanted: TrainingSpec, tmp_path: Path) -> None:
    killed(wanted, at_step=5)
    assert len(log_of(wanted.out)) == 5 and not (wanted.out / PEFT_FILES[1]).exists()
    killed(wanted, at_save=True)
    assert [row["step"] for row in log_of(wanted.out)] == [1, 2, 3, 4, 5, 6], "it went on from the save after step 4"
    seen: list[int] = []
    told = train(wanted, on_progress=lambda done, total, loss: seen.append(done))
    assert seen == list(range(5, STEPS + 1)) and told["new_steps"] == 8
    unbroken = replace(wanted, out=tmp_path / "unbroken")
    train(unbroken)
    for file in PEFT_FILES:
        assert (wanted.out / file).read_bytes() == (unbroken.out / file).read_bytes(), file
    assert [row["loss"] for row in log_of(wanted.out)] == [row["loss"] for row in log_of(unbroken.out)]
    assert {path.name for path in wanted.out.iterdir()} == {*PEFT_FILES, "hoptree.json", "log.jsonl", "loss.svg"}


def test_the_folder_says_what_it_is_and_the_adapter_changes_the_model(
    wanted: TrainingSpec, base: Path, data: Path
) -> None:
    weights: Any = importlib.import_module("hoptree.models.hf_weights")
    torch: Any = importlib.import_module("torch")
    told = train(wanted)
    card = json.loads((wanted.out / "hoptree.json").read_text(encoding="utf-8"))
    source = weights.resolve_source(str(base))
    assert card["base"] == {"name": str(base), "digest": weights.weights_digest(source)}
    assert card["recipe"] == {**asdict(RECIPE), "dtype": "fp32"}
    (one,) = card["sets"]
    assert (one["file"], one["rows"], one["kinds"]) == (str(data), 21, {"colours": 21})
    assert card["templates"] == {"hop/trained_read@12345678": 2}
    assert (card["examples"], card["steps"], card["processes"]) == (21, STEPS, 1)
    assert set(card["made_with"]) == {"hoptree", "torch", "transformers", "peft"}
    log = log_of(wanted.out)
    assert [row["step"] for row in log] == list(range(1, STEPS + 1))
    assert card["loss"]["first"] == log[0]["loss"] > card["loss"]["last"] == log[-1]["loss"]
    assert len(card["loss"]["epochs"]) == 2 and card["loss"]["epochs"][0] > card["loss"]["epochs"][1]
    assert sum(row["reply_tokens"] for row in log) == 2 * card["tokens"]["reply"]
    assert told == {**card, "out": str(wanted.out), "new_steps": STEPS}
    tokens = torch.tensor([[5, 6, 7]])
    replies = []
    for adapter in (None, weights.adapter_folder(str(wanted.out))):
        model = weights.load(source, dtype="float32", device="cpu", adapter=adapter).model
        model.set_attn_implementation("sdpa")
        with torch.no_grad():
            replies.append(model(input_ids=tokens).logits)
    assert not torch.allclose(*replies, atol=0.01)


def test_an_encoder_decoder_is_trained_and_answers_as_it_learnt(tmp_path: Path) -> None:
    pytest.importorskip("peft")
    hf: Any = importlib.import_module("hoptree.models.hf")
    base = saved_encoder_decoder(tmp_path / "t5", "t5")
    rows = [chat(f"r{number}", f"{word} river", f"{word} hill") for number, word in enumerate(("red", "blue", "green"))]
    data = write(tmp_path / "set.jsonl", rows)
    recipe = replace(RECIPE, rank=16, alpha=32, epochs=40, dropout=0.0)
    train(TrainingSpec(f"hf/{base}", (data,), tmp_path / "out", recipe, Pace("cpu")))
    model = hf.HFModel(str(base), device="cpu", adapter=str(tmp_path / "out"))
    assert [ask(model, asking(f"{word} river")).text for word in ("red", "blue")] == ["red hill", "blue hill"]
    asyncio.run(model.aclose())


def test_sets_of_ra_isf_have_the_rate_of_its_paper(wanted: TrainingSpec, tmp_path: Path) -> None:
    sets = [
        write(tmp_path / f"{kind}.jsonl", [chat(kind, kind=kind)])
        for kind in ("ra-isf-know", "ra-isf-decompose", "hop")
    ]
    spec = replace(wanted, paper_rate=True, recipe=replace(RECIPE, epochs=1))
    for data, rate in ((sets[:2], 5e-4), (sets, 5e-5)):
        out = tmp_path / str(len(data))
        assert train(replace(spec, data=tuple(data), out=out))["recipe"]["learning_rate"] == rate


@pytest.mark.parametrize("file", ["adapter_config.json", "loss.svg"])
def test_a_full_disk_at_the_end_is_told_and_the_same_command_goes_on(
    wanted: TrainingSpec, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    def full(path: Path, lines: Any) -> None:
        if path.name == file:
            raise OSError(errno.ENOSPC, "No space left on device")
        atomic_write(path, lines)

    monkeypatch.setattr("hoptree.training.lora.checkpoint.atomic_write", full)
    with pytest.raises(HoptreeError, match=rf"{file} could not be written: No space left .*free some space"):
        train(wanted)
    monkeypatch.undo()
    assert train(wanted)["new_steps"] == 0


def test_what_is_finished_is_not_trained_again(wanted: TrainingSpec) -> None:
    first = train(wanted)
    before = {path: path.stat().st_mtime_ns for path in wanted.out.iterdir()}
    again = train(wanted, on_progress=stopping(1))
    assert again == {**first, "new_steps": 0}
    assert {path: path.stat().st_mtime_ns for path in wanted.out.iterdir()} == before
    divided = replace(wanted, recipe=replace(RECIPE, batch=4, accumulation=1))
    assert train(divided)["new_steps"] == 0, "only the examples of a step count"
    (wanted.out / "state").mkdir()
    (wanted.out / "state" / "state.safetensors").write_bytes(b"killed after the card was written")
    train(replace(wanted, dry_run=True))
    assert (wanted.out / "state").exists()
    assert train(wanted)["new_steps"] == 0 and not (wanted.out / "state").exists()
    with pytest.raises(InputError, match="holds another adapter: examples_a_step was 4 and is 8"):
        train(replace(wanted, recipe=replace(RECIPE, batch=4)))
    with pytest.raises(InputError, match="holds another adapter: seed was 0 and is 1") as refused:
        train(replace(wanted, recipe=replace(RECIPE, seed=1)))
    assert "--out" in refused.value.remedy


def test_a_folder_of_another_training_is_refused(wanted: TrainingSpec, data: Path, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(wanted, on_progress=stopping(3))
    kept = sorted(path.name for path in wanted.out.rglob("*"))
    less = write(tmp_path / "less.jsonl", many(20, 10))
    other = saved(tmp_path / "other", "windowed")
    for changed, said in (
        (replace(wanted, recipe=replace(RECIPE, rank=8, dropout=0.0)), r"rank was 4 and is 8; dropout was 0\.1 and"),
        (replace(wanted, data=(less,)), "sets was"),
        (replace(wanted, data=(data, write(tmp_path / "more.jsonl", [chat("more")]))), "sets was"),
        (replace(wanted, model=f"hf/{other}"), "base was"),
    ):
        with pytest.raises(InputError, match=f"Another training was begun in .*{said}"):
            train(changed)
    assert sorted(path.name for path in wanted.out.rglob("*")) == kept
    # What changes time and memory only may differ.
    divided = replace(RECIPE, batch=RECIPE.batch * RECIPE.accumulation, accumulation=1)
    train(replace(wanted, recipe=divided, pace=Pace("cpu", 5, checkpointing=True)))


def test_a_damaged_state_or_log_is_refused(wanted: TrainingSpec) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(wanted, on_progress=stopping(3))
    state, log = wanted.out / "state" / "state.safetensors", wanted.out / "log.jsonl"
    whole, lines = state.read_bytes(), log.read_bytes()
    for path, said in ((state, whole[:-9]), (state, b"<html>"), (log, lines.partition(b"\n")[2])):
        state.write_bytes(whole)
        path.write_bytes(said)
        with pytest.raises(ConfigError, match=f"{path.name} is damaged"):
            train(wanted)
    log.write_bytes(lines[: lines.rstrip().rfind(b"\n") + 9])  # a kill may cut the last line
    assert train(wanted)["new_steps"] == STEPS - 2


def test_one_training_at_a_time_in_a_folder(wanted: TrainingSpec) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(wanted, on_progress=stopping(3))
    with FolderLock(wanted.out / "state", HoptreeError), pytest.raises(HoptreeError, match="Another process"):
        train(wanted)


def test_whatever_is_refused_leaves_nothing(wanted: TrainingSpec, data: Path, tmp_path: Path) -> None:
    long = write(tmp_path / "long.jsonl", [chat("long", "river " * 200)])
    foreign = write(tmp_path / "foreign.jsonl", [chat("x", labels_of="hf:other;dtype=fp32", model="hf/other")])
    for changed, said in (
        (replace(wanted, data=(data, long)), r"long\.jsonl, line 1 \(id long\): it has \d+ tokens, and 128 are taken"),
        (replace(wanted, data=(foreign,)), "its label says what hf/other knows"),
        (replace(wanted, data=(data, data)), "21 rows cannot be trained on"),
        (replace(wanted, model="openai/gpt"), "openai/gpt cannot be trained"),
        (replace(wanted, model=""), "The embedded model cannot be trained"),
        (replace(wanted, model=f"{wanted.model}?dtype=bf16"), "has settings"),
        (replace(wanted, pace=Pace("tpu")), "no device tpu"),
        (replace(wanted, pace=Pace("cuda:99")), "no device cuda:99"),
        (replace(wanted, recipe=replace(RECIPE, targets="nothing")), "no linear layer nothing"),
    ):
        with pytest.raises(InputError, match=said):
            train(changed)
    assert not wanted.out.exists()


def test_folders_that_hold_something_else(wanted: TrainingSpec, data: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        train(replace(wanted, out=data))
    wanted.out.mkdir()
    (wanted.out / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="holds other files"):
        train(wanted)
    assert [path.name for path in wanted.out.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("left", ["write.lock", "training.json.new"])
def test_killed_before_it_said_what_it_is_a_training_begins_anew(wanted: TrainingSpec, left: str) -> None:
    (wanted.out / "state").mkdir(parents=True)
    (wanted.out / "state" / left).write_bytes(b"")
    assert train(wanted)["new_steps"] == STEPS
    assert not (wanted.out / "state").exists()


def test_a_dry_run_tells_what_it_would_take_and_writes_nothing(wanted: TrainingSpec) -> None:
    told = train(replace(wanted, dry_run=True), on_progress=stopping(1))
    assert told["dry_run"] and told["steps"] == STEPS and told["examples"] == 21
    assert told["sequences_an_epoch"] == 21, "without an accelerator nothing is packed"
    assert told["seconds"] == pytest.approx(STEPS * told["seconds_a_step"], rel=0.1, abs=0.1) and told["seconds"] > 0
    assert told["tokens"]["longest"] <= 128 and told["tokens"]["reply"] > 21
    assert not wanted.out.exists()


def test_without_an_accelerator_examples_are_learnt_one_by_one_and_a_dry_run_takes_two(
    wanted: TrainingSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step packed into 8,192 tokens took 13 GB and ten minutes of a processor: each token sees all others."""
    lora: Any = importlib.import_module("hoptree.training.lora.learner")
    loss, learnt = lora.Learner._loss, []

    def seen(self: Any, one: Any) -> Any:
        learnt.append(one.positions.count(0))
        return loss(self, one)

    monkeypatch.setattr(lora.Learner, "_loss", seen)
    said: list[str] = []
    train(replace(wanted, dry_run=True), on_stage=said.append)
    assert learnt == [1, 1] and len(said) == 2 and "loading" in said[0] and "timing 1 example on cpu" in said[1]
    learnt.clear()
    train(wanted)
    assert learnt == [1] * 42


def test_without_the_libraries_the_group_is_named(wanted: TrainingSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "_LIBRARIES", ("no_such_library",))
    with pytest.raises(MissingExtra, match=r"hoptree\[train\]"):
        train(wanted)


@pytest.mark.timeout(300)
def test_two_processes_make_the_adapter_of_one(wanted: TrainingSpec, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    safetensors: Any = importlib.import_module("safetensors.torch")
    wanted = replace(wanted, recipe=replace(RECIPE, dropout=0.0, epochs=1))
    alone = replace(wanted, out=tmp_path / "alone")
    train(alone)
    said = [wanted.model, str(wanted.data[0]), str(wanted.out), asdict(wanted.recipe), 0, False]
    together = {
        "PYTHONPATH": str(Path(hoptree.__file__).parent.parent),
        "WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
    }
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, json.dumps(said)],
            env={**os.environ, **together, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stderr=subprocess.PIPE,
        )
        for rank in (0, 1)
    ]
    for child in children:
        _, errors = child.communicate(timeout=240)
        assert child.returncode == 0, errors.decode()
    card = json.loads((wanted.out / "hoptree.json").read_text(encoding="utf-8"))
    assert card["processes"] == 2 and card["steps"] == len(log_of(wanted.out)) == 6
    one, two = (safetensors.load_file(str(each.out / PEFT_FILES[1])) for each in (alone, wanted))
    assert one.keys() == two.keys()
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-4


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    return port
