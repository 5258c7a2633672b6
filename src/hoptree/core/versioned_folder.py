"""A folder that changes in one step: numbered generations, and a manifest that names the one that counts.

DIR/MANIFEST        a JSON file, replaced in one step
DIR/000002/         the data of the generation it names
DIR/000003.part/    a change that is being made, or was interrupted
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Collection
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hoptree.core.files import FolderLock, atomic_write

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_GENERATION = re.compile(r"\d{6}(\.part)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class VersionedFolder:
    """The layout of a folder; `marker` is a subfolder of every generation, "" if its name is enough to know it by."""

    path: Path
    manifest_name: str
    marker: str = ""

    def generation(self, number: int) -> Path:
        return self.path / f"{number:06d}"

    def part(self, number: int) -> Path:
        return self.path / f"{number:06d}.part"

    def has_manifest(self) -> bool:
        return (self.path / self.manifest_name).exists()

    def read_manifest(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads((self.path / self.manifest_name).read_text(encoding="utf-8"))
        return data

    def write_manifest(self, manifest: DataclassInstance) -> None:
        """Replace the manifest in one step: from then on readers see the generation it names."""
        atomic_write(self.path / self.manifest_name, [json.dumps(asdict(manifest), indent=1)])

    def owns(self, path: Path) -> bool:
        """Tell whether something in the folder belongs to it; nothing else is ever deleted."""
        if path.name in (FolderLock.NAME, f"{self.manifest_name}.new"):
            return True
        return bool(_GENERATION.fullmatch(path.name)) and not path.is_symlink() and (path / self.marker).is_dir()

    def is_foreign(self) -> bool:
        """Tell whether the path is a file, or a folder without a manifest that holds anything else."""
        if self.has_manifest() or not self.path.exists():
            return False
        return not self.path.is_dir() or any(not self.owns(path) for path in self.path.iterdir())

    def next_number(self) -> int:
        """Return the number for a folder without a manifest: that of an interrupted change, or an unused one."""
        numbered = [path for path in self.path.iterdir() if _GENERATION.fullmatch(path.name)]
        interrupted = [int(path.name[:6]) for path in numbered if self.owns(path)]
        return max(interrupted) if interrupted else max((int(path.name[:6]) for path in numbered), default=0) + 1

    def sweep(self, keep: Collection[str] = ()) -> None:
        """Delete generations but those to keep, as far as possible; readers that have one open keep it until then."""
        for path in list(self.path.iterdir()):
            if path.is_dir() and path.name not in keep and self.owns(path):
                with suppress(OSError):
                    self.delete(path)

    def delete(self, generation: Path) -> None:
        """Delete a generation and its marker last, so that the next change knows the rest if this one is killed."""
        for path in sorted(generation.iterdir(), key=lambda path: path.name == self.marker):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
        generation.rmdir()


def check_fields(data: dict[str, Any], manifest: type[DataclassInstance]) -> None:
    """Raise a ValueError if a manifest has not just the fields of its class."""
    if set(data) != {known.name for known in fields(manifest)}:
        raise ValueError("its manifest has other fields")


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """Hard-link what is written once; copy what is written again, or what the file system cannot link."""
    if not str(source).endswith((".json", ".sqlite")):
        with suppress(OSError):
            os.link(source, target)
            return
    shutil.copyfile(source, target)
