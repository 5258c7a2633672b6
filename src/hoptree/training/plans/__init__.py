"""From the facts and steps of a data set, or from a person, to trees of sub-questions."""

from __future__ import annotations
