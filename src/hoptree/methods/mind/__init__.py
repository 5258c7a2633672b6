"""MIND: `method.py` reads like the paper, of `names.py` and `look_up.py`; `careful.py` and `spoken.py` go beyond."""

from hoptree.methods.mind.method import mind

__all__ = ["mind"]
