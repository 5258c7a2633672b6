"""MIND: method.py reads like the paper, with entities.py, lookup.py and memory.py; robust.py goes beyond it."""

from hoptree.methods.mind.method import mind

__all__ = ["mind"]
