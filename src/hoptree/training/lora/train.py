"""Train an adapter on chat sets, resumably."""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import os
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree import __version__
from hoptree.core.errors import ConfigError, HoptreeError, InputError, MissingExtra, file_errors
from hoptree.core.files import FolderLock, atomic_write, read_lines
from hoptree.training.chat_rows import TAIKC, RowLength, compare_with_paper
from hoptree.training.lora import dataset
from hoptree.training.lora.checkpoint import Checkpoints, differences, read_card, summarise_losses, write_adapter
from hoptree.training.lora.dataset import Pace, Recipe, TrainingSet

if TYPE_CHECKING:
    from hoptree.training.lora.learner import Example, Learner, Processes

_LIBRARIES = ("torch", "transformers", "peft")
_STATE = "state"
_LOG = "log.jsonl"

Progress = Callable[[int, int, float], None]  # gets the steps done, the total, and the last loss


@dataclass(frozen=True, slots=True)
class TrainingSpec:
    """The settings of a training."""

    model: str
    data: tuple[Path, ...]
    out: Path
    recipe: Recipe = field(default_factory=Recipe)
    pace: Pace = field(default_factory=Pace)
    dry_run: bool = False
    paper_rate: bool = False  # take the learning rate of the sets' paper


class Order:
    """The examples of each step, shuffled by the seed."""

    def __init__(self, examples: int, recipe: Recipe) -> None:
        self._orders = []
        for epoch in range(recipe.epochs):
            self._orders.append(list(range(examples)))
            random.Random(f"{recipe.seed}:{epoch}").shuffle(self._orders[-1])
        self._steps_an_epoch, self._size = recipe.steps(examples) // recipe.epochs, recipe.examples_a_step

    def of(self, step: int) -> list[int]:
        epoch, place = divmod(step, self._steps_an_epoch)
        return self._orders[epoch][place * self._size : (place + 1) * self._size]


def is_first_process() -> bool:
    """Return whether this process prints and writes."""
    return os.environ.get("RANK", "0") == "0"


def train(
    spec: TrainingSpec,
    *,
    on_progress: Progress = lambda done, total, loss: None,
    on_stage: Callable[[str], None] = lambda stage: None,
) -> dict[str, Any]:
    """Train an adapter, or resume its training; a dry run only reports."""
    if any(importlib.util.find_spec(library) is None for library in _LIBRARIES):
        raise MissingExtra("Training", "train")
    from hoptree.models.hf_weights import load, resolve_source, weights_digest
    from hoptree.training.lora.learner import encode, start_processes

    name = _base_name(spec.model)
    source = resolve_source(name)
    processes = start_processes(spec.pace.device)
    dtype = spec.recipe.dtype or ("bf16" if processes.device.startswith("cuda") else "fp32")
    spec = replace(spec, recipe=replace(spec.recipe, dtype=dtype))
    base = {"name": name, "digest": weights_digest(source)}
    sets = dataset.read_sets(spec.data, base["digest"])
    if spec.paper_rate:
        spec = replace(spec, recipe=replace(spec.recipe, learning_rate=dataset.rate_of_paper(sets)))
    training = {
        "base": base["digest"],
        "sets": [training_set.digest for training_set in sets],
        **_decisive(asdict(spec.recipe)),
    }
    if (finished := _finished_card(spec.out, training)) is not None:
        if not spec.dry_run:
            shutil.rmtree(spec.out / _STATE, ignore_errors=True)  # if it was killed after writing the card
        return {**finished, "out": str(spec.out), "new_steps": 0}
    if spec.dry_run:
        on_stage(f"loading {name}")
    loaded = load(source, dtype=dataset.DTYPES[dtype], device=processes.device)
    examples = encode([row for training_set in sets for row in training_set.rows], loaded, spec.recipe.max_length)
    run = _Training(spec, base, sets, training, examples, processes)
    return run.estimate(loaded.model, on_stage) if spec.dry_run else run.complete(loaded.model, on_progress)


def _base_name(model: str) -> str:
    kind, _, name = model.partition("/")
    if kind != "hf" or not name:
        cause = f"{model or 'The embedded model'} cannot be trained."
        raise ConfigError(cause, "Give -m hf/NAME, hf/FOLDER or hf/FILE.gguf.")
    if "?" in name:
        cause = f"{model} has settings, which are for asking."
        raise ConfigError(cause, "Give the name alone; there are --dtype and --device.")
    return name


def _finished_card(out: Path, training: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the card of this training if it is finished; check the folder."""
    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is not a folder.", "Give --out a folder that is new.")
    if (card := read_card(out)) is not None:
        if changes := differences(_training_of(card), training):
            raise InputError(f"{out} holds another adapter: {changes}.", "Give another --out.")
        return card
    state = out / _STATE
    started = (state / Checkpoints.PLAN).exists()
    unstarted = (FolderLock.NAME, Checkpoints.PLAN)  # files of a training that was killed at its start
    left = [path for path in out.rglob("*") if path != state] if not started else []
    if not all(path.parent == state and path.name.startswith(unstarted) for path in left):
        raise InputError(f"{out} holds other files.", "Give --out a folder that is new.")
    Checkpoints(state, training).check()
    return None


def _decisive(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe with batch times accumulation as one setting."""
    others = {name: value for name, value in recipe.items() if name not in ("batch", "accumulation")}
    batch, accumulation = recipe.get("batch"), recipe.get("accumulation")
    if not isinstance(batch, int) or not isinstance(accumulation, int):
        return {**others, "examples_a_step": None}  # the card was edited
    return {**others, "examples_a_step": batch * accumulation}


def _training_of(card: Mapping[str, Any]) -> dict[str, Any]:
    base, sets, recipe = card.get("base"), card.get("sets"), card.get("recipe")
    return {
        "base": base.get("digest") if isinstance(base, dict) else None,
        "sets": [entry.get("digest") for entry in sets if isinstance(entry, dict)] if isinstance(sets, list) else [],
        **_decisive(recipe if isinstance(recipe, dict) else {}),
    }


@dataclass(frozen=True, slots=True)
class _Training:
    """A training that is ready to start, with encoded examples."""

    spec: TrainingSpec
    base: Mapping[str, str]
    sets: Sequence[TrainingSet]
    training: Mapping[str, Any]
    examples: Sequence[Example]
    processes: Processes

    @property
    def steps(self) -> int:
        return self.spec.recipe.steps(len(self.examples))

    @property
    def packing(self) -> bool:
        """Whether the examples of a step share sequences."""
        return not self.processes.device.startswith("cpu")

    def estimate(self, model: Any, on_stage: Callable[[str], None]) -> dict[str, Any]:
        """Estimate the time from one step, or on a CPU from one example a process."""
        from hoptree.training.lora.learner import pack

        order, recipe = Order(len(self.examples), self.spec.recipe), self.spec.recipe
        learner = self._learner(model)
        shortest, *_ = by_length = sorted(self.examples, key=lambda example: len(example.tokens))
        first = by_length[len(by_length) // 2 :][: self.processes.world]
        if self.packing:
            first = [self.examples[place] for place in order.of(0)]
        size = sum(len(example.tokens) for example in first)
        number = "1 example" if len(first) == 1 else f"{len(first):,} examples"
        on_stage(f"timing {number} on {self.processes.device}: {size:,} tokens, which are learnt and forgotten")
        learner.step([shortest], 0, self.steps)  # warm-up, such as choosing kernels
        began = time.perf_counter()
        learner.step(first, 0, self.steps)
        seconds = time.perf_counter() - began
        steps = self.steps // recipe.epochs
        tokens = sum(len(example.tokens) for example in self.examples)
        share = tokens / steps / size
        chosen = [[self.examples[place] for place in order.of(step)] for step in range(steps)]
        sequences = sum(len(pack(step, recipe.max_length if self.packing else 1)) for step in chosen)
        return {
            "dry_run": True,
            **self._report(),
            "sequences_an_epoch": sequences,
            "seconds_a_step": round(seconds * share, 3),
            "seconds": round(seconds * share * self.steps, 1),
            "out": str(self.spec.out),
        }

    def complete(self, model: Any, on_progress: Progress) -> dict[str, Any]:
        """Take the remaining steps, and write the adapter."""
        out = self.spec.out
        checkpoints = Checkpoints(out / _STATE, self.training)
        learner = self._learner(model)
        with self._writing(checkpoints):
            done = checkpoints.restore(learner)
            log = self._learn(learner, checkpoints, done, on_progress)
            card = {
                "made_with": {
                    "hoptree": __version__,
                    **{name: importlib.metadata.version(name) for name in _LIBRARIES},
                },
                **self._report(),
                "recipe": asdict(self.spec.recipe),
                "processes": self.processes.world,
                "loss": summarise_losses(log, self.spec.recipe.epochs),
                "seconds": round(sum(row["seconds"] for row in log), 1),
            }
            if not self.processes.rank:
                write_adapter(out, self.base["name"], learner, log, card)
        if not self.processes.rank:
            shutil.rmtree(out / _STATE)
        self.processes.leave()
        return {**card, "out": str(out), "new_steps": self.steps - done}

    def _report(self) -> dict[str, Any]:
        rows = [row for training_set in self.sets for row in training_set.rows]
        taikc = [
            RowLength(row.label, example.prompt, example.reply)
            for row, example in zip(rows, self.examples, strict=True)
            if row.kind.startswith(f"{TAIKC}-")
        ]
        prompt = sum(example.prompt for example in self.examples)
        reply = sum(example.reply for example in self.examples)
        longest = max(len(example.tokens) for example in self.examples)
        return {
            "base": dict(self.base),
            "sets": [training_set.as_dict() for training_set in self.sets],
            "templates": dict(sorted(Counter(row.template for row in rows if row.template).items())),
            "same_prompts": dataset.same_prompts(self.sets),
            "rows_without_kind": dataset.without_kind(self.sets),
            "examples": len(self.examples),
            "tokens": {"prompt": prompt, "reply": reply, "longest": longest},
            "beside_the_paper": compare_with_paper(taikc),
            "steps": self.steps,
        }

    def _learner(self, model: Any) -> Learner:
        from hoptree.training.lora.learner import Learner

        pace = self.spec.pace
        return Learner(model, self.spec.recipe, self.processes, checkpointing=pace.checkpointing, packing=self.packing)

    @contextlib.contextmanager
    def _writing(self, checkpoints: Checkpoints) -> Iterator[None]:
        """Make and lock the folder in the first process; the others wait."""
        if self.processes.rank:
            self.processes.wait()
            yield
            return
        with file_errors(checkpoints.folder, "made", "Give another --out."):
            checkpoints.folder.mkdir(parents=True, exist_ok=True)
        with FolderLock(checkpoints.folder, HoptreeError):
            checkpoints.check()  # another training may have started since the first check
            checkpoints.begin()
            self.processes.wait()
            yield

    def _learn(
        self, learner: Learner, checkpoints: Checkpoints, done: int, on_progress: Progress
    ) -> list[dict[str, Any]]:
        """Take the remaining steps; the first process logs the losses."""
        order = Order(len(self.examples), self.spec.recipe)
        path = self.spec.out / _LOG
        log = [row for _, row in read_lines(path) if row["step"] <= done]
        if [row["step"] for row in log] != list(range(1, done + 1)):
            raise ConfigError(f"{path} is damaged.", f"Delete {path.parent}, or give another --out.")
        self.processes.wait()  # until all have read the log
        with contextlib.ExitStack() as stack:
            file = None
            if not self.processes.rank:
                atomic_write(path, (json.dumps(row) + "\n" for row in log))
                file = stack.enter_context(path.open("a", encoding="utf-8", newline="\n"))
            for step in range(done, self.steps):
                examples = [self.examples[place] for place in order.of(step)]
                began = time.perf_counter()
                loss = learner.step(examples, step, self.steps)
                row = {
                    "step": step + 1,
                    "loss": loss,
                    "learning_rate": self.spec.recipe.rate(step, self.steps),
                    "reply_tokens": sum(example.reply for example in examples),
                    "seconds": round(time.perf_counter() - began, 4),
                }
                log.append(row)
                if file is not None:
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    if (step + 1) % self.spec.pace.save_every == 0 or step + 1 == self.steps:
                        os.fsync(file.fileno())
                        checkpoints.save(step + 1, learner)
                on_progress(step + 1, self.steps, loss)
        return log
