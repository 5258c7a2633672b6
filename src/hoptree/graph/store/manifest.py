"""What a graph's folder says of itself: one JSON file, replaced in one step, checked on every open."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from hoptree.graph.errors import GraphError
from hoptree.graph.naming import LANGUAGES
from hoptree.graph.store.damage import anew, damaged
from hoptree.whole_files import write_whole

__all__ = ["FORMAT", "MANIFEST", "Manifest", "Source", "data_bytes", "read_manifest", "write_manifest"]

FORMAT = 2
MANIFEST = "hoptree-graph.json"


@dataclass(frozen=True, slots=True)
class Source:
    """One source: how much it brought, and how many broken places of its files were passed over."""

    name: str
    facts: int
    names: int
    qualifiers: int
    broken: int


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a graph holds and how it was made.

    `generation` names the folder with the data and `bytes` the size of its files; `uid` is drawn anew at each change.
    `base` is the source that is kept without naming it at each fact, which halves its size and the time to load it.
    """

    format: int = FORMAT
    generation: int = 0
    uid: str = ""
    base: str = ""
    triples: int = 0
    bytes: int = 0
    languages: tuple[str, ...] = LANGUAGES
    sources: tuple[Source, ...] = ()

    @property
    def facts(self) -> int:
        return sum(source.facts for source in self.sources)

    @property
    def names(self) -> int:
        return sum(source.names for source in self.sources)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a graph's folder, or an error that says what the folder is instead."""
    try:
        data: dict[str, Any] = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        if data.get("format") != FORMAT:
            raise GraphError(
                f"The graph {folder} is of format {data.get('format')}, not {FORMAT}.",
                f"It was made by another version of Hoptree. {anew(folder)}",
            )
        return _checked(data)
    except (FileNotFoundError, NotADirectoryError) as error:
        if folder.is_dir() and any(folder.glob("[0-9]*.part")):
            raise GraphError(
                f"{folder} is no graph yet: it is being loaded, or that was cut off.",
                "Wait, or repeat the command that loads it.",
            ) from error
        raise _nothing_there(folder) from error
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise damaged(folder, error) from error


def _nothing_there(folder: Path) -> GraphError:
    if folder.is_file():
        return GraphError(
            f"{folder} is a file, and no knowledge graph.",
            "A graph is a folder: give the name of one, or of one that does not exist yet to make it.",
        )
    if folder.exists():
        return GraphError(
            f"The folder {folder} is no knowledge graph.",
            "Give that of a graph, or one that is empty or not there to make one: hoptree graph load FILE --out FOLDER",
        )
    return GraphError(f"There is no knowledge graph at {folder}.", f"Load one: hoptree graph load FILE --out {folder}")


def _checked(data: dict[str, Any]) -> Manifest:
    if set(data) != {known.name for known in fields(Manifest)}:
        raise ValueError("its manifest has other fields")
    wrong = [name for name in ("generation", "triples", "bytes") if type(data[name]) is not int]
    sources = tuple(Source(**source) for source in data["sources"])
    for source in sources:
        counts = (source.facts, source.names, source.qualifiers, source.broken)
        if not isinstance(source.name, str) or any(type(count) is not int for count in counts):
            wrong.append("sources")
    if (
        wrong
        or not isinstance(data["base"] + data["uid"], str)
        or not all(isinstance(tag, str) for tag in data["languages"])
    ):
        raise ValueError(f"its manifest has values of another kind ({', '.join(wrong) or 'base or languages'})")
    return Manifest(**(data | {"sources": sources, "languages": tuple(data["languages"])}))


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Replace the manifest in one step: from then on readers see the new generation."""
    write_whole(folder / MANIFEST, [json.dumps(asdict(manifest), indent=1)])


def data_bytes(generation: Path) -> int:
    """The size of the data files, which are never changed once they are there."""
    return sum(path.stat().st_size for path in generation.glob("*.sst"))
