"""A knowledge graph behind a SPARQL endpoint: Wikidata's own, or any other."""
