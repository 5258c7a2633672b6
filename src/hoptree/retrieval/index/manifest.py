"""What an index folder says of itself: one JSON file, replaced in one step, checked on every open."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError
from hoptree.core.files import atomic_write
from hoptree.retrieval.index.tantivy_files import ALLOW

FORMAT = 4
MANIFEST = "hoptree-index.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """How an index is made; what is added later is made the same way."""

    language: str = "english"
    links: bool = True
    encoder: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an index holds and how it was made.

    `generation` names the folder with the data; `digest` is that of the set of passages; `bytes` their size on disk;
    `reading` is how sources are read (chunking and the like), for `hoptree index update`.
    """

    format: int
    generation: int
    passages: int
    digest: str
    bytes: int
    settings: Settings = field(default_factory=Settings)
    reading: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of an index folder, or an error that says what the folder is instead."""
    try:
        data: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        found = data.get("format")
        if found != FORMAT:
            raise CorpusError(
                f"The index {folder} is of format {found}, not {FORMAT}.",
                f"It was made by another version of Hoptree: build it again with hoptree index … --out {folder}",
            )
        settings = Settings(**data.pop("settings"))
        if set(data) != {known.name for known in fields(Manifest)} - {"settings"}:
            raise ValueError("its manifest has other fields")
        _check_kinds(data, settings)
        return Manifest(**(data | {"settings": settings, "sources": tuple(data["sources"])}))
    except (FileNotFoundError, NotADirectoryError) as error:
        if folder.is_dir() and any(folder.glob("[0-9]*.part")):
            raise CorpusError(
                f"{folder} is no index yet: it is being built, or that was cut off.",
                "Wait, or repeat the command that built it: it goes on from there.",
            ) from error
        if folder.is_dir() and any(folder.glob("[0-9][0-9][0-9][0-9][0-9][0-9]/text")):
            raise CorpusError(
                f"The index {folder} has lost its file {MANIFEST}.", f"Build it again: hoptree index … --out {folder}"
            ) from error
        if folder.exists():
            raise CorpusError(
                f"{folder} is no index.", f"Make one: hoptree index {folder} --out {folder}.idx"
            ) from error
        raise CorpusError(
            f"There is no index at {folder}.", f"Make one: hoptree index FOLDER --out {folder}"
        ) from error
    except PermissionError as error:
        raise CorpusError(f"The index {folder} may not be read by you: {error.strerror}.", ALLOW) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorpusError(
            f"The index {folder} is damaged: {error}.", f"Build it again: hoptree index … --out {folder}"
        ) from error


def _check_kinds(data: Mapping[str, Any], settings: Settings) -> None:
    kinds = {"generation": int, "passages": int, "digest": str, "bytes": int, "reading": dict, "sources": list}
    wrong = [name for name, kind in kinds.items() if not isinstance(data[name], kind)]
    wrong += [
        known.name for known in fields(Settings) if type(getattr(settings, known.name)) is not type(known.default)
    ]
    if wrong or not all(isinstance(value, str) for value in (*data["reading"].values(), *data["sources"])):
        raise ValueError(f"its manifest has values of another kind ({', '.join(wrong) or 'reading or sources'})")


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: from then on readers see the new generation."""
    atomic_write(folder / MANIFEST, [json.dumps(asdict(manifest), indent=1)])
