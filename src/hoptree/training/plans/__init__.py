"""Trees of sub-questions from the facts and steps of data sets, or written by hand."""
