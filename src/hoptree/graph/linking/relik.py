"""Names linked to titles of Wikipedia by ReLiK, the linker of TreeQA's paper.

Written after version 1.0.7 of the package `relik`: `Relik.from_pretrained(name_or_dir)` loads retriever, index and
reader; a call with one text gives a RelikOutput whose `spans` are tuples (start, end, label, text), the label a title
of Wikipedia, or --NME-- for a name of nothing that it knows.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from hoptree.errors import MissingModel, UnusableReply
from hoptree.graph.linking.reading import Mention, package

__all__ = ["Relik"]

_NOTHING_KNOWN = "--NME--"
_REMEDY = (
    "Install it in an environment of its own: pip install --no-deps relik, then what it misses. It asks for older "
    "versions of typer, torch and transformers than Hoptree takes."
)


class Relik:
    """A ReLiK pipeline for entity linking from a folder or the hub."""

    def __init__(self, where: str) -> None:
        self.name = f"relik:{where}"
        module = package("relik", _REMEDY)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # it prints a banner, where figures should stand alone
                self._model: Any = module.Relik.from_pretrained(where)
        except Exception as error:  # the package and the hub raise whatever they meet
            raise MissingModel(
                f"ReLiK cannot load {where} ({type(error).__name__}: {error}).",
                "Give a folder with a ReLiK pipeline for entity linking, or its name on the hub.",
            ) from error

    def read(self, text: str) -> tuple[Mention, ...]:
        try:
            spans = [(str(span.text), str(span.label)) for span in self._model(text).spans]
        except Exception as error:
            raise UnusableReply(f"{self.name} failed ({type(error).__name__}: {error}).", "Ask without it.") from error
        return tuple(Mention(said, "" if title == _NOTHING_KNOWN else title) for said, title in spans if said.strip())
