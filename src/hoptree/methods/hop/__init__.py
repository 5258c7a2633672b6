"""`hop`: one engine of what the four methods taught. method.py is the whole of it; the others are its parts."""

from hoptree.methods.hop.method import hop

__all__ = ["hop"]
