"""Facts from passages: a model reads a corpus, and what it finds becomes triples that say where they stand."""

from hoptree.extraction.extracting import Progress, Wanted, extract

__all__ = ["Progress", "Wanted", "extract"]
