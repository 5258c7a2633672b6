"""hop, the default method; its loop is in method.py."""

from hoptree.methods.hop.method import hop

__all__ = ["hop"]
