"""Tools for other models over the Model Context Protocol: ask, search, decompose, verify_claim."""
