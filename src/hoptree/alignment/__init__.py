"""Training sets for models that play a part of a method, from train questions alone."""

from hoptree.alignment.building import KINDS, Kind, Wanted, build, read_kind
from hoptree.alignment.leakage import OVERLAP, Excluded, admit

__all__ = ["KINDS", "OVERLAP", "Excluded", "Kind", "Wanted", "admit", "build", "read_kind"]
