"""How likely an answer is right, by what can be counted about it: a small model, fitted once and frozen."""

from hoptree.choosing.boundary import Boundary, read_boundary
from hoptree.choosing.chooser import Chooser, Outlook, Policy, frozen_chooser, read_chooser
from hoptree.choosing.features import FEATURES, Features, in_words

__all__ = [
    "FEATURES",
    "Boundary",
    "Chooser",
    "Features",
    "Outlook",
    "Policy",
    "frozen_chooser",
    "in_words",
    "read_boundary",
    "read_chooser",
]
