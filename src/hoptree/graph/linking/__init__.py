"""From words to entities and relations of a graph: candidates, ranked without a model."""

from hoptree.graph.facts import Candidate, Candidates
from hoptree.graph.linking.entities import LookedUp, open_candidates
from hoptree.graph.linking.mention_models import (
    Mention,
    NameReader,
    ReadCandidates,
    open_reader,
    read_linker,
    shared_reader,
)
from hoptree.graph.linking.relations import Relation, WordRanking, relations_in, relations_of

__all__ = [
    "Candidate",
    "Candidates",
    "LookedUp",
    "Mention",
    "NameReader",
    "ReadCandidates",
    "Relation",
    "WordRanking",
    "open_candidates",
    "open_reader",
    "read_linker",
    "relations_in",
    "relations_of",
    "shared_reader",
]
