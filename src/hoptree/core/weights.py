"""The trained weights of the package hoptree-weights, checked by the digests in its manifest."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError

PACKAGE = "hoptree_weights"
MANIFEST = "manifest.json"
ADAPTER = "adapter.gguf"
FORMAT = 1
_REMEDY = (
    "Install it anew (pip install --force-reinstall hoptree-weights), or ask without it: -m 'local/NAME?adapter=none'"
)


@dataclass(frozen=True, slots=True)
class TrainedWeights:
    """The folder of the package. `files` are digests by name; `bases` are the names of base weights by digest."""

    folder: Path
    files: Mapping[str, str]
    bases: Mapping[str, str]

    def file(self, name: str) -> Path:
        """Return the path of a file whose digest is the one in the manifest."""
        path = self.folder / name
        digest = _digest(path)
        if digest != self.files.get(name):
            found = f"its digest is {digest[:12]}…, not {self.files.get(name, 'any')[:12]}…" if digest else "unreadable"
            raise ConfigError(f"{name} of hoptree-weights is damaged ({found}).", _REMEDY)
        return path


@cache
def find_weights() -> TrainedWeights | None:
    """Return the installed weights; None without the package, or if it holds none."""
    found = importlib.util.find_spec(PACKAGE)
    for place in (found.submodule_search_locations or ()) if found else ():
        path = Path(place) / MANIFEST
        if path.is_file():
            return _read_manifest(path)
    return None


def _read_manifest(path: Path) -> TrainedWeights:
    try:
        manifest: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if manifest["format"] != FORMAT:
            raise ConfigError(
                "hoptree-weights is of another version than Hoptree.",
                "Upgrade both: pip install -U hoptree hoptree-weights; or ask without it: -m 'local/NAME?adapter=none'",
            )
        files = {str(name): str(entry["sha256"]) for name, entry in manifest["files"].items()}
        bases = {str(digest): str(name) for digest, name in manifest["bases"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"{MANIFEST} of hoptree-weights is damaged.", _REMEDY) from error
    return TrainedWeights(path.parent, files, bases)


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file, or "" if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""
