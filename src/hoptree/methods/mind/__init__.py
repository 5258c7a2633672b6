"""MIND: method.py has the loop of the paper."""

from hoptree.methods.mind.method import mind

__all__ = ["mind"]
