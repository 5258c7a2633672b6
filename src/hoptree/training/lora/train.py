"""One training from its sets to the folder of an adapter; the same command goes on after a kill."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.files import FolderLock, atomic_write
from hoptree.evaluation.jsonl_log import read_lines
from hoptree.training.chat_rows import TAIKC, RowLength, compare_with_paper
from hoptree.training.lora.examples import TrainingSet, read_sets, same_prompts, without_kind
from hoptree.training.lora.learner import require_libraries, versions
from hoptree.training.lora.recipe import DTYPES, Pace, Recipe

if TYPE_CHECKING:
    from hoptree.training.lora.checkpoint import Checkpoints
    from hoptree.training.lora.examples import Example
    from hoptree.training.lora.learner import Learner, Processes


STATE = "state"
LOG = "log.jsonl"

Progress = Callable[[int, int, float], None]
"""Told how many steps of how many are done, and the loss of the last one."""


@dataclass(frozen=True, slots=True)
class TrainingWanted:
    """A training as it was asked for: `model` is hf/NAME, `data` the chat sets, `out` the folder of the adapter."""

    model: str
    data: tuple[Path, ...]
    out: Path
    recipe: Recipe = field(default_factory=Recipe)
    pace: Pace = field(default_factory=Pace)
    dry_run: bool = False


class Order:
    """Which examples a step learns from: each epoch takes all of them, in an order of its own."""

    def __init__(self, examples: int, recipe: Recipe) -> None:
        self._examples = examples
        self._recipe = recipe
        self._a_epoch = recipe.steps(examples) // recipe.epochs
        self._shuffled: tuple[int, list[int]] = (-1, [])

    def of(self, step: int) -> list[int]:
        epoch, place = divmod(step, self._a_epoch)
        if self._shuffled[0] != epoch:
            order = list(range(self._examples))
            random.Random(f"{self._recipe.seed}:{epoch}").shuffle(order)
            self._shuffled = (epoch, order)
        many = self._recipe.examples_a_step
        return self._shuffled[1][place * many : (place + 1) * many]


def train(
    wanted: TrainingWanted,
    *,
    on_progress: Progress = lambda done, total, loss: None,
    on_stage: Callable[[str], None] = lambda said: None,
) -> dict[str, Any]:
    """Train an adapter, or go on with it, and say what came of it; a dry run says what it would take.

    `on_stage` hears what a dry run is about to do where that takes a while. Whatever is wrong with the model, the sets
    or the folder is told before anything is written.
    """
    require_libraries()
    from hoptree.models.hf_weights import has_encoder, load, resolve_source, weights_digest
    from hoptree.training.lora.examples import encode
    from hoptree.training.lora.learner import started

    name = _name(wanted.model)
    source = resolve_source(name)
    if has_encoder(source):
        raise ConfigError(f"{name} has an encoder.", "Choose a model that reads and writes in one sequence.")
    processes = started(wanted.pace.device)
    dtype = wanted.recipe.dtype or ("bf16" if processes.device.startswith("cuda") else "fp32")
    wanted = replace(wanted, recipe=replace(wanted.recipe, dtype=dtype))
    base = {"name": name, "digest": weights_digest(source)}
    sets = read_sets(wanted.data, base["digest"])
    training = {"base": base["digest"], "sets": [one.digest for one in sets], **_deciding(asdict(wanted.recipe))}
    if (finished := _looked_at(wanted.out, training)) is not None:
        if not wanted.dry_run:
            shutil.rmtree(wanted.out / STATE, ignore_errors=True)  # it was killed after the card was written
        return {**finished, "out": str(wanted.out), "new_steps": 0}
    if wanted.dry_run:
        on_stage(f"loading {name}")
    loaded = load(source, dtype=DTYPES[dtype], device=processes.device)
    examples = encode([row for one in sets for row in one.rows], loaded, wanted.recipe.max_length)
    run = _Run(wanted, base, sets, training, examples, processes)
    return run.dry(loaded.model, on_stage) if wanted.dry_run else run.whole(loaded.model, on_progress)


def _name(model: str) -> str:
    kind, _, name = model.partition("/")
    if kind != "hf" or not name:
        raise ConfigError(
            f"{model or 'The embedded model'} cannot be trained.", "Give -m hf/NAME, hf/FOLDER or hf/FILE.gguf."
        )
    if "?" in name:
        raise ConfigError(
            f"{model} has settings, which are for asking.", "Give the name alone; there are --dtype and --device."
        )
    return name


def _looked_at(out: Path, training: Mapping[str, Any]) -> dict[str, Any] | None:
    """The card of this very training if the folder holds it; refused if it holds anything else."""
    from hoptree.training.lora.checkpoint import Checkpoints, differences, read_card

    if out.exists() and not out.is_dir():
        raise InputError(f"{out} is no folder.", "Give --out a folder that is new.")
    if (card := read_card(out)) is not None:
        if said := differences(_training_of(card), training):
            raise InputError(f"{out} holds another adapter: {said}.", "Give another --out.")
        return card
    state = out / STATE
    begun = (state / Checkpoints.PLAN).exists()
    if out.exists() and not begun and not all(_is_beginning(path, state) for path in out.rglob("*")):
        raise InputError(f"{out} holds other files.", "Give --out a folder that is new.")
    Checkpoints(state, training).check()
    return None


def _is_beginning(path: Path, state: Path) -> bool:
    """Whether a file or folder is all that a training leaves that was killed before it said which one it is."""
    from hoptree.training.lora.checkpoint import Checkpoints

    return path == state or (path.parent == state and path.name.startswith((FolderLock.NAME, Checkpoints.PLAN)))


def _deciding(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe with the examples of a step as one number: how they are divided changes nothing."""
    told = {name: value for name, value in recipe.items() if name not in ("batch", "accumulation")}
    batch, accumulation = recipe.get("batch"), recipe.get("accumulation")
    if not isinstance(batch, int) or not isinstance(accumulation, int):
        return {**told, "examples_a_step": None}  # a card that somebody changed
    return {**told, "examples_a_step": batch * accumulation}


def _training_of(card: Mapping[str, Any]) -> dict[str, Any]:
    base, sets, recipe = card.get("base"), card.get("sets"), card.get("recipe")
    return {
        "base": base.get("digest") if isinstance(base, dict) else None,
        "sets": [one.get("digest") for one in sets if isinstance(one, dict)] if isinstance(sets, list) else [],
        **_deciding(recipe if isinstance(recipe, dict) else {}),
    }


@dataclass(frozen=True, slots=True)
class _Run:
    wanted: TrainingWanted
    base: Mapping[str, str]
    sets: Sequence[TrainingSet]
    training: Mapping[str, Any]
    examples: Sequence[Example]
    processes: Processes

    @property
    def steps(self) -> int:
        return self.wanted.recipe.steps(len(self.examples))

    @property
    def packing(self) -> bool:
        """Whether the examples of a step share sequences: only an accelerator is the quicker for it.

        A processor has nothing to fill up, and time and memory grow with the square of a sequence.
        """
        return not self.processes.device.startswith("cpu")

    def dry(self, model: Any, on_stage: Callable[[str], None]) -> dict[str, Any]:
        """What it would take: a step is taken and forgotten, or an example a process where none are packed."""
        from hoptree.training.lora.examples import packed

        order, recipe = Order(len(self.examples), self.wanted.recipe), self.wanted.recipe
        learner = self._learner(model)
        shortest, *_ = by_length = sorted(self.examples, key=lambda example: len(example.tokens))
        first = by_length[len(by_length) // 2 :][: self.processes.world]
        if self.packing:
            first = [self.examples[place] for place in order.of(0)]
        size = sum(len(example.tokens) for example in first)
        some = "1 example" if len(first) == 1 else f"{len(first):,} examples"
        on_stage(f"timing {some} on {self.processes.device}: {size:,} tokens, which are learnt and forgotten")
        learner.step([shortest], 0, self.steps)  # what is only done once, such as choosing kernels, is not timed
        began = time.perf_counter()
        learner.step(first, 0, self.steps)
        seconds = time.perf_counter() - began
        a_epoch = self.steps // recipe.epochs
        tokens = sum(len(example.tokens) for example in self.examples)
        share = tokens / a_epoch / size
        chosen = [[self.examples[place] for place in order.of(step)] for step in range(a_epoch)]
        sequences = sum(len(packed(step, recipe.max_length if self.packing else 1)) for step in chosen)
        return {
            "dry_run": True,
            **self._told(),
            "sequences_an_epoch": sequences,
            "seconds_a_step": round(seconds * share, 3),
            "seconds": round(seconds * share * self.steps, 1),
            "out": str(self.wanted.out),
        }

    def whole(self, model: Any, on_progress: Progress) -> dict[str, Any]:
        from hoptree.training.lora.checkpoint import Checkpoints, losses_told, write_adapter

        out = self.wanted.out
        checkpoints = Checkpoints(out / STATE, self.training)
        learner = self._learner(model)
        with self._writing(checkpoints):
            begun = checkpoints.restore(learner)
            log = self._learn(learner, checkpoints, begun, on_progress)
            card = {
                "made_with": versions(),
                **self._told(),
                "recipe": asdict(self.wanted.recipe),
                "processes": self.processes.world,
                "loss": losses_told(log, self.wanted.recipe.epochs),
                "seconds": round(sum(row["seconds"] for row in log), 1),
            }
            if not self.processes.rank:
                write_adapter(out, self.base["name"], learner, log, card)
        if not self.processes.rank:
            shutil.rmtree(out / STATE)
        self.processes.leave()
        return {**card, "out": str(out), "new_steps": self.steps - begun}

    def _told(self) -> dict[str, Any]:
        rows = [row for one in self.sets for row in one.rows]
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
            "sets": [one.as_dict() for one in self.sets],
            "evaluation_questions": sum(row.evaluation for row in rows),
            "same_prompts": same_prompts(self.sets),
            "rows_without_kind": without_kind(self.sets),
            "examples": len(self.examples),
            "tokens": {"prompt": prompt, "reply": reply, "longest": longest},
            "beside_the_paper": compare_with_paper(taikc),
            "steps": self.steps,
        }

    def _learner(self, model: Any) -> Learner:
        from hoptree.training.lora.learner import Learner

        pace = self.wanted.pace
        return Learner(
            model, self.wanted.recipe, self.processes, checkpointing=pace.checkpointing, packing=self.packing
        )

    @contextlib.contextmanager
    def _writing(self, checkpoints: Checkpoints) -> Iterator[None]:
        """The folder, made and held by the first process; the others come when it is there."""
        if self.processes.rank:
            self.processes.wait()
            yield
            return
        try:
            checkpoints.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"{checkpoints.folder} cannot be made: {error.strerror or error}.", "Give another --out."
            ) from error
        with FolderLock(checkpoints.folder, HoptreeError):
            checkpoints.check()  # another process may have begun since it was looked at
            checkpoints.begin()
            self.processes.wait()
            yield

    def _learn(
        self, learner: Learner, checkpoints: Checkpoints, begun: int, on_progress: Progress
    ) -> list[dict[str, Any]]:
        """All steps that are left; every process has the same losses, and the first writes them down."""
        order = Order(len(self.examples), self.wanted.recipe)
        path = self.wanted.out / LOG
        log = _log_until(path, begun)
        self.processes.wait()  # the others have read it, too
        with contextlib.ExitStack() as stack:
            file = None
            if not self.processes.rank:
                atomic_write(path, (json.dumps(row) + "\n" for row in log))
                file = stack.enter_context(path.open("a", encoding="utf-8", newline="\n"))
            for step in range(begun, self.steps):
                examples = [self.examples[place] for place in order.of(step)]
                began = time.perf_counter()
                loss = learner.step(examples, step, self.steps)
                row = {
                    "step": step + 1,
                    "loss": loss,
                    "learning_rate": self.wanted.recipe.rate(step, self.steps),
                    "reply_tokens": sum(example.reply for example in examples),
                    "seconds": round(time.perf_counter() - began, 4),
                }
                log.append(row)
                if file is not None:
                    file.write(json.dumps(row) + "\n")
                    file.flush()
                    if (step + 1) % self.wanted.pace.save_every == 0 or step + 1 == self.steps:
                        os.fsync(file.fileno())
                        checkpoints.save(step + 1, learner)
                on_progress(step + 1, self.steps, loss)
        return log


def _log_until(path: Path, step: int) -> list[dict[str, Any]]:
    """What was written of the steps that are kept; those after the last save are taken again."""
    rows = [row for _, row in read_lines(path) if row["step"] <= step]
    if [row["step"] for row in rows] != list(range(1, step + 1)):
        raise ConfigError(f"{path} is damaged.", f"Delete {path.parent}, or give another --out.")
    return rows
