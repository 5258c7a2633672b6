"""Pure functions over text: sentences, names, dates, comparisons, and parsers of model replies."""
