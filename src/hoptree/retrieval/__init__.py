"""Finding passages: one small Protocol, and what implements it."""

DEFAULT_RETRIEVER = "auto"  # along links where there are some, else by words: what an index can do
