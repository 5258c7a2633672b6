"""Candidates from models that mark names in a text (GLiNER, ReLiK), beside the index of names."""

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
from hoptree.graph.relation_linking import bare_words, name_words

_KINDS = ("gliner", "relik")
_MAX_ENTITIES = 5
"""Entities of one name."""
_CACHED_TEXTS = 1_000


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text; `title` is its Wikipedia page if the model knows it, `score` from 0 to 1."""

    text: str
    title: str = ""
    score: float = 1.0


class MentionModel(Protocol):
    """Marks the names in a text."""

    @property
    def name(self) -> str: ...

    def read(self, text: str) -> tuple[Mention, ...]:
        """Return the names; runs in this thread, one text at a time."""


def open_mention_model(spec: str) -> MentionModel:
    """Load the model of `gliner:NAME_OR_FOLDER` or `relik:NAME_OR_FOLDER`."""
    kind, where = parse_linker(spec)
    return Gliner(where) if kind == "gliner" else Relik(where)


def parse_linker(spec: str) -> tuple[str, str]:
    """Split a specification into kind and name or folder; refuse what is none."""
    kind, colon, where = spec.partition(":")
    if kind not in _KINDS or not colon or not where.strip():
        raise ConfigError(
            f"'{spec}' is no linker.", "Write gliner:NAME_OR_FOLDER or relik:NAME_OR_FOLDER, or leave it out."
        )
    return kind, where.strip()


@lru_cache(maxsize=2)
def shared_mention_model(spec: str) -> MentionModel:
    """Return the model of a specification, loaded once for all questions of this process."""
    return _Shared(open_mention_model(spec))


class _Shared:
    def __init__(self, model: MentionModel) -> None:
        self.name = model.name
        self._read = lru_cache(_CACHED_TEXTS)(model.read)
        self._lock = threading.Lock()

    def read(self, text: str) -> tuple[Mention, ...]:
        with self._lock:
            return self._read(text)


def _import_package(name: str, remedy: str) -> Any:
    """Import an optional package that is in no group of dependencies."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InputError(f"This linker needs the package {name}, which cannot be loaded ({error}).", remedy) from error


class MentionModelCandidates:
    """Looks up the names that a model marks in a text; single mentions go to the index directly.

    A title stands for the entities of that page, else for those with that name, else the words in the text count.
    """

    def __init__(self, model: MentionModel, names: Candidates) -> None:
        self._names = names
        self._lock = threading.Lock()
        self._read = lru_cache(_CACHED_TEXTS)(model.read)

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self._names.of_mention(mention, limit=limit)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        best: dict[str, Candidate] = {}
        for mention in await asyncio.to_thread(self._mentions, text):
            for candidate in await self._entities_of(mention):
                scored = Candidate(candidate.entity, round(candidate.score * mention.score, 4))
                key = candidate.entity.id or candidate.entity.label  # titles of a corpus have no ids
                if key not in best or best[key].score < scored.score:
                    best[key] = scored
        return tuple(sorted(best.values(), key=lambda candidate: -candidate.score)[:limit])

    def _mentions(self, text: str) -> tuple[Mention, ...]:
        with self._lock:
            return self._read(text) if text.strip() else ()

    async def _entities_of(self, mention: Mention) -> Sequence[Candidate]:
        if mention.title:
            bare = " ".join(bare_words(mention.title))
            candidates = list(await self._names.of_mention(mention.title, limit=_MAX_ENTITIES))
            candidates += await self._names.of_mention(bare, limit=_MAX_ENTITIES) if bare else ()
            of_page = [candidate for candidate in candidates if candidate.entity.page == mention.title]
            exact = of_page or [candidate for candidate in candidates if _is_called(candidate.entity, mention.title)]
            if exact:
                return exact
        return await self._names.of_mention(mention.text, limit=_MAX_ENTITIES)


def _is_called(entity: Entity, title: str) -> bool:
    wanted = {name_words(title), bare_words(title)} - {()}
    return any(name_words(name) in wanted or bare_words(name) in wanted for name in (entity.label, *entity.aliases))


LABELS = (
    *("person", "organization", "location", "country", "film", "television series", "book", "song", "album"),
    *("work of art", "event", "sports team", "award", "language", "animal or plant", "product", "astronomical object"),
)
"""Kinds of things that questions ask about; GLiNER marks nothing else."""
_THRESHOLD = 0.3
"""Lower than GLiNER's default 0.5: a name too many is dropped later, one too few is lost."""


class Gliner:
    """A GLiNER model from a folder or the hub."""

    def __init__(self, where: str) -> None:
        self.name = f"gliner:{where}"
        module = _import_package("gliner", "Install it: pip install gliner")
        try:
            self._model: Any = module.GLiNER.from_pretrained(where)
        except Exception as error:  # the package and the hub raise whatever they meet
            raise MissingModel(
                f"GLiNER cannot load {where} ({type(error).__name__}: {error}).",
                "Give a folder with a GLiNER model, or its name on the hub.",
            ) from error

    def read(self, text: str) -> tuple[Mention, ...]:
        try:
            entities = self._model.predict_entities(text, list(LABELS), threshold=_THRESHOLD)
            scored = [(str(entity["text"]), min(1.0, max(0.0, float(entity["score"])))) for entity in entities]
        except Exception as error:
            raise UnusableReply(f"{self.name} failed ({type(error).__name__}: {error}).", "Ask without it.") from error
        mentions = [Mention(name, score=score) for name, score in scored if name.strip()]
        return tuple(sorted(mentions, key=lambda mention: -mention.score))


_NO_ENTITY = "--NME--"
_REMEDY = (
    "Install it in an environment of its own: pip install --no-deps relik, then what it misses. It asks for older "
    "versions of typer, torch and transformers than Hoptree takes."
)


class Relik:
    """A ReLiK pipeline for entity linking from a folder or the hub."""

    def __init__(self, where: str) -> None:
        self.name = f"relik:{where}"
        module = _import_package("relik", _REMEDY)
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
        return tuple(Mention(name, "" if title == _NO_ENTITY else title) for name, title in spans if name.strip())
