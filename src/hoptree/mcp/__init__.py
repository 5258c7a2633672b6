"""Tools over the Model Context Protocol: ask, search, decompose, verify_claim."""
