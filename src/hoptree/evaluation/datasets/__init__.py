"""Data sets of questions with known answers, in the formats they come in."""

from hoptree.evaluation.datasets.examples import DataSet, Example, digest_of
from hoptree.evaluation.datasets.formats import FORMS
from hoptree.evaluation.datasets.reading import (
    HALVES,
    FilteredAnswers,
    filter_answers,
    half,
    half_of,
    read_examples,
    read_ids,
    sample,
    write_ids,
)

__all__ = [
    "FORMS",
    "HALVES",
    "DataSet",
    "Example",
    "FilteredAnswers",
    "digest_of",
    "filter_answers",
    "half",
    "half_of",
    "read_examples",
    "read_ids",
    "sample",
    "write_ids",
]
