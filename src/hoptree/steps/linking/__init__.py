"""From the words of a question to entities and relations, and along them through a graph."""
