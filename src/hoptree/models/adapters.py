"""LoRA adapters in GGUF files: the weights they fit, and their training prompts."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hoptree.core.errors import ConfigError
from hoptree.core.files import ADAPTER, find_weights
from hoptree.models.catalogue import Entry

NO_ADAPTER = "none"
PACKAGED = "hoptree"
"""Settings in place of a file: no adapter, and the adapter of hoptree-weights."""
CARD_KEY = "hoptree.card"  # the key of a GGUF file under which `align gguf` writes bases and templates, as JSON
# GGUF writes a key, the type "string" (8), the length and the text; tensors come after all keys.
_TEXT = rb"\x08\0\0\0(.{8})"
_CARD = re.compile(re.escape(CARD_KEY.encode()) + _TEXT, re.DOTALL)
_IS_ADAPTER = re.compile(rb"general\.type\x08\0\0\0\x07\0{7}adapter")
_HEADER_BYTES = 1 << 16
_MAGIC = b"GGUF"


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA in a GGUF file.

    `bases` are the names of base models by digest, empty if unknown. `templates` are NAME@DIGEST of prompts.
    """

    path: Path
    digest: str
    label: str
    bases: Mapping[str, str] = field(default_factory=dict)
    templates: frozenset[str] = frozenset()

    def check_base(self, digest: str, name: str) -> None:
        """Refuse weights that the adapter was not trained on or converted for."""
        if self.bases and digest not in self.bases:
            known = " or ".join(f"{base} ({known[:12]}…)" for known, base in self.bases.items())
            cause = f"The adapter {self.path.name} belongs to {known}, and {name} ({digest[:12]}…) has other weights."
            raise ConfigError(cause, f"Give the model it belongs to, or none: {name}?adapter={NO_ADAPTER}")


def default_adapter(entry: Entry | Path) -> Adapter | None:
    """Return the adapter of hoptree-weights if it was trained on this model."""
    if not isinstance(entry, Entry) or (weights := find_weights()) is None or entry.sha256 not in weights.bases:
        return None
    return packaged_adapter()


def packaged_adapter() -> Adapter:
    """Return the adapter of hoptree-weights."""
    weights = find_weights()
    if weights is None:
        cause = "The adapter of Hoptree is not installed."
        raise ConfigError(cause, "Install it: pip install hoptree-weights; or give a file: adapter=FILE.gguf")
    return read_adapter(weights.file(ADAPTER), PACKAGED, weights.files[ADAPTER])


def read_adapter(path: Path, label: str = "", digest: str = "") -> Adapter:
    """Read the metadata of a LoRA file; only Hoptree's own names bases and prompts."""
    if not path.is_file():
        raise ConfigError(f"There is no adapter {path}.", "Make one: hoptree align gguf ADAPTER --out FILE.gguf")
    try:
        with path.open("rb") as file:
            header = file.read(_HEADER_BYTES)
            file.seek(0)
            digest = digest or hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}.", "Check the file and its permissions.") from error
    if not header.startswith(_MAGIC) or not _IS_ADAPTER.search(header):
        kind = "not a LoRA adapter" if header.startswith(_MAGIC) else "not a GGUF file"
        cause = f"{path.name} is {kind}."
        raise ConfigError(cause, f"Make one with hoptree align gguf, or ask without an adapter: adapter={NO_ADAPTER}")
    card = _read_card(path, header)
    bases = {str(base): str(name) for base, name in (card.get("bases") or {}).items()}
    return Adapter(path, digest, label or path.stem, bases, frozenset(map(str, card.get("templates") or ())))


def _read_card(path: Path, header: bytes) -> dict[str, Any]:
    if (match := _CARD.search(header)) is None:
        return {}
    try:
        card = json.loads(header[match.end() :][: int.from_bytes(match[1], "little")])
        return {"bases": dict(card["bases"]), "templates": list(card["templates"])}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path.name} is damaged.", "Make it anew: hoptree align gguf") from error
