"""Read files into documents, and cut these into passages."""
