"""Extract facts from passages with a model, as triples with their sources."""

from hoptree.extraction.run import ExtractionSpec, Progress, extract

__all__ = ["ExtractionSpec", "Progress", "extract"]
