"""HippoRAG's retrieval: from the facts nearest to a query, through a graph of phrases, to passages."""
