"""TreeQA: `method.py` reads like the paper; `nodes.py` and `walk.py` are its algorithms, and the rest goes beyond."""

from hoptree.methods.treeqa.method import treeqa

__all__ = ["treeqa"]
