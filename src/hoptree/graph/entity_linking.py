"""Find candidate entities by names, or by models that mark names in a text."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import TYPE_CHECKING, Any, Protocol

from hoptree.core.errors import ConfigError, InputError, MissingModel, UnusableReply
from hoptree.graph import names_index
from hoptree.graph.facts import Candidate, Candidates, Entity, KnowledgeGraph
from hoptree.graph.names_index import Hit, NameIndex
from hoptree.graph.relation_linking import FUNCTION_WORDS, Word, bare_words, likeness, name_words, question_words
from hoptree.graph.vocabulary import natural_key
from hoptree.text.names import name_spans

if TYPE_CHECKING:
    from hoptree.graph.embedded import EmbeddedGraph

_MAX_LOOKUPS = 6  # names of a text to look up without an index


def open_candidates(graph: KnowledgeGraph, *, on_progress: Callable[[int], None] = lambda done: None) -> Candidates:
    """Open or build the index of a graph's names; a remote graph searches itself."""
    if graph.remote:
        return LookupCandidates(graph)
    from hoptree.graph.embedded import EmbeddedGraph  # which an endpoint does not need

    assert isinstance(graph, EmbeddedGraph)
    return IndexedCandidates(graph, names_index.open_name_index(graph, on_progress=on_progress))


class LookupCandidates:
    """Looks up exact names in the graph itself; in a text, those with capitals."""

    def __init__(self, graph: KnowledgeGraph) -> None:
        self._graph = graph

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return _by_rank([await self._graph.entities(mention, limit=limit)], limit)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        spans = [text[start:end].removesuffix("'s").removesuffix("’s") for start, end in name_spans(text)]
        if spans and " " in spans[0] and text.lstrip().startswith(spans[0]):  # "Did John Campbell …"
            spans[0] = spans[0].partition(" ")[2]
        names = sorted(dict.fromkeys(spans), key=len, reverse=True)[:_MAX_LOOKUPS]
        return _by_rank([await self._graph.entities(name, limit=limit) for name in names], limit)


def _by_rank(groups: Sequence[Sequence[Entity]], limit: int) -> tuple[Candidate, ...]:
    """Rank the best candidate of each name before the second of any."""
    best: dict[str, Candidate] = {}
    for place in range(max((len(group) for group in groups), default=0)):
        for group in groups:
            if place < len(group):
                best.setdefault(group[place].id, Candidate(group[place], round(1 / (1 + place), 4)))
    return tuple(best.values())[:limit]


_FUNCTION_WEIGHT, _RELATION_WEIGHT, _LOWER_CASE_FACTOR = 0.2, 0.5, 0.6
"""Weights of function words, of words of relations, and of lower-case names in a text with capitals."""


class QuestionScorer:
    """Scores names by the words of a question; relation words (`plain`) count less."""

    def __init__(
        self, words: Sequence[Word], rarity: Callable[[str], float], plain: Collection[str], *, is_mention: bool
    ) -> None:
        self._words, self._rarity, self._plain, self._is_mention = words, rarity, plain, is_mention
        self._total = sum(self._weight(word.base) for word in words) or 1.0
        self._alike: dict[str, list[float]] = {}
        self._cased = any(word.capital for word in words[1:]) and not is_mention

    def score(self, name: Sequence[str]) -> float:
        """Return the share of the question that a name explains, from 0 to 1."""
        name_weight = sum(self._weight(word) for word in name)
        places: dict[int, float] = {}
        matched = 0.0
        for word in name:
            place, alike = self._place(word, places)
            if alike:
                places[place] = alike
                matched += alike * self._weight(word)
        if not places or not name_weight:
            return 0.0
        together = len(places) / (max(places) - min(places) + 1)
        share = matched / name_weight
        score = min(1.0, matched / self._total) * share * (share if not self._is_mention else 1.0) * sqrt(together)
        if self._cased and not any(self._words[place].capital for place in places):
            score *= _LOWER_CASE_FACTOR
        return round(score, 6)

    def _weight(self, word: str) -> float:
        part = _FUNCTION_WEIGHT if word in FUNCTION_WORDS else _RELATION_WEIGHT if word in self._plain else 1.0
        return part * self._rarity(word)

    def _place(self, word: str, taken: Collection[int]) -> tuple[int, float]:
        """Return the place of the most similar word, the nearest free one of equals."""
        alike = self._alike.get(word)
        if alike is None:
            alike = self._alike[word] = [max(likeness(word, own.text), likeness(word, own.base)) for own in self._words]
        near = max(taken, default=-1) + 1
        free = [place for place, score in enumerate(alike) if score and place not in taken]
        best = max(free, key=lambda place: (alike[place], -abs(place - near)), default=-1)
        return best, alike[best] if free else 0.0


_MAX_SEARCH_S = 2.0
_MAX_NAME_WORDS = 10  # words of a name inside a question
_MAX_WORD_HITS, _MAX_FUZZY_HITS = 100, 40  # names with some of the words, and with a similar word, that are scored
_MAX_FUZZY_WORDS = 12  # words of a question that are searched with other spellings
_MAX_DEGREE = 50  # triples of an entity that are counted in each direction
_MAX_NAMESAKES, _NAMESAKE_FACTOR = 200, 0.85
"""Entities of one name whose facts are counted, and the weight of each relative to the one before."""
_MAX_PROPERTIES = 5_000


class IndexedCandidates:
    """Looks up rows of words as names, then similar ones, for up to `seconds`."""

    def __init__(self, graph: EmbeddedGraph, index: NameIndex, *, seconds: float = _MAX_SEARCH_S) -> None:
        self._graph, self._index, self._seconds = graph, index, seconds
        self._relation_words: frozenset[str] | None = None

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await asyncio.to_thread(self.find, mention, limit, is_mention=True)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await asyncio.to_thread(self.find, text, limit, is_mention=False)

    def find(self, text: str, limit: int, *, is_mention: bool) -> tuple[Candidate, ...]:
        """Find candidates in this thread; `is_mention`: a name alone."""
        until = time.monotonic() + self._seconds
        words = question_words(text)
        if not words:
            return ()
        plain = frozenset[str]() if is_mention else self._get_relation_words()
        asked = QuestionScorer(words, self._index.rarity, plain, is_mention=is_mention)
        fits: dict[tuple[str, ...], float] = {}
        best: dict[str, tuple[float, tuple[str, ...]]] = {}
        for identifier, name in self._hits(words, until, is_mention):
            if name not in fits:
                fits[name] = asked.score(name)
            if fits[name] > best.get(identifier, (0.0, ()))[0]:
                best[identifier] = (fits[name], name)
        return tuple(self._candidates(best, limit))

    def _hits(self, words: Sequence[Word], until: float, is_mention: bool) -> Iterator[Hit]:
        for span in _spans(words, is_mention):
            if time.monotonic() > until:
                return
            yield from self._index.exact_name(span)
        content = [word for word in words if word.text not in FUNCTION_WORDS] or list(words)
        known = dict.fromkeys(form for word in content for form in (word.text, word.base) if self._index.knows(form))
        yield from self._index.with_words(known, _MAX_WORD_HITS)
        # Unknown words come first: they are the likeliest to be misspelt.
        long = dict.fromkeys(word.base for word in content if len(word.base) > 3 and word.base.isalpha())
        misspelt = sorted(long, key=self._index.knows)
        for word in misspelt[:_MAX_FUZZY_WORDS]:
            if time.monotonic() > until:
                return
            distance = 2 if len(word) >= 8 and not self._index.knows(word) else 1
            others = [other for other in known if other != word]
            yield from self._index.with_nearly(word, others, _MAX_FUZZY_HITS, distance=distance)

    def _get_relation_words(self) -> frozenset[str]:
        """Return the words that name relations of this graph."""
        if self._relation_words is None:
            names = self._graph.relation_names(_MAX_PROPERTIES)
            self._relation_words = frozenset(word for name in names for word in name_words(name))
        return self._relation_words

    def _candidates(self, best: Mapping[str, tuple[float, tuple[str, ...]]], limit: int) -> Iterator[Candidate]:
        """Yield the best candidates; each further namesake counts less."""
        by_name: dict[tuple[float, tuple[str, ...]], list[str]] = {}
        for identifier, match in best.items():
            by_name.setdefault(match, []).append(identifier)
        ranked: list[tuple[float, str]] = []
        for score, name in sorted(by_name, reverse=True)[:limit]:
            namesakes = by_name[score, name]
            if len(namesakes) > 1:
                namesakes = sorted(namesakes, key=natural_key)[: max(_MAX_NAMESAKES, limit)]
                namesakes.sort(key=lambda identifier: self._graph.degree(identifier, _MAX_DEGREE), reverse=True)
            ranked += [(score * _NAMESAKE_FACTOR**place, entity) for place, entity in enumerate(namesakes[:limit])]
        ranked.sort(key=lambda row: (-row[0], natural_key(row[1])))
        for score, identifier in ranked[:limit]:
            if (known := self._graph.entity_now(identifier)) is not None:
                yield Candidate(known, round(score, 4))


def _spans(words: Sequence[Word], is_mention: bool) -> Iterable[tuple[str, ...]]:
    """Return the word sequences that may be a name."""
    if is_mention:
        rows: Iterable[Sequence[Word]] = (words,)
    else:
        sizes = range(1, _MAX_NAME_WORDS + 1)
        rows = (words[start : start + size] for start in range(len(words)) for size in sizes)
    names: dict[tuple[str, ...], None] = {}
    for row in rows:
        texts = [word.text for word in row]
        names |= dict.fromkeys((tuple(texts), (*texts[:-1], row[-1].base)))
    return names


_KINDS = {
    "gliner": "Install it: pip install gliner",
    "relik": "Install it in an environment of its own: pip install --no-deps relik, then what it misses. It asks for "
    "older versions of typer, torch and transformers than Hoptree takes.",
}
"""The packages of linkers, and how to get each."""
_MAX_ENTITIES = 5  # entities of one name
_CACHED_TEXTS = 1_000


@dataclass(frozen=True, slots=True)
class Mention:
    """A name in a text, with its Wikipedia `title` if known; `score` is 0 to 1."""

    text: str
    title: str = ""
    score: float = 1.0


class MentionModel(Protocol):
    """Marks the names in a text."""

    name: str

    def read(self, text: str) -> tuple[Mention, ...]:
        """Return the names; runs in this thread, one text at a time."""


def open_mention_model(spec: str) -> MentionModel:
    """Load the model of `gliner:NAME_OR_FOLDER` or `relik:NAME_OR_FOLDER`."""
    kind, where = parse_linker(spec)
    return Gliner(where) if kind == "gliner" else Relik(where)


def check_linker(spec: str) -> None:
    """Refuse a linker whose package is not installed, without loading it."""
    kind, _ = parse_linker(spec)
    if kind not in sys.modules and importlib.util.find_spec(kind) is None:
        raise _missing_package(kind, "it is not installed")


def parse_linker(spec: str) -> tuple[str, str]:
    """Split a specification into kind and name or folder; refuse others."""
    kind, colon, where = spec.partition(":")
    if kind not in _KINDS or not colon or not where.strip():
        cause = f"'{spec}' is not a linker."
        raise ConfigError(cause, "Write gliner:NAME_OR_FOLDER or relik:NAME_OR_FOLDER, or leave it out.")
    return kind, where.strip()


@lru_cache(maxsize=2)
def shared_mention_model(spec: str) -> MentionModel:
    """Return the model of a specification, loaded once a process."""
    return _Shared(open_mention_model(spec))


class _Shared:
    """A model that reads one text at a time, with a cache."""

    def __init__(self, model: MentionModel) -> None:
        self.name = model.name
        self._read = lru_cache(_CACHED_TEXTS)(model.read)
        self._lock = threading.Lock()

    def read(self, text: str) -> tuple[Mention, ...]:
        with self._lock:
            return self._read(text)


def _import_package(name: str) -> Any:
    """Import an optional package that is in no group of dependencies."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _missing_package(name, str(error)) from error


def _missing_package(name: str, why: str) -> InputError:
    return InputError(f"This linker needs the package {name}, which cannot be loaded ({why}).", _KINDS[name])


class MentionModelCandidates:
    """Looks up the names that a model marks in a text.

    A title means the entities of that page, or those with that name; otherwise the words in the text are looked up.
    """

    def __init__(self, model: MentionModel, names: Candidates) -> None:
        self._names, self._model = names, _Shared(model)

    async def of_mention(self, mention: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        return await self._names.of_mention(mention, limit=limit)

    async def of_text(self, text: str, *, limit: int = 10) -> tuple[Candidate, ...]:
        best: dict[str, Candidate] = {}
        for mention in await asyncio.to_thread(self._model.read, text) if text.strip() else ():
            for candidate in await self._entities_of(mention):
                scored = Candidate(candidate.entity, round(candidate.score * mention.score, 4))
                key = candidate.entity.id or candidate.entity.label  # titles of a corpus have no ids
                if key not in best or best[key].score < scored.score:
                    best[key] = scored
        return tuple(sorted(best.values(), key=lambda candidate: -candidate.score)[:limit])

    async def _entities_of(self, mention: Mention) -> Sequence[Candidate]:
        if mention.title:
            bare = " ".join(bare_words(mention.title))
            candidates = list(await self._names.of_mention(mention.title, limit=_MAX_ENTITIES))
            candidates += await self._names.of_mention(bare, limit=_MAX_ENTITIES) if bare else ()
            of_page = [candidate for candidate in candidates if candidate.entity.page == mention.title]
            wanted = {name_words(mention.title), bare_words(mention.title)} - {()}
            if exact := of_page or [candidate for candidate in candidates if _words_of(candidate.entity) & wanted]:
                return exact
        return await self._names.of_mention(mention.text, limit=_MAX_ENTITIES)


def _words_of(entity: Entity) -> set[tuple[str, ...]]:
    return {words for name in (entity.label, *entity.aliases) for words in (name_words(name), bare_words(name))}


LABELS = (
    *("person", "organization", "location", "country", "film", "television series", "book", "song", "album"),
    *("work of art", "event", "sports team", "award", "language", "animal or plant", "product", "astronomical object"),
)
"""Kinds of things that questions ask about; GLiNER marks nothing else."""
_THRESHOLD = 0.3  # below GLiNER's default 0.5: surplus names are dropped later, missing ones are lost


class Gliner:
    """A GLiNER model from a folder or the hub."""

    def __init__(self, where: str) -> None:
        self.name = f"gliner:{where}"
        module = _import_package("gliner")
        try:
            self._model: Any = module.GLiNER.from_pretrained(where)
        except Exception as error:  # the package and the hub raise errors of all kinds
            cause = f"GLiNER cannot load {where} ({type(error).__name__}: {error})."
            raise MissingModel(cause, "Give a folder with a GLiNER model, or its name on the hub.") from error

    def read(self, text: str) -> tuple[Mention, ...]:
        try:
            entities = self._model.predict_entities(text, list(LABELS), threshold=_THRESHOLD)
            scored = [(str(entity["text"]), min(1.0, max(0.0, float(entity["score"])))) for entity in entities]
        except Exception as error:
            raise UnusableReply(f"{self.name} failed ({type(error).__name__}: {error}).", "Ask without it.") from error
        mentions = [Mention(name, score=score) for name, score in scored if name.strip()]
        return tuple(sorted(mentions, key=lambda mention: -mention.score))


_NO_ENTITY = "--NME--"


class Relik:
    """A ReLiK pipeline for entity linking from a folder or the hub."""

    def __init__(self, where: str) -> None:
        self.name = f"relik:{where}"
        module = _import_package("relik")
        try:
            with contextlib.redirect_stdout(sys.stderr):  # it prints a banner, which would mix with our output
                self._model: Any = module.Relik.from_pretrained(where)
        except Exception as error:  # the package and the hub raise errors of all kinds
            remedy = "Give a folder with a ReLiK pipeline for entity linking, or its name on the hub."
            raise MissingModel(f"ReLiK cannot load {where} ({type(error).__name__}: {error}).", remedy) from error

    def read(self, text: str) -> tuple[Mention, ...]:
        try:
            spans = [(str(span.text), str(span.label)) for span in self._model(text).spans]
        except Exception as error:
            raise UnusableReply(f"{self.name} failed ({type(error).__name__}: {error}).", "Ask without it.") from error
        return tuple(Mention(name, "" if title == _NO_ENTITY else title) for name, title in spans if name.strip())
