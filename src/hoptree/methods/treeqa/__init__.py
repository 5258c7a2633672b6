"""TreeQA: method.py follows the paper; speculative.py speeds it up."""

from hoptree.methods.treeqa.method import treeqa

__all__ = ["treeqa"]
