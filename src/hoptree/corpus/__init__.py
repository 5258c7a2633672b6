"""Documents in: files become passages."""
