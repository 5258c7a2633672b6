"""The versions of a model that are measured beside each other: the base, and the base with each of some adapters."""

from __future__ import annotations

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
    from hoptree.models.hf_weights import adapter_folder, card_on, source_of

    names = _names(adapters)
    found = [Version(BASE, model)]
    for folder, called in zip(adapters, names, strict=True):
        card = card_on(adapter_folder(str(folder)), source_of(weights))
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
