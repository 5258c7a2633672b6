"""The folder that a training leaves: an adapter in peft's form, and a card that says what it was trained on and how."""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hoptree.alignment.training.checkpoints import write_tensors
from hoptree.alignment.training.lora import Learner
from hoptree.alignment.training.loss_plot import loss_picture
from hoptree.errors import ConfigError
from hoptree.models.adapter_files import ADAPTER_CARD, ADAPTER_FILES
from hoptree.whole_files import write_whole

__all__ = ["losses_told", "read_card", "write_adapter"]


def losses_told(log: Sequence[Mapping[str, Any]], epochs: int) -> dict[str, Any]:
    """The losses of the first and last step, and those of each epoch over all tokens of its replies."""
    a_epoch = len(log) // epochs
    means = []
    for begin in range(0, len(log), a_epoch):
        rows = log[begin : begin + a_epoch]
        told = sum(row["reply_tokens"] for row in rows)
        means.append(round(sum(row["loss"] * row["reply_tokens"] for row in rows) / told, 4))
    return {"first": log[0]["loss"], "last": log[-1]["loss"], "epochs": means}


def read_card(folder: Path) -> dict[str, Any] | None:
    """The card of a finished training, if there is one."""
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
    """Write the adapter, the picture of its losses and, last of all, the card: a folder with a card is finished."""
    peft: Any = importlib.import_module("peft")
    config_file, weights_file = ADAPTER_FILES
    (settings,) = learner.adapted.peft_config.values()
    config = {**settings.to_dict(), "base_model_name_or_path": base, "inference_mode": True}
    # peft writes sets in any order; the same training makes the same file.
    _write_json(folder / config_file, {name: _listed(value) for name, value in sorted(config.items())})
    # Embeddings are not trained; to find out by itself, peft would look for the base on a hub.
    weights = peft.get_peft_model_state_dict(learner.adapted, save_embedding_layers=False)
    write_tensors(folder / weights_file, weights, {"format": "pt"})
    write_whole(folder / "loss.svg", [loss_picture(f"Training loss on {base}", [row["loss"] for row in log])])
    _write_json(folder / ADAPTER_CARD, card)


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    write_whole(path, [json.dumps(value, indent=2, ensure_ascii=False) + "\n"])


def _listed(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else value
