"""Candidates from a model that marks names in a text, beside the index of names."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from hoptree.core.errors import ConfigError, InputError, MissingModel, UnusableReply
from hoptree.graph.facts import Candidate, Candidates, Entity
from hoptree.graph.linking.words import bare_words, name_words

READERS = ("gliner", "relik")
_EACH = 5
"""Entities of one name."""
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text; `title` is that of the Wikipedia page it means, where the model tells, `score` from 0 to 1."""

    text: str
    title: str = ""
    score: float = 1.0


class MentionModel(Protocol):
    """Marks the names in a text; `name` tells it from others."""

    @property
    def name(self) -> str: ...

    def read(self, text: str) -> tuple[Mention, ...]:
        """The names, in this thread, one text at a time."""


def open_mention_model(spec: str) -> MentionModel:
    """The model of `gliner:NAME_OR_FOLDER` or `relik:NAME_OR_FOLDER`, loaded by the package of that name."""
    kind, where = parse_linker(spec)
    if kind == "gliner":
        return Gliner(where)

    return Relik(where)


def parse_linker(spec: str) -> tuple[str, str]:
    """The kind of a specification and its name or folder, which is not looked at; refused where it is none."""
    kind, colon, where = spec.partition(":")
    if kind not in READERS or not colon or not where.strip():
        raise ConfigError(
            f"'{spec}' is no linker.", "Write gliner:NAME_OR_FOLDER or relik:NAME_OR_FOLDER, or leave it out."
        )
    return kind, where.strip()


@lru_cache(maxsize=2)
def shared_mention_model(spec: str) -> MentionModel:
    """The model of a specification for all questions of this process: loaded once, it reads one text at a time."""
    return _Shared(open_mention_model(spec))


class _Shared:
    def __init__(self, reader: MentionModel) -> None:
        self.name = reader.name
        self._read = lru_cache(_REMEMBERED)(reader.read)
        self._one_at_a_time = threading.Lock()

    def read(self, text: str) -> tuple[Mention, ...]:
        with self._one_at_a_time:
            return self._read(text)


def package(name: str, remedy: str) -> Any:
    """An optional package that no group of dependencies holds; its types are not looked at."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"This linker needs the package {name}, which cannot be loaded ({error}).", remedy) from error


class MentionModelCandidates:
    """The names that a model marks in a text, looked up in the index of names; a name by itself as the index has it.

    A title counts for the entities of that page, then for those with that name; where there are none, the words in the
    text do.
    """

    def __init__(self, reader: MentionModel, names: Candidates) -> None:
        self._names = names
        self._one_at_a_time = threading.Lock()
        self._read = lru_cache(_REMEMBERED)(reader.read)

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self._names.of_mention(mention, limit=limit)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        best: dict[str, Candidate] = {}
        for mention in await asyncio.to_thread(self._mentions, text):
            for one in await self._meant(mention):
                found = Candidate(one.entity, round(one.score * mention.score, 4))
                key = one.entity.id or one.entity.label  # titles of a corpus have no ids
                if key not in best or best[key].score < found.score:
                    best[key] = found
        return tuple(sorted(best.values(), key=lambda one: -one.score)[:limit])

    def _mentions(self, text: str) -> tuple[Mention, ...]:
        with self._one_at_a_time:
            return self._read(text) if text.strip() else ()

    async def _meant(self, mention: Mention) -> Sequence[Candidate]:
        if mention.title:
            bare = " ".join(bare_words(mention.title))
            found = list(await self._names.of_mention(mention.title, limit=_EACH))
            found += await self._names.of_mention(bare, limit=_EACH) if bare else ()
            of_page = [one for one in found if one.entity.page == mention.title]
            exact = of_page or [one for one in found if _is_called(one.entity, mention.title)]
            if exact:
                return exact
        return await self._names.of_mention(mention.text, limit=_EACH)


def _is_called(entity: Entity, title: str) -> bool:
    wanted = {name_words(title), bare_words(title)} - {()}
    return any(name_words(name) in wanted or bare_words(name) in wanted for name in (entity.label, *entity.aliases))


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
