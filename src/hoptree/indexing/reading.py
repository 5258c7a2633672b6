"""How the sources of an index are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hoptree.corpus.chunk import Chunking, load_tokenizer
from hoptree.corpus.contamination import check_questions

__all__ = ["Reading"]


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
