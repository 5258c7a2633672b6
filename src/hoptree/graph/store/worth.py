"""Whether what was read of a file may be kept: nothing, or the rest of a damaged file, does not replace facts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hoptree.graph.errors import GraphError
from hoptree.graph.reading.broken import Broken
from hoptree.graph.store.manifest import Manifest, Source

__all__ = ["Worth"]


class Worth:
    """Refuses loads after which a graph would have lost what it had; `manifest` is from before the load."""

    def __init__(self, folder: Path, manifest: Manifest, broken: Broken, *, append: bool, empty: bool) -> None:
        self._folder, self._broken, self._empty = folder, broken, empty
        self._replaced = {} if append else {source.name: source for source in manifest.sources}

    def check_file(self, path: Path, source: str, form: str, kept: int, broken: int, left_out: int) -> None:
        """Refuse a file of which nothing was kept, and a damaged one for a source that is there."""
        if not kept and path.name in self._broken.cut:
            raise GraphError(
                f"{path.name} is cut or damaged, and nothing of it can be read.",
                "Get the file again. The graph is as it was.",
            )
        if not kept and broken:
            first = next((one for one in self._broken.sentences if path.name in one), "")
            raise GraphError(
                f"Nothing of {path.name} can be read as {form} ({_many(broken, 'broken place')}). {first}".rstrip(),
                "Mend the file, or name its form with --form (nt, nq, ttl, tsv or jsonl). The graph is as it was.",
            )
        if not kept and not self._empty:
            why = f"Nothing of {path.name} is kept: {_many(left_out, 'triple')} left out"
            raise GraphError(
                f"{why} (names in other languages, or what a dump says of itself)."
                if left_out
                else f"{path} is empty.",
                f"{self._instead(source)}The graph is as it was.",
            )
        old = self._replaced.get(source)
        if path.name in self._broken.cut and old is not None and old.facts + old.names:
            raise GraphError(
                f"{path.name} is cut or damaged, and would replace the {old.facts:,} facts of the source {source}.",
                f"Get the file again, or keep what can be read of it under another name: --source NAME. "
                f"To do without the old facts: hoptree graph remove '{source}' --out {self._folder}",
            )

    def check_sources(self, loaded: Iterable[Source]) -> None:
        """Refuse to put a source without facts in the place of one with facts."""
        for new in loaded:
            old = self._replaced.get(new.name)
            if old is not None and old.facts and not new.facts and not self._empty:
                raise GraphError(
                    f"The {_many(old.facts, 'fact')} of the source {new.name} would be replaced by none.",
                    f"Use --append to keep them. {self._instead(new.name)}The graph is as it was.",
                )

    def _instead(self, source: str) -> str:
        meant = "If that is meant, say --empty. "
        if source not in self._replaced:
            return meant
        return f"{meant}To take the source out: hoptree graph remove '{source}' --out {self._folder} . "


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
