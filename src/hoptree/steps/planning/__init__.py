"""Before anything is answered: the parts of a question, and the way to go about it."""
