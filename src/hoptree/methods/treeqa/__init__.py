"""TreeQA: method.py reads like the paper; the files robust*.py and speculative.py go beyond it."""

from hoptree.methods.treeqa.method import treeqa

__all__ = ["treeqa"]
