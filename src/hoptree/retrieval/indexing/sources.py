"""What an index calls its sources and their documents, so that every source keeps its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path, PurePath
from typing import Any, TypeVar

from hoptree.core.errors import CorpusError
from hoptree.core.values import Passage
from hoptree.corpus.chunk import Chunking, load_tokenizer
from hoptree.corpus.contamination import check_questions
from hoptree.retrieval.index.ledger import Ledger
from hoptree.retrieval.index.manifest import Manifest, read_manifest


def source_name(source: Path) -> str:
    """What an index calls a source, from wherever it is named."""
    name = os.path.realpath(source)  # a link that leads in a circle, which Path refuses, is told where it is read
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(source).decode("utf-8", "backslashreplace")
        raise CorpusError(f"The path {shown} is not written in UTF-8.", "Rename what is called so on it.") from error
    return name


def sources_of(out: Path) -> list[Path]:
    """The sources of an index; an error if it has none, or one of them is gone."""
    paths = [Path(source) for source in read_manifest(out).sources]
    if not paths:
        raise CorpusError(f"The index {out} was not made from files.", "Add to it, or build it again.")
    for path in paths:
        try:
            path.stat()
        except PermissionError as error:
            raise CorpusError(
                f"The source {path} of the index cannot be reached: {error.strerror}.",
                "Allow entering the folders above it.",
            ) from error
        except OSError as error:
            raise CorpusError(
                f"The source {path} of the index is gone.",
                f"Put it back, or take its documents out: hoptree index remove {path} --out {out}",
            ) from error
    return paths


def prefix_for(source: str, ledger: Ledger) -> str:
    """What the names of a new source's documents begin with.

    The first source needs nothing. A further folder brings its own name along, since two folders may well hold a
    readme.txt each, and a file does so where another has its name; as many folders above are named as it takes to tell
    it from what is there. What lies inside another source is called what it is called there: it is the same.
    What lies around another source is a further folder, and what it holds of that one has two names.
    """
    known = ledger.sources()
    path = PurePath(source)
    is_folder = os.path.isdir(source)  # noqa: PTH112 - what may not be reached, which Path refuses, is told there
    folder = path if is_folder else path.parent
    for other in known:
        if path.is_relative_to(other):
            return "/".join(filter(None, (ledger.prefix_of(other), *folder.relative_to(other).parts)))
    if not known or not (is_folder or ledger.files_named(path.name)):
        return ""
    for prefix in _prefixes(folder):
        if not (ledger.has_below(prefix) if is_folder else ledger.files_named(f"{prefix}/{path.name}")):
            return prefix
    raise AssertionError("there is always another number")


def _prefixes(folder: PurePath) -> Iterator[str]:
    """The last folder of a path, the last two, …, then the last one with numbers."""
    parts = folder.parts[1:] or ("root",)
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[-length:])
    yield from (f"{parts[-1]}~{number}" for number in count(2))


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are read: kept in the index, so that `update` reads them the same way."""

    chunking: Chunking = field(default_factory=Chunking)
    tokenizer: Path | None = None
    skip_broken: int = 100
    without: tuple[Path, ...] = ()
    """Files of evaluation questions: a passage that holds one is left out (RA-ISF, section 4.3)."""

    def check(self) -> None:
        """An error if a file that reading needs is not there, or is another one."""
        if self.tokenizer:
            load_tokenizer(self.tokenizer)
        for path in self.without:
            check_questions(path)

    def stored(self) -> dict[str, str]:
        return {
            "chunking": str(self.chunking),
            "tokenizer": str(self.tokenizer.resolve()) if self.tokenizer else "",
            "skip_broken": str(self.skip_broken),
            "without": "\n".join(str(path.resolve()) for path in self.without),
        }

    @classmethod
    def restored(cls, stored: Mapping[str, str]) -> Reading:
        return cls(
            Chunking.parse(stored.get("chunking") or "auto"),
            Path(stored["tokenizer"]) if stored.get("tokenizer") else None,
            int(stored.get("skip_broken") or 100),
            tuple(Path(path) for path in stored.get("without", "").split("\n") if path),
        )


Place = tuple[str, str]
"""Source and name of a file."""


def conflict(passage: Passage, here: Place, there: Place) -> CorpusError:
    """The error for a passage of the file `here` whose id another passage has in the file `there`."""
    said = f"Two passages have the id '{passage.id}' and are not the same"
    if here == there:
        return CorpusError(f"{said}; both are in {_path(here)}.", "Give every passage an id of its own.")
    if here[0] == there[0]:
        said = f"{said}: one is in {here[1]}, the other one in {there[1]}"
        return CorpusError(f"{said}.", "Give every passage an id of its own.")
    named_after_file = bool(here[1]) and here[1] in passage.id
    return CorpusError(
        f"{said}: one is in {_path(here)}, the other one in {_path(there)}.",
        "Build the index again, which gives each a name of its own, or rename one of the two."
        if named_after_file
        else "Give every passage an id of its own.",
    )


def unclear(name: str, here: Place, there: Place) -> CorpusError:
    """The error for a name that is the path of the file `here`, and in the index that of something in `there`."""
    return CorpusError(
        f"'{name}' is the path of {_path(here)} from here, and in the index the name of what is in {_path(there)}.",
        "Give the whole path of the one that is meant.",
    )


def around(source: str, inner: str, out: Path) -> str:
    """The warning for a new source that lies around another one, under which its documents have other names."""
    return (
        f"{source} holds {inner}, which is a source already: what is named after its file is in the index twice. "
        f"To have it once: hoptree index remove {inner} --out {out}"
    )


def _path(place: Place) -> str:
    source, name = place
    if not source:
        return "the passages of a program"
    # A source that is a file has the name at its end already.
    return source if PurePath(source).name == name else f"{source}/{name}"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an indexing run is: `done` of `total` bytes when it reads or checks files, else of passages."""

    stage: str
    done: int
    total: int
    passages: int


Listener = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an indexing run did."""

    manifest: Manifest
    added: int
    unchanged: int
    replaced: int
    removed: int
    repeated: int
    held_questions: int
    resumed: bool
    passed_over: str
    examples: tuple[str, ...]

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


T = TypeVar("T")


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Run it to its end, also where an event loop is running already, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as beside:
        return beside.submit(asyncio.run, work).result()
