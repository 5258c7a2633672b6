"""Trees of sub-questions from gold data, or written by hand."""
