"""The versions of a model that are measured beside each other: the base, and the base with each of some adapters."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hoptree.errors import ConfigError, InputError

__all__ = ["BASE", "Version", "versions_of"]

BASE = "base"
_HOW = "Give --model hf/NAME, hf/FOLDER or hf/FILE.gguf, and adapters with --adapter FOLDER."


@dataclass(frozen=True, slots=True)
class Version:
    """A model under the name that tables give it; `card` is what an adapter says of its training, if it says it."""

    name: str
    model: str
    adapter: Path | None = None
    card: Mapping[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        card = self.card or {}
        return {
            "name": self.name,
            "model": self.model,
            "adapter": str(self.adapter) if self.adapter else None,
            "sets": card.get("sets"),
            "examples": card.get("examples"),
            "evaluation_questions": card.get("evaluation_questions"),
        }


def versions_of(model: str, adapters: Sequence[Path]) -> list[Version]:
    """The base and each adapter, under the name of its folder.

    An adapter that is not there, or that was trained on other weights, is refused here, before anything is asked.
    """
    kind, _, name = model.partition("/")
    if kind != "hf" or not name:
        raise ConfigError(f"{model or 'The embedded model'} takes no adapters.", _HOW)
    weights, _, settings = name.partition("?")
    if any(setting.startswith("adapter=") for setting in settings.split("&")):
        raise ConfigError(f"{model} has an adapter already, and so is no base.", _HOW)
    names = _names(adapters)
    found = [Version(BASE, model)]
    for folder, called in zip(adapters, names, strict=True):
        card = _card_of(folder, weights)
        spec = f"{model}{'&' if settings else '?'}adapter={folder}"
        found.append(Version(called, spec, folder, card))
    return found


def _names(adapters: Sequence[Path]) -> list[str]:
    """The names of the folders, with those they lie in where that does not tell them apart."""
    places = [folder.expanduser().resolve() for folder in adapters]
    if len(set(places)) < len(places):
        raise InputError("An adapter was given twice.", "Name each --adapter once.")
    short = [BASE, *(place.name for place in places)]
    names = [place.name if short.count(place.name) == 1 else f"{place.parent.name}/{place.name}" for place in places]
    if len(set(names)) < len(names):
        raise InputError(
            f"Adapters have the same name: {', '.join(sorted(names))}.",
            "Give their folders names that tell them apart.",
        )
    return names


def _card_of(folder: Path, weights: str) -> dict[str, Any] | None:
    """What the adapter says of its training; None for one that peft saved without us."""
    from hoptree.models.hf_weights import ADAPTER_CARD, adapter_folder, source_of, weights_digest

    path = adapter_folder(str(folder)) / ADAPTER_CARD
    if not path.is_file():
        return None
    try:
        card: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        name, digest = str(card["base"]["name"]), str(card["base"]["digest"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{path} does not name the base of the adapter.", "Take the folder from where it was trained once more."
        ) from error
    if digest != weights_digest(source_of(weights)):
        raise ConfigError(
            f"The adapter {folder} was trained on {name} ({digest[:24]}), and {weights} has other weights or other "
            "text around them.",
            f"Measure it with the model it was trained on: --model hf/{name}",
        )
    return card
