"""What a training that was killed goes on from: one file that is the old one or the new one, without any pickle."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hoptree.alignment.training.lora import Learner
from hoptree.alignment.training.rows import shortened
from hoptree.errors import ConfigError, HoptreeError, InputError
from hoptree.whole_files import write_whole

__all__ = ["Checkpoints", "differences", "digest_of", "write_tensors"]

_MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


class Checkpoints:
    """The state of a training in a folder; `training` says which one it is: base, sets and recipe."""

    PLAN = "training.json"

    def __init__(self, folder: Path, training: Mapping[str, Any]) -> None:
        self.folder = folder
        self._training = dict(training)
        self._plan = folder / self.PLAN
        self._state = folder / "state.safetensors"

    def check(self) -> None:
        """Refuse a folder in which another training was begun."""
        try:
            begun = json.loads(self._plan.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise self._damaged(self._plan) from error
        if said := differences(begun, self._training):
            raise InputError(
                f"Another training was begun in {self.folder.parent}: {said}.",
                "Give the same options to go on with it, or another --out.",
            )

    def begin(self) -> None:
        """Say which training this is."""
        if not self._plan.exists():
            write_whole(self._plan, [json.dumps(self._training, indent=2, sort_keys=True) + "\n"])

    def save(self, step: int, learner: Learner) -> None:
        """Keep what is learnt after so many steps."""
        tensors = {f"weight.{name}": weight for name, weight in learner.weights.items()}
        for name, weight in learner.weights.items():
            for moment, theirs in _MOMENTS.items():
                tensors[f"{moment}.{name}"] = learner.optimiser.state[weight][theirs]
        write_tensors(self._state, tensors, {"step": str(step), "training": digest_of(self._training)})

    def restore(self, learner: Learner) -> int:
        """Put the weights and moments back, and say after how many steps they were kept; 0 where nothing was."""
        if not self._state.exists():
            return 0
        torch: Any = importlib.import_module("torch")
        safetensors: Any = importlib.import_module("safetensors")
        try:
            with safetensors.safe_open(str(self._state), framework="pt") as file:
                said, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except Exception as error:  # the library has errors of its own
            raise self._damaged(self._state) from error
        wanted = {
            f"{kind}.{name}": weight for name, weight in learner.weights.items() for kind in ("weight", *_MOMENTS)
        }
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        right = shapes == {name: tuple(weight.shape) for name, weight in wanted.items()}
        if not right or not said or said.get("training") != digest_of(self._training):
            raise self._damaged(self._state)
        step = int(said["step"])
        for name, weight in learner.weights.items():
            weight.data.copy_(tensors[f"weight.{name}"])
            learner.optimiser.state[weight] = {
                "step": torch.tensor(float(step)),
                **{theirs: tensors[f"{kind}.{name}"].to(weight.device) for kind, theirs in _MOMENTS.items()},
            }
        return step

    def _damaged(self, path: Path) -> ConfigError:
        return ConfigError(f"{path} is damaged.", f"Delete {self.folder.parent}, or give another --out.")


def differences(begun: Any, wanted: Any, name: str = "") -> str:
    """In which options two trainings differ, in words."""
    if isinstance(begun, dict) and isinstance(wanted, dict):
        keys = dict.fromkeys((*wanted, *begun))
        parts = (differences(begun.get(key), wanted.get(key), str(key)) for key in keys)
        return "; ".join(filter(None, parts))
    return "" if begun == wanted else f"{name} was {_short(begun)} and is {_short(wanted)}"


def digest_of(training: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(training, sort_keys=True).encode()).hexdigest()


def write_tensors(path: Path, tensors: Mapping[str, Any], said: Mapping[str, str]) -> None:
    """Replace a safetensors file in one step, as `write_whole` does with text."""
    torch_files: Any = importlib.import_module("safetensors.torch")
    fresh = path.with_name(f"{path.name}.new")
    plain = {name: tensor.detach().float().cpu().contiguous() for name, tensor in tensors.items()}
    try:
        with fresh.open("wb") as file:
            file.write(torch_files.save(plain, metadata=dict(said)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    except OSError as error:
        raise HoptreeError(
            f"{path} could not be written: {error.strerror or error}.",
            "What was saved before is kept: free some space, and give the same command again.",
        ) from error


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return shortened(str(value))
