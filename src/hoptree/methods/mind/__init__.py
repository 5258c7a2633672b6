"""MIND: method.py follows the paper; robust/mind.py goes beyond it."""

from hoptree.methods.mind.method import mind

__all__ = ["mind"]
