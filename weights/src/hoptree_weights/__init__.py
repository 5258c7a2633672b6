"""Data alone: weights that were trained for Hoptree, named by their digests in manifest.json."""
