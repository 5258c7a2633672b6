"""Passages as the ranker reads them: terms, sentences and names, whatever the question."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache
from math import log

from hoptree.core.values import Passage
from hoptree.retrieval.index.ledger import key_of
from hoptree.retrieval.index.links import Links, folded, names_of
from hoptree.retrieval.index.text_index import Texts
from hoptree.text.names import sentences

YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")
DIGIT = re.compile(r"\d")
MAX_SENTENCES = 24
_VIEWS_KEPT, _NAMES_KEPT = 2_000, 10_000
_MAX_DIGITS = 40
_RELATED = (
    "birth born birthplace birthday native",
    "death died die dead killed buried burial grave murdered",
    "spouse husband wife married marriage widow partner",
    "child children son daughter father mother parent",
    "sibling brother sister twin",
    "education educated studied attended graduated student alumnus college university school",
    "employer employed worked professor staff joined occupation profession career",
    "award prize won winner received honor nominated",
    "founder founded established formed created inception",
    "author wrote written writer novel book",
    "performer performed sang sung singer band artist song recorded album vocals musician",
    "label record records released signed",
    "producer produced production studio",
    "director directed film",
    "composer composed music score songwriter",
    "cast starring star actor actress played character role portrayed",
    "located location situated county district region municipality province state",
    "capital seat city",
    "population inhabitants people census residents",
    "owner owned company subsidiary acquired",
    "operator operated operates airline navy service",
    "manufacturer manufactured built maker developer developed designed",
    "citizenship nationality country nation",
    "leader president minister mayor governor head chairman king queen ruler",
    "party political member politician elected",
    "league team club player season football coach",
    "network broadcast channel station aired television radio licensed",
    "religion church faith",
    "language spoken speak",
    "border borders adjacent north south east west",
    "river flows mouth tributary lake",
    "war battle army military invaded troops forces",
    "area size square kilometres miles",
    "began started ended opened first",
    "headquarters headquartered based offices",
    "publisher published magazine newspaper",
    "discovered discovery discoverer explored invented inventor invention",
    "residence lived resident home",
)
"""English words by which questions and passages speak of the same relation."""


@dataclass(frozen=True, slots=True)
class PassageView:
    """What features need of a passage; names and sentences are folded, with spaces around sentences."""

    title_terms: frozenset[str]
    terms: frozenset[str]
    sentence_terms: tuple[frozenset[str], ...]
    folded_sentences: tuple[str, ...]
    folded_text: str
    names: tuple[str, ...]
    mentions: tuple[str, ...]
    has_year: bool
    digits: int


class PassageReader:
    """Reads passages of an index into views, and weighs words and names by how rare they are."""

    def __init__(self, texts: Texts, links: Links) -> None:
        self.texts = texts
        # None of these refers to `self`: a cycle would keep the index open.
        view: Callable[[str, str, str, tuple[str, ...]], PassageView] = lru_cache(_VIEWS_KEPT)(
            lambda *passage: _view(texts, links, *passage)
        )
        self._view = view
        related: dict[str, set[str]] = defaultdict(set)
        for words in _RELATED:
            terms = texts.terms(words)
            for term in terms:
                related[term].update(terms)
        self.related: Mapping[str, AbstractSet[str]] = related
        self.rarity: Callable[[str], float] = lru_cache(_NAMES_KEPT)(
            lambda name: 1 / (1 + 0.5 * log(max(links.count(name), 1)))
        )

    def view(self, passage: Passage) -> PassageView:
        """Return the view of a passage."""
        return self._view(passage.id, passage.title, passage.text, passage.aliases)


def _view(texts: Texts, links: Links, name: str, title: str, text: str, aliases: tuple[str, ...]) -> PassageView:
    parts = sentences(text)[:MAX_SENTENCES] or (text,)
    title_terms = frozenset(texts.terms(title))
    sentence_terms = tuple(frozenset(texts.terms(part)) for part in parts)
    folded_sentences = tuple(f" {folded(part)} " for part in parts)
    return PassageView(
        title_terms,
        title_terms.union(*sentence_terms),
        sentence_terms,
        folded_sentences,
        "".join(folded_sentences),
        tuple(dict.fromkeys(filter(None, map(folded, names_of(title, aliases))))),
        links.mentions(key_of(name)),
        YEAR.search(text) is not None,
        min(len(DIGIT.findall(text)), _MAX_DIGITS),
    )
