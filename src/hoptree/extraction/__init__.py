"""Facts from passages: a model reads a corpus, and what it finds becomes triples that say where they stand."""

from hoptree.extraction.run import ExtractionSpec, Progress, extract

__all__ = ["ExtractionSpec", "Progress", "extract"]
