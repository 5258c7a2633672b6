"""Knowledge graphs: facts about entities, in a local folder or behind a SPARQL endpoint."""
