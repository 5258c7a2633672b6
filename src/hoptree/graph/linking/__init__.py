"""From words to entities and relations of a graph: candidates, ranked without a model."""

from hoptree.graph.linking.candidates import Candidate, Candidates, LookedUp, open_candidates
from hoptree.graph.linking.relations import Relation, WordRanking, relations_in, relations_of

__all__ = [
    "Candidate",
    "Candidates",
    "LookedUp",
    "Relation",
    "WordRanking",
    "open_candidates",
    "relations_in",
    "relations_of",
]
