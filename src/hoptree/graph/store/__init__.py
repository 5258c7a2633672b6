"""A knowledge graph in a folder of this machine, on pyoxigraph."""
