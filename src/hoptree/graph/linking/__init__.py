"""Entity and relation candidates for the words of a question, ranked without a language model."""
