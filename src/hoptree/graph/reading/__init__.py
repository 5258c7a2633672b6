"""Files of triples, read line by line: what is broken is passed over, counted and named."""
