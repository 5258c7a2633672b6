"""The manifest of an index folder: what it holds and how it was made, checked on every open."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from hoptree.core.errors import CorpusError
from hoptree.core.files import VersionedFolder, check_fields
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

    `generation` names the folder with the data, `digest` the set of passages; `bytes` is their size on disk.
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


def index_folder(folder: Path) -> VersionedFolder:
    return VersionedFolder(folder, MANIFEST, marker="text")


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of an index folder; the error says what the folder is instead."""
    rebuild = f"hoptree index … --out {folder}"
    try:
        data = index_folder(folder).read_manifest()
        if data.get("format") != FORMAT:
            raise CorpusError(
                f"The index {folder} is of format {data.get('format')}, not {FORMAT}.",
                f"It was made by another version of Hoptree: build it again with {rebuild}",
            )
        check_fields(data, Manifest)
        settings = Settings(**data["settings"])
        _check_types(data, settings)
        return Manifest(**(data | {"settings": settings, "sources": tuple(data["sources"])}))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _no_index(folder) from error
    except PermissionError as error:
        raise CorpusError(f"The index {folder} may not be read by you: {error.strerror}.", ALLOW) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise CorpusError(f"The index {folder} is damaged: {error}.", f"Build it again: {rebuild}") from error


def _no_index(folder: Path) -> CorpusError:
    if folder.is_dir() and any(folder.glob("[0-9]*.part")):
        return CorpusError(
            f"{folder} is no index yet: it is being built, or that was cut off.",
            "Wait, or repeat the command that built it: it goes on from there.",
        )
    if folder.is_dir() and any(folder.glob("[0-9][0-9][0-9][0-9][0-9][0-9]/text")):
        rebuild = f"Build it again: hoptree index … --out {folder}"
        return CorpusError(f"The index {folder} has lost its file {MANIFEST}.", rebuild)
    if folder.exists():
        return CorpusError(f"{folder} is no index.", f"Make one: hoptree index {folder} --out {folder}.idx")
    return CorpusError(f"There is no index at {folder}.", f"Make one: hoptree index FOLDER --out {folder}")


def _check_types(data: Mapping[str, Any], settings: Settings) -> None:
    types = {"generation": int, "passages": int, "digest": str, "bytes": int, "reading": dict, "sources": list}
    wrong = [name for name, kind in types.items() if not isinstance(data[name], kind)]
    wrong += [item.name for item in fields(Settings) if type(getattr(settings, item.name)) is not type(item.default)]
    if wrong or not all(isinstance(value, str) for value in (*data["reading"].values(), *data["sources"])):
        raise ValueError(f"its manifest has values of another kind ({', '.join(wrong) or 'reading or sources'})")
