"""The settings of a training: those that decide the resulting weights, and those that do not."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hoptree.core.errors import ConfigError

ALL_LINEAR = "all-linear"
DTYPES = {"fp32": "float32", "bf16": "bfloat16"}
"""Torch's names; fp16 would need loss scaling."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """What decides the weights: trainings with the same base, sets and recipe are the same training.

    The defaults are those of TAIKC's appendix F. `batch` times `accumulation` examples make a step. The learning rate
    rises over the first `warmup` of all steps and falls to 0 along a cosine. `targets` are names of linear layers,
    separated by commas, or all of them but the output layer. An empty `dtype` is bf16 on an accelerator and fp32
    without one; the adapter has 32 bits in either case.
    """

    rank: int = 16
    alpha: int = 32
    learning_rate: float = 5e-5
    epochs: int = 3
    batch: int = 2
    accumulation: int = 8
    dropout: float = 0.0
    warmup: float = 0.03
    targets: str = ALL_LINEAR
    max_length: int = 2048
    seed: int = 0
    dtype: str = ""

    def __post_init__(self) -> None:
        for name in ("rank", "alpha", "epochs", "batch", "accumulation", "max_length"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name)}.", "Give 1 or more.")
        if not 0 < self.learning_rate < math.inf:
            raise ConfigError(f"The learning rate is {self.learning_rate:g}.", "Give a number above 0, such as 5e-5.")
        for name in ("dropout", "warmup"):
            if not 0 <= getattr(self, name) < 1:
                raise ConfigError(f"{name} is {getattr(self, name):g}.", "Give a share from 0 to below 1.")
        if not self.names:
            raise ConfigError("No layers are named.", f"Give --targets {ALL_LINEAR}, or names: q_proj,v_proj.")
        if self.dtype and self.dtype not in DTYPES:
            raise ConfigError(f"There is no dtype {self.dtype} to train in.", f"Choose one of {', '.join(DTYPES)}.")

    @property
    def names(self) -> list[str]:
        """The named layers, each once."""
        return sorted({name.strip() for name in self.targets.split(",")} - {""})

    @property
    def examples_a_step(self) -> int:
        return self.batch * self.accumulation

    def steps(self, examples: int) -> int:
        """Return the number of steps; the last of an epoch may have fewer examples."""
        return self.epochs * math.ceil(examples / self.examples_a_step)

    def rate(self, step: int, steps: int) -> float:
        """Return the learning rate of a step, counted from 0."""
        rising = math.ceil(self.warmup * steps)
        if step < rising:
            return self.learning_rate * (step + 1) / rising
        along = (step - rising) / max(1, steps - rising)
        return self.learning_rate * 0.5 * (1 + math.cos(math.pi * along))


@dataclass(frozen=True, slots=True)
class Pace:
    """What changes time and memory only: device, steps between checkpoints, gradient checkpointing."""

    device: str = ""
    save_every: int = 50
    checkpointing: bool = False

    def __post_init__(self) -> None:
        if self.save_every < 1:
            raise ConfigError(f"save_every is {self.save_every}.", "Give 1 step or more.")
