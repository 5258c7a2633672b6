"""What makes every method fast, cheap, repeatable and explainable, so that no method has to be."""
