"""`hop`: the lessons of the four papers in one method, whose loop is in method.py."""

from hoptree.methods.hop.method import hop

__all__ = ["hop"]
