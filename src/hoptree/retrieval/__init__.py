"""Finding passages: one small Protocol, and what implements it."""

__all__ = ["DEFAULT_RETRIEVER"]

DEFAULT_RETRIEVER = "auto"
"""Along links where there are some, else by words: what an index can do."""
