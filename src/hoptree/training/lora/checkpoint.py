"""The files of a training: checkpoint, adapter, loss curve and card."""

from __future__ import annotations

import hashlib
import importlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.errors import ConfigError, HoptreeError, InputError
from hoptree.core.files import atomic_write
from hoptree.evaluation.report.plots import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Scale, axes, line, picture
from hoptree.models.catalogue import ADAPTER_CARD, ADAPTER_FILES
from hoptree.training.lora.dataset import shorten

if TYPE_CHECKING:
    from hoptree.training.lora.learner import Learner

_MOMENTS = {"first": "exp_avg", "second": "exp_avg_sq"}


class Checkpoints:
    """The saved state of a training."""

    PLAN = "training.json"

    def __init__(self, folder: Path, training: Mapping[str, Any]) -> None:
        self.folder = folder
        self._training = dict(training)
        self._digest = hashlib.sha256(json.dumps(self._training, sort_keys=True).encode()).hexdigest()
        self._plan = folder / self.PLAN
        self._state = folder / "state.safetensors"

    def check(self) -> None:
        """Raise an error if another training was started in the folder."""
        try:
            started = json.loads(self._plan.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            raise self._damaged(self._plan) from error
        if changes := differences(started, self._training):
            cause = f"Another training was begun in {self.folder.parent}: {changes}."
            raise InputError(cause, "Give the same options to go on with it, or another --out.")

    def begin(self) -> None:
        """Record which training this is."""
        if not self._plan.exists():
            atomic_write(self._plan, [json.dumps(self._training, indent=2, sort_keys=True) + "\n"])

    def save(self, step: int, learner: Learner) -> None:
        """Save the weights and moments after `step` steps."""
        tensors = {f"weight.{name}": weight for name, weight in learner.weights.items()}
        for name, weight in learner.weights.items():
            for moment, key in _MOMENTS.items():
                tensors[f"{moment}.{name}"] = learner.optimiser.state[weight][key]
        write_tensors(self._state, tensors, {"step": str(step), "training": self._digest})

    def restore(self, learner: Learner) -> int:
        """Restore weights and moments; return the number of finished steps."""
        if not self._state.exists():
            return 0
        torch: Any = importlib.import_module("torch")
        safetensors: Any = importlib.import_module("safetensors")
        try:
            with safetensors.safe_open(str(self._state), framework="pt") as file:
                metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except Exception as error:  # the library raises errors of several kinds
            raise self._damaged(self._state) from error
        expected = {
            f"{kind}.{name}": tuple(weight.shape)
            for name, weight in learner.weights.items()
            for kind in ("weight", *_MOMENTS)
        }
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        if shapes != expected or not metadata or metadata.get("training") != self._digest:
            raise self._damaged(self._state)
        step = int(metadata["step"])
        for name, weight in learner.weights.items():
            weight.data.copy_(tensors[f"weight.{name}"])
            learner.optimiser.state[weight] = {
                "step": torch.tensor(float(step)),
                **{key: tensors[f"{moment}.{name}"].to(weight.device) for moment, key in _MOMENTS.items()},
            }
        return step

    def _damaged(self, path: Path) -> ConfigError:
        return ConfigError(f"{path} is damaged.", f"Delete {self.folder.parent}, or give another --out.")


def differences(before: Any, now: Any, name: str = "") -> str:
    """Return the differences between two trainings, in words."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys((*now, *before))
        return "; ".join(filter(None, (differences(before.get(key), now.get(key), str(key)) for key in keys)))
    return "" if before == now else f"{name} was {_short(before)} and is {_short(now)}"


@contextmanager
def _written(path: Path) -> Iterator[None]:
    """Raise an OSError as an error with a remedy."""
    try:
        yield
    except OSError as error:
        cause = f"{path} could not be written: {error.strerror or error}."
        remedy = "What was saved before is kept: free some space, and give the same command again."
        raise HoptreeError(cause, remedy) from error


def write_tensors(path: Path, tensors: Mapping[str, Any], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file atomically."""
    torch_files: Any = importlib.import_module("safetensors.torch")
    fresh = path.with_name(f"{path.name}.new")
    plain = {name: tensor.detach().float().cpu().contiguous() for name, tensor in tensors.items()}
    with _written(path):
        with fresh.open("wb") as file:
            file.write(torch_files.save(plain, metadata=dict(metadata)))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return shorten(str(value))


_BLOCKS = "▁▂▃▄▅▆▇█"
_LINE_CHARS = 40
_DECAY = 0.9
# The colours of the report's page, for a separate picture.
_STYLE = (
    "<style>svg{background:#fff}text{font:13px system-ui,sans-serif;fill:#1b1f24}.label{fill:#59636e}"
    ".grid,.tick,.raw,.curve{fill:none}.grid{stroke:#d1d9e0}.tick{stroke:#59636e}"
    ".raw{stroke:#0072b2;opacity:.35}.curve{stroke:#0072b2;stroke-width:2}</style>"
)


def smoothed(losses: Sequence[float]) -> list[float]:
    """Return the exponential moving average, corrected for its start."""
    mean, weight, means = 0.0, 0.0, []
    for loss in losses:
        mean, weight = _DECAY * mean + (1 - _DECAY) * loss, _DECAY * weight + 1 - _DECAY
        means.append(mean / weight)
    return means


def loss_picture(title: str, losses: Sequence[float]) -> str:
    """Draw the loss of each step and its moving average (the paper's Figure 12)."""
    x = Scale(1, max(2, len(losses)), LEFT, WIDTH - RIGHT)
    y = Scale(0, 1.05 * max(losses) or 1.0, HEIGHT - BOTTOM, TOP)
    steps = [step for step in x.ticks() if step == int(step)]
    parts = [_STYLE, *axes(x, y, "step", "loss of a reply's tokens", steps)]
    for kind, values in (("raw", losses), ("curve", smoothed(losses))):
        parts.append(line([(x(step), y(value)) for step, value in enumerate(values, 1)], kind))
    about = f"Loss over {len(losses)} steps, and its running mean: {losses[0]:.3f} at first, {losses[-1]:.3f} at last."
    svg = picture("loss", title, about, parts)
    return svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1) + "\n"


def loss_line(losses: Sequence[float]) -> str:
    """Return the loss as a line of block characters."""
    count = min(_LINE_CHARS, len(losses))
    ends = [round(place * len(losses) / count) for place in range(count + 1)]
    means = [sum(losses[low:high]) / (high - low) for low, high in pairwise(ends)]
    highest = max(means) or 1.0
    return "".join(_BLOCKS[min(len(_BLOCKS) - 1, int(len(_BLOCKS) * mean / highest))] for mean in means)


def summarise_losses(log: Sequence[Mapping[str, Any]], epochs: int) -> dict[str, Any]:
    """Return the first and last loss, and the mean of each epoch."""
    steps = len(log) // epochs
    means = []
    for begin in range(0, len(log), steps):
        rows = log[begin : begin + steps]
        tokens = sum(row["reply_tokens"] for row in rows)
        means.append(round(sum(row["loss"] * row["reply_tokens"] for row in rows) / tokens, 4))
    return {"first": log[0]["loss"], "last": log[-1]["loss"], "epochs": means}


def read_card(folder: Path) -> dict[str, Any] | None:
    """Return the card of a finished training; None if there is none."""
    path = folder / ADAPTER_CARD
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is damaged.", f"Delete {folder}, or give another --out.") from error
    return card if isinstance(card, dict) else None


def write_adapter(
    folder: Path, base: str, learner: Learner, log: Sequence[Mapping[str, Any]], card: Mapping[str, Any]
) -> None:
    """Write the adapter, its loss curve and, last, the card."""
    peft: Any = importlib.import_module("peft")
    config_file, weights_file = ADAPTER_FILES
    (settings,) = learner.adapted.peft_config.values()
    config = {**settings.to_dict(), "base_model_name_or_path": base, "inference_mode": True}
    # peft writes sets in random order; equal trainings should give equal files.
    ordered = {name: sorted(value) if isinstance(value, set) else value for name, value in sorted(config.items())}
    _write_json(folder / config_file, ordered)
    # Embeddings are not trained; to check that, peft would look for the base on a hub.
    weights = peft.get_peft_model_state_dict(learner.adapted, save_embedding_layers=False)
    write_tensors(folder / weights_file, weights, {"format": "pt"})
    with _written(folder / "loss.svg"):
        atomic_write(folder / "loss.svg", [loss_picture(f"Training loss on {base}", [row["loss"] for row in log])])
    _write_json(folder / ADAPTER_CARD, card)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    with _written(path):
        atomic_write(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"])
