"""Finding passages: a Protocol, and the retrievers that implement it."""

DEFAULT_RETRIEVER = "auto"  # ranked, linked or bm25, whichever is the best that an index supports
