"""Names of sources, reading settings, and the reports of an indexing run."""

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
from hoptree.corpus.read import check_questions
from hoptree.retrieval.index.folder import Manifest, read_manifest
from hoptree.retrieval.index.ledger import Ledger


def source_name(source: Path) -> str:
    """Return the name of a source in an index: its real path."""
    name = os.path.realpath(source)  # Path would refuse a circular link, which reading reports
    try:
        name.encode()
    except UnicodeEncodeError as error:
        shown = os.fsencode(source).decode("utf-8", "backslashreplace")
        raise CorpusError(
            f"The path {shown} is not written in UTF-8.", "Rename the parts of it that are not."
        ) from error
    return name


def sources_of(out: Path) -> list[Path]:
    """Return the sources of an index; raise an error if there is none or one is gone."""
    paths = [Path(source) for source in read_manifest(out).sources]
    if not paths:
        raise CorpusError(f"The index {out} was not made from files.", "Add to it, or build it again.")
    for path in paths:
        try:
            path.stat()
        except PermissionError as error:
            cause = f"The source {path} of the index cannot be reached: {error.strerror}."
            raise CorpusError(cause, "Allow entering the folders above it.") from error
        except OSError as error:
            remedy = f"Put it back, or take its documents out: hoptree index remove {path} --out {out}"
            raise CorpusError(f"The source {path} of the index is gone.", remedy) from error
    return paths


def prefix_for(source: str, ledger: Ledger) -> str:
    """Return the prefix of the names of a new source's documents.

    The first source needs no prefix. A further folder has its own name, since two folders may each hold a readme.txt; a
    file has that of its folder if another file has its name. Parent folders are added until the prefix is unique. What
    is inside another source keeps its name there. A folder around another source counts as a further folder.
    """
    known = ledger.sources()
    path = PurePath(source)
    is_folder = os.path.isdir(source)  # noqa: PTH112 - Path raises an error for what may not be reached
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
    """Yield the last folder of a path, the last two, and so on, then numbered names."""
    parts = folder.parts[1:] or ("root",)
    for length in range(1, len(parts) + 1):
        yield "/".join(parts[-length:])
    yield from (f"{parts[-1]}~{number}" for number in count(2))


@dataclass(frozen=True, slots=True)
class Reading:
    """How sources are read; stored in the index, so that updates read them alike."""

    chunking: Chunking = field(default_factory=Chunking)
    tokenizer: Path | None = None
    skip_broken: int = 100
    without: tuple[Path, ...] = ()
    """Files of evaluation questions; passages with one are left out (RA-ISF, section 4.3)."""
    readers: str = ""
    """The version of the readers that read all files; "" where it is not tracked."""

    def check(self) -> None:
        """Raise an error if a file that reading needs is missing or of the wrong kind."""
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
            **({"readers": self.readers} if self.readers else {}),
        }

    @classmethod
    def restored(cls, stored: Mapping[str, str]) -> Reading:
        return cls(
            Chunking.parse(stored.get("chunking") or "auto"),
            Path(stored["tokenizer"]) if stored.get("tokenizer") else None,
            int(stored.get("skip_broken") or 100),
            tuple(Path(path) for path in stored.get("without", "").split("\n") if path),
            stored.get("readers", ""),
        )


Place = tuple[str, str]  # source and name of a file


def id_conflict(passage: Passage, here: Place, there: Place) -> CorpusError:
    """Return the error for two different passages with the same id."""
    cause = f"Two passages have the id '{passage.id}' and are not the same"
    remedy = "Give every passage an id of its own."
    if here == there:
        return CorpusError(f"{cause}; both are in {_path(here)}.", remedy)
    if here[0] == there[0]:
        return CorpusError(f"{cause}: one is in {here[1]}, the other one in {there[1]}.", remedy)
    if here[1] and here[1] in passage.id:  # it is named after its file
        remedy = "Build the index again, which gives each a name of its own, or rename one of the two."
    return CorpusError(f"{cause}: one is in {_path(here)}, the other one in {_path(there)}.", remedy)


def ambiguous_name(name: str, here: Place, there: Place) -> CorpusError:
    """Return the error for a name in the index that is the path of another file."""
    cause = f"'{name}' is the path of {_path(here)} from here, and in the index the name of what is in {_path(there)}."
    return CorpusError(cause, "Give the whole path of the one that is meant.")


def _path(place: Place) -> str:
    source, name = place
    if not source:
        return "the passages of a program"
    # A source that is a file has the name at its end already.
    return source if PurePath(source).name == name else f"{source}/{name}"


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress in bytes while reading or checking files, otherwise in passages."""

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
    report: tuple[str, ...]
    """The examples without repetitions: one line for all files of an unknown kind."""

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


T = TypeVar("T")


def run_coroutine(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end, even inside a running event loop, as in a notebook."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, work).result()
