"""MIND: `method.py` reads like the paper; `names.py` and `look_up.py` are its parts, and `careful.py` goes beyond."""

from hoptree.methods.mind.method import mind

__all__ = ["mind"]
