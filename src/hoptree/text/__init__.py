"""Pure functions over text, and parsers of model replies."""
