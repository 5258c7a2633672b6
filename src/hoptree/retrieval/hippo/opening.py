"""The retriever over an index that has facts."""

from __future__ import annotations

import hashlib
from contextlib import closing
from dataclasses import dataclass

from hoptree.errors import CorpusError
from hoptree.retrieval.encoders import open_encoder
from hoptree.retrieval.hippo.graph import PhraseGraph
from hoptree.retrieval.hippo.nearest import ByVectors, ByWords, NearestFacts
from hoptree.retrieval.hippo.phrases import fact_text
from hoptree.retrieval.hippo.retriever import Hippo
from hoptree.retrieval.hippo.store import FOLDER, FactStore, facts_damaged
from hoptree.retrieval.hippo.taking_in import current
from hoptree.retrieval.index.folder import Index
from hoptree.retrieval.retriever import Retriever
from hoptree.retrieval.vectors import Vectors
from hoptree.values import Fact

__all__ = ["Held", "held_facts", "open_hippo"]


@dataclass(frozen=True, slots=True)
class Held:
    """How many facts an index has, of how many passages, and the encoder that finds them ("" for words)."""

    facts: int
    passages: int
    encoder: str


def held_facts(index: Index, *, deep: bool = False) -> Held | None:
    """What an index has of facts, None if nothing; an error if they are damaged, with `deep` anywhere in their file."""
    folder = index.generation / FOLDER
    if not folder.exists():
        return None
    with closing(FactStore(folder, index.folder)) as store:
        if deep:
            store.check()
        pairs = [(key, passage) for key, passage, _ in store.facts()]
        return Held(len(pairs), len({passage for _, passage in pairs}), store.about("encoder"))


def open_hippo(index: Index, first: Retriever) -> Hippo:
    """The graph of an index's facts, without those of passages that changed since or are gone."""
    with closing(FactStore(index.generation / FOLDER, index.folder)) as store, closing(index.ledger()) as ledger:
        there = set(current(store, ledger))
        rows = [row for row in store.facts() if row[1] in there]
        if not rows:
            raise CorpusError(
                f"No fact of the index {index.folder} is of a passage that it still holds unchanged.",
                f"Extract them again, then: hoptree index facts FOLDER --out {index.folder}",
            )
        facts: dict[int, Fact] = {}
        for key, _, fact in rows:
            facts.setdefault(key, fact)
        graph = PhraseGraph(rows, store.synonyms())
        nearest = _nearest(store, index, facts)
    stated = hashlib.sha256(b"".join(b"%d %d\n" % (key, passage) for key, passage, _ in rows)).hexdigest()[:16]
    return Hippo(index.texts, graph, facts, nearest, first, digest=f"{index.identity}:{stated}")


def _nearest(store: FactStore, index: Index, facts: dict[int, Fact]) -> NearestFacts:
    spec = store.about("encoder")
    if not spec:
        texts = {key: fact_text(fact.subject, fact.relation, fact.object) for key, fact in facts.items()}
        return ByWords(texts, index.manifest.settings.language)
    encoder = open_encoder(spec)
    if store.about("encoder identity") != encoder.identity:
        raise CorpusError(
            f"The facts of {index.folder} were encoded by another encoder than {spec} is now.",
            f"Take them in again: hoptree index facts FOLDER --out {index.folder} --encoder {spec}",
        )
    try:
        vectors = Vectors(store.folder / "facts")
    except CorpusError as error:
        raise facts_damaged(index.folder, error.cause.rstrip(".")) from error
    return ByVectors(vectors, encoder, facts)
