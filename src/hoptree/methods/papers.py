"""The papers of the methods: title, year and link, by the name that a method gives its paper."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True)
class Paper:
    """A paper. The year is that of its first version, not of its venue; None and "" where nothing is known."""

    title: str
    year: int | None = None
    link: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def cited(self) -> str:
        """The reference in one line, without the link."""
        return f"{self.title} ({self.year})" if self.year else self.title


_ROWS = json.loads((files("hoptree.methods") / "papers.json").read_text(encoding="utf-8"))
PAPERS: dict[str, tuple[Paper, ...]] = {name: tuple(Paper(**row) for row in rows) for name, rows in _ROWS.items()}
