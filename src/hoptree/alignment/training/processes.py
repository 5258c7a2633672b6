"""The processes that train together: one, or as many as `torchrun` or `accelerate launch` started."""

from __future__ import annotations

import importlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hoptree.errors import ConfigError, MissingExtra

__all__ = ["Processes", "first_of_all", "started"]


@dataclass(frozen=True, slots=True)
class Processes:
    """This process among all; each takes every `world`th example of a step, and only the first writes files."""

    device: str
    rank: int = 0
    world: int = 1

    def share(self, examples: Sequence[Any]) -> Sequence[Any]:
        return examples[self.rank :: self.world]

    def add_up(self, tensors: Sequence[Any]) -> None:
        """Give every process the sums of all; the tensors are few and small, so they travel as one."""
        if self.world == 1:
            return
        torch: Any = importlib.import_module("torch")
        whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
        torch.distributed.all_reduce(whole)
        for tensor, part in zip(tensors, whole.split([tensor.numel() for tensor in tensors]), strict=True):
            tensor.copy_(part.view_as(tensor))

    def wait(self) -> None:
        """Until all are here."""
        if self.world > 1:
            importlib.import_module("torch").distributed.barrier()

    def leave(self) -> None:
        """Say that nothing is added up any more."""
        if self.world > 1:
            importlib.import_module("torch").distributed.destroy_process_group()


def first_of_all() -> bool:
    """Whether this process is the one that speaks and writes, as far as its environment tells."""
    return os.environ.get("RANK", "0") == "0"


def started(device: str) -> Processes:
    """This process and those that were started with it; `device` is empty for an accelerator where there is one."""
    torch: Any = importlib.import_module("torch")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        try:
            accelerate: Any = importlib.import_module("accelerate")
        except ImportError as error:
            raise MissingExtra("Training by several processes", "train") from error
        state = accelerate.PartialState(cpu=device == "cpu")
        return Processes(str(state.device), state.process_index, state.num_processes)
    if not device:
        return Processes("cuda" if torch.cuda.is_available() else "cpu")
    kind, _, number = device.partition(":")
    there = {"cpu": 1, "cuda": torch.cuda.device_count(), "mps": int(torch.backends.mps.is_available())}
    if kind not in there or (number and not number.isdigit()):
        raise ConfigError(f"There is no device {device}.", "Choose cpu, cuda, cuda:0 or mps.")
    if int(number or 0) >= there[kind]:
        raise ConfigError(f"This machine has no device {device} that torch can use.", "Leave --device out.")
    return Processes(device)
