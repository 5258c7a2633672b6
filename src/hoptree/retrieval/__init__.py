"""Finding passages: one small Protocol, and what implements it."""

DEFAULT_RETRIEVER = "auto"
"""Along links where there are some, else by words: what an index can do."""
