"""Names marked by GLiNER, an encoder that finds spans of any kinds it is told.

Written after version 0.2.29 of the package `gliner`: `GLiNER.from_pretrained(model_id)` takes a folder or a name of the
hub; `predict_entities(text, labels, flat_ner=True, threshold=0.5)` gives dicts with start, end, text, label and score.
"""

from __future__ import annotations

from typing import Any

from hoptree.errors import MissingModel, UnusableReply
from hoptree.graph.linking.reading import Mention, package

__all__ = ["LABELS", "Gliner"]

LABELS = (
    *("person", "organization", "location", "country", "film", "television series", "book", "song", "album"),
    *("work of art", "event", "sports team", "award", "language", "animal or plant", "product", "astronomical object"),
)
"""Kinds of things that questions ask about; a model of this kind marks nothing else."""
_THRESHOLD = 0.3
"""Lower than GLiNER's own 0.5: a name too many is sorted out later, one too few is lost."""


class Gliner:
    """A GLiNER model from a folder or the hub."""

    def __init__(self, where: str) -> None:
        self.name = f"gliner:{where}"
        module = package("gliner", "Install it: pip install gliner")
        try:
            self._model: Any = module.GLiNER.from_pretrained(where)
        except Exception as error:  # the package and the hub raise whatever they meet
            raise MissingModel(
                f"GLiNER cannot load {where} ({type(error).__name__}: {error}).",
                "Give a folder with a GLiNER model, or its name on the hub.",
            ) from error

    def read(self, text: str) -> tuple[Mention, ...]:
        try:
            found = self._model.predict_entities(text, list(LABELS), threshold=_THRESHOLD)
            mentions = [Mention(str(one["text"]), score=min(1.0, max(0.0, float(one["score"])))) for one in found]
        except Exception as error:
            raise UnusableReply(f"{self.name} failed ({type(error).__name__}: {error}).", "Ask without it.") from error
        return tuple(sorted((one for one in mentions if one.text.strip()), key=lambda one: -one.score))
